"""What is kept of spans in an object store: whole or not at all, whoever else writes, and what of it goes."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from s3_servers import S3Server

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.pod.spans import MAX_FAILURES, SpanObjects, parse_keys, parse_list
from headrace.pipeline.kubeflow.prune_spans import GRACE, plan, remove
from headrace.pipeline.kubeflow.store import Store

KEY, OTHER = "0" * 32, "f" * 32
HOME = "s3://bucket/root/trips/spans"
FILES = {"ingested.json": b"{}", "Split-train/data_tfrecord-00000-of-00001.gz": bytes(range(256)) * 40}


@pytest.fixture(scope="module")
def s3(s3_server: S3Server) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, s3_server.bucket("bucket"):
        s3_server.enter(patch)
        yield s3_server.url


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return Store({}, str(tmp_path / "store"))
    return Store({"endpoint": request.getfixturevalue("s3")})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"{HOME}-{tmp_path.name}"


def pod(tmp_path: Path, store: Store, uri: str, name: str, files: dict[str, bytes] | None = None) -> SpanObjects:
    """A pod with these files in the folder of a span."""
    for inside, content in (files or {}).items():
        path = tmp_path / name / KEY / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return SpanObjects(tmp_path / name, uri, store, f"run-{name}/example-gen")


def publish(one: SpanObjects, part: str = "shards") -> None:
    folder = one.folder / KEY
    one.publish(KEY, part, sorted(path for path in folder.rglob("*") if path.is_file()))


def there(one: SpanObjects) -> dict[str, bytes]:
    """The files of the span in the pod's folder."""
    folder = one.folder / KEY
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_part_comes_to_another_pod_as_it_was(store: Store, uri: str, tmp_path: Path) -> None:
    publish(pod(tmp_path, store, uri, "first", FILES))
    second = pod(tmp_path, store, uri, "second")
    assert second.fetch([OTHER, KEY, KEY], "shards") == [KEY]
    assert there(second) == FILES
    assert second.fetch([KEY], "columns") == []
    assert sorted(second.fetched) == sorted(map(len, FILES.values()))


def test_a_list_says_size_and_crc32c_of_each_file(store: Store, uri: str, tmp_path: Path) -> None:
    publish(pod(tmp_path, store, uri, "first", FILES))
    reported = json.loads(store.text(f"{uri}/{KEY}/shards.json"))
    assert {name: (one["size"], one["crc32c"]) for name, one in reported.items()} == {
        name: (len(content), google_crc32c.value(content)) for name, content in FILES.items()
    }


def test_nothing_is_written_twice(store: Store, uri: str, tmp_path: Path) -> None:
    publish(pod(tmp_path, store, uri, "first", FILES))
    before = store.listing(f"{uri}/{KEY}")
    second = pod(tmp_path, store, uri, "second")
    second.fetch([KEY], "shards")
    publish(second)
    assert store.listing(f"{uri}/{KEY}") == before
    assert second.stored == []
    (second.folder / KEY / "more").write_bytes(b"more")
    publish(second)
    assert second.stored == [4]
    third = pod(tmp_path, store, uri, "third")
    third.fetch([KEY], "shards")
    assert there(third) == {**FILES, "more": b"more"}


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone", "list", "list cut", "escape", "no list"])
def test_what_is_damaged_is_reported_and_counts_as_not_kept_until_it_is_written_again(
    store: Store, uri: str, tmp_path: Path, damage: str, log: pytest.LogCaptureFixture
) -> None:
    publish(pod(tmp_path, store, uri, "first", FILES))
    reported = f"{uri}/{KEY}/shards.json"
    text = store.text(reported)
    target = f"{uri}/{KEY}/shards/{parse_list(text)[max(FILES, key=len)].object}"
    content = bytearray(FILES[max(FILES, key=len)])
    content[len(content) // 2] ^= 1
    broken = tmp_path / "broken"
    broken.write_bytes({"flipped": bytes(content), "cut": bytes(content[:-1]), "empty": b""}.get(damage, b""))
    if damage in ("flipped", "cut", "empty"):
        store.put(broken, target)
    elif damage in ("gone", "no list"):
        store.remove(reported if damage == "no list" else target)
    else:
        texts = {
            "list": "[]",
            "list cut": text[:-20],
            "escape": text.replace("ingested.json", "../../../ingested.json"),
        }
        store.write(reported, texts[damage])
    second = pod(tmp_path, store, uri, "second")
    assert second.fetch([KEY], "shards") == []
    assert there(second) == {}
    said = log.text
    if damage == "no list":
        assert not said
    else:
        assert f"spans: {uri}/{KEY}/shards" in said
        assert ("is gone" if damage == "gone" else "is damaged") in said
    publish(pod(tmp_path, store, uri, "second", FILES))
    third = pod(tmp_path, store, uri, "third")
    assert third.fetch([KEY], "shards") == [KEY]
    assert there(third) == FILES


def test_two_pods_that_keep_a_part_at_once_leave_one_of_the_two_whole(store: Store, uri: str, tmp_path: Path) -> None:
    """Here of other content, as accumulators that were added up in another order may be."""
    contents = [{name: content + bytes([number]) for name, content in FILES.items()} for number in range(4)]
    many = [pod(tmp_path, store, uri, f"pod{number}", files) for number, files in enumerate(contents)]
    threads = [threading.Thread(target=publish, args=(one,)) for one in many]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = pod(tmp_path, store, uri, "reader")
    assert reader.fetch([KEY], "shards") == [KEY]
    assert there(reader) in contents


class Failing(Store):
    """A store that fails after this many requests."""

    def __init__(self, folder: Path, after: int) -> None:
        super().__init__({}, str(folder))
        self.asked, self._after = 0, after

    def _filesystem(self, uri: str):  # type: ignore[no-untyped-def]
        self.asked += 1
        if self.asked > self._after:
            raise OSError("the network is down")
        return super()._filesystem(uri)


@pytest.mark.parametrize("after", range(6))
def test_an_upload_that_fails_anywhere_is_reported_and_never_seen(
    tmp_path: Path, uri: str, after: int, log: pytest.LogCaptureFixture
) -> None:
    failing = Failing(tmp_path / "store", after)
    publish(pod(tmp_path, failing, uri, "first", FILES))
    said = log.text
    second = pod(tmp_path, Store({}, str(tmp_path / "store")), uri, "second")
    whole = after >= len(FILES) + 1
    assert second.fetch([KEY], "shards") == ([KEY] if whole else [])
    assert (": the network is down" in said) is not whole


def test_a_store_that_is_down_is_asked_a_few_times_and_fails_no_pod(
    tmp_path: Path, uri: str, log: pytest.LogCaptureFixture
) -> None:
    failing = Failing(tmp_path / "store", 0)
    with pod(tmp_path, failing, uri, "first", FILES).open() as one:
        for _ in range(20):
            assert one.fetch([KEY], "shards") == []
            publish(one)
    assert failing.asked <= MAX_FAILURES * len(FILES)  # files of one part are put at the same time
    said = log.text
    assert said.count("the network is down") == MAX_FAILURES
    assert "continues without it" in said


def test_failures_at_once_are_counted_one_by_one(tmp_path: Path, uri: str, log: pytest.LogCaptureFixture) -> None:
    """Sixteen threads ask: two that counted the same failure did not report that they continue without the store."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(30):
            one = pod(tmp_path, Failing(tmp_path / "store", 0), uri, f"pod{number}")
            assert one.fetch([f"{KEY}-{count}" for count in range(50)], "shards") == []
            said = log.text
            log.clear()
            assert said.count("the network is down") == MAX_FAILURES
            assert said.count("continues without it") == 1
    finally:
        sys.setswitchinterval(interval)


@given(st.text())
def test_no_text_names_a_file_outside_of_the_folder(text: str) -> None:
    item = {"object": "0" * 64, "size": 1, "crc32c": 1}
    try:
        (name,) = parse_list(json.dumps({text: item}))
    except ValueError:
        return
    assert (Path("/folder") / name).resolve().is_relative_to("/folder/")
    assert name == text


@given(st.binary())
def test_damaged_lists_are_value_errors(content: bytes) -> None:
    for read in (parse_list, parse_keys):
        try:
            read(content.decode("utf-8", "replace"))
        except ValueError:
            continue


# What goes


DAY = 86_400.0
NOW = 100 * DAY


class Kept:
    """Kept spans in a folder that stands for the store. Run number n used spans n to n + 2, at the day n."""

    def __init__(self, folder: Path, runs: int) -> None:
        self.store, self.uri = Store({}, str(folder)), HOME
        self.folder = folder / "s3" / HOME.removeprefix("s3://")
        for number in range(runs):
            for key in range(number, number + 3):
                self.write(f"{key:032x}/shards.json", min(number, key), "{}")
                self.write(f"{key:032x}/shards/{key:064x}", min(number, key), "x" * 1000)
            keys = [f"{key:032x}" for key in range(number, number + 3)]
            self.write(f"runs/run-{number}/example-gen.json", number, json.dumps(keys))
        self.write("seen.json", 0, "{}")

    def write(self, name: str, day: float, text: str) -> None:
        path = self.folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, (day * DAY, day * DAY))

    def spans(self) -> set[int]:
        return {
            int(path.name, 16) for path in self.folder.iterdir() if len(path.name) == 32 and any(path.rglob("*.json"))
        }

    def prune(self, keep: int, older_than: float = NOW, now: float = NOW) -> None:
        remove(self.store, plan(self.store, self.uri, keep, older_than, now))


@pytest.mark.parametrize("keep", [1, 2, 5, 9, 10, 11])
def test_spans_that_the_newest_runs_used_stay_and_no_others(tmp_path: Path, keep: int) -> None:
    there = Kept(tmp_path, 10)
    there.prune(keep)
    first = max(0, 10 - keep)
    assert there.spans() == set(range(first, 12))
    assert {path.name for path in (there.folder / "runs").iterdir() if any(path.iterdir())} == {
        f"run-{number}" for number in range(first, 10)
    }
    assert (there.folder / "seen.json").exists()


def test_a_day_of_grace_and_young_runs(tmp_path: Path) -> None:
    there = Kept(tmp_path, 10)
    there.prune(1, now=8.5 * DAY)  # the run of day 8 began half a day ago
    assert there.spans() == set(range(8, 12))
    there = Kept(tmp_path / "other", 10)
    there.prune(1, older_than=3 * DAY)
    assert there.spans() == set(range(3, 12))
    assert GRACE == DAY


def test_what_a_run_in_progress_has_just_put_there_stays(tmp_path: Path) -> None:
    there = Kept(tmp_path, 10)
    there.write(f"{50:032x}/shards/{1:064x}", 99.9, "not listed yet")
    found = plan(there.store, there.uri, 1, NOW, NOW)
    there.write(f"{0:032x}/statistics-1/{1:064x}", 100, "put there after it was looked")
    remove(there.store, found)
    assert (there.folder / f"{50:032x}/shards/{1:064x}").exists()
    assert there.spans() == {0, 9, 10, 11}


def test_a_prune_that_is_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    class Interrupted(Store):
        left = 5

        def remove(self, uri: str) -> None:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            super().remove(uri)

    there = Kept(tmp_path, 10)
    stopping = Interrupted({}, str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        remove(stopping, plan(stopping, there.uri, 1, NOW, NOW))
    there.prune(1)
    assert there.spans() == {9, 10, 11}
    assert not list(there.folder.rglob(f"{0:064x}"))


def test_a_note_that_cannot_be_read_stops_it_before_anything_goes(tmp_path: Path) -> None:
    there = Kept(tmp_path, 10)
    note = there.folder / "runs" / "run-9" / "example-gen.json"
    note.write_text("{")
    os.utime(note, (9 * DAY, 9 * DAY))
    with pytest.raises(RunError, match=r"run-9/example-gen\.json"):
        there.prune(1)
    assert there.spans() == set(range(12))
    shutil.rmtree(note.parent)
    there.prune(1)
    assert there.spans() == {8, 9, 10, 11}  # the last one was written since
