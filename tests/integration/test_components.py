"""The components of docs/components.md, in a folder with nothing but the files of that page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tfx
import yaml
from command import ROOT, Finished, headrace
from forks import ALL
from tensorflow_serving.apis import prediction_log_pb2

from headrace.pipeline.kubeflow.document import TaskSpec, task_specs
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.run import Run

pytestmark = pytest.mark.slow

OWN = {"BulkInferrer", "CategoryCounts", "Leakage"}
STRICT = """
import dataclasses
import pathlib

from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact
from tfx.dsl.component.experimental.decorators import component
from tfx.types.artifact_utils import decode_split_names
from tfx.types.standard_artifacts import ExampleAnomalies, ExampleStatistics


@component
def Strict(statistics: InputArtifact[ExampleStatistics], anomalies: OutputArtifact[ExampleAnomalies]):
    anomalies.split_names = statistics.split_names
    for split in decode_split_names(statistics.split_names):
        found = anomalies_pb2.Anomalies()
        reason = found.anomaly_info["company"].reason.add()
        reason.type, reason.description = anomalies_pb2.AnomalyInfo.ENUM_TYPE_UNEXPECTED_STRING_VALUES, "not our rival"
        found.anomaly_info["company"].severity = anomalies_pb2.AnomalyInfo.ERROR
        folder = pathlib.Path(anomalies.uri, f"Split-{split}")
        folder.mkdir()
        folder.joinpath("SchemaDiff.pb").write_bytes(found.SerializeToString())


def extend(components):
    mine = Strict(statistics=components.statistics_gen.outputs["statistics"])
    return dataclasses.replace(components, example_validator=mine)
"""


@dataclass(frozen=True)
class Story:
    """The page's run, the same again, one with an edited component, and three that fail; what was compiled before
    and after the edit, and the comparison of both runners.
    """

    folder: Path
    checked: Finished
    first: Finished
    second: Finished
    edited: Finished
    leaking: Finished
    strict: Finished
    broken: Finished
    compiled: tuple[dict[str, TaskSpec], dict[str, TaskSpec]]
    verified: Finished


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("components")
    page = (ROOT / "docs" / "components.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"```(?:yaml|python)\n# (\S+)\n(.*?)```", page, re.DOTALL):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "strict.py").write_text(STRICT, encoding="utf-8")
    (folder / "broken.py").write_text("def extend(components):\n    return [components.counter]\n", encoding="utf-8")

    def run(*settings: str) -> Finished:
        return headrace(folder, "run", "taxi.yaml", *(word for one in settings for word in ("--set", one)))

    checked = headrace(folder, "validate", "taxi.yaml")
    first, second = run(), run()
    before = compiled(folder)
    counts = folder / "category_counts.py"
    counts.write_text(counts.read_text(encoding="utf-8").replace("value.decode()", "value.decode().upper()"))
    edited = run()
    own = folder / "my_components.py"
    page_says = own.read_text(encoding="utf-8")
    own.write_text(page_says.replace("max_fraction=0.8", "max_fraction=0.01"), encoding="utf-8")
    leaking = run()
    own.write_text(page_says, encoding="utf-8")
    strict = run("pipeline.extend=strict.extend")
    broken = run("pipeline.extend=broken.extend")
    after = compiled(folder)
    less = ("--set", "train.epochs=1", "--set", "deploy.canary=null")
    verified = headrace(folder, "verify", "taxi.yaml", *less, **{ALL: "1"})
    return Story(folder, checked, first, second, edited, leaking, strict, broken, (before, after), verified)


def compiled(folder: Path) -> dict[str, TaskSpec]:
    done = headrace(folder, "compile", "taxi.yaml", "-o", "taxi.kfp.yaml", "--set", "kubeflow.image=any")
    assert done.code == 0, done.err
    return task_specs(next(iter(yaml.safe_load_all((folder / "taxi.kfp.yaml").read_text(encoding="utf-8")))), None)


def invocation(task: TaskSpec) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(unpack(task.container["args"][1]))
    return found


def test_the_example_of_the_page_is_valid_and_all_its_components_run(story: Story) -> None:
    assert (story.checked.code, story.first.code) == (0, 0), story.checked.out + story.first.out + story.first.err
    assert "KERAS" not in story.checked.err  # TensorFlow Transform asks for Keras 2 when it is imported
    assert story.first.ran() >= OWN
    assert story.first.ending("pushed").startswith("serving/taxi/")


def test_bulk_inferrer_writes_what_the_pushed_model_predicts_for_the_test_split(story: Story) -> None:
    (file,) = story.first.uri("BulkInferrer", "inference_result").glob("*.gz")
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log
        for record in tf.data.TFRecordDataset(str(file), "GZIP")
    ]
    examples = [log.request.inputs["examples"].string_val[0] for log in logs]
    found = np.concatenate([tf.make_ndarray(log.response.outputs["predictions"]) for log in logs])
    model = tf.saved_model.load(str(story.folder / story.first.ending("pushed")))
    expected = model.signatures["serving_default"](examples=tf.constant(examples))["predictions"].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    trips = Run.read(story.first.folder).examples("test").to_pandas()
    fares = [tf.train.Example.FromString(one).features.feature["fare"].float_list.value[0] for one in examples]
    np.testing.assert_allclose(np.sort(fares), np.sort(np.asarray(trips["fare"], dtype=np.float32)))


def test_the_function_component_counts_what_pandas_counts(story: Story) -> None:
    files = Path(tfx.__file__).parent.glob("examples/chicago_taxi_pipeline/data/big_tipper_label/*.csv")
    expected = pd.concat(map(pd.read_csv, files))["payment_type"].value_counts().to_dict()
    counted = story.first.uri("CategoryCounts", "counts") / "counts.json"
    assert json.loads(counted.read_text(encoding="utf-8")) == expected
    assert story.first.uri("CategoryCounts", "categories").read_text(encoding="utf-8") == str(len(expected))
    upper = story.edited.uri("CategoryCounts", "counts") / "counts.json"
    assert json.loads(upper.read_text(encoding="utf-8")) == {name.upper(): rows for name, rows in expected.items()}


def test_a_second_run_reuses_everything_and_an_edit_runs_one_component(story: Story) -> None:
    assert (story.second.code, story.second.ran()) == (0, set())
    assert (story.edited.code, story.edited.ran()) == (0, {"CategoryCounts"})


def test_an_own_executor_can_stop_the_run_before_anything_is_trained(story: Story) -> None:
    run, columns = Run.read(story.first.folder), ["trip_miles", "fare", "trip_seconds"]
    tables = {split: run.examples(split).select(columns).to_pylist() for split in ("train", "test")}
    splits = {split: [tuple(row.values()) for row in rows] for split, rows in tables.items()}
    trained = {*splits["train"]}
    repeated = sum(row in trained for row in splits["test"])
    message = f"{repeated} of {len(splits['test'])} test examples have the columns of a train example"
    assert repeated > 0.01 * len(splits["test"])
    (report,) = story.first.uri("Leakage", "report").glob("*.txt")
    assert report.read_text(encoding="utf-8") == message
    assert story.first.run.node("Leakage").outputs["report"].properties["repeated"] == repeated
    assert (story.leaking.code, story.leaking.ran()) == (1, set())
    assert message in str(story.leaking.run.node("Leakage").error)
    assert {story.leaking.statuses()[name] for name in ("Transform", "Trainer", "BulkInferrer")} == {"skipped"}


def test_the_data_gate_reads_the_component_in_place_of_example_validator(story: Story) -> None:
    statuses = story.strict.statuses()
    assert OWN.isdisjoint(statuses)
    assert (statuses["ExampleValidator"], statuses["DataGate"]) == ("done", "failed")
    assert statuses["SchemaGen"] == "cached"
    assert "'company'" in story.strict.out + story.strict.err
    assert "not our rival" in story.strict.out + story.strict.err


def test_an_error_of_the_function_names_the_setting_and_the_line(story: Story) -> None:
    assert story.broken.code == 1
    message = story.broken.out + story.broken.err
    assert "pipeline.extend: broken.extend raised AttributeError" in message
    assert f"{story.folder}/broken.py:2" in message
    frames = re.findall(r'File "(.*)", line (\d+)', message.partition("traceback of your own code:")[2])
    assert frames == [(f"{story.folder}/broken.py", "2")]
    assert "Traceback" not in message


def test_compiled_for_kubeflow_each_is_a_task_with_its_code_in_the_cache_key(story: Story) -> None:
    before, after = story.compiled
    assert {"bulk-inferrer", "category-counts", "leakage"} <= before.keys()
    assert invocation(before["leakage"])["executor"] == "leakage:LeakageExecutor"
    assert invocation(before["leakage"])["outputs"]["report"]["type"] == "leakage:LeakageReport"
    assert before["bulk-inferrer"].container["resources"]["resourceMemoryRequest"] == "3Gi"
    assert {"leakage", "data-gate"} <= {*before["transform"].after}
    changed = {name for name in before if invocation(before[name]) != invocation(after[name])}
    assert changed == {"category-counts"}


def test_the_compiled_components_write_what_they_write_here(story: Story) -> None:
    assert story.verified.code == 0, story.verified.out + story.verified.err
    same = [line.split()[1] for line in story.verified.lines if line.startswith("same ")]
    outputs = [
        "CategoryCounts.counts:",
        "CategoryCounts.categories:",
        "Leakage.report:",
        "BulkInferrer.inference_result:",
    ]
    assert {*outputs} <= {*same}


def test_the_report_shows_them_and_explain_cache_knows_their_code(story: Story) -> None:
    page = (story.folder / story.first.ending("report")).read_text(encoding="utf-8")
    assert all(name in page for name in OWN)
    explained = headrace(story.folder, "explain-cache", "taxi.yaml", story.edited.run.run_id)
    (line,) = (line for line in explained.lines if line.startswith("CategoryCounts "))
    assert "code category_counts: changed" in line
