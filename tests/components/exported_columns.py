"""Models as the Trainer exports them, of columns that need nothing of the train split: no TFT, no training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from headrace.trainer import columns
from headrace.trainer.columns.image import with_stored_images
from headrace.trainer.export import export
from headrace.trainer.model import build_model
from headrace.trainer.preprocessing import transform
from headrace.trainer.raw_columns import RawColumns
from headrace.trainer.run import feature_columns
from headrace.trainer.sections import TrainerSections
from headrace.trainer.signatures import Signatures


def exported(
    folder: Path, config: Mapping[str, Any], types: Mapping[str, tf.DType]
) -> tuple[Path, dict[str, tuple[str, ...]]]:
    """The SavedModel of a config's label, features and model with random weights, and what its features read.

    types: of all data columns.
    """
    sections = TrainerSections.from_json(json.dumps(config))
    spec = {name: tf.io.VarLenFeature(dtype) for name, dtype in types.items()}
    graph = tf.Module()
    graph.transform_fn = tf.function(
        lambda raw: transform(raw, sections, results={}),
        input_signature=[{name: tf.SparseTensorSpec([None, None], dtype) for name, dtype in types.items()}],
        autograph=False,
    )
    tf.saved_model.save(graph, str(folder / "transform"))
    output: Any = SimpleNamespace(transform_savedmodel_dir=str(folder / "transform"), raw_feature_spec=lambda: spec)
    keras.utils.set_random_seed(3)
    model, built = build_model(sections, output), columns.build(sections.features)
    for weight in model.trainable_variables:
        weight.assign(tf.random.normal(weight.shape, seed=len(weight.shape)) / 3)
    signatures = Signatures(with_stored_images(model, built), output, RawColumns.of(sections), sections.label)
    (folder / "weights").write_bytes(b"")
    export(str(folder / "model"), signatures, folder / "weights")
    return folder / "model", feature_columns(sections, built, signatures)
