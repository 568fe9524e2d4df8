"""The next word's metrics against NumPy, and those of each epoch against those of the evaluation."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from headrace.components.evaluation.metrics import LABEL_METRICS
from headrace.components.evaluation.metrics.accumulator import ExampleGroups
from headrace.trainer.model import KnownWords, Perplexity

RANDOM = np.random.default_rng(4)
LABELS = RANDOM.integers(0, 9, 3000)
SCORES = RANDOM.normal(size=(3000, 9)) + 2 * np.eye(9)[LABELS]
P = np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True)
UNKNOWN = 8


def measured(labels: np.ndarray, p: np.ndarray) -> dict[str, float]:
    label_metrics = LABEL_METRICS["next_word"]
    parts = zip(np.array_split(labels.astype(float), 4), np.array_split(p, 4), strict=True)
    accumulators = [
        label_metrics.accumulate(ExampleGroups(y, each, np.zeros(len(y), np.int64), 1, np.ones(len(y))))[0]
        for y, each in parts
    ]
    return label_metrics.metrics(accumulators[0].merge(accumulators[1:]).total())


def test_metrics_equal_an_independent_computation_and_an_unknown_word_is_never_predicted() -> None:
    found = measured(LABELS, P)
    order = np.argsort(-P, axis=1)
    known = LABELS != UNKNOWN
    entropy = -np.log(P[np.arange(3000), LABELS]).mean()
    assert found["accuracy"] == pytest.approx(np.mean((order[:, 0] == LABELS) & known))
    assert found["top_5_accuracy"] == pytest.approx(np.mean((order[:, :5] == LABELS[:, None]).any(axis=1) & known))
    assert found["crossentropy"] == pytest.approx(entropy)
    assert found["perplexity"] == pytest.approx(np.exp(entropy))
    assert np.mean(order[:, 0] == LABELS) > found["accuracy"] + 0.03  # it would be higher


def test_a_constant_prediction_is_a_known_word_and_all_unknown_words_share_a_probability() -> None:
    labels = np.repeat(np.arange(9), [9, 8, 7, 6, 5, 4, 3, 2, 30])  # 8 is unknown
    accumulator = LABEL_METRICS["next_word"].accumulate(
        ExampleGroups(labels.astype(float), P[:74], np.zeros(74, np.int64), 1, np.ones(74))
    )[0]
    found = LABEL_METRICS["next_word"].constant(accumulator.total())
    shares = np.bincount(labels)[labels] / 74
    assert found["accuracy"] == pytest.approx(9 / 74)
    assert found["top_5_accuracy"] == pytest.approx((9 + 8 + 7 + 6 + 5) / 74)
    assert found["crossentropy"] == pytest.approx(-np.log(shares).mean())
    assert found["perplexity"] == pytest.approx(np.exp(-np.log(shares).mean()))


def test_of_equally_probable_words_the_first_is_predicted() -> None:
    even = np.full((9, 9), 1 / 9)
    found = measured(np.arange(9), even)
    assert found["accuracy"] == pytest.approx(1 / 9)
    assert found["top_5_accuracy"] == pytest.approx(5 / 9)
    assert found["perplexity"] == pytest.approx(9)


def test_metrics_of_an_epoch_are_those_of_the_evaluation() -> None:
    metrics: dict[str, Any] = {"accuracy": KnownWords(1), "top_5_accuracy": KnownWords(5), "perplexity": Perplexity()}
    found = measured(LABELS, P.astype(np.float32))
    for name, metric in metrics.items():
        for y, p in zip(np.array_split(LABELS, 7), np.array_split(P, 7), strict=True):
            metric.update_state(tf.constant(y[:, None]), tf.constant(p, tf.float32))
        assert float(metric.result()) == pytest.approx(found[name], rel=1e-4)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_predictions_that_are_not_numbers_have_no_value(broken: float) -> None:
    p = P.copy()
    p[5] = broken
    found = measured(LABELS, p)
    assert not np.isfinite(found["accuracy"])
    assert not np.isfinite(found["top_5_accuracy"])
