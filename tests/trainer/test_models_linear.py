"""The linear model against the sum of its weights in NumPy."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest

from headrace.common.errors import TrainingError
from headrace.trainer import columns, models
from headrace.trainer.sections import TrainerSections

FEATURES: dict[str, dict[str, Any]] = {
    "amount": {"column": "numeric"},
    "miles": {"column": "numeric"},
    "hour": {"column": "identity", "num_buckets": 24},
}
BATCH: dict[str, Any] = {
    "amount": np.array([-1.0, 0.0, 2.5], np.float32),
    "miles": np.array([0.5, -3.0, 1.0], np.float32),
    "hour": np.array([23, 0, 24], np.int64),
}
LABEL = {"key": "size", "kind": "multiclass", "classes": ["small", "large"]}


def build(features: dict[str, Any]) -> keras.Model:
    config = {"label": LABEL, "features": features, "model": {"kind": "linear"}}
    sections = TrainerSections.from_json(json.dumps(config))
    inputs = columns.ModelInputs(columns.build(sections.features), lambda _: 0)
    return models.build(inputs, sections.label, sections.model)


def probabilities(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores)
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("names", [["amount", "miles", "hour"], ["amount", "miles"], ["hour"]])
def test_prediction_is_a_weight_for_each_number_and_category_and_a_bias(names: list[str]) -> None:
    model = build({name: FEATURES[name] for name in names})
    batch = {name: BATCH[name] for name in names}
    np.testing.assert_allclose(model(batch), np.full((3, 2), 0.5))  # all weights start at zero
    rng = np.random.default_rng(4)
    model.set_weights([rng.normal(size=weight.shape) for weight in model.get_weights()])
    weights: dict[str, Any] = {weight.path: np.asarray(weight, np.float64) for weight in model.weights}
    (scores,) = [weight for path, weight in weights.items() if path.endswith("bias")]
    if "amount" in names:
        scores = (
            scores + np.stack([BATCH["amount"], BATCH["miles"]], axis=1).astype(np.float64) @ weights["logits/kernel"]
        )
    if "hour" in names:
        (of_hours,) = [weight for path, weight in weights.items() if path.startswith("wide/")]
        scores = scores + of_hours[BATCH["hour"].tolist()]
    np.testing.assert_allclose(model(batch), probabilities(scores), rtol=1e-5)


def test_without_a_number_or_a_wide_category_there_is_nothing_to_learn_from() -> None:
    with pytest.raises(TrainingError, match="linear has nothing to learn from"):
        build({"hour": {**FEATURES["hour"], "wide": False}})
