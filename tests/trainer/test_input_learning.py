"""A model learns as well whatever the cache: the same data, several seeds, the eval losses compared."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.trainer.input.pipeline import InputPipeline

SPEC = {
    "x": tf.io.FixedLenFeature([8], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.float32),
}
CACHES = ("memory", "disk", "none")
SEEDS = range(4)
TOLERANCE = 0.02
"""Between the mean eval losses of two caches; the least that can be reached is 0.33, a constant gives 0.69."""


def write(file: Path, rows: int, seed: int) -> list[str]:
    """Sorted by label, as data often comes: a shuffle that does not reach far learns badly."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 8)).astype(np.float32)
    score = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    label = ((score > 0) != (random.random(rows) < 0.1)).astype(np.float32)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for row in np.argsort(label, kind="stable"):
            feature = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=x[row])),
                "label": tf.train.Feature(float_list=tf.train.FloatList(value=[label[row]])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return [str(file)]


class Learner:
    """One small model, which starts anew for each training: what takes long is to trace its graph."""

    def __init__(self) -> None:
        self.model = self._built()
        self.model.compile(keras.optimizers.Adam(0.005), "binary_crossentropy", steps_per_execution=16)
        self.model.optimizer.build(self.model.trainable_variables)
        self._optimizer = [variable.numpy() for variable in self.model.optimizer.variables]

    def eval_loss(self, folder: Path, cache: Any, seed: int) -> float:
        """After a training with this seed, which also draws the first weights."""
        shared: dict[str, Any] = {"feature_spec": SPEC, "label_key": "label"}
        pipeline = InputPipeline(**shared, batch_size=64, cache=cache, shuffle=2000, seed=seed)
        train = pipeline.open("train", [str(folder / "train")])
        evaluation = InputPipeline(**shared, batch_size=1000, cache="memory").open("eval", [str(folder / "eval")])
        keras.utils.set_random_seed(seed)
        self.model.set_weights(self._built().get_weights())
        for variable, value in zip(self.model.optimizer.variables, self._optimizer, strict=True):
            variable.assign(value)
        self.model.fit(train.dataset, epochs=5, verbose=0, shuffle=False)
        return float(self.model.evaluate(evaluation.dataset, verbose=0))

    @staticmethod
    def _built() -> keras.Model:
        x = keras.Input([8])
        hidden = keras.layers.Dense(32, "relu")(keras.layers.Dense(32, "relu")(x))
        return keras.Model({"x": x}, keras.layers.Dense(1, "sigmoid")(hidden))


@pytest.mark.slow
def test_a_model_learns_as_well_from_each_cache(tmp_path: Path) -> None:
    write(tmp_path / "train", 4000, 0)
    write(tmp_path / "eval", 2000, 1)
    learner = Learner()
    losses = {cache: [learner.eval_loss(tmp_path, cache, seed) for seed in SEEDS] for cache in CACHES}
    means = {cache: float(np.mean(values)) for cache, values in losses.items()}
    assert means["none"] < 0.5
    for cache in ("memory", "disk"):
        assert abs(means[cache] - means["none"]) < TOLERANCE, losses
    again = learner.eval_loss(tmp_path, "none", SEEDS[0])
    assert again == pytest.approx(losses["none"][0], abs=1e-3)  # nothing is left of the trainings before


def test_cached_epochs_differ_in_the_composition_of_every_batch(tmp_path: Path) -> None:
    files = write(tmp_path / "train", 4000, 0)
    for cache in ("memory", "disk"):
        split = InputPipeline(feature_spec=SPEC, label_key="label", batch_size=64, cache=cache, shuffle=2000).open(
            "train", files
        )
        epochs = [{frozenset(map(bytes, features["x"].numpy())) for features, _ in split.dataset} for _ in range(3)]
        assert all(len(batches) == 63 for batches in epochs)
        assert sum(map(len, epochs)) == len(set.union(*epochs))
