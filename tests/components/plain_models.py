"""Exported Keras models whose predictions are known, for the tests of what evaluates and pushes them."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tfx.types import standard_artifacts

SPEC = {"a": tf.io.FixedLenFeature([], tf.float32), "y": tf.io.FixedLenFeature([], tf.float32, -1.0)}


def export(
    directory: Path, kind: str, weight: float, outputs: int = 1, times: str | None = None
) -> standard_artifacts.Model:
    """A model whose predictions rise with `a` by `weight`, times the column `times`."""
    a = keras.Input((), name="a")
    activation = {"binary": "sigmoid", "multiclass": "softmax", "regression": "linear"}[kind]
    dense = keras.layers.Dense(outputs, activation)
    model = keras.Model(a, dense(keras.layers.Reshape((1,))(a)))
    slopes = np.linspace(-1, 1, outputs) if outputs > 1 else np.ones(1)
    dense.set_weights([weight * slopes[None, :], np.zeros(outputs)])

    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, SPEC | ({times: SPEC["a"]} if times else {}))
        return {"predictions": model(parsed["a"] * parsed[times] if times else parsed["a"])}

    def transform(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, SPEC)
        return {"a": parsed["a"], "y": tf.cast(parsed["y"], tf.int64 if kind == "multiclass" else tf.float32)}

    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec([None], tf.string, name="examples")]
    archive.add_endpoint("serving_default", serve, signature)
    archive.add_endpoint("transform_features", transform, signature)
    archive.write_out(str(directory / "Format-Serving"), verbose=False)
    artifact = standard_artifacts.Model()
    artifact.uri = str(directory)
    return artifact
