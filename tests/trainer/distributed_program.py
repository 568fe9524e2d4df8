"""Trains one small model twice, on one device by Keras' `fit` and over several by `trainer.loop`, and tells the difference.

    python distributed_program.py '{"strategy": "mirrored", "devices": 2, "optimizer": "sgd", …}'

A program of its own, as devices have to be set up before TensorFlow does anything. With TF_CONFIG in the environment it
is one worker of a cluster. Prints a line of JSON.
"""

import json
import os
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.loop import Loop
from trainer.precision import computing_in

ROWS, EVAL, BATCH = 203, 45, 32


def data(rows: int, seed: int, ragged: bool) -> tf.data.Dataset:
    """Labels that follow from two numbers and a category; the last batch is a small one."""
    rng = np.random.default_rng(seed)
    numbers, category = rng.normal(size=(rows, 2)).astype("float32"), rng.integers(0, 7, rows)
    label = ((numbers.sum(axis=1) > 0) ^ (category > 3)).astype("float32")
    features: dict[str, Any] = {"numbers": numbers, "category": category}
    if ragged:
        lengths = rng.integers(0, 4, rows)
        values = rng.integers(0, 5, lengths.sum())
        features["tags"] = tf.RaggedTensor.from_row_lengths(values, lengths)
    return tf.data.Dataset.from_tensor_slices((features, label)).batch(BATCH)


def build(settings: dict[str, Any]) -> keras.Model:
    """An embedding beside dense layers, with a regularisation loss."""
    keras.utils.set_random_seed(3)
    inputs = {"numbers": keras.Input([2]), "category": keras.Input([], dtype="int64")}
    with computing_in(settings.get("precision", "float32")):
        parts = [inputs["numbers"], keras.layers.Embedding(7, 4)(inputs["category"])]
        if settings.get("ragged"):
            inputs["tags"] = keras.Input([None], dtype="int64", ragged=True)
            pooled = keras.layers.Lambda(
                lambda ids: tf.reduce_sum(tf.one_hot(ids.to_tensor(-1), 5), 1), output_shape=(5,)
            )
            parts.append(pooled(inputs["tags"]))
        x = keras.layers.Concatenate()(parts)
        x = keras.layers.Dense(16, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01))(x)
        x = keras.layers.Activation("sigmoid", dtype="float32")(keras.layers.Dense(1)(x))
        model = keras.Model(inputs, x)
    optimizer = keras.optimizers.get(
        {"class_name": settings.get("optimizer", "adam"), "config": settings.get("arguments", {"learning_rate": 0.01})}
    )
    model.compile(
        optimizer,
        keras.losses.BinaryCrossentropy(),
        metrics=[keras.metrics.AUC(name="auc"), keras.metrics.BinaryAccuracy(name="binary_accuracy")],
        steps_per_execution=settings.get("together", 1),
        jit_compile=False,
    )
    model.optimizer.build(model.trainable_variables)
    return model


class Logs(keras.callbacks.Callback):
    """Keeps what the epochs said, and the numbers of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[dict[str, float]] = []
        self.batches: list[int] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self.batches.append(batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.epochs.append({name: float(value) for name, value in (logs or {}).items()})


def main(settings: dict[str, Any]) -> None:
    devices = settings.get("devices", 2)
    if devices > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
    if settings["strategy"] == "mirrored":
        strategy: Any = tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(devices)])
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    train, evaluation = data(ROWS, 0, settings.get("ragged", False)), data(EVAL, 1, settings.get("ragged", False))
    if settings.get("steps"):
        train = train.repeat()
    runs = []
    for distributed in (False, True):
        log, epochs = Logs(), settings.get("epochs", 3)
        stop = keras.callbacks.EarlyStopping("val_loss", patience=1)
        if distributed:
            with strategy.scope():
                model = build(settings)
                Loop(model, strategy, settings.get("together", 1)).fit(
                    train, evaluation, epochs=epochs, callbacks=[log, stop], steps_per_epoch=settings.get("steps")
                )
                weights = model.get_weights()
        else:
            model = build(settings)
            model.fit(
                train,
                validation_data=evaluation,
                epochs=epochs,
                callbacks=[log, stop],
                steps_per_epoch=settings.get("steps"),
                verbose=0,
                shuffle=False,
            )
            weights = model.get_weights()
        runs.append((weights, log))
    (one, one_log), (many, many_log) = runs
    told = {
        "weights": max(float(np.abs(a - b).max()) for a, b in zip(one, many, strict=True)),
        "moved": max(float(np.abs(a - b).max()) for a, b in zip(many, build(settings).get_weights(), strict=True)),
        "one": one_log.epochs,
        "many": many_log.epochs,
        "batches": [one_log.batches, many_log.batches],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    os.environ["TF_USE_LEGACY_KERAS"] = "0"
    main(json.loads(sys.argv[1]))
