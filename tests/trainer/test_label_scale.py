"""The head of a regression model: scores around 0 become numbers on the label's scale."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.configs.schema.label import LabelConfig
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.models.layers import adapt_scale, unscale

PRICE = LabelConfig(key="price", kind="regression")


def model() -> keras.Model:
    inputs = keras.Input((1,))
    return keras.Model(inputs, unscale(inputs))


def split(labels: np.ndarray, batch: int = 7) -> InputSplit:
    dataset = tf.data.Dataset.from_tensor_slices((np.zeros(len(labels), np.float32), labels)).batch(batch)
    steps = -(-len(labels) // batch)
    return InputSplit(lambda: dataset, lambda: dataset, steps, size=len(labels), seen=lambda: len(labels))


def test_predictions_are_mean_plus_score_times_standard_deviation_of_the_train_labels() -> None:
    labels = np.random.default_rng(0).normal(350_000, 90_000, 100).astype(np.float32)
    scaled = model()
    adapt_scale(scaled, split(labels), PRICE)
    scores = np.array([[-1.0], [0.0], [2.5]], np.float32)
    expected = labels.mean() + scores * labels.std()
    assert scaled.predict(scores, verbose=0) == pytest.approx(expected, rel=1e-5)


def test_a_constant_label_is_predicted_whatever_the_score_near_zero() -> None:
    scaled = model()
    adapt_scale(scaled, split(np.full(20, 5.0, np.float32)), PRICE)
    assert scaled.predict(np.array([[0.1]], np.float32), verbose=0)[0, 0] == pytest.approx(5.0, abs=1e-6)


def test_an_endless_train_split_is_scaled_by_what_it_holds_once() -> None:
    labels = np.arange(10, dtype=np.float32)
    endless = split(labels, batch=5)
    scaled = model()
    train = InputSplit(endless.dataset.repeat, lambda: endless.dataset, steps=2, size=10, seen=lambda: 10)
    adapt_scale(scaled, train, PRICE)
    assert scaled.predict(np.zeros((1, 1), np.float32), verbose=0)[0, 0] == pytest.approx(4.5)


def test_a_model_without_such_a_head_stays_as_it_is() -> None:
    inputs = keras.Input((1,))
    other = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid", name="predictions")(inputs))
    before = [weight.numpy() for weight in other.weights]
    adapt_scale(other, split(np.ones(4, np.float32)), PRICE)
    assert all((a == b.numpy()).all() for a, b in zip(before, other.weights, strict=True))
