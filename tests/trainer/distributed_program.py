"""Trains small models twice, on one device by Keras' `fit` and over several by the loop of ours, and compares them.

    python distributed_program.py mirrored 2 '[{"together": 4}, {"precision": "mixed_float16"}]'

A program of its own, as devices have to be set up before TensorFlow does anything. With TF_CONFIG in the environment
and `multi_worker` it is one worker of a cluster. Prints a line of JSON.
"""

import json
import os
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from trainings import leave_graphs_as_they_are

from headrace.configs.schema.train import TrainConfig
from headrace.trainer.devices.loop import DistributedLoop
from headrace.trainer.model import precision_policy
from headrace.trainer.models.tabm import Ensemble, MeanOfMembers, MemberDense, SharedDense
from headrace.trainer.table_updates import TableUpdates

ROWS, EVAL, BATCH, EPOCHS, MEMBERS = 181, 31, 30, 2, 4
"""Last batches of one example: fewer than there are devices."""


def data(rows: int, seed: int, *, whole: bool, weighted: bool) -> tf.data.Dataset:
    """Labels that follow from two numbers and a category; and some tags, of which there may be none.

    whole: full batches alone, without tags; weighted: with a weight for each example.
    """
    rng = np.random.default_rng(seed)
    numbers, category = rng.normal(size=(rows, 2)).astype("float32"), rng.integers(0, 7, rows)
    label = ((numbers.sum(axis=1) > 0) ^ (category > 3)).astype("float32")
    lengths = rng.integers(0, 4, rows)
    tags = tf.RaggedTensor.from_row_lengths(rng.integers(0, 5, lengths.sum()), lengths)
    features = {"numbers": numbers, "category": category} | ({} if whole else {"tags": tags})
    weights = [rng.choice([0.0, 0.5, 3.0], rows).astype("float32")] if weighted else []
    return tf.data.Dataset.from_tensor_slices((features, label, *weights)).batch(BATCH)


@keras.saving.register_keras_serializable("tests")
class Counts(keras.layers.Layer):
    """How often each of five tags is there."""

    def call(self, tags: Any) -> Any:
        """Ragged [batch, tags] to [batch, 5]."""
        return tf.cast(tf.reduce_sum(tf.one_hot(tags.to_tensor(-1), 5), 1), self.compute_dtype)

    def compute_output_shape(self, shape: Any) -> Any:
        """[batch, 5]."""
        return shape[0], 5


class OwnStep(keras.Model):
    """A model with a `train_step` of its own."""

    def train_step(self, data: Any) -> Any:
        """Keras' step."""
        return super().train_step(data)


def build(settings: dict[str, Any]) -> keras.Model:
    """An embedding beside dense layers, with a loss of regularisation."""
    keras.utils.set_random_seed(3)
    inputs = {
        "numbers": keras.Input([2], name="numbers"),
        "category": keras.Input([], dtype="int64", name="category"),
    }
    if not settings.get("whole"):
        inputs["tags"] = keras.Input([None], dtype="int64", ragged=True, name="tags")
    with precision_policy(settings.get("precision", "float32")):
        parts = [inputs["numbers"], keras.layers.Embedding(7, 4)(inputs["category"])]
        parts += [Counts()(inputs["tags"])] if "tags" in inputs else []
        x = keras.layers.Concatenate()(parts)
        x = keras.layers.Dense(16, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01))(x)
        if settings.get("ensemble"):
            scores = MemberDense(1)(SharedDense(8, "signs")(keras.layers.RepeatVector(MEMBERS)(x)))
            x = MeanOfMembers(MEMBERS, name="mean")(keras.layers.Activation("sigmoid")(scores))
            model = Ensemble(inputs, x)
        else:
            x = keras.layers.Activation("sigmoid", dtype="float32")(keras.layers.Dense(1)(x))
            model = (OwnStep if settings.get("own") else keras.Model)(inputs, x)
    model.compile(
        keras.optimizers.Adam(**{"learning_rate": 0.01, **settings.get("adam", {})}),
        keras.losses.BinaryCrossentropy(),
        **{
            "weighted_metrics" if settings.get("weighted") else "metrics": [
                keras.metrics.AUC(name="auc"),
                keras.metrics.BinaryAccuracy(name="binary_accuracy"),
            ]
        },
        steps_per_execution=settings.get("together", 1),
        jit_compile=False,
    )
    TableUpdates.install(model.optimizer, TrainConfig())
    model.optimizer.build(model.trainable_variables)
    return model


class Logs(keras.callbacks.Callback):
    """Keeps what the epochs said, and the numbers of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[dict[str, float]] = []
        self.batches: list[int] = []
        self.losses: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Keep the number, and the loss so far."""
        self.batches.append(batch)
        self.losses.append(float((logs or {})["loss"]))

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Keep the metrics."""
        self.epochs.append({name: float(value) for name, value in (logs or {}).items()})


def compared(settings: dict[str, Any], strategy: tf.distribute.Strategy) -> dict[str, Any]:
    """Both ways, with the same settings."""
    whole, steps = settings.get("whole", False), settings.get("steps")
    kind = {"whole": whole, "weighted": settings.get("weighted", False)}
    train, evaluation = data(ROWS, 0, **kind), data(EVAL, 1, **kind)
    train = train.repeat() if steps else train
    alone, log = build(settings), Logs()
    given: dict[str, Any] = {"validation_data": evaluation, "epochs": EPOCHS, "steps_per_epoch": steps}
    full = given | {"validation_data": evaluation.take(EVAL // BATCH)} if whole else given
    alone.fit(train.take(ROWS // BATCH) if whole else train, **full, callbacks=[log], verbose=0, shuffle=False)
    with strategy.scope():
        model, other = build(settings), Logs()
        before = model.get_weights()
        loop = DistributedLoop(model, strategy, settings.get("together", 1), fixed_batch=BATCH if whole else None)
        loop.fit(train, **given, callbacks=[other])
        weights = model.get_weights()
    return {
        "difference": _difference(alone.get_weights(), weights),
        "moved": _difference(before, weights),
        "epochs": [log.epochs, other.epochs],
        "batches": [log.batches, other.batches],
        "losses": [log.losses, other.losses],
    }


def _difference(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def main(kind: str, devices: int, settings: list[dict[str, Any]]) -> None:
    """Compare for each of the settings."""
    if devices > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
    if kind == "mirrored":
        strategy: tf.distribute.Strategy = tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(devices)])
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    leave_graphs_as_they_are()
    print(json.dumps([compared(each, strategy) for each in settings]))


if __name__ == "__main__":
    os.environ["TF_USE_LEGACY_KERAS"] = "0"
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
