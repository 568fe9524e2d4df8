"""An object store that knows other keys or has another time: real requests to real servers, which check what a store
checks.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rewriting import rewriting
from s3_proxy import s3_proxy
from s3_servers import S3Server
from test_prune_root import prune

from headrace.components.stored_models.blessed_record import Registry
from headrace.components.stored_models.blessing import record_blessing
from headrace.components.trigger.decision import TrainingData
from headrace.pipeline.kubeflow import prune_spans
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.records import TRAININGS
from headrace.pipeline.kubeflow.pod.spans import RUNS
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.results_store import volume_store
from headrace.pipeline.kubeflow.store import KEYS, Store, StoreError, open_store

HOME = "s3://runs/v2/trips"
NOON = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


@pytest.mark.parametrize("wrong", ["key", "secret"])
def test_keys_that_the_store_does_not_know_are_reported_whatever_is_asked(
    s3_server: S3Server, store: Store, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not store.files("s3://root/v2")
    named = s3_server.access_key if wrong == "secret" else "AKIAOTHERSTORE000000"
    for name, value in zip(KEYS, (named, "another-secret"), strict=True):
        monkeypatch.setenv(name, value)
    (tmp_path / "file").write_text("x")
    pod, uri = open_store({"endpoint": s3_server.url}, of_pod=True), "s3://root/v2/trips/pushed.json"
    asks: list[Callable[[], object]] = [
        lambda: pod.exists(uri),
        lambda: pod.get(uri, tmp_path / "back"),
        lambda: pod.files("s3://root/v2/trips"),
        lambda: pod.put(tmp_path / "file", uri),
        lambda: pod.write(uri, "{}"),
        lambda: pod.remove(uri),
    ]
    reported = r"(?s)^s3://root/v2/trips.*refuses the keys .*object_store\.secret"
    for each in asks:
        with pytest.raises(StoreError, match=reported):
            each()
    done = prune(tmp_path, "--root", "s3://root/v2")
    assert done.returncode == 1
    assert "s3://root/v2/trips/spans" in done.stderr
    assert "Traceback" not in done.stderr
    assert not store.files("s3://root/v2")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["object store", "volume"])
def test_a_file_that_is_replaced_while_it_is_read_is_one_or_the_other(store: Store, where: str, tmp_path: Path) -> None:
    """As `blessed.json` is when another run ends: PyArrow has the size of one and the bytes of the other."""
    uri = "s3://root/blessed.json"
    store = volume_store(str(tmp_path / "volume"), uri) if where == "volume" else store
    store.write(uri, "0")

    def whole(number: int) -> str:
        return " ".join([str(number)] * (1 + number % 2 * 2000))

    with rewriting(lambda number: store.write(uri, whole(number))):
        texts = [store.text(uri) for _ in range(150)]
        copies = [(tmp_path / "copy").read_text() for _ in range(150) if store.get(uri, tmp_path / "copy")]
    assert len(copies) == 150
    assert [text for text in (*texts, *copies) if text != whole(int(text.split()[0]))] == []


def test_a_content_that_was_there_only_while_the_file_was_read_is_not_taken_for_it(
    store: Store, s3_server: S3Server
) -> None:
    """The ETag is the same before and after, the time is not."""
    uri, path, replaced = "s3://root/blessed.json", "/root/blessed.json", list[str]()
    store.write(uri, "first")
    with s3_proxy(s3_server.url) as proxy:

        def replace(method: str, asked: str) -> None:
            if asked == path and method == ("HEAD" if replaced else "GET") and len(replaced) < 2:
                replaced.append("first" if replaced else "other")
                store.write(uri, replaced[-1])
                proxy.age({path: -1.0})

        proxy.before = replace
        assert open_store({"endpoint": proxy.url}).text(uri) == "first"
    assert replaced == ["other", "first"]


class Ahead(BaseHTTPRequestHandler):
    """A store three hours ahead. Like S3 it refuses a request that is more than 15 minutes away from its own time."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits for the client's ACK of the headers
    refused = 0

    def do_HEAD(self) -> None:
        now = dt.datetime.now(dt.UTC) + 3 * HOUR
        signed = dt.datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%S%z")
        fits = abs(now - signed) < HOUR / 4
        body = b"{}" if fits else b"<Error><Code>RequestTimeTooSkewed</Code><Message>too far</Message></Error>"
        Ahead.refused += not fits
        self.send_response_only(200 if fits else 403)
        for name in ("Date", "Last-Modified"):
            self.send_header(name, email.utils.format_datetime(now, usegmt=True))
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_arguments: object) -> None:
        pass


def test_a_store_with_another_time_is_asked_again_with_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "any")
    with ThreadingHTTPServer(("127.0.0.1", 0), Ahead) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        there = open_store({"endpoint": f"http://127.0.0.1:{server.server_port}"}, of_pod=True)
        assert there.get(f"{HOME}/pushed.json", tmp_path / "pushed.json")
        server.shutdown()
    assert (tmp_path / "pushed.json").read_text() == "{}"
    assert Ahead.refused > 0


def test_a_blessing_of_a_pod_whose_clock_is_behind_is_the_newest_all_the_same(store: Store, tmp_path: Path) -> None:
    home = "s3://root/v2/trips"
    for name, clock in (("first", NOON + HOUR), ("second", NOON), ("third", NOON + HOUR / 60)):
        pod = PodPaths(str(tmp_path / name))
        path = pod.local(f"{home}/blessed.json")
        with present({"registry": str(path)}, pod, store):
            record_blessing(path, str(pod.local(f"{home}/{name}/trainer/17/model")), clock)
    pod = PodPaths(str(tmp_path / "reader"))
    path = pod.local(f"{home}/blessed.json")
    store.remove(f"{home}/blessed.json")  # so that the list is put together from the records
    with present({"registry": str(path)}, pod, store):
        found = Registry.read(path).models
    assert [Path(entry.uri).parents[2].name for entry in found] == ["first", "second", "third"]


def test_next_blessing_follows_both_of_two_at_once_that_the_clocks_put_in_order(store: Store, tmp_path: Path) -> None:
    home = "s3://root/v2/trips"

    def bless(name: str, clock: dt.datetime) -> None:
        record_blessing(
            local(name), str(PodPaths(str(tmp_path / name)).local(f"{home}/{name}/trainer/17/model")), clock
        )

    def local(name: str) -> Path:
        return PodPaths(str(tmp_path / name)).local(f"{home}/blessed.json")

    def pod(name: str) -> AbstractContextManager[object]:
        return present({"registry": str(local(name))}, PodPaths(str(tmp_path / name)), store)

    with pod("ahead"), pod("behind"):  # both have read the list before either writes
        bless("behind", NOON)
        bless("ahead", NOON + HOUR)
    with pod("next"):
        bless("next", NOON + HOUR / 60)
    for reader in ("one", "two"):
        with pod(reader):
            found = Registry.read(local(reader)).models
        assert [Path(entry.uri).parents[2].name for entry in found] == ["behind", "ahead", "next"]


def test_what_a_pod_found_whose_clock_is_behind_is_the_last_all_the_same(store: Store, tmp_path: Path) -> None:
    uri, path = "s3://root/v2/trips/trained.json", tmp_path / "trained.json"
    for span, clock in (("1", NOON + HOUR), ("2", NOON)):
        known = TRAININGS.fetch(uri, path, store)
        data = TrainingData(fingerprint=f"f{span}", spans=(span,), work="w", statistics="s")
        path.write_text(known.with_judged(data, blessed=True).model_dump_json())
        TRAININGS.publish(uri, path, store, known, clock)
    blessed = TRAININGS.read(uri, store).blessed
    assert blessed is not None
    assert blessed.spans == ("2",)


def test_a_prune_whose_clock_is_days_ahead_leaves_what_a_run_in_progress_has_put_there(store: Store) -> None:
    uri, old, new, now = "s3://root/v2/trips/spans", "0" * 32, "f" * 32, dt.datetime.now(dt.UTC).timestamp()
    for key, run in ((old, "a"), (old, "b")):
        store.write(f"{uri}/{key}/shards.json", "{}")
        store.write(f"{uri}/{RUNS}/{run}/example-gen.json", f'["{key}"]')
    store.write(f"{uri}/{new}/shards.json", "{}")  # of a run that has not said yet what it uses
    assert new not in prune_spans.plan(store, uri, keep=1, older_than=now, now=now + 72 * 3600).spans


@pytest.mark.slow
@pytest.mark.parametrize("pages", [1, 6], ids=["one request", "several parts"])
def test_an_object_that_a_signal_interrupts_is_written_whole(
    s3_server: S3Server, store: Store, pages: int, tmp_path: Path
) -> None:
    """PyArrow can only close a stream, and the store then has what was written by then: at first nothing."""
    uri, file = "s3://root/blessed.json", tmp_path / "new"
    store.write(uri, "old")
    file.write_bytes(b"n" * (pages << 21))
    with s3_proxy(s3_server.url) as proxy:
        command = [sys.executable, "-c", TERMINATED, proxy.url, uri, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "connected\n"

            def end(method: str, _path: str) -> None:
                if method == "POST":  # the first request of an upload
                    proxy.before = lambda _method, _path: None
                    writer.send_signal(signal.SIGTERM)
                    time.sleep(0.3)

            proxy.before = end
            assert writer.communicate(timeout=300)[0] == "terminated\n"
    assert (len(store.text(uri)), store.text(uri)) == (pages << 21, file.read_text())


TERMINATED = """
import signal, sys
from pathlib import Path
from headrace.pipeline.kubeflow.store import open_store

def terminate(*_):
    raise SystemExit(print("terminated"))

signal.signal(signal.SIGTERM, terminate)
store = open_store({"endpoint": sys.argv[1]})
assert store.text(sys.argv[2]) == "old"
print("connected", flush=True)
store.put(Path(sys.argv[3]), sys.argv[2])
"""
"""A pod that is ended by Kubernetes while it replaces an object."""
