"""The rules of the data gate, over statistics that TFDV made."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow_data_validation as tfdv
from gate_data import BINARY, WAY_OUT, Rows, judge, split
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import says
from tensorflow_data_validation.statistics.stats_impl import generate_statistics_in_memory
from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies

from headrace.components.gates.data_gate import describe, find_anomalies
from headrace.components.gates.data_rules import DataAnomaly, SplitStatistics
from headrace.configs.schema.label import LabelConfig


def test_clean_data_passes() -> None:
    assert (
        judge(BINARY, ("x",), train={"y": [0, 1, 1], "x": [1.0, None, 2.0]}, eval={"y": [1, 1], "x": [1.0, 2.0]}) == []
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


def test_several_labels_in_an_example_are_judged_each_by_itself() -> None:
    lists = {
        "y": pa.array([["a", "c"], ["b"], [], None, ["a"]]),
        "z": pa.array([["a|b"], [" b | d"], ["|"], None, ["a"]]),
    }
    statistics = generate_statistics_in_memory(pa.RecordBatch.from_pydict(lists), tfdv.StatsOptions())
    train = SplitStatistics.of("train", statistics.datasets)

    def rules(classes: str, key: str = "y", **settings: Any) -> list[tuple[str, str]]:
        label = LabelConfig(key=key, kind="multilabel", classes=tuple(classes), **settings)
        return [(one.rule, one.what) for one in find_anomalies([train], {}, label, ())]

    (missing,) = rules("abc")
    assert missing[0] == "Label missing"
    assert says(missing[1], "missing in 1 of 5 examples, …empty list…`none` …no class")
    assert rules("abc", missing="none") == []
    assert rules("ab", missing="none") == [("Label outside its classes", "c; the classes are a, b")]
    assert rules("abd", "z", separator="|", missing="none") == []
    assert rules("ab", "z", separator="|", missing="none") == [("Label outside its classes", "d; the classes are a, b")]


def test_lists_that_are_always_the_same_class_are_constant_unless_some_have_none() -> None:
    label = LabelConfig(key="y", kind="multilabel", classes=("a", "b"), missing="none")
    assert [rule for _, _, rule, _ in judge(label, train={"y": ["a", "a"]})] == ["Label constant"]
    assert judge(label, train={"y": ["a", None]}) == []


def test_a_missing_label_is_counted_and_shared() -> None:
    found = judge(BINARY, train={"y": [0, 1, None, 1]}, eval={"x": [1]})
    assert found == [
        ("train", "y", "Label missing", f"missing in 1 of 4 examples (25.00%){WAY_OUT}"),
        ("eval", "y", "Label missing", f"missing in 1 of 1 examples (100.00%){WAY_OUT}"),
    ]


@pytest.mark.parametrize(
    ("weights", "rule", "what"),
    [
        ([1.0, None, 0.5, float("nan")], "Weight missing", "missing in 2 of 4 examples (50.00%); fill it in, "),
        ([1, 2, -3, 1], "Weight negative", "as low as -3; "),
        ([0, 0, 0, 0], "All weights are 0", "no example counts, "),
        (["1", "2", "a", "3"], "Weight is not a number", "the column holds text; see `data.types.w`"),
        ([1.0, 2.0, float("inf"), 1.0], "Infinite values", "inf or -inf in about 1 of 4 examples; "),
    ],
)
def test_weights_that_cannot_be_used_are_named_with_the_reason(weights: list[Any], rule: str, what: str) -> None:
    label = LabelConfig(key="y", kind="binary", weight="w")
    (found,) = judge(label, train={"y": [0, 1, 0, 1], "w": weights})
    assert found[:3] == ("train", "w", rule)
    assert found[3].startswith(what)
    assert judge(label, train={"y": [0, 1, 0, 1], "w": [0.0, 0.5, 2.0, 1e9]}) == []


def test_a_nan_label_is_a_missing_one() -> None:
    label = LabelConfig(key="y", kind="regression")
    found = judge(label, train={"y": [0.5, float("nan"), 1.5]}, eval={"y": [1.0, 2.0]})
    assert found == [("train", "y", "Label missing", f"missing in 1 of 3 examples (33.33%){WAY_OUT}")]


@pytest.mark.parametrize(
    ("label", "values", "what"),
    [
        ({"kind": "binary"}, [0, 1, 2], "numbers from 0 to 2; the classes are 0, 1"),
        ({"kind": "binary"}, [-1, 0, 1], "numbers from -1 to 1; the classes are 0, 1"),
        ({"kind": "binary"}, [0.0, 0.5, 1.0], "numbers from 0 to 1, some between "),
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
    found = judge(LabelConfig(key="y", **label), train={"y": values})
    assert [(split, rule) for split, _, rule, _ in found] == [("train", "Label outside its classes")]
    assert found[0][3].startswith(what)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0, 1]), min_size=2, max_size=300), st.integers(0, 299), st.sampled_from([0.001, 0.5]))
def test_binary_labels_pass_exactly_when_each_is_zero_or_one(labels: list[int], place: int, odd: float) -> None:
    values = [0.0, 1.0, *map(float, labels)]
    assert not judge(BINARY, train={"y": values})
    values[2 + place % len(labels)] = odd
    assert [rule for _, _, rule, _ in judge(BINARY, train={"y": values})] == ["Label outside its classes"]


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


def test_a_number_is_not_a_text() -> None:
    ((split, column, rule, what),) = judge(LabelConfig(key="y", kind="text"), train={"y": [1, 2]})
    assert (split, column, rule) == ("train", "y", "Label is not a text")
    assert "data.types" in what
    assert judge(LabelConfig(key="y", kind="text"), train={"y": ["a b", "c"]}) == []


def test_text_is_not_a_label_for_a_regression() -> None:
    found = judge(LabelConfig(key="y", kind="regression"), train={"y": ["a", "b"]})
    ((split, column, rule, what),) = found
    assert (split, column, rule) == ("train", "y", "Label is not a number")
    assert what.endswith("text, such as b, a")


@pytest.mark.parametrize("values", [[1, 1, 1], ["1", "1"], [1.0, 1.0]])
def test_a_label_that_never_changes_in_train_is_found(values: list[Any]) -> None:
    found = judge(BINARY, train={"y": values}, eval={"y": values})
    assert [(*place, what[:19]) for *place, what in found] == [("train", "y", "Label constant", "every example has 1")]


def test_a_split_without_examples_is_found() -> None:
    splits = [split("train", {"y": [0, 1]}), SplitStatistics.of("eval", [])]
    (found,) = find_anomalies(splits, {"eval": Anomalies(data_missing=True)}, BINARY, ("y",))
    assert (found.split, found.column, found.rule, found.stops) == ("eval", "", "Empty split", True)
    assert "`data.splits`" in found.what


def test_a_feature_column_without_values_is_found_and_an_unused_one_is_not() -> None:
    rows: Rows = {"y": [0, 1], "x": [None, None], "unused": [None, None]}
    ((split, column, rule, what),) = judge(BINARY, ("x",), train=rows)
    assert (split, column, rule) == ("train", "x", "Column entirely missing")
    assert "2 examples" in what


def test_a_column_that_vanishes_outside_train_is_found_unless_it_is_rare() -> None:
    train: Rows = {"y": [0, 1] * 50, "often": [1.0] * 100, "rare": [1.0] + [None] * 99}
    found = judge(BINARY, ("often", "rare"), train=train, eval={"y": [0, 1] * 10})
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
    ((split, column, rule, what),) = judge(BINARY, ("x",), train=rows)
    assert (split, column, rule) == ("train", "x", "Infinite values")
    assert what.startswith(f"inf or -inf in about {count} of {len(values)} examples")


def test_an_infinite_label_of_a_regression_is_found() -> None:
    found = judge(LabelConfig(key="y", kind="regression"), train={"y": [1.0, INF, 2.0]}, eval={"y": [1.0, 2.0]})
    assert [(split, column, rule) for split, column, rule, _ in found] == [("train", "y", "Infinite values")]


def test_one_anomaly_is_described_in_the_singular() -> None:
    assert describe([DataAnomaly("eval", "", "Empty split", "no examples")]).splitlines()[:2] == [
        "the data is unfit for training (1 anomaly):",
        "  split eval: Empty split: no examples",
    ]
