"""The worked example, end to end, and what the stock libraries read of what it left."""

from __future__ import annotations

import base64
import filecmp
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from browsing import assert_accessible
from command import ROOT, Finished, Going, headrace, outputs_on_disk, versions
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd
from numpy.typing import NDArray
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2
from tfx.components import BulkInferrer
from tfx.dsl.components.base import base_beam_executor
from tfx.orchestration import metadata as tfx_metadata
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.types import standard_artifacts

from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import read_evaluation
from headrace.pipeline.kubeflow.verify.compare import folders
from headrace.pipeline.results.record import RunRecord

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

ROWS = 15_002
BATCH = 4096
SERVED = 200
NODES = [
    "Spans", "ExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator", "DataGate", "Transform", "Trainer",
    "Baseline", "Canary", "Evaluator", "RecordBlessing", "Pusher",
]  # fmt: skip


BEAM = {
    "ExampleGen": "3 pipelines",
    "StatisticsGen": "1 pipeline",
    "Transform": "2 pipelines",
    "Evaluator": "1 pipeline",
}
"""The Beam components, and in how many pipelines each does the work of the taxi example."""


@dataclass(frozen=True)
class Story:
    """The same command twice, and what lay there after the first."""

    folder: Path
    first: Finished
    versions: list[str]
    outputs: set[Path]
    second: Finished

    @property
    def home(self) -> Path:
        return self.folder / "runs" / "chicago-taxi"

    @property
    def pushed(self) -> str:
        return str(self.folder / self.first.ending("pushed"))

    @cached_property
    def loaded(self) -> Any:
        """The pushed model, by TensorFlow's Python."""
        return tf.saved_model.load(self.pushed)


@pytest.fixture(scope="session")
def taxi(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("taxi")
    first = Going(folder, "run", str(ROOT / "configs" / "taxi.yaml")).finish()
    pushed, outputs = versions(folder), outputs_on_disk(folder / "runs" / "chicago-taxi")
    return Story(folder, first, pushed, outputs, Going(folder, "run", str(ROOT / "configs" / "taxi.yaml")).finish())


# The first run


def test_run_ends_well_and_names_blessing_pushed_model_and_report(taxi: Story) -> None:
    done = taxi.first
    assert (done.code, done.err) == (0, "")
    assert done.ending("blessing").startswith("blessed: auc is 0.9")
    (version,) = taxi.versions
    assert done.ending("pushed") == f"serving/chicago-taxi/{version}"
    assert done.ending("report") == f"runs/chicago-taxi/runs/{done.run.run_id}/report.html"
    assert done.ending("canary").startswith("passed: 4 signatures answered, p99 at most ")
    assert done.ending("answers").startswith("passed: 128 answers match the Trainer's model")
    assert done.ending("replay").startswith("passed: ")
    last = ["canary", "answers", "replay", "pushed", "report", "time"]
    assert [line.split()[0] for line in done.lines[-6:]] == last


def test_lines_are_plain_and_show_each_component_with_its_rows(taxi: Story) -> None:
    assert "\x1b" not in taxi.first.out
    words = [" ".join(line.split()[1:]) for line in taxi.first.lines]
    for node in NODES:
        assert any(line.startswith(f"{node} running") for line in words)
        assert any(line.startswith(f"{node} done ") for line in words)
    assert any(line.startswith("ExampleGen done") and line.endswith("s 15,002 rows out") for line in words)
    assert any(line.startswith("Transform done") and line.endswith("15,002 rows in 15,002 rows out") for line in words)


def test_report_is_one_page_without_links_to_the_network(taxi: Story) -> None:
    page = (taxi.folder / taxi.first.ending("report")).read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "chicago-taxi" in page
    assert 'src="http' not in page


def test_report_and_model_card_pass_axe(taxi: Story, browser: Browser) -> None:
    report = taxi.folder / taxi.first.ending("report")
    for page in (report, report.with_name("model_card.html")):
        assert_accessible(browser, page.as_uri())


def test_what_predictions_depend_on_and_the_worst_of_them_are_in_the_report(taxi: Story) -> None:
    evaluation = read_evaluation(taxi.first.uri("Evaluator", "evaluation"))
    assert evaluation.explanation.examples == 1000
    assert evaluation.explanation.importance[0].column == "payment_type"  # tips in cash are not recorded
    found = {one.column: one for one in evaluation.explanation.dependence}
    paid = dict(zip(found["payment_type"].values, found["payment_type"].predictions, strict=True))
    assert paid["Credit Card"][0] > paid["Cash"][0] + 0.5
    assert evaluation.worst is not None
    assert len(evaluation.worst.rows) == 10
    losses = [row.loss for row in evaluation.worst.rows if row.loss is not None]
    assert losses == sorted(losses, reverse=True)
    assert all(row.label != row.prediction for row in evaluation.worst.rows)
    page = (taxi.folder / taxi.first.ending("report")).read_text()
    assert "Worst predictions" in page
    assert "Mean prediction over payment_type" in page


def test_record_says_what_each_component_did(taxi: Story) -> None:
    run = taxi.first.run
    assert (run.pipeline, run.status, run.error) == ("chicago-taxi", "done", None)
    assert [node.id for node in run.nodes] == NODES
    for node in run.nodes:
        assert node.status == "done"
        assert node.started is not None
        assert node.finished is not None
        assert run.started <= node.started <= node.finished <= (run.finished or 0)
        assert all(run.node(id_).finished <= node.started for id_ in node.upstream)  # type: ignore[operator]
        assert Path(node.log or "").is_file()
        assert all(Path(output.uri).exists() for output in node.outputs.values())
    rows = json.loads(str(run.node("ExampleGen").outputs["examples"].properties["rows"]))
    assert sum(rows.values()) == ROWS
    assert run.node("Evaluator").rows_in == run.node("Canary").rows_in == rows["test"]


def test_nothing_lies_beside_the_outputs(taxi: Story) -> None:
    left = {path.name for path in taxi.home.iterdir()} - {"tmp"}
    assert left == {
        "metadata.sqlite",
        "plan.json",
        "checked.json",
        "artifacts",
        "runs",
        "spans",
        "blessed.json",
        ".blessed.json.lock",
        "pushed.json",
        ".lock",
        ".at-work",
    }
    assert not list(taxi.home.glob("tmp/*"))
    assert {path.name for path in taxi.folder.iterdir()} == {"runs", "serving"}


# The same run, with every Beam graph executed


@pytest.fixture(scope="session")
def direct(new_folder: Callable[[str], Path]) -> RunRecord:
    """By the installed script, with nothing but it in the environment."""
    folder, script = new_folder("direct"), Path(sys.executable).with_name("headrace")
    settings = [word for one in ("beam.runner=direct", "deploy.canary=null") for word in ("--set", one)]
    command = [str(script), "run", str(ROOT / "configs" / "taxi.yaml"), *settings]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (run_dir,) = (folder / "runs" / "chicago-taxi" / "runs").iterdir()
    return RunRecord.read(run_dir)


def test_direct_runner_makes_what_auto_makes(taxi: Story, direct: RunRecord) -> None:
    made = {
        f"{id_}.{key}": folders(id_, key, one.type, Path(one.uri), Path(direct.node(id_).outputs[key].uri))
        for id_ in (*BEAM, "SchemaGen", "ExampleValidator")
        for key, one in taxi.first.run.node(id_).outputs.items()
    }
    assert [str(line) for line in made.values() if not line.same] == []
    for output in ("ExampleGen.examples", "StatisticsGen.statistics", "Transform.transformed_examples"):
        assert made[output].what.endswith("byte for byte")
    assert made["Transform.transform_graph"].what.endswith("byte for byte; the graph node for node")
    assert "4 metrics in 30 slices" in made["Evaluator.evaluation"].what


def test_direct_runner_has_executed_the_graph_of_each_beam_component(taxi: Story, direct: RunRecord) -> None:
    executed = {node.id: node.beam.split(",")[:2] for node in direct.nodes if node.beam}
    assert executed == {id_: ["direct", f" {pipelines}"] for id_, pipelines in BEAM.items()}
    for id_ in BEAM:
        record = direct.node(id_)
        assert f"Beam: {record.beam}" in Path(record.log or "").read_text(encoding="utf-8").splitlines()
    assert taxi.first.run.node("ExampleGen").beam.startswith("auto, no pipeline")
    assert taxi.first.run.node("StatisticsGen").beam.startswith("auto, no pipeline")


# The second run


def test_second_run_reuses_everything_and_pushes_nothing(taxi: Story) -> None:
    assert taxi.second.code == 0
    assert taxi.second.ran() == set()
    assert taxi.second.ending("time").endswith("(10 of 13 components reused)")
    assert taxi.second.ending("blessing") == taxi.first.ending("blessing")
    assert versions(taxi.folder) == taxi.versions
    assert len(json.loads((taxi.home / "blessed.json").read_text())["models"]) == 1


def test_runs_are_listed_and_the_first_is_shown_as_it_ended(taxi: Story) -> None:
    config = str(ROOT / "configs" / "taxi.yaml")
    listed = headrace(taxi.folder, "runs", config).lines
    ids = [taxi.second.run.run_id, taxi.first.run.run_id]
    assert [line.split()[2:4] for line in listed] == [["done", run_id] for run_id in ids]
    assert listed[1].endswith(f"pushed {taxi.first.ending('pushed')}")
    summary = taxi.first.out[taxi.first.out.index("\nblessing ") :]
    assert headrace(taxi.folder, "status", config, ids[1]).out.endswith(summary)
    assert "pushed to " in headrace(taxi.folder, "logs", config, "Pusher", ids[1]).out


def test_second_run_names_the_same_outputs(taxi: Story) -> None:
    for node in set(NODES) - {"Spans", "Baseline", "RecordBlessing"}:
        for output in taxi.first.run.node(node).outputs:
            assert taxi.second.uri(node, output) == taxi.first.uri(node, output)
    fresh = outputs_on_disk(taxi.home) - taxi.outputs
    assert {path.parts[0] for path in fresh} == {"Spans", "Baseline", "RecordBlessing"}


# The exported model against what Transform wrote


Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Rows:
    """All rows of all splits: raw, as Transform wrote them, and as the exported model transforms them."""

    raw: list[bytes]
    written: Columns
    served: Columns


@pytest.fixture(scope="session")
def rows(taxi: Story) -> Rows:
    function = taxi.loaded.signatures["transform_features"]
    raw, written, served = [], [], []
    for split in ("train", "eval", "test"):
        examples = _records(taxi.first.uri("ExampleGen", "examples") / f"Split-{split}")
        files = sorted((taxi.first.uri("Transform", "transformed_examples") / f"Split-{split}").iterdir())
        transformed = pa.concat_tables(pa.ipc.open_file(file).read_all() for file in files)
        raw += examples
        written.append({name: _as_fed(transformed[name].to_numpy()) for name in transformed.column_names})
        served += [_numbers(function(examples=tf.constant(batch))) for batch in _batches(examples)]
    return Rows(raw, _joined(written), _joined(served))


def _as_fed(values: NDArray[Any]) -> NDArray[Any]:
    """Categories are stored in fewer bytes than signatures take."""
    return values.astype(np.int64) if values.dtype.kind == "i" else values


def _records(split: Path) -> list[bytes]:
    files = sorted(str(path) for path in split.glob("*.gz"))
    return list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator())


def _batches(records: list[bytes]) -> Iterator[list[bytes]]:
    yield from (records[start : start + BATCH] for start in range(0, len(records), BATCH))


def _numbers(tensors: Mapping[str, Any]) -> Columns:
    return {name: np.asarray(tensor) for name, tensor in tensors.items()}


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_exported_model_computes_exactly_what_transform_wrote_for_every_row(rows: Rows) -> None:
    assert len(rows.raw) == ROWS
    assert len(rows.written) == 16
    assert set(rows.served) == set(rows.written)
    for name, values in rows.written.items():
        assert values.shape == rows.served[name].shape == (ROWS,)
        np.testing.assert_array_equal(rows.served[name], values, err_msg=name)


def test_label_that_was_written_is_the_one_in_the_data(rows: Rows) -> None:
    read = tf.io.parse_example(rows.raw, {"big_tipper": tf.io.FixedLenFeature([], tf.int64)})["big_tipper"]
    np.testing.assert_array_equal(rows.written["big_tipper"], np.asarray(read, np.float32))
    assert rows.written["big_tipper"].dtype == np.float32


def test_features_take_many_values(rows: Rows) -> None:
    distinct = {name: len(np.unique(values)) for name, values in rows.written.items()}
    assert distinct["trip_miles"] > 300
    assert distinct["pickup_latitude"] == 11  # ten buckets and the missing ones
    assert 5 <= distinct["payment_type"] <= 21
    assert distinct["pickup"] > 30


def test_all_signatures_predict_the_same_for_every_row(taxi: Story, rows: Rows) -> None:
    signatures = taxi.loaded.signatures
    raw_spec = signatures["serving_raw"].structured_input_signature[1]
    predicted = []
    for start in range(0, ROWS, BATCH):
        examples = tf.constant(rows.raw[start : start + BATCH])
        features = {name: values[start : start + BATCH] for name, values in rows.written.items()}
        features.pop("big_tipper")
        calls = (
            signatures["serving_default"](examples=examples),
            signatures["serving_raw"](**_dense(examples, raw_spec)),
            signatures["serving_transformed"](**{name: tf.constant(x) for name, x in features.items()}),
        )
        predicted.append(np.concatenate([np.asarray(call["predictions"]) for call in calls], axis=1))
    default, raw, transformed = np.concatenate(predicted).T
    assert default.shape == (ROWS,)
    np.testing.assert_allclose(raw, default, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(transformed, default, rtol=1e-5, atol=1e-7)
    labels = rows.written["big_tipper"]
    assert default[labels == 1].mean() > default[labels == 0].mean() + 0.3


def _dense(examples: tf.Tensor, spec: Mapping[str, tf.TensorSpec]) -> dict[str, tf.Tensor]:
    """The raw columns as a JSON client sends them."""
    missing = {tf.string: "", tf.int64: np.iinfo(np.int64).min, tf.float32: float("nan")}
    parsed = tf.io.parse_example(
        examples, {name: tf.io.FixedLenFeature([], x.dtype, missing[x.dtype]) for name, x in spec.items()}
    )
    return dict(parsed)


def test_v1_loader_serves_the_pushed_model_as_tensorflow_two_does(taxi: Story, rows: Rows) -> None:
    examples = rows.raw[:200]
    expected = taxi.loaded.signatures["serving_default"](examples=tf.constant(examples))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.loader.load(session, ["serve"], taxi.pushed).signature_def[
            "serving_default"
        ]
        fed = {signature.inputs["examples"].name: examples}
        found = session.run(signature.outputs["predictions"].name, fed)
    np.testing.assert_allclose(found, expected["predictions"], rtol=1e-5, atol=1e-7)


def test_canary_asked_every_signature_and_the_exports_warm_up_requests(taxi: Story) -> None:
    verdict = CanaryVerdict.read(taxi.first.uri("Canary", "blessing"))
    assert verdict is not None
    assert (verdict.passed, verdict.split, verdict.warmup_requests) == (True, "test", 4)
    assert [one.name for one in verdict.signatures] == [
        "serving_default", "serving_raw", "serving_transformed", "transform_features",
    ]  # fmt: skip
    for one in verdict.signatures:
        assert (one.skipped, one.examples) == ("", 100)
        assert one.difference is not None
        assert one.difference < 1e-5
        assert {odd.outcome for odd in one.odd} <= {"answered", "refused"}
        assert {"an empty batch", "10,000 rows", "missing features", "wrong types"} <= {odd.what for odd in one.odd}
    with_texts = {one.name for one in verdict.signatures if "huge strings" in {odd.what for odd in one.odd}}
    assert with_texts == {"serving_default", "serving_raw", "transform_features"}
    refused = {odd.what for odd in verdict.signatures[0].odd if odd.outcome == "refused"}
    assert refused == {"wrong types", "1,000 values in each feature", "broken examples"}


def test_warm_up_requests_hold_no_row_of_the_data_and_fit_the_signatures(taxi: Story) -> None:
    """As TensorFlow Serving reads them: a TFRecord file of PredictionLog, one for each signature."""
    records = tf.data.TFRecordDataset(f"{taxi.pushed}/assets.extra/tf_serving_warmup_requests").as_numpy_iterator()
    requests = [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]
    signatures = taxi.loaded.signatures
    assert [request.model_spec.signature_name for request in requests] == [
        "serving_default", "serving_raw", "serving_transformed", "transform_features",
    ]  # fmt: skip
    for request in requests:
        given = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        answers = signatures[request.model_spec.signature_name](**given)
        assert {len(value) for value in answers.values()} == {1}
    (example,) = tf.make_ndarray(requests[0].inputs["examples"])
    features = tf.train.Example.FromString(example).features.feature
    assert {value for one in features.values() for value in (*one.int64_list.value, *one.float_list.value)} == {0}
    assert not any(one.bytes_list.value for one in features.values())


@pytest.fixture(scope="session")
def inputs(taxi: Story, rows: Rows) -> dict[str, dict[str, tf.Tensor]]:
    """For each signature of the pushed model: the same rows as it takes them."""
    signatures = taxi.loaded.signatures
    examples = tf.constant(rows.raw[:SERVED])
    features = {name: tf.constant(x[:SERVED]) for name, x in rows.written.items() if name != "big_tipper"}
    made = {
        "serving_default": {"examples": examples},
        "serving_raw": _dense(examples, signatures["serving_raw"].structured_input_signature[1]),
        "serving_transformed": features,
        "transform_features": {"examples": examples},
    }
    assert set(made) == set(signatures)
    return made


def test_cpp_loader_of_model_servers_gives_what_python_gives(
    taxi: Story, inputs: dict[str, dict[str, tf.Tensor]], tmp_path: Path
) -> None:
    """A process without TensorFlow's Python: the C++ loader and runtime alone, as in TensorFlow Serving."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(Path(taxi.pushed, "saved_model.pb").read_bytes())
    definitions = saved.meta_graphs[0].signature_def
    calls = [
        {
            "feeds": {definitions[name].inputs[key].name: _reported(x) for key, x in given.items()},
            "fetches": [output.name for _, output in sorted(definitions[name].outputs.items())],
        }
        for name, given in inputs.items()
    ]
    (tmp_path / "calls.json").write_text(json.dumps(calls))
    library = Path(tf.__file__).with_name("libtensorflow_cc.so.2")
    program = Path(__file__).with_name("cpp_loader.py")
    arguments = (library, taxi.pushed, tmp_path / "calls.json", tmp_path / "results.npz")
    done = subprocess.run([sys.executable, program, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    signatures = taxi.loaded.signatures
    expected = [
        np.asarray(value) for name, given in inputs.items() for _, value in sorted(signatures[name](**given).items())
    ]
    fetches = [name for call in calls for name in call["fetches"]]
    with np.load(tmp_path / "results.npz") as results:
        found = [results[f"arr_{number}"] for number in range(len(fetches))]
    assert len(found) == 3 * 3 + 16  # classes, predictions and probabilities three times, and each feature
    for name, ours, theirs in zip(fetches, found, expected, strict=True):
        if theirs.dtype == object:
            np.testing.assert_array_equal(ours, theirs.astype(np.bytes_))
            continue
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7, err_msg=name)
    assert set(found[0].ravel()) == {b"0", b"1"}
    assert len(np.unique(found[1])) > SERVED / 10


def _reported(tensor: tf.Tensor) -> dict[str, Any]:
    values = tensor.numpy().reshape(-1).tolist()
    texts = tensor.dtype == tf.string
    values = [base64.b64encode(value).decode() for value in values] if texts else values
    return {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list(), "values": values}


def test_bulk_inferrer_of_tfx_predicts_with_the_pushed_model(taxi: Story, rows: Rows, tmp_path: Path) -> None:
    model, examples = standard_artifacts.Model(), standard_artifacts.Examples()
    result = standard_artifacts.InferenceResult()
    model.uri, result.uri = str(taxi.first.uri("Trainer", "model")), str(tmp_path / "result")
    examples.uri = str(taxi.first.uri("ExampleGen", "examples"))
    examples.split_names = '["train", "eval", "test"]'
    pushed = Path(taxi.pushed)
    serving = Path(model.uri, "Format-Serving")
    assert filecmp.cmp(pushed / "saved_model.pb", serving / "saved_model.pb", shallow=False)
    executor = BulkInferrer.EXECUTOR_SPEC.executor_class(
        base_beam_executor.BaseBeamExecutor.Context(
            beam_pipeline_args=["--runner=FnApiRunner"], tmp_dir=str(tmp_path), unique_id="1"
        )
    )
    properties = {
        "data_spec": '{"example_splits": ["test"]}',
        "model_spec": '{"model_signature_name": ["serving_default"]}',
        "output_example_spec": None,
    }
    executor.Do({"model": [model], "examples": [examples]}, {"inference_result": [result]}, properties)
    files = [str(path) for path in Path(result.uri).rglob("*.gz")]
    logs = [
        prediction_log_pb2.PredictionLog.FromString(log).predict_log
        for log in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()
    ]
    read = np.array([log.request.inputs["examples"].string_val[0] for log in logs], object)
    found = np.array([log.response.outputs["predictions"].float_val[0] for log in logs])
    predict = taxi.loaded.signatures["serving_default"]
    expected = predict(examples=tf.constant(list(read)))["predictions"][:, 0]
    # Beam chooses the sizes of batches by their times, and float32 sums round differently in other batches.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    records = _records(taxi.first.uri("ExampleGen", "examples") / "Split-test")  # it encodes them in another order
    expected = predict(examples=tf.constant(records))["predictions"][:, 0]
    np.testing.assert_allclose(np.sort(found), np.sort(expected), rtol=1e-4, atol=1e-6)


# ML Metadata, read with the stock libraries


@pytest.fixture(scope="session")
def store(taxi: Story) -> metadata_store.MetadataStore:
    connection = mlmd.ConnectionConfig()
    connection.sqlite.filename_uri = str(taxi.home / "metadata.sqlite")
    connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
    return metadata_store.MetadataStore(connection)


def test_each_run_is_a_context_with_an_execution_for_each_component(
    taxi: Story, store: metadata_store.MetadataStore
) -> None:
    for done, state in ((taxi.first, mlmd.Execution.COMPLETE), (taxi.second, mlmd.Execution.CACHED)):
        context = store.get_context_by_type_and_name("pipeline_run", done.run.run_id)
        executions = store.get_executions_by_context(context.id)
        assert len(executions) == len(NODES)
        assert sum(execution.last_known_state == state for execution in executions) >= 9
    for node in NODES:
        context = store.get_context_by_type_and_name("node", f"chicago-taxi.{node}")
        assert len(store.get_executions_by_context(context.id)) == 2


def test_types_are_those_of_tfx(store: metadata_store.MetadataStore) -> None:
    kinds = {kind.name for kind in store.get_execution_types()}
    assert {
        "tfx.components.trainer.component.Trainer",
        "tfx.components.example_validator.component.ExampleValidator",
    } <= kinds
    assert len(kinds) == len(NODES)
    artifacts = {kind.name for kind in store.get_artifact_types()}
    assert {
        "Examples", "ExampleStatistics", "Schema", "ExampleAnomalies", "TransformGraph", "Model", "ModelEvaluation",
        "InfraBlessing", "ModelBlessing", "PushedModel", "String",
    } <= artifacts  # fmt: skip


def test_lineage_leads_from_the_pushed_model_back_to_the_spans(
    taxi: Story, store: metadata_store.MetadataStore
) -> None:
    (pushed,) = store.get_artifacts_by_uri(str(taxi.first.uri("Pusher", "pushed_model")))
    run = store.get_context_by_type_and_name("pipeline_run", taxi.first.run.run_id)
    of_run = {execution.id for execution in store.get_executions_by_context(run.id)}
    seen: set[int] = set()
    waiting = [pushed.id]
    while waiting:
        artifact = waiting.pop()
        events = store.get_events_by_artifact_ids([artifact])
        makers = [e.execution_id for e in events if e.type == mlmd.Event.OUTPUT and e.execution_id in of_run]
        seen.add(artifact)
        used = store.get_events_by_execution_ids(makers)
        waiting += [e.artifact_id for e in used if e.type == mlmd.Event.INPUT and e.artifact_id not in seen]
    names = {kind.id: kind.name for kind in store.get_artifact_types()}
    found = store.get_artifacts_by_id(list(seen))
    assert {names[artifact.type_id] for artifact in found} >= {"PushedModel", "Model", "TransformGraph", "Examples"}
    assert str(taxi.first.uri("Spans", "spans")) in {artifact.uri for artifact in found}
    assert pushed.custom_properties["pushed_version"].string_value == taxi.versions[0]


def test_tfx_reads_outputs_and_parameters_of_an_execution(taxi: Story) -> None:
    connection = tfx_metadata.sqlite_metadata_connection_config(str(taxi.home / "metadata.sqlite"))
    with tfx_metadata.Metadata(connection) as handle:
        node = handle.store.get_context_by_type_and_name("node", "chicago-taxi.ExampleGen")
        first, second = sorted(handle.store.get_executions_by_context(node.id), key=lambda execution: execution.id)
        for execution in (first, second):
            (examples,) = execution_lib.get_output_artifacts(handle, execution.id)["examples"]
            assert examples.type_name == "Examples"
            assert examples.split_names == '["train", "eval", "test"]'
            assert examples.uri == str(taxi.first.uri("ExampleGen", "examples"))
            (spans,) = execution_lib.get_input_artifacts(handle, execution.id)["spans"]
            assert spans.type_name == "String"
        data = json.loads(first.custom_properties["data"].string_value)
        assert data["source"]["path"].startswith("pkg://tfx/")
