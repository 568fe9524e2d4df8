"""`pipeline.extend`: what is woven into the DAG."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from extensions import config, nodes

from headrace.common.errors import ConfigError
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
from headrace.pipeline.training_digest import training_digest


def test_a_function_that_returns_nothing_changes_nothing() -> None:
    ours = nodes("nothing", "pipeline.extend=null")
    assert {id_: (node.digest, node.upstream) for id_, node in nodes("nothing").items()} == {
        id_: (node.digest, node.upstream) for id_, node in ours.items()
    }


def test_further_components_read_ours_and_each_other_and_ours_can_wait_for_them() -> None:
    found = nodes("two")
    assert found["Count"].inputs == {"examples": (("ExampleGen", "examples"),)}
    assert found["read_note"].inputs == {"note": (("Count", "note"),), "n": (("Count", "n"),)}
    assert {"DataGate", "read_note"} <= {*found["Transform"].upstream}
    assert found["Count"].cacheable


def test_the_page_lists_the_components_with_their_outputs() -> None:
    everything = (
        "data.source.path=trips-{SPAN}.csv",
        "gates={rows: {min: 1}, skew: {source: {kind: csv, path: log.csv}}}",
        "deploy.lite={}",
        "predict={source: {kind: csv, path: new.csv}, output: scored.csv}",
        "schedule={every: 1h, retrain: drift}",
        "train={warm_start: true, profile: {batches: [1, 2], fail_if_input_bound_above: 0.5}}",
        "tune={max_trials: 2, parameters: {train.batch_size: {choices: [8, 16]}}}",
    )
    create_pipeline(config("look", *everything))
    found = {name: {*node.outputs} for name, node in importlib.import_module("own_parts").seen.items() if node}
    page = (Path(__file__).parents[3] / "docs" / "components.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|(.*)\|$", page, re.MULTILINE)
    assert {name: {*re.findall(r"`(\w+)`", outputs)} for name, _, outputs in rows} == found
    create_pipeline(config("look", "deploy.push=null"))
    absent = {name for name, node in importlib.import_module("own_parts").seen.items() if node is None}
    assert absent == {name for name, condition, _ in rows if condition.strip()}


@pytest.mark.parametrize(
    ("function", "setting", "materialize"),
    [
        ("two", "auto", "auto"),
        ("two", "never", "never"),
        ("reads_transformed", "auto", "always"),
        ("reads_transformed", "always", "always"),
    ],
)
def test_records_are_written_for_a_component_that_reads_them(function: str, setting: str, materialize: str) -> None:
    found = nodes(function, f"transform.materialize={setting}")
    assert found["Transform"].exec_properties["materialize"] == materialize
    assert found["Transform"].parts["settings"]["materialize"] == materialize


def test_a_component_that_reads_records_which_are_never_written_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"transform\.materialize: Count of pipeline\.extend .*TFRecords"):
        create_pipeline(config("reads_transformed", "transform.materialize=never"))


def test_the_modules_of_types_and_of_named_functions_are_in_the_cache_key() -> None:
    assert nodes("own")["OwnModel"].modules == ("own_types",)
    assert {"own_parts", "own_types"} <= nodes("own")["OwnModel"].parts["sources"].keys()
    assert nodes("own")["Trainer"].modules == ()


def test_a_parameter_that_only_looks_like_a_function_is_no_code(folder: Path) -> None:
    (folder / "tables").mkdir(exist_ok=True)
    assert nodes("names_a_table")["Count"].modules == ("own_types",)


def test_another_function_in_the_same_module_is_another_training() -> None:
    assert training_digest(config("nothing")) != training_digest(config("two"))


def test_a_replacement_takes_the_id_and_the_readers_of_what_it_replaces() -> None:
    found = nodes("replaced")
    assert found["SchemaGen"].executor.__name__ == "Infer_Executor"
    assert found["SchemaGen"].inputs == {"statistics": (("StatisticsGen", "statistics"),)}
    readers = {"ExampleValidator", "Transform", "Trainer", "Baseline", "RecordBlessing", "Tighten"}
    assert {id_ for id_, node in found.items() if (("SchemaGen", "schema"),) in node.inputs.values()} == readers
    assert "Infer" not in found


def test_a_replacement_waits_and_is_waited_for_as_what_it_replaces() -> None:
    profiled = ("train.profile={batches: [1, 2], fail_if_input_bound_above: 0.5}",)
    found = nodes("gate_and_pusher", *profiled)
    assert "DataGate" in found["Transform"].upstream
    assert found["Pusher"].upstream == ("ExampleGen", "ProfileGate", "RecordBlessing")


def test_what_was_trained_on_is_recorded_after_further_components() -> None:
    spans = ("data.source.path=trips-{SPAN}.csv", "schedule={every: 1h, retrain: new_span}")
    found = nodes("two", *spans)
    assert {"Count", "read_note", "Pusher"} <= {*found["RecordTraining"].upstream}
    assert found["Spans"].executor.__name__ == "LookForNew_Executor"


def test_a_pod_gets_settings_under_the_id_of_a_further_component() -> None:
    own = "kubeflow.components={Count: {memory: 1Gi}, Pusher: {memory: 1Gi}}"
    tasks = {task.name: task for task in component_tasks(config("two", own))}
    assert tasks["count"].invocation.outputs["note"].type == "own_types:Note"
    assert (tasks["read-note"].text_inputs(), tasks["read-note"].inputs["n"]) == (["n"], ("count", "n"))
    assert "read-note" in tasks["transform"].after
    with pytest.raises(ConfigError, match=r"kubeflow\.components\.Cuont: .*; did you mean"):
        component_tasks(config("two", "kubeflow.components={Cuont: {memory: 1Gi}}"))
