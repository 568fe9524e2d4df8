"""The data gate as a component, over statistics and anomalies that TFX made, and anomalies of a curated schema."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import beam_here
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from gate_data import BINARY, Rows, lists
from google.protobuf import text_format
from tensorflow_data_validation.statistics.stats_impl import generate_statistics_in_memory
from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tensorflow_metadata.proto.v0.schema_pb2 import Schema
from tfx.components.example_validator.executor import Executor as ExampleValidator
from tfx.components.schema_gen.import_schema_gen.executor import Executor as ImportSchemaGen
from tfx.components.statistics_gen.executor import Executor as StatisticsGen
from tfx.types import artifact_utils, standard_artifacts

from headrace.common.errors import GateError
from headrace.components.gates.data_gate import DataGate, describe, find_anomalies
from headrace.components.gates.data_rules import DataAnomaly, SplitStatistics, schema_anomalies
from headrace.configs.schema.label import LabelConfig

SCHEMA = """
feature { name: "fare" type: INT }
feature { name: "pay" type: BYTES domain: "pay" presence { min_fraction: 1 min_count: 1 } }
feature { name: "hour" type: INT int_domain { min: 0 max: 23 } }
feature { name: "gone" type: INT presence { min_fraction: 0.5 min_count: 1 } }
feature { name: "y" type: INT presence { min_fraction: 1 min_count: 1 } }
string_domain { name: "pay" value: "Cash" value: "Card" }
"""
TRAIN: Rows = {"fare": [1.5, 2.0, 3.0], "pay": ["Cash", "Card", "Bitcoin"], "hour": [0, 24, 5], "y": [0, 1, 0]}
EVAL: Rows = {"fare": [1.5, 2.5], "pay": ["Cash", "Card"], "hour": [1, 2], "y": [0, 1]}


def test_differences_from_a_curated_schema_are_named_by_column_rule_and_values() -> None:
    schema = text_format.Parse(SCHEMA, Schema())
    arrays = {key: lists(values) for key, values in TRAIN.items()}
    statistics = generate_statistics_in_memory(pa.RecordBatch.from_pydict(arrays), tfdv.StatsOptions())
    anomalies = tfdv.validate_statistics(statistics, schema)
    found = find_anomalies([SplitStatistics.of("train", statistics.datasets)], {"train": anomalies}, BINARY, ())
    assert [(each.column, each.rule, each.what) for each in found] == [
        ("fare", "Unexpected data type", "Expected data of type: INT but got FLOAT"),
        ("gone", "Column dropped", "Column is completely missing"),
        ("hour", "Out-of-range values", "Unexpectedly large value: 24."),
        ("pay", "Unexpected string values", "Examples contain values missing from the schema: Bitcoin (~33%)."),
    ]


def test_anomalies_are_in_the_columns_order_whatever_order_their_map_has() -> None:
    names = [f"x{number:02}" for number in range(40)]
    orders = []
    for order in (names, names[::-1]):
        anomalies = Anomalies()
        for name in order:
            anomalies.anomaly_info[name].short_description = "Column dropped"
        orders.append([anomaly.column for anomaly in schema_anomalies("train", anomalies)])
    assert orders == [names, names]


def _examples(directory: Path, **splits: Rows) -> standard_artifacts.Examples:
    artifact = standard_artifacts.Examples()
    artifact.uri, artifact.split_names = str(directory), artifact_utils.encode_split_names(list(splits))
    for name, columns in splits.items():
        path = directory / f"Split-{name}" / "data_tfrecord-00000-of-00001.gz"
        path.parent.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for row in zip(*columns.values(), strict=True):
                writer.write(_example(dict(zip(columns, row, strict=True))))
    return artifact


def _example(row: dict[str, Any]) -> bytes:
    example = tf.train.Example()
    for column, value in row.items():
        feature = example.features.feature[column]
        if isinstance(value, str):
            feature.bytes_list.value.append(value.encode())
        elif isinstance(value, float):
            feature.float_list.value.append(value)
        else:
            feature.int64_list.value.append(value)
    return example.SerializeToString()


class _InProcess(StatisticsGen):
    def _make_beam_pipeline(self) -> beam.Pipeline:
        return beam_here.pipeline()


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What TFX's own components make of TRAIN and EVAL under SCHEMA."""
    root = tmp_path_factory.mktemp("validated")
    (root / "curated.pbtxt").write_text(SCHEMA)
    statistics, anomalies = standard_artifacts.ExampleStatistics(), standard_artifacts.ExampleAnomalies()
    schema = standard_artifacts.Schema()
    statistics.uri, anomalies.uri, schema.uri = (str(root / name) for name in ("statistics", "anomalies", "schema"))
    examples = _examples(root / "examples", train=TRAIN, eval=EVAL)
    _InProcess().Do({"examples": [examples]}, {"statistics": [statistics]}, {})
    ImportSchemaGen().Do({}, {"schema": [schema]}, {"schema_file": str(root / "curated.pbtxt")})
    ExampleValidator().Do({"statistics": [statistics], "schema": [schema]}, {"anomalies": [anomalies]}, {})
    return {"statistics": [statistics], "anomalies": [anomalies]}


def _gate(inputs: dict[str, Any], directory: Path, on_anomaly: str, label: LabelConfig = BINARY) -> dict[str, Any]:
    verdict = standard_artifacts.String()
    verdict.uri = str(directory / "value")
    properties = {"label": label.model_dump_json(), "columns": json.dumps(["fare"]), "single": "{}", "rounded": "{}"}
    properties["on_anomaly"] = on_anomaly
    DataGate.EXECUTOR_SPEC.executor_class().Do(inputs, {"verdict": [verdict]}, properties)
    return json.loads(Path(verdict.uri).read_text(encoding="utf-8"))


def test_the_component_stops_the_run_with_a_line_for_each_anomaly(validated: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(GateError) as error:
        _gate(validated, tmp_path, "stop")
    lines = str(error.value).splitlines()
    assert lines[0] == "the data is unfit for training (6 anomalies):"
    assert (
        "  column 'pay', split train: Unexpected string values: "
        "Examples contain values missing from the schema: Bitcoin (~33%)."
    ) in lines
    assert "  column 'hour', split train: Out-of-range values: Unexpectedly large value: 24." in lines
    assert "  column 'gone', split eval: Column dropped: Column is completely missing" in lines
    assert "`data.on_anomaly: warn`" in lines[-1]
    verdict = json.loads((tmp_path / "value").read_text(encoding="utf-8"))
    assert (verdict["action"], verdict["stopped"], len(verdict["anomalies"])) == ("stop", True, 6)
    assert {"split": "eval", "column": "gone"}.items() <= verdict["anomalies"][-1].items()


def test_component_with_on_anomaly_warn_only_warns(
    validated: dict[str, Any], tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    verdict = _gate(validated, tmp_path, "warn")
    assert (verdict["action"], verdict["stopped"], len(verdict["anomalies"])) == ("warn", False, 6)
    what = {"rule": "Column dropped", "what": "Column is completely missing"}
    assert {"split": "eval", "column": "gone", **what, "stops": True} in verdict["anomalies"]
    assert "column 'gone', split eval" in log.text


def test_a_note_does_not_stop_the_run(tmp_path: Path) -> None:
    note = DataAnomaly("train", "y", "Digits lost", "they do", stops=False)
    assert describe([note]) == "note: column 'y', split train: Digits lost: they do"
    assert "(1 anomaly)" in describe([note, DataAnomaly("eval", "", "Empty split", "no examples")])
    statistics = standard_artifacts.ExampleStatistics()
    statistics.uri, statistics.split_names = str(tmp_path / "statistics"), '["train"]'
    columns = {"y": lists((1_700_000_000 + 7 * np.arange(1600)).tolist()), "fare": lists([1.5] * 1600)}
    made = generate_statistics_in_memory(pa.RecordBatch.from_pydict(columns), tfdv.StatsOptions())
    (tmp_path / "statistics" / "Split-train").mkdir(parents=True)
    (tmp_path / "statistics" / "Split-train" / "FeatureStats.pb").write_bytes(made.SerializeToString())
    empty = standard_artifacts.ExampleAnomalies()
    empty.split_names = "[]"
    inputs = {"statistics": [statistics], "anomalies": [empty]}
    (found,) = _gate(inputs, tmp_path, "stop", LabelConfig(key="y", kind="regression"))["anomalies"]
    assert (found["column"], found["stops"]) == ("y", False)
