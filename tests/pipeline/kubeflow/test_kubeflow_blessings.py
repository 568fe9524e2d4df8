"""Blessings, and records of trainings, in an object store, of runs that end at the same time: none is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.common.errors import RunError
from headrace.components.deploy.registry import Entry, Registry
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store

HOME = "minio://root/taxi"
BLESSINGS = 8
PROGRAM = """
import sys
from pathlib import Path
from headrace.components.deploy.registry import Entry, Registry
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


def test_list_of_an_earlier_version_is_taken_over(store: Store, tmp_path: Path) -> None:
    paths = PodPaths(str(tmp_path / "1"))
    path = paths.local(f"{HOME}/blessed.json")
    Registry(models=(Entry(uri=str(path.parent / "old/trainer/salt/model"), blessed_at="2026-01-01"),)).write(path)
    store.put(path, f"{HOME}/blessed.json")
    bless(store, tmp_path / "2", "new", "2026-03-01")
    assert [Path(entry.uri).parts[-4] for entry in listed(store, tmp_path / "3")] == ["old", "new"]


def test_damaged_object_is_named(store: Store, tmp_path: Path) -> None:
    bless(store, tmp_path / "1", "first", "2026-03-01")
    store.remove(f"{HOME}/blessed.json")
    (name,) = store.children(f"{HOME}/blessed")
    (tmp_path / "empty").touch()
    store.put(tmp_path / "empty", f"{HOME}/blessed/{name}")
    with pytest.raises(RunError, match=f"{HOME}/blessed/{name}"):
        listed(store, tmp_path / "2")


def test_strange_object_is_passed_over_and_a_damaged_list_is_named(
    store: Store, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    bless(store, tmp_path / "1", "first", "2026-03-01")
    store.write(f"{HOME}/blessed/folder/inside.txt", "?")
    assert len(listed(store, tmp_path / "2")) == 1
    assert f"{HOME}/blessed/folder is not a record" in log.text
    store.write(f"{HOME}/blessed.json", "[]")
    with pytest.raises(RunError, match=rf"{HOME}/blessed\.json: the list of blessed models cannot be read"):
        listed(store, tmp_path / "3")


@pytest.mark.parametrize("field", ["uri", "compared_with"])
def test_blessing_that_leads_out_of_the_pipelines_folder_is_refused(store: Store, tmp_path: Path, field: str) -> None:
    entry = {"uri": "run/trainer/1/model", "blessed_at": "2026-03-01", field: "../../../../etc/model"}
    store.write(f"{HOME}/blessed/2026-03-01-0.json", json.dumps(entry))
    with pytest.raises(RunError, match=rf"{HOME}/blessed\.json.* not below"):
        listed(store, tmp_path / "1")
    assert not (tmp_path / "1").is_dir() or not list((tmp_path / "1").rglob("etc"))


def test_old_versions_leave_the_store_and_the_graph_of_a_new_one_comes_last(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = PodPaths(str(tmp_path / "pod"))
    uri = f"{HOME}/serving"
    folder = paths.local(uri)
    for version in ("7", "10"):
        for name in ("saved_model.pb", "variables/index"):
            file = tmp_path / version / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(version)
        store.put_all(tmp_path / version, f"{uri}/{version}")
    puts: list[str] = []
    put = Store.put

    def noted(self: Store, path: Path, to: str) -> None:
        puts.append(to)
        put(self, path, to)

    monkeypatch.setattr(Store, "put", noted)
    with present({"destination": str(folder), "push_record": str(folder.parent / "pushed.json")}, paths, store):
        for name in ("saved_model.pb", "variables/index"):
            (folder / "11" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "11" / name).write_text("new")
        (folder.parent / "pushed.json").write_text("{}")
        for old in (folder / "7").iterdir():
            old.unlink()
        (folder / "7").rmdir()
    assert store.children(uri) == ["10", "11"]
    assert [name.removeprefix(f"{HOME}/") for name in puts] == [
        "serving/11/variables/index",
        "serving/11/saved_model.pb",
        "pushed.json",
    ]
