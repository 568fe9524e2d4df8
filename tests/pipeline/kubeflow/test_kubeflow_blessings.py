"""Blessings, and records of trainings, in an object store, of runs that end at the same time: none is lost."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import Entry, Registry, inside
from headrace.components.stored_models.blessing import record_blessing, time_after
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.records import PUSHES
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store

HOME = "minio://root/taxi"
BLESSINGS = 8
PROGRAM = """
import sys
from pathlib import Path
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.trigger.decision import TrainingData, update
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import open_store

pod, name, number, home = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(number)):
    paths = PodPaths(f"{pod}/{turn}")
    path = paths.local(f"{home}/blessed.json")
    with present({"registry": str(path)}, paths, open_store({})):
        model = str(paths.local(f"{home}/{name}-{turn}/trainer/salt/model"))
        Registry.read(path).with_newest(Entry(uri=model, blessed_at=f"2026-03-01T12:00:{turn:02}")).write(path)
    trained = path.with_name("trained.json")
    with present({"trained": str(trained)}, paths, open_store({})):
        statistics = str(path.parent / f"{name}-{turn}/statistics")
        data = TrainingData(fingerprint=f"{name}-{turn}", spans=("1",), work="w", statistics=statistics)
        update(trained, lambda now: now.with_judged(data, blessed=turn == 0))
    pushed = path.with_name("pushed.json")
    with present({"push_record": str(pushed)}, paths, open_store({})):
        version = path.with_name("serving") / f"{2 * turn + (name == 'a')}"
        version.mkdir(parents=True)
        PushRecord.read(pushed).write(pushed, Entry(uri=model, blessed_at="2026-03-01"), version)
"""


def listed(store: Store, pod: Path) -> list[Entry]:
    """As the next pod finds them."""
    paths = PodPaths(str(pod))
    path = paths.local(f"{HOME}/blessed.json")
    with present({"registry": str(path)}, paths, store):
        return list(Registry.read(path).models) if path.exists() else []


def bless(store: Store, pod: Path, name: str, at: str) -> None:
    paths = PodPaths(str(pod))
    path = paths.local(f"{HOME}/blessed.json")
    with present({"registry": str(path)}, paths, store):
        entry = Entry(uri=str(paths.local(f"{HOME}/{name}/trainer/salt/model")), blessed_at=at)
        Registry.read(path).with_newest(entry).write(path)


@pytest.mark.slow
def test_no_blessing_or_record_is_lost_when_two_processes_write_at_the_same_time(store: Store, tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path / name), name, str(BLESSINGS), HOME],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("\n")
    assert [process.returncode for process in processes] == [0, 0]
    expected = {f"{name}-{turn}" for name in "ab" for turn in range(BLESSINGS)}
    found = listed(store, tmp_path / "next")
    assert {Path(entry.uri).parts[-4] for entry in found} == expected
    assert [entry.blessed_at for entry in found] == sorted(entry.blessed_at for entry in found)
    names = store.children(f"{HOME}/trained")
    records = {name: json.loads(store.text(f"{HOME}/trained/{name}"))["judged"]["fingerprint"] for name in names}
    assert sorted(records.values()) == sorted(expected)
    paths = PodPaths(str(tmp_path / "next"))
    path = paths.local(f"{HOME}/trained.json")
    with present({"trained": str(path)}, paths, store):
        known = TrainingRecord.read(path)
    assert (known.judged and known.judged.fingerprint) == records[max(names)]
    last_blessed = max(name for name in names if "-blessed-" in name)
    assert (known.blessed and known.blessed.fingerprint) == records[last_blessed]
    ((_, models),) = PUSHES.read(f"{HOME}/pushed.json", store).models.items()
    expected_models = {str(2 * turn + (name == "a")): f"{name}-{turn}" for name in "ab" for turn in range(BLESSINGS)}
    assert {version: uri.split("/")[0] for version, uri in models.items()} == expected_models


@pytest.mark.slow
def test_list_that_another_run_wrote_over_is_whole_again_on_reading(store: Store, tmp_path: Path) -> None:
    bless(store, tmp_path / "1", "first", "2026-03-01")
    old = store.text(f"{HOME}/blessed.json")
    bless(store, tmp_path / "2", "second", "2026-03-02")
    (tmp_path / "old").write_text(old)
    store.put(tmp_path / "old", f"{HOME}/blessed.json")
    bless(store, tmp_path / "3", "third", "2026-03-03")
    names = [Path(entry.uri).parts[-4] for entry in listed(store, tmp_path / "4")]
    assert names == ["first", "second", "third"]
    models = json.loads(store.text(f"{HOME}/blessed.json"))["models"]
    assert [model["uri"].split("/")[0] for model in models] == names


DAY = datetime(2026, 3, 1, tzinfo=UTC)


@contextlib.contextmanager
def pod(store: Store, folder: Path) -> Iterator[Path]:
    """The path of the list in a pod that reads it at the start, and copies it back at the end."""
    paths = PodPaths(str(folder))
    path = paths.local(f"{HOME}/blessed.json")
    with present({"registry": str(path)}, paths, store):
        yield path


def model(path: Path, name: str) -> str:
    return str(path.parent / name / "trainer" / "salt" / "model")


def judge_again(path: Path) -> None:
    Registry.read(path).judged_again(model(path, "second"), "2026-03-09", model(path, "first")).write(path)


def convert(path: Path) -> None:
    Registry.read(path).converted(model(path, "second"), str(path.parent / "run/lite/17/blessing")).write(path)


def roll_back(path: Path) -> None:
    Registry.read(path).rolled_back_to(model(path, "first"), "2026-03-09").write(path)


@pytest.mark.parametrize("change", [judge_again, convert, roll_back])
def test_change_of_a_run_that_ends_while_another_writes_the_list_is_not_lost(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    bless(store, tmp_path / "1", "first", "2026-03-01")
    bless(store, tmp_path / "2", "second", "2026-03-02")
    write, others = Store.write, iter([tmp_path / "other"])

    def write_after_another(self: Store, to: str, text: str) -> None:
        """The other run reads, changes and writes everything just before this one writes the list that it has read."""
        if to == f"{HOME}/blessed.json" and (folder := next(others, None)):
            with pod(store, folder) as list_of_other:
                change(list_of_other)
        write(self, to, text)

    monkeypatch.setattr(Store, "write", write_after_another)
    bless(store, tmp_path / "3", "third", "2026-03-03")
    assert "2026-03-09" not in store.text(f"{HOME}/blessed.json")
    assert "lite/17" not in store.text(f"{HOME}/blessed.json")
    with pod(store, tmp_path / "4") as path:
        found = {Path(entry.uri).parts[-4]: entry for entry in Registry.read(path).models}
        second = found["second"]
        changed: dict[Callable[[Path], None], bool] = {
            judge_again: (second.judged_at, second.compared_with) == ("2026-03-09", model(path, "first")),
            convert: second.lite == str(path.parent / "run/lite/17/blessing"),
            roll_back: second.withdrawn_at == "2026-03-09" and found["first"].blessed_at == "2026-03-09",
        }
    assert {*found} == {"first", "second", "third"}
    assert changed[change]
    assert "2026-03-03" in [entry.blessed_at for entry in found.values()]


def test_model_that_a_rollback_withdrew_is_not_brought_back_by_a_run_that_had_read_the_list(
    store: Store, tmp_path: Path
) -> None:
    for day, name in enumerate(("first", "second", "third"), 1):
        bless(store, tmp_path / name, name, f"2026-03-0{day}")
    with pod(store, tmp_path / "run") as path:
        with pod(store, tmp_path / "other") as list_of_other:
            roll_back(list_of_other)
        record_blessing(path, model(path, "second"), DAY + timedelta(days=20))
    with pod(store, tmp_path / "next") as path:
        listed = Registry.read(path)
    assert [(Path(one.uri).parts[-4], one.withdrawn_at) for one in listed.models] == [
        ("second", "2026-03-09"),
        ("third", "2026-03-09"),
        ("first", None),
    ]


def test_model_that_somebody_promoted_does_not_await_approval_again(store: Store, tmp_path: Path) -> None:
    with pod(store, tmp_path / "run") as path:
        with pod(store, tmp_path / "1") as other:
            record_blessing(other, model(other, "first"), DAY, awaits_approval=True)
        with pod(store, tmp_path / "2") as other:
            at = (DAY + timedelta(days=1)).isoformat()
            Registry.read(other).promoted(model(other, "first"), at, str(other.parent / "serving")).write(other)
        record_blessing(path, model(path, "first"), DAY + timedelta(days=2), awaits_approval=True)
    with pod(store, tmp_path / "next") as path:
        (entry,) = Registry.read(path).models
    assert (entry.awaiting_approval, entry.blessed_at) == (False, (DAY + timedelta(days=1)).isoformat())


def bless_one(path: Path, number: int, now: datetime) -> None:
    record_blessing(path, model(path, str(number)), now)


def ask_for_approval(path: Path, number: int, now: datetime) -> None:
    record_blessing(path, model(path, str(number)), now, awaits_approval=True)


def convert_one(path: Path, number: int, now: datetime) -> None:
    listed = Registry.read(path)
    if listed.newest is not None:
        listed.converted(listed.newest.uri, str(path.parent / f"lite-{number}")).write(path)


def go_back(path: Path, number: int, now: datetime) -> None:
    listed = Registry.read(path)
    if known := [entry.uri for entry in listed.models if not entry.awaiting_approval][:-1]:
        listed.rolled_back_to(known[number % len(known)], time_after(listed.last_change, now)).write(path)


EVENTS = st.tuples(
    st.sampled_from([bless_one, ask_for_approval, convert_one, go_back]), st.integers(0, 3), st.integers(0)
)


@pytest.mark.slow
@settings(max_examples=20)
@given(events=st.lists(EVENTS, max_size=10))
def test_objects_make_up_for_any_older_list_that_a_run_wrote_last(
    events: list[tuple[Callable[[Path, int, datetime], None], int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, plain = Store({}, f"{folder}/store"), Path(folder, "plain", "blessed.json")
        plain.parent.mkdir()
        lists: list[str] = []
        for day, (change, number, older) in enumerate(events):
            change(plain, number, DAY + timedelta(days=day))
            if lists:
                store.write(f"{HOME}/blessed.json", lists[older % len(lists)])
            with pod(store, Path(folder, f"pod-{day}")) as path:
                change(path, number, DAY + timedelta(days=day))
            if store.exists(f"{HOME}/blessed.json"):
                lists.append(store.text(f"{HOME}/blessed.json"))
        with pod(store, Path(folder, "next")) as path:
            found = [entry.with_paths(lambda uri: inside(path.parent, uri)) for entry in Registry.read(path).models]
        expected = [entry.with_paths(lambda uri: inside(plain.parent, uri)) for entry in Registry.read(plain).models]
        assert found == expected


def test_damaged_object_is_named(store: Store, tmp_path: Path) -> None:
    bless(store, tmp_path / "1", "first", "2026-03-01")
    store.remove(f"{HOME}/blessed.json")
    (name,) = store.children(f"{HOME}/blessed")
    (tmp_path / "empty").touch()
    store.put(tmp_path / "empty", f"{HOME}/blessed/{name}")
    with pytest.raises(RunError, match=f"{HOME}/blessed/{re.escape(name)}: the record of a blessing is damaged"):
        listed(store, tmp_path / "2")


class Losing(Store):
    """Somebody removes the first blessing while it is read: right after it was listed."""

    def children(self, uri: str) -> list[str]:
        found = super().children(uri)
        if uri == f"{HOME}/blessed" and found:
            self.remove(f"{uri}/{found[0]}")
        return found


def test_object_that_is_removed_while_the_log_is_read_is_not_there(tmp_path: Path) -> None:
    store = Store({}, str(tmp_path / "store"))
    for number, name in enumerate(("first", "second"), 1):
        bless(store, tmp_path / name, name, f"2026-03-0{number}")
    store.remove(f"{HOME}/blessed.json")
    assert [entry.blessed_at for entry in listed(Losing({}, str(tmp_path / "store")), tmp_path / "3")] == ["2026-03-02"]
    assert [entry.blessed_at for entry in listed(store, tmp_path / "4")] == ["2026-03-02"]


def test_strange_object_is_passed_over_and_a_damaged_list_is_read_from_the_objects(
    store: Store, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    bless(store, tmp_path / "1", "first", "2026-03-01")
    store.write(f"{HOME}/blessed/folder/inside.txt", "?")
    assert len(listed(store, tmp_path / "2")) == 1
    assert f"{HOME}/blessed/folder is not the record of a blessing" in log.text
    whole = store.text(f"{HOME}/blessed.json")
    for number, damaged in enumerate(("[]", "{", whole.replace("2026-03-01", "2026-03-11"))):
        log.clear()
        store.write(f"{HOME}/blessed.json", damaged)
        assert [entry.blessed_at for entry in listed(store, tmp_path / f"damaged-{number}")] == ["2026-03-01"]
        assert f"{HOME}/blessed.json is damaged" in log.text


def test_damaged_list_without_objects_is_named(store: Store, tmp_path: Path) -> None:
    store.write(f"{HOME}/blessed.json", "[]")
    with pytest.raises(RunError, match=rf"{HOME}/blessed\.json is damaged: .*JSON object"):
        listed(store, tmp_path / "1")


@pytest.mark.parametrize("field", ["uri", "compared_with"])
def test_blessing_that_leads_out_of_the_pipelines_folder_is_refused(store: Store, tmp_path: Path, field: str) -> None:
    entry = {"uri": "run/trainer/1/model", "blessed_at": "2026-03-01", field: "../../../../etc/model"}
    store.write(f"{HOME}/blessed/2026-03-01T00:00:00.000000+00:00-blessed-{'0' * 16}.json", json.dumps(entry))
    with pytest.raises(RunError, match=rf"{HOME}/blessed\.json.* not below"):
        listed(store, tmp_path / "1")
    assert not (tmp_path / "1").is_dir() or not list((tmp_path / "1").rglob("etc"))
