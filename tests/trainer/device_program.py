"""Trains on batches that are brought to another device ahead of the step, and on the same as they come; compares.

    python device_program.py part-0.gz

A program of its own, as devices have to be set up before TensorFlow does anything. Prints a line of JSON.
"""

import json
import os
import sys

import keras
import numpy as np
import tensorflow as tf

from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.reading import InputOptions

SPEC = {"numbers": tf.io.FixedLenFeature([2], tf.float32), "label": tf.io.FixedLenFeature([], tf.float32)}
BATCH, EPOCHS, TOGETHER = 32, 2, 3
OTHER = "CPU:1"


def split(file: str, device: str | None) -> InputSplit:
    """The examples of the file."""
    pipeline = InputPipeline(
        feature_spec=SPEC,
        label_key="label",
        batch_size=BATCH,
        cache="memory",
        shuffle=1000,
        reading=InputOptions(device=device),
    )
    return pipeline.open("train", [file])


def trained(dataset: tf.data.Dataset, steps: int | None) -> list[np.ndarray]:
    """The weights after some epochs."""
    keras.utils.set_random_seed(3)
    numbers = keras.Input([2], name="numbers")
    model = keras.Model({"numbers": numbers}, keras.layers.Dense(1)(numbers))
    model.compile("adam", "mse", steps_per_execution=TOGETHER, jit_compile=False)
    model.fit(dataset, epochs=EPOCHS, steps_per_epoch=steps, verbose=0, shuffle=False)
    return model.get_weights()


def main(file: str) -> None:
    """An iterator for each epoch, and one for all."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    here, there = split(file, None), split(file, OTHER)
    assert here.endless is not None
    assert there.endless is not None
    weights = [trained(here.dataset, None), trained(there.dataset, None)]
    weights += [trained(here.endless(), here.steps), trained(there.endless(), here.steps)]
    features, label = next(iter(there.dataset))
    found = {
        "devices": [features["numbers"].device, label.device],
        "weights": [[float(value) for part in each for value in part.ravel()] for each in weights],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    os.environ["TF_USE_LEGACY_KERAS"] = "0"
    main(sys.argv[1])
