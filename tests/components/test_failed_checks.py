"""The messages of a model's checks, as TensorFlow reports them from a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.components.canary.caller import first_line
from headrace.components.failed_checks import check_of_feature, columns_with_several_values
from headrace.components.transform.example_errors import short_message
from headrace.configs.schema.features import VectorFeature
from headrace.trainer import columns
from headrace.trainer.columns import Batch
from headrace.trainer.signatures import MULTIPLE_VALUES

NAMES = ["age", "user.age", "trip miles", "x[1]", "a] [b", "it's", 'so "called"', 'it\'s "so"', "a\\b", "größe 名"]


def refusal(check: Callable[[tf.Tensor], tf.Operation]) -> str:
    """What TensorFlow reports of a check that fails within a graph."""

    @tf.function
    def checked(zero: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([check(zero)]):
            return tf.constant(1)

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        checked(tf.constant(0))
    return str(caught.value.message)


@pytest.mark.parametrize("name", NAMES)
def test_a_check_of_a_feature_is_found_whole_whatever_its_column_is_called(name: str) -> None:
    message = f"features.v: data column {name!r} holds something that is not an image"
    several = f"column {name!r}, of which `features.v` takes one"
    plain = refusal(lambda zero: tf.debugging.Assert(zero > 0, [message]))
    compared = refusal(lambda zero: tf.debugging.assert_equal(zero, 1, message))
    data = [MULTIPLE_VALUES, tf.constant([several] * 5), tf.constant([2] * 5)]
    listed = refusal(lambda zero: tf.debugging.Assert(zero > 0, data, summarize=10))
    assert [check_of_feature(text) for text in (plain, compared)] == [message] * 2
    assert (check_of_feature(listed.partition("features.v")[0]), columns_with_several_values(plain)) == (None, None)
    assert str(columns_with_several_values(listed)).replace(several, "…") == "…; …; …; and in 2 more columns"
    assert first_line(compared) == message
    assert first_line(listed).replace(several, "…") == f"{MULTIPLE_VALUES} …; …; …; and in 2 more columns"


@pytest.mark.parametrize("name", ["v", "x[1] of it"])
def test_a_vector_of_another_length_names_its_column_and_the_way_out(name: str) -> None:
    built = columns.build({"v": VectorFeature(column="vector", key=name, size=3, normalize="none", missing=0.0)})

    def transformed(values: Any) -> Any:
        return built["v"].transform(Batch({name: values}, built, results={}))

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.function(transformed)(tf.constant([[1.0, 2.0]]))
    expected = (
        f"features.v: column {name!r} has a list of length 2, and `size` is 3; correct the list, or leave it empty"
    )
    assert short_message(caught.value) == expected


def test_other_errors_are_none_of_these_checks() -> None:
    assert check_of_feature("no such file: features/v.txt") is None
    assert short_message(TrainingError("features.v: [a] is wrong")) == "features.v: [a] is wrong"
