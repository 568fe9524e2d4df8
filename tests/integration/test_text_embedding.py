"""`column: text_embedding`: what a run trains and pushes, against NumPy, with the network frozen and fine-tuned."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
import tensorflow as tf
import text_network
from command import Finished, headrace

pytestmark = pytest.mark.slow

CONFIG = """
pipeline: {name: reviews}
data: {source: {kind: csv, path: reviews.csv}}
label: {key: liked, kind: binary}
features:
  said: {column: text_embedding, saved_model: network}
  stars: {column: numeric, normalize: none}
model: {kind: linear}
train: {epochs: 12, batch_size: 32, learning_rate: 0.05, early_stopping: null}
evaluate: {thresholds: {auc: {min: 0.8}}}
deploy: {push: serving}
"""
ASKED: list[str | None] = ["the good film", "bad", None, "poor poor good", "never heard", "fine\tfilm"]


@dataclass
class Reviews:
    """Two runs: with the network as it is, and with its weights trained too."""

    folder: Path
    frozen: Finished
    tuned: Finished

    def answers(self, run: Finished) -> np.ndarray:
        """What the model that this run trained answers to ASKED, by name, all with 3 stars."""
        serve = tf.saved_model.load(str(run.uri("Trainer", "model") / "Format-Serving")).signatures["serving_raw"]
        asked = {"said": tf.constant([text or "" for text in ASKED]), "stars": tf.fill([len(ASKED)], np.int64(3))}
        return np.asarray(serve(**asked)["predictions"])[:, 0]

    def weights(self, run: Finished) -> dict[str, np.ndarray]:
        """Name of each weight of the layers in the model's own file → its value."""
        found: dict[str, np.ndarray] = {}
        file = run.uri("Trainer", "model") / "Format-Serving" / "assets.extra" / "model.weights.h5"
        with h5py.File(file) as weights:
            weights["layers"].visititems(
                lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
            )
        return found


@pytest.fixture(scope="module")
def reviews(new_folder: Callable[[str], Path]) -> Reviews:
    folder = new_folder("reviews")
    random = np.random.default_rng(4)
    with (folder / "reviews.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["said", "stars", "liked"])
        for _ in range(600):
            words = random.choice([*text_network.WORDS, "unknown"], random.integers(0, 5)).tolist()
            score = text_network.means([" ".join(words)])[0, 0]
            rows.writerow([" ".join(words), random.integers(1, 6), int(score + random.normal(0, 0.2) > 0)])
    text_network.save(folder / "network", folder / "words.txt")
    (folder / "reviews.yaml").write_text(CONFIG, encoding="utf-8")
    frozen = headrace(folder, "run", "reviews.yaml")
    tuned = headrace(folder, "run", "reviews.yaml", "--set", "features.said.fine_tune=true")
    assert frozen.code == tuned.code == 0, frozen.err + tuned.err + tuned.out
    shutil.rmtree(folder / "network")  # the models have what they need
    (folder / "words.txt").unlink()
    return Reviews(folder, frozen, tuned)


def by_numpy(weights: dict[str, np.ndarray]) -> np.ndarray:
    """The predictions for ASKED: a linear model over the network's vector and the stars."""
    (vectors,) = (value for value in weights.values() if value.shape == text_network.VECTORS.shape)
    (kernel,) = (value for value in weights.values() if value.shape == (3, 1))
    (bias,) = (value for value in weights.values() if value.shape == (1,))
    inputs = np.concatenate([text_network.means(ASKED, vectors), np.full([len(ASKED), 1], 3)], axis=1)
    return 1 / (1 + np.exp(-(inputs @ kernel + bias)[:, 0]))


def test_a_pushed_model_embeds_texts_as_its_network_does(reviews: Reviews) -> None:
    for run in reviews.frozen, reviews.tuned:
        expected = by_numpy(reviews.weights(run))
        assert np.ptp(expected) > 0.6
        np.testing.assert_allclose(reviews.answers(run), expected, rtol=1e-5)


def test_only_fine_tuning_changes_the_network_and_only_the_training_runs_again(reviews: Reviews) -> None:
    of_network = {
        name: [value for value in reviews.weights(run).values() if value.shape == text_network.VECTORS.shape]
        for name, run in (("frozen", reviews.frozen), ("tuned", reviews.tuned))
    }
    np.testing.assert_array_equal(of_network["frozen"][0], text_network.VECTORS)
    assert np.abs(of_network["tuned"][0] - text_network.VECTORS).max() > 0.05
    assert {"Trainer", "Evaluator", "Canary"} <= reviews.tuned.ran()
    assert not {"ExampleGen", "StatisticsGen", "Transform"} & reviews.tuned.ran()
    assert reviews.frozen.ran() > {"Transform", "Trainer"}


def test_a_text_reaches_the_model_from_serialized_examples_and_files(reviews: Reviews) -> None:
    with (reviews.folder / "asked.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["said", "stars"], *([text, 3] for text in ASKED)])
    done = headrace(reviews.folder, "predict", "reviews.yaml", "--input", "asked.csv", "--output", "scored.csv")
    assert done.code == 0, done.err
    with (reviews.folder / "scored.csv").open(encoding="utf-8") as file:
        scored = [float(row["probability_1"]) for row in csv.DictReader(file)]
    pushed = [run for run in (reviews.frozen, reviews.tuned) if run.statuses()["Pusher"] == "done"][-1]
    np.testing.assert_allclose(scored, reviews.answers(pushed), rtol=1e-5)
