"""An object store that goes away in the middle of a push: what the next run makes of what was uploaded."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from s3_servers import S3Server
from staged_nights import ObjectStore, object_store
from tfx.types import standard_artifacts

from headrace.common.checksums import checksum
from headrace.components.deploy.lite_files import LITE
from headrace.components.deploy.pusher import Pusher
from headrace.components.lite.verdict import MODEL_FILE, REPORT_FILE, LiteVerdict
from headrace.components.stored_models.blessed_record import Entry
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.records import PUSHES
from headrace.pipeline.kubeflow.pod.state import GRAPH, present
from headrace.pipeline.kubeflow.store import Store, StoreError, open_store

HOME = "s3://runs/v2/trips"
WRITES = {"PUT", "POST"}
FILES, OLD = (GRAPH, "assets/words", "variables/data"), "1"
"""The files of a model, and the version that was in service before."""
CONVERTED = "run-1/lite/18/blessing"
"""The folder with its `.tflite` file, which only the store has."""
NOON = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
AT_ONCE = 26
"""Pipelines that push at the same time: each spends most of it in the pauses before a request is repeated."""


@pytest.fixture
def server(s3_server: S3Server) -> Iterator[ObjectStore]:
    with object_store(s3_server) as server:
        yield server


class Outages:
    """What the proxy does, by the folder of a pipeline, to the requests of several that push at the same time."""

    def __init__(self, server: ObjectStore) -> None:
        self.before: dict[str, Callable[[str, str], str | None]] = {}
        self.lost: dict[str, Callable[[str, str], bool]] = {}
        server.proxy.before = lambda method, path: self.before.get(home_of(path), server_answers)(method, path)
        server.proxy.lost = lambda method, path: self.lost.get(home_of(path), answer_arrives)(method, path)


def home_of(path: str) -> str:
    """The folder of the pipeline that an object belongs to; "" for one beside them."""
    found = re.match(r"/(runs/v2/[^/]+)", path)
    return f"s3://{found[1]}" if found else ""


def server_answers(_method: str, _path: str) -> None:
    """The proxy leaves the request to the server."""


def answer_arrives(_method: str, _path: str) -> bool:
    """The proxy loses no answer."""
    return False


def connected(server: ObjectStore, *, of_pod: bool = False) -> Store:
    """The store, whose client is there: to make one, PyArrow waits for all requests that are under way."""
    store = open_store({"endpoint": server.url, "region": "us-east-1"}, of_pod=of_pod)
    assert not store.exists(f"{HOME}/none")
    return store


def push(
    server: ObjectStore,
    folder: Path,
    *,
    blessed: bool,
    lite: bool = False,
    home: str = HOME,
    store: Store | None = None,
) -> None:
    """The Pusher in a pod of its own, with the newest blessed model. lite: whether that was converted; store: that of
    the pod, if it is there already.
    """
    shutil.rmtree(folder.parent / "pod", ignore_errors=True)  # nothing of the last one is there; its paths are the same
    pod = PodPaths(str(folder.parent / "pod"))
    model = pod.local(f"{home}/run-1/trainer/17/model")
    for name in FILES:
        (model / "Format-Serving" / name).parent.mkdir(parents=True, exist_ok=True)
        (model / "Format-Serving" / name).write_text(f"what {name} holds")
    artifact, blessing, entry, pushed = (
        standard_artifacts.Model(),
        standard_artifacts.ModelBlessing(),
        standard_artifacts.String(),
        standard_artifacts.PushedModel(),
    )
    artifact.uri, entry.uri, pushed.uri = str(model), str(folder / "entry"), str(folder / "pushed")
    blessing.set_int_custom_property("blessed", int(blessed))
    found = Entry(uri="run-1/trainer/17/model", blessed_at=NOON.isoformat(), lite=CONVERTED if lite else None)
    (folder / "entry").write_text(found.model_dump_json())
    entry.read()
    properties = {
        "destination": str(pod.local(f"{home}/serving")),
        "keep": 0,
        "push_record": str(pod.local(f"{home}/pushed.json")),
        "registry": str(pod.local(f"{home}/blessed.json")),
    }
    store = store or open_store({"endpoint": server.url, "region": "us-east-1"}, of_pod=True)
    with present(properties, pod, store):
        Pusher.EXECUTOR_SPEC.executor_class().Do(
            {"model": [artifact], "model_blessing": [blessing], "entry": [entry]},
            {"pushed_model": [pushed]},
            properties,
        )


def convert(store: Store, folder: Path, home: str = HOME) -> None:
    """Put what Lite has written into the store."""
    folder.mkdir()
    (folder / MODEL_FILE).write_text("a model for devices")
    LiteVerdict(precision="float32", contents=checksum(folder / MODEL_FILE)).write(folder)
    store.put_all(folder, f"{home}/{CONVERTED}")


def served(server: ObjectStore, home: str = HOME, store: Store | None = None) -> tuple[set[str], set[str]]:
    """The versions with the file that servers wait for, and those without it; the former hold all of the model. The
    version that was in service before, if any, is as it was.
    """
    store = store or open_store({"endpoint": server.url, "region": "us-east-1"})
    whole: set[str] = set()
    broken: set[str] = set()
    for version in store.children(f"{home}/serving"):
        files = store.files(f"{home}/serving/{version}")
        if version == LITE:
            continue
        if version == OLD:
            assert {store.text(f"{home}/serving/{OLD}/{name}") for name in FILES} == {"old"}
            continue
        if GRAPH in files:
            held = {name: store.text(f"{home}/serving/{version}/{name}") for name in files}
            assert held == {name: f"what {name} holds" for name in FILES}
        (whole if GRAPH in files else broken).add(version)
    return whole, broken


def converted(store: Store, home: str = HOME) -> dict[str, set[str]]:
    """The files beside versions, by version; those that servers' neighbours read are whole."""
    found: dict[str, set[str]] = {}
    for name in store.files(f"{home}/serving/{LITE}"):
        assert store.text(f"{home}/serving/{LITE}/{name}") == store.text(f"{home}/{CONVERTED}/{Path(name).name}")
        found.setdefault(Path(name).parts[0], set()).add(Path(name).name)
    return found


def down_after(writes: int) -> Callable[[str, str], str | None]:
    """What the server answers in place of its own answer: 503 to each request that writes, after so many."""
    count = itertools.count()

    def before(method: str, _path: str) -> str | None:
        return "503 Service Unavailable" if method in WRITES and next(count) >= writes else None

    return before


def lost_at(nth: int) -> Callable[[str, str], bool]:
    """Whether an answer is lost: that of the n-th request that writes, from 0."""
    count = itertools.count()
    return lambda method, _path: method in WRITES and next(count) == nth


@pytest.mark.slow  # the store is asked again and again, with pauses
def test_a_push_that_the_stores_outage_broke_off_is_finished_by_the_next_run(
    server: ObjectStore, tmp_path: Path
) -> None:
    outages = Outages(server)
    stores = [(connected(server), connected(server, of_pod=True)) for _ in range(26)]

    def broken_off(after: int) -> tuple[int | bool, ...]:
        """What a push leaves whose store goes away after so many writes."""
        home, folder = f"{HOME}-{after}", tmp_path / str(after)
        store, of_pod = stores[after]
        for name in ("first", "next", "later"):
            (folder / name).mkdir(parents=True)
        for name in FILES:
            store.write(f"{home}/serving/{OLD}/{name}", "old")
        convert(store, folder / "converted", home)
        outages.before[home] = down_after(after)
        with pytest.raises(StoreError, match=home) if after < 25 else contextlib.nullcontext():
            push(server, folder / "first", blessed=True, lite=True, home=home, store=of_pod)
        del outages.before[home]
        noted = store.exists(f"{home}/pushed.json")
        end = (*map(len, served(server, home, store)), noted, *map(len, converted(store, home).values()))
        push(server, folder / "next", blessed=False, lite=True, home=home, store=of_pod)
        (version,), _ = served(server, home, store)
        assert converted(store, home) == {version: {MODEL_FILE, REPORT_FILE}}
        assert [push.version for push in PUSHES.read(f"{home}/pushed.json", store).last.values()] == [version]
        server.age(days=2, below=f"{home}/")
        push(server, folder / "later", blessed=False, lite=True, home=home, store=of_pod)
        assert served(server, home, store) == ({version}, set())
        return end

    with ThreadPoolExecutor(AT_ONCE) as threads:
        # Three for each of seven objects and the claim to the number, one for the mark of its folder.
        ends = set(threads.map(broken_off, range(26)))
    assert ends == {
        (0, 0, False),
        (0, 1, False),
        (1, 0, False),
        (1, 0, False, 1),  # the report without the model
        (1, 0, False, 2),
        (1, 0, True, 2),
    }


def test_a_version_beside_one_that_was_broken_off_has_a_number_of_its_own(server: ObjectStore, tmp_path: Path) -> None:
    store = open_store({"endpoint": server.url, "region": "us-east-1"})
    number = int(dt.datetime.now(dt.UTC).timestamp()) + 3600
    store.write(f"{HOME}/serving/{number}/assets/words", "half of them")
    for blessed in (True, False):
        (tmp_path / str(blessed)).mkdir()
        push(server, tmp_path / str(blessed), blessed=blessed)
        assert served(server) == ({str(number + 1)}, {str(number)})
    assert store.children(f"{HOME}/serving") == [str(number), str(number + 1)]


@pytest.mark.slow
def test_a_push_of_which_the_store_loses_an_answer_is_whole_after_the_next_run(
    server: ObjectStore, tmp_path: Path
) -> None:
    outages = Outages(server)
    stores = [(connected(server), connected(server, of_pod=True)) for _ in range(18)]

    def lost(nth: int) -> None:
        home, folder = f"{HOME}-{nth}", tmp_path / str(nth)
        store, of_pod = stores[nth]
        outages.lost[home] = lost_at(nth)
        for blessed in (True, False):  # whether or not it could be asked again
            (folder / str(blessed)).mkdir(parents=True)
            with contextlib.suppress(StoreError):
                push(server, folder / str(blessed), blessed=blessed, home=home, store=of_pod)
        assert sum(method in WRITES for method, path in server.proxy.asked if home_of(path) == home) > nth
        (version,), _ = served(server, home, store)
        assert [push.version for push in PUSHES.read(f"{home}/pushed.json", store).last.values()] == [version]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert len([*threads.map(lost, range(18))]) == 18  # three requests for each of five objects and the claim


@pytest.mark.slow
def test_file_for_devices_follows_its_version_in_the_store(server: ObjectStore, tmp_path: Path) -> None:
    store = open_store({"endpoint": server.url, "region": "us-east-1"})
    convert(store, tmp_path / "converted")
    for name in ("model.tflite", "report.json"):  # of a version that `deploy.keep` removed
        store.write(f"{HOME}/serving/{LITE}/7/{name}", store.text(f"{HOME}/{CONVERTED}/{name}"))
    writes = []
    for turn, blessed in enumerate((True, False)):
        (tmp_path / str(turn)).mkdir()
        asked = len(server.proxy.asked)
        push(server, tmp_path / str(turn), blessed=blessed, lite=True)
        (version,), _ = served(server)
        assert converted(store) == {version: {MODEL_FILE, REPORT_FILE}}
        writes.append({path.split("/")[-1] for method, path in server.proxy.asked[asked:] if method in WRITES})
    assert {MODEL_FILE, REPORT_FILE, GRAPH} <= writes[0]
    assert writes[1] == set()
    convert(store, tmp_path / "again")
    (tmp_path / "again" / MODEL_FILE).write_text("another precision")
    LiteVerdict(precision="int8", contents=checksum(tmp_path / "again" / MODEL_FILE)).write(tmp_path / "again")
    store.put_all(tmp_path / "again", f"{HOME}/{CONVERTED}")
    (tmp_path / "2").mkdir()
    push(server, tmp_path / "2", blessed=False, lite=True)
    assert store.text(f"{HOME}/serving/{LITE}/{version}/{MODEL_FILE}") == "another precision"
    assert served(server) == ({version}, set())
