"""The preprocessing_fn as Transform calls it: raw tensors in every form that they come in."""

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.loading.loader import load
from headrace.trainer.columns import MISSING_INTEGER
from headrace.trainer.preprocessing import preprocessing_fn
from headrace.trainer.sections import TrainerSections

LABEL = {"key": "tip", "kind": "regression"}
CONFIG = {
    "label": LABEL,
    "features": {
        "miles": {"column": "numeric", "normalize": "none", "missing": -1.0},
        "hour": {"column": "identity", "num_buckets": 24},
        "company": {"column": "hashed", "hash_buckets": 10},
        "both": {"column": "crossed", "keys": ["hour", "company"], "hash_buckets": 10},
    },
}
DENSE = {
    "miles": tf.constant([1.5, float("nan"), 3.0]),
    "hour": tf.constant([7, MISSING_INTEGER, 99], tf.int64),
    "company": tf.constant(["Blue", "", "Rød"]),
    "tip": tf.constant([0.5, 1.0, float("nan")]),
}
PRESENT = {"miles": [0, 2], "hour": [0, 2], "company": [0, 2], "tip": [0, 1]}


def sparse(values: int) -> dict[str, tf.SparseTensor]:
    """DENSE as parsed examples, with this many values in the examples that have one."""
    return {
        key: tf.SparseTensor(
            [[row, place] for row in PRESENT[key] for place in range(values)],
            tf.repeat(tf.gather(tensor, PRESENT[key]), values),
            [3, values],
        )
        for key, tensor in DENSE.items()
    }


def run(tensors: dict[str, Any]) -> dict[str, list[Any]]:
    outputs = preprocessing_fn(tensors, {"config": TrainerSections.from_json(json.dumps(CONFIG)).to_json()})
    return {key: tensor.numpy().tolist() for key, tensor in outputs.items()}


def same(outputs: dict[str, list[Any]]) -> None:
    assert list(outputs) == ["tip", "miles", "hour", "company", "both"]
    np.testing.assert_array_equal(outputs["tip"], [0.5, 1.0, float("nan")])
    assert outputs["miles"] == [1.5, -1.0, 3.0]
    assert outputs["hour"] == [7, 24, 24]
    assert outputs["company"][1] == 10
    assert outputs["both"][1:] == [10, 10]
    assert max(outputs["company"][0], outputs["both"][0]) < 10


def test_dense_and_sparse_tensors_of_every_shape_mean_the_same() -> None:
    expected = run(DENSE)
    same(expected)
    for tensors in ({key: tensor[:, tf.newaxis] for key, tensor in DENSE.items()}, sparse(1), sparse(2)):
        outputs = run(tensors)
        same(outputs)
        assert outputs["both"] == expected["both"]
        assert outputs["company"] == expected["company"]


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64])
def test_weights_are_numbers_under_the_name_of_their_column(dtype: tf.DType) -> None:
    missing = MISSING_INTEGER if dtype == tf.int64 else float("nan")
    tensors = {**DENSE, "copies": tf.constant([2, missing, 0], dtype)}
    config = {**CONFIG, "label": {**LABEL, "weight": "copies"}}
    outputs = preprocessing_fn(tensors, {"config": TrainerSections.from_json(json.dumps(config)).to_json()})
    assert outputs["copies"].dtype == tf.float32
    np.testing.assert_array_equal(outputs["copies"], [2, float("nan"), 0])


def test_weights_that_are_text_are_refused() -> None:
    config = {**CONFIG, "label": {**LABEL, "weight": "company"}}
    with pytest.raises(TrainingError, match=r"label\.weight: data column 'company' holds text"):
        preprocessing_fn(DENSE, {"config": TrainerSections.from_json(json.dumps(config)).to_json()})


def test_batch_in_which_no_example_has_a_value_is_all_missing() -> None:
    nothing = {
        key: tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.constant([], tensor.dtype), [3, 0])
        for key, tensor in DENSE.items()
    }
    outputs = run(nothing)
    assert outputs["miles"] == [-1.0] * 3
    assert outputs["hour"] == [24] * 3
    assert outputs["company"] == outputs["both"] == [10] * 3


def test_empty_batch_gives_empty_features() -> None:
    outputs = run({key: tensor[:0] for key, tensor in DENSE.items()})
    assert all(values == [] for values in outputs.values())


def test_missing_data_column_names_the_feature_that_reads_it() -> None:
    with pytest.raises(TrainingError, match=r"features\.hour: no data column 'hour'.*company, miles, tip"):
        run({key: tensor for key, tensor in DENSE.items() if key != "hour"})


def test_sections_of_a_config_come_back_from_json_as_they_were() -> None:
    config = load("configs/taxi.yaml")
    sections = TrainerSections.of(config)
    assert TrainerSections.from_json(sections.to_json()) == sections
    assert sections.features == config.features


def test_settings_that_only_the_model_uses_do_not_reach_transform() -> None:
    def for_transform(*overrides: str) -> str:
        return TrainerSections.for_transform(load("configs/taxi.yaml", overrides=overrides)).to_json()

    assert for_transform() == for_transform(
        "features.company.embedding=8", "features.pickup.deep=true", "features.company.wide=false", "train.epochs=1",
        "model.hidden=[4]", "label.missing=drop",
    )  # fmt: skip
    assert for_transform() != for_transform("label.weight=share")
    assert for_transform() != for_transform("features.company.hash_buckets=63")
