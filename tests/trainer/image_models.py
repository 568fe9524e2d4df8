"""Small image models over a batch of random images, for the tests of the model and of the networks in it."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np

from headrace.trainer import columns, models
from headrace.trainer.sections import TrainerSections

IMAGE = {"column": "image", "height": 8, "width": 8, "channels": 1}
DIGIT = {"key": "digit", "kind": "multiclass", "classes": 3}
RNG = np.random.default_rng(1)
BATCH = {"image": RNG.integers(0, 256, (48, 8, 8, 1)).astype(np.uint8)}
LABELS = RNG.integers(0, 3, 48)


def sections(features: dict[str, Any] | None = None, **model: Any) -> TrainerSections:
    config = {"label": DIGIT, "features": features or {"image": IMAGE}, "model": {"kind": "image", **model}}
    return TrainerSections.from_json(json.dumps(config))


def build(features: dict[str, Any] | None = None, **model: Any) -> keras.Model:
    config = sections(features, **model)
    keras.utils.set_random_seed(1)
    inputs = columns.ModelInputs(columns.build(config.features), lambda _: 0, config.model.embedding)
    return models.build(inputs, config.label, config.model)


def predicted(model: keras.Model) -> np.ndarray:
    return np.asarray(model(BATCH, training=False))
