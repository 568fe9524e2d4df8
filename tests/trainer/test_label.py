"""The label of the Transform graph, against the same rule in plain Python."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.columns import MISSING_INTEGER, Batch
from headrace.trainer.preprocessing import transform_label

WHOLE = tf.constant([[1], [0], [2], [-1], [MISSING_INTEGER]], tf.int64)
FRACTION = tf.constant([1.0, 0.0, 2.0, 0.5, math.nan])
TEXT = tf.constant(["yes", "no", "ja", "東京", ""])


def label(tensor: tf.Tensor, kind: Any, classes: Any = None) -> np.ndarray:
    return transform_label(LabelConfig(key="y", kind=kind, classes=classes), Batch({"y": tensor}, {})).numpy()


@pytest.mark.parametrize(
    ("tensor", "classes", "expected"),
    [
        (WHOLE, None, [1, 0, -1, -1, -1]),
        (WHOLE, (2, 1), [1, -1, 0, -1, -1]),
        (WHOLE, ("0", "1"), [1, 0, -1, -1, -1]),
        (FRACTION, None, [1, 0, -1, -1, -1]),
        (TEXT, ("no", "yes"), [1, 0, -1, -1, -1]),
        (TEXT, ("東京", "ja"), [-1, -1, 1, 0, -1]),
    ],
)
def test_binary_label_is_the_place_among_the_classes_as_float(
    tensor: tf.Tensor, classes: Any, expected: list[int]
) -> None:
    result = label(tensor, "binary", classes)
    assert result.dtype == np.float32
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("tensor", "classes", "expected"),
    [
        (WHOLE, 3, [1, 0, 2, -1, -1]),
        (FRACTION, 3, [1, 0, 2, -1, -1]),
        (TEXT, ("ja", "no", "yes"), [2, 1, 0, -1, -1]),
        (tf.constant(["10", "9"]), 11, [10, 9]),
    ],
)
def test_multiclass_label_is_the_class_id_as_integer(tensor: tf.Tensor, classes: Any, expected: list[int]) -> None:
    result = label(tensor, "multiclass", classes)
    assert result.dtype == np.int64
    assert result.tolist() == expected


def several(values: Any, classes: Any, **settings: Any) -> np.ndarray:
    config = LabelConfig(key="y", kind="multilabel", classes=classes, **settings)
    found = transform_label(config, Batch({"y": values}, {}))
    assert found.shape.as_list()[1] == config.num_classes
    assert found.dtype == tf.float32
    return found.numpy()


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", "x", ""]), max_size=4), min_size=1), st.booleans())
@settings(deadline=None, max_examples=30)
def test_several_classes_become_ones_and_a_row_with_another_value_is_invalid(rows: list[list[str]], none: bool) -> None:
    expected = []
    for row in rows:
        values = {value for value in row if value}
        unusable = bool(values - {"a", "b", "c"}) or not (values or none)
        expected.append([-1.0] * 3 if unusable else [float(one in values) for one in "cab"])
    missing: Any = "none" if none else "refuse"
    lists = tf.ragged.constant(rows, tf.string, ragged_rank=1).to_sparse()
    assert several(lists, ("c", "a", "b"), missing=missing).tolist() == expected
    texts = tf.constant([" / ".join(row) for row in rows])
    assert several(texts, ("c", "a", "b"), missing=missing, separator="/").tolist() == expected


def test_several_classes_may_be_numbers() -> None:
    lists = tf.ragged.constant([[3, 1], [], [MISSING_INTEGER], [1, 1], [2]], tf.int64).to_sparse()
    assert several(lists, (1, 3)).tolist() == [[1, 1], [-1, -1], [-1, -1], [1, 0], [-1, -1]]
    assert several(tf.constant(["2;0", "1", ""]), 3, separator=";").tolist() == [[1, 0, 1], [0, 1, 0], [-1, -1, -1]]
    assert several(tf.constant([[1.0], [2.0], [0.5]]), (1, 2)).tolist() == [[1, 0], [0, 1], [-1, -1]]


def test_regression_label_is_the_number_and_nan_where_missing() -> None:
    np.testing.assert_array_equal(label(WHOLE, "regression"), np.array([1, 0, 2, -1, math.nan], np.float32))
    np.testing.assert_array_equal(label(FRACTION, "regression"), FRACTION.numpy())


def test_label_that_cannot_be_read_is_an_error_with_the_way_out() -> None:
    with pytest.raises(TrainingError, match=r"label\.classes: .*'y' .*fractional numbers.*no, yes"):
        label(FRACTION, "binary", ("no", "yes"))
    with pytest.raises(TrainingError, match=r"label: data column 'y' holds text"):
        label(TEXT, "regression")
