"""The data gate, over statistics and anomalies that TFDV made."""

import json
import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_data_validation.statistics.stats_impl import generate_statistics_in_memory
from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tensorflow_metadata.proto.v0.schema_pb2 import Schema
from tfx.components.example_validator.executor import Executor as ExampleValidator
from tfx.components.schema_gen.import_schema_gen.executor import Executor as ImportSchemaGen
from tfx.components.statistics_gen.executor import Executor as StatisticsGen
from tfx.types import artifact_utils, standard_artifacts

from headrace.common.errors import GateError
from headrace.components.gates.data_gate import DataGate, describe, find_anomalies
from headrace.components.gates.data_rules import DataAnomaly, SplitStatistics
from headrace.components.gates.float32_rules import TOO_COARSE, digits_lost
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.label import LabelConfig

BINARY = LabelConfig(key="y", kind="binary")
WAY_OUT = "; `label.missing: drop` leaves such rows out"
Rows = dict[str, list[Any]]


def _split(name: str, columns: Rows) -> SplitStatistics:
    arrays = {key: _lists(values) for key, values in columns.items()}
    statistics = generate_statistics_in_memory(pa.RecordBatch.from_pydict(arrays), tfdv.StatsOptions())
    return SplitStatistics.of(name, statistics.datasets)


def _lists(values: list[Any]) -> pa.Array:
    """A missing value is an empty list, as in our examples; a column without any value has no kind."""
    if all(value is None for value in values):
        return pa.nulls(len(values))
    return pa.array([[] if value is None else [value] for value in values])


def _judge(label: LabelConfig, columns: tuple[str, ...] = (), **splits: Rows) -> list[tuple[str, str, str, str]]:
    found = find_anomalies([_split(name, rows) for name, rows in splits.items()], {}, label, columns)
    return [(each.split, each.column, each.rule, each.what) for each in found]


def test_clean_data_passes() -> None:
    assert (
        _judge(BINARY, ("x",), train={"y": [0, 1, 1], "x": [1.0, None, 2.0]}, eval={"y": [1, 1], "x": [1.0, 2.0]}) == []
    )


def test_several_values_under_one_number_are_named_with_the_ways_out() -> None:
    lists = {"y": [[0], [1], [1]], "x": [[1.0, 2.0, 3.0], [2.0], []], "tags": [["a", "b"], ["a"], ["b"]]}
    arrays = {name: pa.array(values) for name, values in lists.items()}
    statistics = generate_statistics_in_memory(pa.RecordBatch.from_pydict(arrays), tfdv.StatsOptions())
    train = SplitStatistics.of("train", statistics.datasets)
    (found,) = find_anomalies([train], {}, BINARY, ("x", "tags"), {"x": "speed"})
    assert (found.split, found.column, found.rule) == ("train", "x", "Multiple values")
    for word in ("up to 3 values", "features.speed", "multivalued", "vector"):
        assert word in found.what
    (of_label,) = find_anomalies([train], {}, LabelConfig(key="tags", kind="multiclass", classes=("a", "b")), ("x",))
    assert (of_label.column, of_label.rule) == ("tags", "Multiple values")
    assert find_anomalies([train], {}, BINARY, ("x", "tags")) == []


def test_a_missing_label_is_counted_and_shared() -> None:
    found = _judge(BINARY, train={"y": [0, 1, None, 1]}, eval={"x": [1]})
    assert found == [
        ("train", "y", "Label missing", f"missing in 1 of 4 examples (25.00%){WAY_OUT}"),
        ("eval", "y", "Label missing", f"missing in 1 of 1 examples (100.00%){WAY_OUT}"),
    ]


@pytest.mark.parametrize(
    ("weights", "rule", "what"),
    [
        ([1.0, None, 0.5, float("nan")], "Weight missing", "missing in 2 of 4 examples (50.00%); fill it in, "),
        ([1, 2, -3, 1], "Weight negative", "as low as -3; weights are numbers from 0 up"),
        ([0, 0, 0, 0], "All weights are 0", "no example counts, "),
        (["1", "2", "a", "3"], "Weight is not a number", "the column holds text; see `data.types.w`"),
        ([1.0, 2.0, float("inf"), 1.0], "Infinite values", "inf or -inf in about 1 of 4 examples; "),
    ],
)
def test_weights_that_cannot_be_used_are_named_with_the_reason(weights: list[Any], rule: str, what: str) -> None:
    label = LabelConfig(key="y", kind="binary", weight="w")
    (found,) = _judge(label, train={"y": [0, 1, 0, 1], "w": weights})
    assert found[:3] == ("train", "w", rule)
    assert found[3].startswith(what)
    assert _judge(label, train={"y": [0, 1, 0, 1], "w": [0.0, 0.5, 2.0, 1e9]}) == []


def test_a_nan_label_is_a_missing_one() -> None:
    label = LabelConfig(key="y", kind="regression")
    found = _judge(label, train={"y": [0.5, float("nan"), 1.5]}, eval={"y": [1.0, 2.0]})
    assert found == [("train", "y", "Label missing", f"missing in 1 of 3 examples (33.33%){WAY_OUT}")]


@pytest.mark.parametrize(
    ("label", "values", "what"),
    [
        ({"kind": "binary"}, [0, 1, 2], "numbers from 0 to 2; the classes are 0, 1"),
        ({"kind": "binary"}, [-1, 0, 1], "numbers from -1 to 1; the classes are 0, 1"),
        ({"kind": "binary"}, [0.0, 0.5, 1.0], "numbers from 0 to 1, some between the classes; the classes are 0, 1"),
        ({"kind": "binary"}, ["yes", "0", "1"], "yes; the classes are 0, 1"),
        ({"kind": "binary", "classes": ("no", "yes")}, ["yes", "Yes", "no"], "Yes; the classes are no, yes"),
        ({"kind": "binary", "classes": ("no", "yes")}, [0, 1, 1], "numbers from 0 to 1; the classes are no, yes"),
        (
            {"kind": "multiclass", "classes": 7},
            [0, 7, 1],
            "numbers from 0 to 7; the classes are 0, 1, 2, 3, 4 and 2 more",
        ),
        (
            {"kind": "multiclass", "classes": (1, 50, 90)},
            [1, 50, 90, 30],
            "numbers from 1 to 90, some between 27.7 and 36.6",
        ),
        (
            {"kind": "multiclass", "classes": ("a", "b")},
            [*"abccccccdddddeeeefffggh"],
            "c, d, e, f, g and 1 more; the classes are a, b",
        ),
    ],
)
def test_label_values_outside_the_classes_are_named(label: dict[str, Any], values: list[Any], what: str) -> None:
    found = _judge(LabelConfig(key="y", **label), train={"y": values})
    assert [(split, rule) for split, _, rule, _ in found] == [("train", "Label outside its classes")]
    assert found[0][3].startswith(what)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0, 1]), min_size=2, max_size=300), st.integers(0, 299), st.sampled_from([0.001, 0.5]))
def test_binary_labels_pass_exactly_when_each_is_zero_or_one(labels: list[int], place: int, odd: float) -> None:
    values = [0.0, 1.0, *map(float, labels)]
    assert not _judge(BINARY, train={"y": values})
    values[2 + place % len(labels)] = odd
    assert [rule for _, _, rule, _ in _judge(BINARY, train={"y": values})] == ["Label outside its classes"]


def test_one_wrong_label_among_a_million_is_found() -> None:
    values = np.random.default_rng(0).integers(0, 2, 1_000_000).astype(np.float32)
    flat = pa.ListArray.from_arrays(np.arange(len(values) + 1, dtype=np.int32), values)
    clean = generate_statistics_in_memory(pa.RecordBatch.from_pydict({"y": flat}), tfdv.StatsOptions())
    assert find_anomalies([SplitStatistics.of("train", clean.datasets)], {}, BINARY, ()) == []
    values[77] = 0.5
    flat = pa.ListArray.from_arrays(np.arange(len(values) + 1, dtype=np.int32), values)
    odd = generate_statistics_in_memory(pa.RecordBatch.from_pydict({"y": flat}), tfdv.StatsOptions())
    assert [each.rule for each in find_anomalies([SplitStatistics.of("train", odd.datasets)], {}, BINARY, ())] == [
        "Label outside its classes"
    ]


def test_text_is_not_a_label_for_a_regression() -> None:
    found = _judge(LabelConfig(key="y", kind="regression"), train={"y": ["a", "b"]})
    ((split, column, rule, what),) = found
    assert (split, column, rule) == ("train", "y", "Label is not a number")
    assert what.endswith("text, such as b, a")


@pytest.mark.parametrize("values", [[1, 1, 1], ["1", "1"], [1.0, 1.0]])
def test_a_label_that_never_changes_in_train_is_found(values: list[Any]) -> None:
    found = _judge(BINARY, train={"y": values}, eval={"y": values})
    assert found == [("train", "y", "Label constant", "every example has 1: there is nothing to learn")]


def test_a_split_without_examples_is_found() -> None:
    splits = [_split("train", {"y": [0, 1]}), SplitStatistics.of("eval", [])]
    (found,) = find_anomalies(splits, {"eval": Anomalies(data_missing=True)}, BINARY, ("y",))
    assert (found.split, found.column, found.rule, found.stops) == ("eval", "", "Empty split", True)
    assert "`data.splits`" in found.what


def test_a_feature_column_without_values_is_found_and_an_unused_one_is_not() -> None:
    rows: Rows = {"y": [0, 1], "x": [None, None], "unused": [None, None]}
    ((split, column, rule, what),) = _judge(BINARY, ("x",), train=rows)
    assert (split, column, rule) == ("train", "x", "Column entirely missing")
    assert "2 examples" in what


def test_a_column_that_vanishes_outside_train_is_found_unless_it_is_rare() -> None:
    train: Rows = {"y": [0, 1] * 50, "often": [1.0] * 100, "rare": [1.0] + [None] * 99}
    found = _judge(BINARY, ("often", "rare"), train=train, eval={"y": [0, 1] * 10})
    assert [(split, column) for split, column, _, _ in found] == [("eval", "often")]


INF = float("inf")


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([1.0, 2.0, INF, 3.0], 1),
        ([1.0, -INF, INF, 3.0, float("nan"), INF], 3),
        ([INF, INF], 2),
        ([-INF, 1.0], 1),
        ([None, -INF] * 50, 50),
    ],
)
def test_infinite_values_of_a_feature_are_counted_and_those_of_an_unused_column_are_not(
    values: list[Any], count: int
) -> None:
    rows: Rows = {"y": [0, 1] * (len(values) // 2), "x": values, "unused": values}
    ((split, column, rule, what),) = _judge(BINARY, ("x",), train=rows)
    assert (split, column, rule) == ("train", "x", "Infinite values")
    assert what.startswith(f"inf or -inf in about {count} of {len(values)} examples")


def test_an_infinite_label_of_a_regression_is_found() -> None:
    found = _judge(LabelConfig(key="y", kind="regression"), train={"y": [1.0, INF, 2.0]}, eval={"y": [1.0, 2.0]})
    assert [(split, column, rule) for split, column, rule, _ in found] == [("train", "y", "Infinite values")]


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
    arrays = {key: _lists(values) for key, values in TRAIN.items()}
    statistics = generate_statistics_in_memory(pa.RecordBatch.from_pydict(arrays), tfdv.StatsOptions())
    anomalies = tfdv.validate_statistics(statistics, schema)
    found = find_anomalies([SplitStatistics.of("train", statistics.datasets)], {"train": anomalies}, BINARY, ())
    assert sorted((each.column, each.rule, each.what) for each in found) == [
        ("fare", "Unexpected data type", "Expected data of type: INT but got FLOAT"),
        ("gone", "Column dropped", "Column is completely missing"),
        ("hour", "Out-of-range values", "Unexpectedly large value: 24."),
        ("pay", "Unexpected string values", "Examples contain values missing from the schema: Bitcoin (~33%)."),
    ]


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
        return beam.Pipeline(runner="FnApiRunner")


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
    assert not (tmp_path / "value").exists()


def test_component_with_on_anomaly_warn_only_warns(
    validated: dict[str, Any], tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    verdict = _gate(validated, tmp_path, "warn")
    assert (verdict["action"], verdict["stopped"], len(verdict["anomalies"])) == ("warn", False, 6)
    what = {"rule": "Column dropped", "what": "Column is completely missing"}
    assert {"split": "eval", "column": "gone", **what, "stops": True} in verdict["anomalies"]
    assert "column 'gone', split eval" in log.text


REGRESSION = LabelConfig(key="y", kind="regression")
SECONDS = 1_700_000_000


def _rounded(values: Any, *, normalize: str | None = None) -> list[DataAnomaly]:
    """What is said of integers as the label of a regression, or under a feature with this `normalize`."""
    column = "y" if normalize is None else "x"
    train = _split("train", {"y": [0.0, 1.0] * (len(values) // 2), column: [*values]})
    rounded = {} if normalize is None else {"x": ("when", normalize)}
    return [*digits_lost([train], REGRESSION, rounded)]


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        (SECONDS + np.arange(200) % 40, True),  # two different float32
        (-SECONDS - np.arange(200) % 40, True),
        (SECONDS + 7 * np.arange(1600), False),  # 88
        (SECONDS + 864 * np.arange(100), False),  # a day
        (2**60 + np.arange(0, 400, 2), True),
        (SECONDS * 1000 + np.arange(0, 1000, 5), True),
    ],
)
@pytest.mark.parametrize("normalize", [None, "none", "log"])
def test_integers_that_become_the_same_float32_are_found_with_two_of_them_and_the_way_out(
    values: np.ndarray, stops: bool, normalize: str | None
) -> None:
    stored = {None: values, "none": values, "log": np.log1p(np.abs(values).astype(np.float64))}[normalize]
    share = np.sqrt(np.mean((stored - stored.astype(np.float32).astype(np.float64)) ** 2)) / stored.std()
    (found,) = _rounded(values.tolist(), normalize=normalize)
    assert (found.split, found.column, found.rule) == ("train", "y" if normalize is None else "x", "Digits lost")
    assert normalize == "log" or found.stops == stops == (share > TOO_COARSE)
    one, other = (int(number.replace(",", "")) for number in re.findall(r"-?[\d,]{9,}(?= and| become)", found.what))
    assert abs(one - other) == 1
    assert values.min() <= min(one, other)
    if normalize != "log":
        assert np.float32(one) == np.float32(other)
    else:
        assert np.float32(np.log1p(abs(one))) == np.float32(np.log1p(abs(other)))
    assert ("`label`" if normalize is None else "`features.when`") in found.what
    assert "subtract an offset" in found.what.lower()
    assert ("z_score" in found.what) == (normalize is not None)


@pytest.mark.parametrize(
    "values",
    [
        2**24 - np.arange(2**22, step=2**12),  # float32 holds each
        np.arange(0, 2**24, 2**17),
        np.random.default_rng(0).integers(0, 10**12, 1000),
        np.random.default_rng(0).integers(-(10**12), 10**12, 1000),
        np.random.default_rng(0).lognormal(5, 4, 1000).astype(np.int64),
        SECONDS + 86400 * np.arange(400),  # a year, in days
    ],
)
@pytest.mark.parametrize("normalize", [None, "none", "log"])
def test_integers_that_stay_apart_or_spread_widely_are_not_found(values: np.ndarray, normalize: str | None) -> None:
    assert _rounded(values.tolist(), normalize=normalize) == []


@pytest.mark.parametrize("normalize", ["z_score", "min_max"])
def test_scaled_features_keep_their_digits_and_float_columns_are_noted_when_they_are_read(normalize: str) -> None:
    feature = {"column": "numeric", "normalize": normalize}
    plain = {"raw": {"column": "numeric", "normalize": "none", "key": "x"}}
    config = PipelineConfig.model_validate(
        {
            "pipeline": {"name": "a"},
            "data": {"source": {"kind": "csv", "path": "a.csv"}},
            "label": {"key": "y", "kind": "regression"},
            "features": {"x": feature, **plain, "z": feature},
        }
    )
    assert config.rounded_columns == {"x": ("raw", "none")}
    assert _rounded((SECONDS + np.arange(200.0) % 40).astype(np.float32).tolist(), normalize="none") == []


def test_a_note_does_not_stop_the_run(tmp_path: Path) -> None:
    note = DataAnomaly("train", "y", "Digits lost", "they do", stops=False)
    assert describe([note]) == "note: column 'y', split train: Digits lost: they do"
    assert "(1 anomaly)" in describe([note, DataAnomaly("eval", "", "Empty split", "no examples")])
    statistics = standard_artifacts.ExampleStatistics()
    statistics.uri, statistics.split_names = str(tmp_path / "statistics"), '["train"]'
    columns = {"y": _lists((SECONDS + 7 * np.arange(1600)).tolist()), "fare": _lists([1.5] * 1600)}
    made = generate_statistics_in_memory(pa.RecordBatch.from_pydict(columns), tfdv.StatsOptions())
    (tmp_path / "statistics" / "Split-train").mkdir(parents=True)
    (tmp_path / "statistics" / "Split-train" / "FeatureStats.pb").write_bytes(made.SerializeToString())
    empty = standard_artifacts.ExampleAnomalies()
    empty.split_names = "[]"
    inputs = {"statistics": [statistics], "anomalies": [empty]}
    (found,) = _gate(inputs, tmp_path, "stop", REGRESSION)["anomalies"]
    assert (found["column"], found["stops"]) == ("y", False)


def test_one_anomaly_is_described_in_the_singular() -> None:
    assert describe([DataAnomaly("eval", "", "Empty split", "no examples")]).splitlines()[:2] == [
        "the data is unfit for training (1 anomaly):",
        "  split eval: Empty split: no examples",
    ]
