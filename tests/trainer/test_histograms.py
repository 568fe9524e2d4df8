"""The histograms of weights that TensorBoard and the shared page show."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.trainer.callbacks.tensorboard import BUCKETS, MAX_VALUES, Scalars, histogram


def written(folder: Path) -> dict[tuple[str, int], np.ndarray]:
    """The tensors of the one log in a folder, by tag and step."""
    (file,) = folder.glob("events.out.tfevents.*")
    return {
        (value.tag, event.step): tf.make_ndarray(value.tensor)
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    }


def test_each_epoch_has_a_histogram_of_each_weight(tmp_path: Path) -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, name="first"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    kept: list[list[np.ndarray]] = []
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: kept.append(model.get_weights()))
    model.fit(np.ones((16, 4)), np.ones(16), epochs=2, callbacks=[Scalars(tmp_path), keep], verbose=0)
    found = written(tmp_path / "train")
    for step, weights in enumerate(kept):
        for variable, values in zip(model.weights, weights, strict=True):
            reported = found[f"weights/{variable.path}", step]
            assert reported[:, 2].sum() == values.size
            assert reported[0, 0] == pytest.approx(values.min())
            assert reported[-1, 1] == pytest.approx(values.max())
    counts, edges = np.histogram(kept[1][0], BUCKETS)
    kernel = found[f"weights/{model.weights[0].path}", 1]
    assert kernel[:, 2].tolist() == counts.tolist()
    np.testing.assert_allclose(kernel[:, 0], edges[:-1], atol=1e-6)


def test_what_is_not_finite_is_left_out_and_equal_values_are_one_bucket() -> None:
    assert histogram(np.array([np.nan, np.inf], np.float32)).shape == (0, 3)
    assert histogram(np.zeros((0,), np.float32)).shape == (0, 3)
    assert histogram(np.array([2.0, 2.0, np.nan], np.float32)).tolist() == [[2.0, 2.0, 2.0]]


def test_of_a_large_weight_a_share_is_counted() -> None:
    values = np.arange(2 * MAX_VALUES + 5, dtype=np.float32)
    assert MAX_VALUES / 2 < histogram(values)[:, 2].sum() <= MAX_VALUES
