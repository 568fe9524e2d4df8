"""What comes of a folder over its life: one that is killed, interrupted, finished, and run again after edits."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import Finished
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd
from one_folder import DATA_NODES, MODEL_NODES, Story, tell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    return tell(new_folder("parcels"))


# Killed


def test_kill_in_the_middle_of_transform_leaves_no_process(story: Story) -> None:
    assert story.runs["killed"].code == -signal.SIGKILL
    assert story.seen["processes of the killed"] >= 3  # type: ignore[operator]  # command, fork server, Transform
    assert story.seen["all gone after the kill"]


def test_run_after_a_kill_resumes_where_it_stopped(story: Story) -> None:
    statuses = story.runs["interrupted"].statuses()
    assert {statuses[node] for node in DATA_NODES} == {"cached"}
    assert statuses["Transform"] == "interrupted"


def test_record_of_a_killed_run_is_closed_by_the_next(story: Story) -> None:
    run = story.runs["killed"].run
    assert run.status == "running"  # as it was left
    later = json.loads((story.runs["killed"].folder / "run.json").read_text())
    assert later["status"] == "interrupted"
    assert {node["id"]: node["status"] for node in later["nodes"]}["Transform"] == "interrupted"


def test_half_written_output_of_a_killed_run_is_cleared_away(story: Story) -> None:
    half = {path for path in story.outputs["killed"] if path.parts[0] == "Transform"}
    assert len(half) == 2
    assert not half & story.outputs["interrupted"]


# Stopped while TensorFlow is imported


def test_termination_while_starting_ends_as_an_interrupt_does(story: Story) -> None:
    done = story.runs["stopped early"]
    assert done.code == 130
    assert (done.run.status, done.run.nodes) == ("interrupted", [])
    assert story.seen["all gone after the stop"]
    assert "Traceback" not in done.out + done.err


# A second command at the same time


def test_second_command_at_the_same_time_is_refused_at_once(story: Story) -> None:
    second = story.seen["second command"]
    assert isinstance(second, Finished)
    assert second.code == 1
    lines = second.err.splitlines()
    imported = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    message, way_out = [line for line in lines if not line.startswith("import time:")]
    assert message.startswith("another run of this pipeline")
    assert str(story.home) in message
    assert "`pipeline.name` or `pipeline.root`" in way_out
    assert "headrace.pipeline.folders" in imported
    assert not imported & {"tensorflow", "apache_beam", "tfx"}  # which take seconds


def test_refused_command_leaves_no_run_behind(story: Story) -> None:
    assert len(list(story.home.glob("runs/*/run.json"))) == len(story.runs)


# Interrupted


def test_interrupt_ends_with_130_and_leaves_no_process(story: Story) -> None:
    done = story.runs["interrupted"]
    assert done.code == 130
    assert story.seen["all gone after the interrupt"]
    assert "Traceback" not in done.out + done.err


def test_interrupted_run_says_so_in_its_record_and_on_the_terminal(story: Story) -> None:
    done = story.runs["interrupted"]
    assert done.run.status == "interrupted"
    assert done.run.finished is not None
    assert done.statuses()["Trainer"] == "waiting"
    assert any(line.startswith("interrupted: ") for line in done.lines)
    assert (story.folder / done.ending("report")).is_file()


def test_interrupt_leaves_no_half_written_output(story: Story) -> None:
    assert not [path for path in story.outputs["interrupted"] if path.parts[0] == "Transform"]
    assert not list(story.home.glob("tmp/*"))


# A function of the user's that raises


def test_failure_names_component_cause_and_log_without_the_libraries_traceback(story: Story) -> None:
    done = story.runs["broken"]
    assert done.code == 1
    (first,) = [line for line in done.lines if line.startswith("Transform failed: ")]
    assert "no pace for ['distance', 'hours']" in done.out
    log = done.run.node("Transform").log
    assert f"whole log: {log}" in done.out
    assert "Traceback" in Path(log or "").read_text(encoding="utf-8")
    assert "Traceback" not in done.out + done.err
    assert "site-packages" not in done.out + done.err
    shown = done.out.partition("traceback of your own code:")[2].partition("whole log: ")[0]
    assert {str(Path(path).parent) for path in re.findall(r'File "(.*)", line', shown)} == {str(story.folder / "mine")}
    assert "ValueError" in first or "no pace" in first


def test_failed_run_skips_what_follows_and_still_writes_a_report(story: Story) -> None:
    done = story.runs["broken"]
    assert done.run.status == "failed"
    skipped = {"Trainer", "Baseline", "Evaluator", "Pusher", "RecordBlessing"}
    assert {node for node, status in done.statuses().items() if status == "skipped"} == skipped
    assert "no pace" in (story.folder / done.ending("report")).read_text()
    assert not [path for path in story.outputs["broken"] if path.parts[0] == "Transform"]


def test_mended_run_resumes_from_the_failed_component(story: Story) -> None:
    done = story.runs["mended"]
    assert (done.code, done.err) == (0, "")
    assert done.ran() == {"Transform"} | MODEL_NODES
    assert done.ending("blessing").startswith("blessed: ")
    assert len(story.versions["mended"]) == 1


# Edits


def test_edit_of_comments_docstrings_and_layout_runs_nothing_again(story: Story) -> None:
    assert story.runs["comments"].ran() == set()
    assert story.versions["comments"] == story.versions["mended"]


def test_changed_train_section_runs_again_from_trainer_on(story: Story) -> None:
    done = story.runs["epochs"]
    assert done.ran() == MODEL_NODES
    curves = json.loads((done.uri("Trainer", "model_run") / "training.json").read_text())
    assert len(curves["epochs"]) == 3


def test_new_model_is_compared_with_the_blessed_one_before(story: Story) -> None:
    assert "there is none yet" in story.runs["mended"].out
    assert re.search(r"\(baseline: [01]\.\d+\)", story.runs["epochs"].out)
    models = json.loads((story.home / "blessed.json").read_text())["models"]
    assert models[0]["compared_with"] is None
    assert models[1]["compared_with"] == models[0]["uri"]
    assert story.home / models[0]["uri"] == story.runs["mended"].uri("Trainer", "model")


def test_each_blessed_model_is_pushed_as_a_new_version(story: Story) -> None:
    for before, after in (("mended", "epochs"), ("epochs", "model edited"), ("model edited", "number edited")):
        assert story.runs[after].ending("blessing").startswith("blessed: ")
        *older, newest = story.versions[after]
        assert older == story.versions[before]
        assert int(newest) > int(older[-1])


def test_edit_of_the_model_builder_runs_again_from_trainer_on(story: Story) -> None:
    assert story.runs["model edited"].ran() == MODEL_NODES


def test_edit_of_a_module_that_a_feature_imports_runs_again_from_transform_on(story: Story) -> None:
    assert story.runs["number edited"].ran() == {"Transform"} | MODEL_NODES


def test_touched_data_is_read_again_and_nothing_after_it_is_trusted(story: Story) -> None:
    assert story.runs["dull"].ran() == DATA_NODES | {"Transform"} | MODEL_NODES


# A model that learned nothing


def test_model_that_learned_nothing_is_refused_and_the_run_is_a_success(story: Story) -> None:
    done = story.runs["dull"]
    assert (done.code, done.run.status) == (0, "done")
    assert done.ending("blessing").startswith("not blessed: auc is 0.")
    assert done.ending("pushed") == "nothing; the model in service stays"


def test_refused_model_leaves_the_old_versions_and_the_baseline(story: Story) -> None:
    assert story.versions["dull"] == story.versions["number edited"]
    models = json.loads((story.home / "blessed.json").read_text())["models"]
    assert story.runs["dull"].uri("Trainer", "model") not in {story.home / model["uri"] for model in models}
    assert len(models) == 4


# What lies there in the end


def test_every_output_belongs_to_a_finished_execution(story: Story) -> None:
    executions = list(_executions(story.home))
    finished = {
        (
            execution.custom_properties["headrace_node"].string_value,
            execution.custom_properties["headrace_run"].string_value,
        )
        for execution in executions
        if execution.last_known_state == mlmd.Execution.COMPLETE
    }
    assert {(path.parts[0], path.name) for path in story.outputs["dull"]} <= finished
    states = {execution.last_known_state for execution in executions}
    assert mlmd.Execution.RUNNING not in states
    assert {mlmd.Execution.CANCELED, mlmd.Execution.FAILED, mlmd.Execution.CACHED} <= states


def _executions(home: Path) -> Iterator[mlmd.Execution]:
    connection = mlmd.ConnectionConfig()
    connection.sqlite.filename_uri = str(home / "metadata.sqlite")
    connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
    yield from metadata_store.MetadataStore(connection).get_executions()
