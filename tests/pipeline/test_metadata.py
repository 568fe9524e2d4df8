"""The store of executions and artifacts: what the cache finds in it, and what it does not."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.types import standard_artifacts

from headrace.common.errors import RunError
from headrace.pipeline.local.metadata import Metadata
from headrace.pipeline.local.wire import StoredArtifact

KIND = "tfx.components.trainer.component.Trainer"


@pytest.fixture
def store(tmp_path: Path) -> Metadata:
    return Metadata(tmp_path / "metadata.sqlite", "p", "run-1")


def artifact(folder: Path, kind: type = standard_artifacts.Model, **properties: str) -> StoredArtifact:
    """An output that lies in `folder`."""
    folder.mkdir(parents=True)
    made = kind()
    made.uri = str(folder)
    for name, value in properties.items():
        made.set_string_custom_property(name, value)
    return StoredArtifact(made.mlmd_artifact, made.artifact_type)


def finished(store: Metadata, key: str, folder: Path, **properties: str) -> StoredArtifact:
    """The output of a finished execution with this key."""
    execution = store.begin("Trainer", KIND, {})
    model = artifact(folder, standard_artifacts.Model, **properties)
    return store.complete(execution, key, {}, {"model": [model]})["model"]


def raw(tmp_path: Path) -> metadata_store.MetadataStore:
    connection = mlmd.ConnectionConfig()
    connection.sqlite.filename_uri = str(tmp_path / "metadata.sqlite")
    return metadata_store.MetadataStore(connection)


def test_finished_execution_is_found_by_its_key_alone(store: Metadata, tmp_path: Path) -> None:
    made = finished(store, "key", tmp_path / "a")
    found = store.find("key")
    assert found is not None
    assert found["model"].artifact == made.artifact
    assert found["model"].type.name == "Model"
    assert store.find("another key") is None


def test_registered_types_leave_each_execution_two_transactions(store: Metadata, tmp_path: Path) -> None:
    """Each transaction waits for the disk four times."""

    def transactions() -> int:
        return int.from_bytes((tmp_path / "metadata.sqlite").read_bytes()[24:28])  # SQLite's change counter

    kinds = (standard_artifacts.Model, standard_artifacts.Examples)
    texts = [base64.b64encode(kind().artifact_type.SerializeToString()).decode() for kind in kinds]
    nodes = [{"kind": KIND, "types": {"model": texts[0]}}, {"kind": "Other", "types": {"examples": texts[1]}}]
    before = transactions()
    store.register(nodes)
    assert transactions() == before + 1
    store.register(nodes)  # as the next run does
    assert transactions() == before + 1
    finished(store, "key", tmp_path / "a")
    assert transactions() == before + 3
    properties = {type_.name: {*type_.properties} for type_ in raw(tmp_path).get_artifact_types()}
    assert properties == {"Model": set(), "Examples": {"span", "split_names", "version"}}


def test_latest_of_several_finished_executions_is_found(store: Metadata, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        finished(store, "key", tmp_path / name)
    assert (store.find("key") or {})["model"].uri == str(tmp_path / "c")


def test_outputs_that_are_gone_are_not_found(store: Metadata, tmp_path: Path) -> None:
    finished(store, "key", tmp_path / "a")
    finished(store, "key", tmp_path / "b")
    (tmp_path / "b").rmdir()
    assert (store.find("key") or {})["model"].uri == str(tmp_path / "a")
    (tmp_path / "a").rmdir()
    assert store.find("key") is None


@pytest.mark.parametrize("damage", ["removed", "shortened", "added", "zeroed", "zeroed, with its times put back"])
def test_output_that_is_no_longer_whole_is_not_found(store: Metadata, tmp_path: Path, damage: str) -> None:
    made = artifact(tmp_path / "a")
    shard = tmp_path / "a" / "Split-train" / "data-00000-of-00002.gz"
    shard.parent.mkdir()
    shard.write_bytes(b"12345")
    store.complete(store.begin("Transform", KIND, {}), "key", {}, {"examples": [made]})
    assert store.find("key") is not None
    if damage == "removed":
        shard.unlink()
    elif damage == "shortened":
        shard.write_bytes(b"123")
    elif damage.startswith("zeroed"):
        before = shard.stat()
        while shard.stat().st_ctime_ns == before.st_ctime_ns:  # until the clock of the file system, of seconds on some
            shard.write_bytes(bytes(5))
            if "times" in damage:
                os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        shard.with_name("data-00001-of-00002.gz").write_bytes(b"")
    assert store.find("key") is None
    (line,) = store.take_damages()
    assert line.startswith(f"{tmp_path / 'a'} is damaged")
    assert store.take_damages() == []


def test_output_whose_files_were_touched_or_copied_is_found_and_read_once(
    store: Metadata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = artifact(tmp_path / "a")
    (tmp_path / "a" / "weights").write_bytes(b"12345")
    store.complete(store.begin("Trainer", KIND, {}), "key", {}, {"model": [made]})
    (tmp_path / "a").rename(tmp_path / "b")
    shutil.copytree(tmp_path / "b", tmp_path / "a")
    assert store.find("key") is not None
    monkeypatch.setattr("headrace.pipeline.local.metadata.checksum", lambda _: pytest.fail("was read again"))
    assert store.find("key") is not None


def test_files_that_a_component_failed_on_are_read_again(store: Metadata, tmp_path: Path) -> None:
    made = artifact(tmp_path / "a")
    (tmp_path / "a" / "weights").write_bytes(b"12345")
    stored = store.complete(store.begin("Trainer", KIND, {}), "key", {}, {"model": [made]})
    wrong = stored["model"].artifact
    wrong.custom_properties["headrace_contents"].string_value = "crc32c:0"  # as if bits had rotted: no time tells
    store._store.put_artifacts([wrong])
    assert store.find("key") is not None
    store.distrust({"model": [stored["model"]]})
    assert store.find("key") is None


def test_file_that_is_not_a_store_is_reported_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "metadata.sqlite").write_text("not a database, by far " * 100)
    with pytest.raises(RunError, match=r"metadata\.sqlite .*: file is not a database\.\n  Move"):
        Metadata(tmp_path / "metadata.sqlite", "p", "run-1")


def test_pushed_model_whose_copy_is_gone_is_not_found(store: Metadata, tmp_path: Path) -> None:
    (tmp_path / "serving" / "1").mkdir(parents=True)
    finished(store, "key", tmp_path / "a", pushed_destination=str(tmp_path / "serving" / "1"))
    assert store.find("key") is not None
    (tmp_path / "serving" / "1").rmdir()
    assert store.find("key") is None


def test_pushed_model_that_is_no_longer_the_newest_version_is_not_found(store: Metadata, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    (serving / "99").mkdir(parents=True)
    finished(store, "key", tmp_path / "a", pushed_destination=str(serving / "99"))
    for name in ("98", "notes", ".pushing-100-1"):
        (serving / name).mkdir()
    assert store.find("key") is not None
    (serving / "100").mkdir()
    assert store.find("key") is None
    finished(store, "key", tmp_path / "b", pushed_destination=str(serving / "100"))
    assert (store.find("key") or {})["model"].uri == str(tmp_path / "b")


def test_push_by_a_pusher_of_the_users_is_found_without_a_copy_or_a_number(store: Metadata, tmp_path: Path) -> None:
    for name in ("current", "7"):
        (tmp_path / "serving" / name).mkdir(parents=True)
        (tmp_path / "serving" / name / "saved_model.pb").write_text("a model")
    finished(store, "key", tmp_path / "a", pushed_destination=str(tmp_path / "serving" / "current"))
    assert store.find("key") is not None


def test_running_failed_and_canceled_executions_are_not_found(store: Metadata) -> None:
    store.begin("Trainer", KIND, {})
    store.fail(store.begin("Trainer", KIND, {}))
    store.fail(store.begin("Trainer", KIND, {}), canceled=True)
    assert store.find("key") is None


def test_execution_that_took_anothers_outputs_is_recorded_and_leaves_the_cache_as_it_was(
    store: Metadata, tmp_path: Path
) -> None:
    made = finished(store, "key", tmp_path / "a")
    store.reuse(store.execution("Trainer", KIND, {}), "key", {}, {"model": [made]})
    assert (store.find("key") or {})["model"].artifact.id == made.artifact.id
    states = [execution.last_known_state for execution in raw(tmp_path).get_executions()]
    assert states == [mlmd.Execution.COMPLETE, mlmd.Execution.CACHED]
    assert len(raw(tmp_path).get_artifacts()) == 1


def test_only_unfinished_executions_are_abandoned(store: Metadata, tmp_path: Path) -> None:
    finished(store, "key", tmp_path / "a")
    store.fail(store.begin("Evaluator", KIND, {}))
    left = store.begin("Transform", KIND, {})
    later = Metadata(tmp_path / "metadata.sqlite", "p", "run-2")
    assert list(later.unfinished()) == [(left, "Transform", "run-1")]
    later.fail(left, canceled=True)
    assert list(later.unfinished()) == []


def test_inputs_and_outputs_are_events_in_the_way_of_tfx(store: Metadata, tmp_path: Path) -> None:
    examples = [artifact(tmp_path / f"examples{n}", standard_artifacts.Examples) for n in range(2)]
    maker = store.begin("ExampleGen", "ours.ExampleGen", {})
    first = store.complete(maker, "k1", {}, {"examples": [examples[0]]})["examples"]
    second = store.complete(store.begin("ExampleGen", "ours.ExampleGen", {}), "k2", {}, {"examples": [examples[1]]})
    trainer = store.begin("Trainer", KIND, {})
    inputs = {"examples": [first, second["examples"]]}
    model = store.complete(trainer, "k3", inputs, {"model": [artifact(tmp_path / "model")]})["model"]
    events = raw(tmp_path).get_events_by_execution_ids([trainer])
    found = {(event.artifact_id, event.type, event.path.steps[0].key, event.path.steps[1].index) for event in events}
    assert found == {
        (first.artifact.id, mlmd.Event.INPUT, "examples", 0),
        (second["examples"].artifact.id, mlmd.Event.INPUT, "examples", 1),
        (model.artifact.id, mlmd.Event.OUTPUT, "model", 0),
    }
    assert all(item.state == mlmd.Artifact.LIVE for item in raw(tmp_path).get_artifacts())


def test_execution_carries_its_parameters_and_its_contexts(store: Metadata, tmp_path: Path) -> None:
    id_ = store.begin("Trainer", KIND, {"run_fn": "headrace.trainer.run.run_fn", "steps": 5, "rate": 0.5})
    reader = raw(tmp_path)
    (execution,) = reader.get_executions_by_type(KIND)
    assert execution.custom_properties["run_fn"].string_value == "headrace.trainer.run.run_fn"
    assert execution.custom_properties["steps"].int_value == 5
    assert execution.custom_properties["rate"].double_value == 0.5
    types = {kind.id: kind.name for kind in reader.get_context_types()}
    contexts = {(types[context.type_id], context.name) for context in reader.get_contexts_by_execution(id_)}
    assert contexts == {("pipeline", "p"), ("pipeline_run", "run-1"), ("node", "p.Trainer")}
