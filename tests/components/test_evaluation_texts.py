"""The metrics of written texts against NumPy over all words, from what the signature `score` returns."""

import numpy as np
import pytest

from headrace.components.evaluation.metrics import LABEL_METRICS
from headrace.components.evaluation.metrics.accumulator import ExampleGroups, MetricAccumulator

RANDOM = np.random.default_rng(4)
TEXTS, WORDS, CLASSES = 500, 6, 9
UNKNOWN = CLASSES - 1
LENGTHS = RANDOM.integers(1, WORDS + 1, TEXTS)
PLACES = np.arange(WORDS)
KNOWN = LENGTHS[:, None] > PLACES
LABELS = np.where(KNOWN, RANDOM.integers(0, CLASSES, (TEXTS, WORDS)), -1)
SCORES = RANDOM.normal(size=(TEXTS, WORDS, CLASSES)) + 3 * np.eye(CLASSES)[np.maximum(LABELS, 0)]
P = np.exp(SCORES) / np.exp(SCORES).sum(axis=2, keepdims=True)


def outputs(p: np.ndarray = P) -> np.ndarray:
    """What the signature returns, [texts, words * 3]."""
    own = np.take_along_axis(p, np.maximum(LABELS, 0)[..., None], axis=2)
    ahead = np.where(LABELS == UNKNOWN, -1, (p > own).sum(axis=2))
    each = np.stack([own[..., 0], ahead, p[..., :-1].argmax(axis=2)], axis=2)
    return np.where(KNOWN[..., None], each, [0, 0, -1]).reshape(TEXTS, -1)


def accumulated(labels: np.ndarray, found: np.ndarray, weights: np.ndarray | None = None) -> MetricAccumulator:
    metrics, parts = LABEL_METRICS["text"], np.array_split(np.arange(len(labels)), 4)
    weights = np.ones(len(labels)) if weights is None else weights
    each = [
        metrics.accumulate(
            ExampleGroups(labels[part].astype(float), found[part], np.zeros(len(part), int), 1, weights[part])
        )[0]
        for part in parts
    ]
    return each[0].merge(each[1:])


def test_metrics_equal_an_independent_computation_over_all_words() -> None:
    totals = accumulated(LABELS, outputs()).total()
    found = LABEL_METRICS["text"].metrics(totals)
    p, words = P[KNOWN], LABELS[KNOWN]
    order = np.argsort(-p, axis=1)
    correct, in_top = ((order[:, :k] == words[:, None]).any(axis=1) & (words != UNKNOWN) for k in (1, 5))
    entropy = -np.log(p[np.arange(len(words)), words]).mean()
    best = P[..., :UNKNOWN].argmax(axis=2)  # generation never chooses the unknown word
    exact = [(best[row] == LABELS[row])[KNOWN[row]].all() and UNKNOWN not in LABELS[row] for row in range(TEXTS)]
    assert totals.examples == TEXTS
    assert found["accuracy"] == pytest.approx(correct.mean())
    assert found["top_5_accuracy"] == pytest.approx(in_top.mean())
    assert found["crossentropy"] == pytest.approx(entropy)
    assert found["perplexity"] == pytest.approx(np.exp(entropy))
    assert found["exact_match"] == pytest.approx(np.mean(exact))
    assert 0.1 < found["exact_match"] < found["accuracy"]
    most_probable = P.argmax(axis=2)
    strict = [(most_probable[row] == LABELS[row])[KNOWN[row]].all() and exact[row] for row in range(TEXTS)]
    assert np.mean(strict) < found["exact_match"]  # somewhere the unknown word is more probable than the right one


def test_a_constant_prediction_has_the_shares_of_all_words() -> None:
    found = LABEL_METRICS["text"].constant(accumulated(LABELS, outputs()).total())
    words = LABELS[KNOWN]
    shares = np.bincount(words) / len(words)
    entropy = -np.log(shares[words]).mean()
    assert found["accuracy"] == pytest.approx(shares[:UNKNOWN].max())
    assert found["top_5_accuracy"] == pytest.approx(np.sort(shares[:UNKNOWN])[-5:].sum())
    assert found["crossentropy"] == pytest.approx(entropy)
    assert found["perplexity"] == pytest.approx(np.exp(entropy))


def test_weights_count_texts_like_copies_of_them() -> None:
    weights = RANDOM.integers(0, 4, TEXTS)
    copies = np.repeat(np.arange(TEXTS), weights)
    metrics = LABEL_METRICS["text"]
    weighted = metrics.metrics(accumulated(LABELS, outputs(), weights.astype(float)).total())
    assert weighted == pytest.approx(metrics.metrics(accumulated(LABELS[copies], outputs()[copies]).total()))


def test_the_loss_of_a_text_is_the_mean_of_its_words_and_its_prediction_a_row_of_classes() -> None:
    metrics, found = LABEL_METRICS["text"], outputs()
    own = np.take_along_axis(P, np.maximum(LABELS, 0)[..., None], axis=2)[..., 0]
    expected = [-np.log(own[row, : LENGTHS[row]]).mean() for row in range(TEXTS)]
    np.testing.assert_allclose(metrics.losses(LABELS.astype(float), found), expected)
    predicted = metrics.predicted(found)
    assert predicted.shape == LABELS.shape
    np.testing.assert_array_equal(predicted[KNOWN], P[..., :-1].argmax(axis=2)[KNOWN])


def test_a_missing_label_is_not_used() -> None:
    labels = np.array([[0, -1], [-1, -1], [3, 0]], float)
    assert LABEL_METRICS["text"].usable(labels).tolist() == [True, False, True]


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_probabilities_that_are_not_numbers_have_no_value(broken: float) -> None:
    found = outputs()
    found[5, 0] = broken
    metrics = LABEL_METRICS["text"].metrics(accumulated(LABELS, found).total())
    for name in ("accuracy", "top_5_accuracy", "exact_match"):
        assert not np.isfinite(metrics[name])


def test_the_margin_is_of_texts() -> None:
    totals = accumulated(LABELS, outputs()).total()
    margin = LABEL_METRICS["text"].margin(totals)
    assert margin is not None
    assert margin.metric == "exact_match"
    assert margin.width == pytest.approx(1.96 * np.sqrt(margin.value * (1 - margin.value) / TEXTS), rel=0.02)
