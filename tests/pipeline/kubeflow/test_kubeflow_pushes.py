"""Pushes in an object store, and their records, of runs that end at the same time: none is lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import Entry
from headrace.components.stored_models.push_record import PushRecord
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.records import PUSHES
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store

HOME = "minio://root/taxi"


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
    put, write = Store.put, Store.write

    def noted(self: Store, path: Path, to: str) -> None:
        puts.append(to)
        put(self, path, to)

    def noted_text(self: Store, to: str, text: str) -> None:
        puts.append(to)
        write(self, to, text)

    monkeypatch.setattr(Store, "put", noted)
    monkeypatch.setattr(Store, "write", noted_text)
    with present({"destination": str(folder), "push_record": str(folder.parent / "pushed.json")}, paths, store):
        for name in ("saved_model.pb", "variables/index"):
            (folder / "11" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "11" / name).write_text("new")
        entry = Entry(uri=str(folder.parent / "run-a/trainer/5/model"), blessed_at="2026-03-01")
        record = folder.parent / "pushed.json"
        PushRecord.read(record).write(record, entry, folder / "11")
        for old in (folder / "7").iterdir():
            old.unlink()
        (folder / "7").rmdir()
    assert store.children(uri) == ["10", "11"]
    (event,) = store.children(f"{HOME}/pushed")
    assert [name.removeprefix(f"{HOME}/") for name in puts if "/.serving-versions/" not in name] == [
        "serving/11/variables/index",
        "serving/11/saved_model.pb",
        f"pushed/{event}",
        "pushed.json",
    ]


def push_record(pod: PodPaths) -> dict[str, str]:
    return {"push_record": str(Path(pod.local(HOME)) / "pushed.json")}


def note_push(pod: PodPaths, run: str, version: str) -> None:
    home = Path(pod.local(HOME))
    folder = home / "serving" / "trips" / version
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_text(run, encoding="utf-8")
    entry = Entry(uri=str(home / run / "trainer" / "5" / "model"), blessed_at=version)
    PushRecord.read(home / "pushed.json").write(home / "pushed.json", entry, folder)


def test_pushes_of_two_runs_that_overlap_are_both_noted(store: Store, tmp_path: Path) -> None:
    pods = PodPaths(str(tmp_path / "one")), PodPaths(str(tmp_path / "two"))
    with present(push_record(pods[0]), pods[0], store):
        with present(push_record(pods[1]), pods[1], store):
            note_push(pods[1], "run-b", "1790000002")
        note_push(pods[0], "run-a", "1790000001")
    found = PUSHES.read(f"{HOME}/pushed.json", store)
    ((folder, last),) = found.last.items()
    assert folder == "serving/trips"
    assert (last.version, last.uri) == ("1790000002", "run-b/trainer/5/model")
    assert {version: uri[:5] for version, uri in found.models[folder].items()} == {
        "1790000001": "run-a",
        "1790000002": "run-b",
    }


def test_push_whose_note_another_run_wrote_over_is_found(store: Store, tmp_path: Path) -> None:
    pods = [PodPaths(str(tmp_path / f"{number}")) for number in range(4)]
    for pod, run, version in ((pods[0], "run-a", "1790000001"), (pods[1], "run-b", "1790000002")):
        with present(push_record(pod), pod, store):
            note_push(pod, run, version)
        if run == "run-a":
            old = store.text(f"{HOME}/pushed.json")
    store.write(f"{HOME}/pushed.json", old)
    destination = {"destination": str(Path(pods[2].local(f"{HOME}/serving/trips")))}
    with present({**push_record(pods[2]), **destination}, pods[2], store):  # a Pusher that has nothing to push
        found = PushRecord.read(pods[2].local(f"{HOME}/pushed.json"))
    assert [push.version for push in found.last.values()] == ["1790000002"]
    (models,) = PUSHES.read(f"{HOME}/pushed.json", store).models.values()
    assert sorted(models) == ["1790000001", "1790000002"]
    damaged = f"{HOME}/pushed/2126-03-01T12:00:00.000000+00:00-pushed-0123456789abcdef.json"
    store.write(damaged, "{")
    with (
        pytest.raises(RunError, match=f"{re.escape(damaged)}: the record of a push is damaged"),
        present(push_record(pods[3]), pods[3], store),
    ):
        pass


def test_component_that_only_reads_pushes_writes_nothing(store: Store, tmp_path: Path) -> None:
    pods = [PodPaths(str(tmp_path / f"{number}")) for number in range(3)]
    with present(push_record(pods[0]), pods[0], store):
        note_push(pods[0], "run-a", "1790000001")
    old = store.text(f"{HOME}/pushed.json")
    with present(push_record(pods[1]), pods[1], store):
        note_push(pods[1], "run-b", "1790000002")
    store.write(f"{HOME}/pushed.json", old)
    before = store.listing(HOME)
    with present(push_record(pods[2]), pods[2], store):  # a Baseline, WarmStart or ModelInService
        found = PushRecord.read(pods[2].local(f"{HOME}/pushed.json"))
    assert [push.version for push in found.last.values()] == ["1790000002"]
    assert store.listing(HOME) == before
    assert store.text(f"{HOME}/pushed.json") == old


def test_stray_object_among_pushes_is_ignored_with_a_warning(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pods = [PodPaths(str(tmp_path / f"{number}")) for number in range(2)]
    with present(push_record(pods[0]), pods[0], store):
        note_push(pods[0], "run-a", "1790000001")
    store.write(f"{HOME}/pushed/notes.txt", "not a push")
    with present(push_record(pods[1]), pods[1], store):
        found = PushRecord.read(pods[1].local(f"{HOME}/pushed.json"))
    assert [push.version for push in found.last.values()] == ["1790000001"]
    assert f"{HOME}/pushed/notes.txt is not the record of a push" in caplog.text
