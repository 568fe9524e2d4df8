"""The layer, the loss and the optimizer of docs/own_training.md: a run with them, and each beside NumPy."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from command import ROOT, Finished, headrace, versions

PAGE = ROOT / "docs" / "own_training.md"
REST = """
pipeline: {name: ranking}
data: {source: {kind: csv, path: people.csv}}
label: {key: bought, kind: binary}
features: {x: {column: numeric}, y: {column: numeric}, city: {column: vocabulary, values: [Oslo, Rome, Lima]}}
evaluate: {metrics: [auc]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, and a table in which two numbers and a city tell who bought."""
    folder = tmp_path_factory.mktemp("own_training")
    text = PAGE.read_text()
    for name, code in re.findall(r"```\w+\n# (\S+\.(?:py|yaml))\n(.*?)```", text, re.DOTALL):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    (folder / "ranking.yaml").write_text(
        (folder / "ranking.yaml").read_text() + "  epochs: 10\n  batch_size: 64\n" + REST
    )
    random = np.random.default_rng(5)
    x, y, city = random.normal(size=1500), random.normal(size=1500), random.integers(0, 3, 1500)
    bought = (x + y * (city - 1) + random.normal(size=1500) * 0.3 > 1).astype(int)
    rows = [f"{a:.4f},{b:.4f},{('Oslo', 'Rome', 'Lima')[c]},{d}" for a, b, c, d in zip(x, y, city, bought, strict=True)]
    (folder / "people.csv").write_text("\n".join(["x,y,city,bought", *rows]) + "\n")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Finished:
    done = headrace(folder, "run", "ranking.yaml")
    assert done.code == 0, done.out + done.err
    return done


@pytest.fixture(scope="module")
def ranking(folder: Path) -> Iterator[Any]:
    sys.path.insert(0, str(folder))
    yield importlib.import_module("mine.ranking")
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]


def weights_of(run: Finished) -> dict[str, np.ndarray]:
    """The weights that were exported, by their path in the file."""
    found: dict[str, np.ndarray] = {}
    with h5py.File(run.uri("Trainer", "model") / "Format-Serving" / "assets.extra" / "model.weights.h5") as file:
        file.visititems(lambda name, one: found.update({name: one[()]}) if isinstance(one, h5py.Dataset) else None)
    return found


@pytest.mark.slow
def test_run_trains_a_good_model_of_low_rank_which_a_server_needs_no_code_for(folder: Path, run: Finished) -> None:
    shapes = sorted(value.shape for name, value in weights_of(run).items() if "low_rank" in name)
    # Two numbers, and a city in two dimensions.
    assert shapes == sorted([(4, 4), (4, 32), (32,), (32, 4), (4, 16), (16,)])
    assert run.run.node("Canary").status == "done"
    assert run.ending("blessing").startswith("blessed")
    assert len(versions(folder)) == 1


@pytest.mark.slow
def test_every_weight_moved_by_whole_steps_of_the_learning_rate(run: Finished) -> None:
    (biases,) = (value for name, value in weights_of(run).items() if "low_rank" in name and value.shape == (32,))
    steps = biases / 0.003  # from 0, each step adds or subtracts the rate
    np.testing.assert_allclose(steps, np.round(steps), atol=0.01)
    assert np.abs(steps).max() > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "labels", [[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], ids=["both", "no positive", "no negative"]
)
def test_loss_is_the_mean_over_pairs(ranking: Any, labels: list[int]) -> None:
    p = np.array([0.7, 0.2, 0.9, 0.4, 0.0])
    scores = np.log(np.clip(p, 1e-6, 1 - 1e-6) / (1 - np.clip(p, 1e-6, 1 - 1e-6)))
    expected = [
        np.mean([np.log1p(np.exp(scores[j] - scores[i])) for j in range(5) if not labels[j]]) if labels[i] else 0.0
        for i in range(5)
        if not (labels[i] and all(labels))
    ]
    loss = ranking.pairwise_loss(tf.constant(labels), tf.constant(p[:, np.newaxis], tf.float32))
    np.testing.assert_allclose(loss, np.sum(expected) / 5, rtol=1e-4)


@pytest.mark.slow
def test_optimizer_takes_signs_of_mean_gradients_also_of_embeddings(ranking: Any) -> None:
    table, bias = keras.Variable(np.ones((4, 2), np.float32)), keras.Variable(np.zeros(2, np.float32))
    optimizer = ranking.Signum(learning_rate=0.1, momentum=0.5)
    expected: list[np.ndarray] = [np.ones((4, 2)), np.zeros(2)]
    means: list[np.ndarray] = [np.zeros((4, 2)), np.zeros(2)]
    random = np.random.default_rng(1)
    for _ in range(3):
        rows, of_bias = random.normal(size=(3, 2)).astype(np.float32), random.normal(size=2).astype(np.float32)
        sparse = tf.IndexedSlices(tf.constant(rows), tf.constant([2, 0, 2]), tf.constant([4, 2]))
        optimizer.apply([sparse, tf.constant(of_bias)], [table, bias])
        dense = np.zeros((4, 2))
        np.add.at(dense, [2, 0, 2], rows)
        for place, gradient in enumerate((dense, of_bias)):
            means[place] += 0.5 * (gradient - means[place])
            expected[place] -= 0.1 * np.sign(means[place])
    np.testing.assert_allclose(table.numpy(), expected[0], atol=1e-6)
    np.testing.assert_allclose(bias.numpy(), expected[1], atol=1e-6)


@pytest.mark.slow
def test_layer_multiplies_with_the_product_of_its_factors(ranking: Any) -> None:
    layer = ranking.LowRankDense(3, rank=2, activation="relu")
    x = np.random.default_rng(2).normal(size=(6, 5)).astype(np.float32)
    found = layer(x)
    expected = np.maximum(x @ (np.asarray(layer.down) @ np.asarray(layer.up)) + np.asarray(layer.bias), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert layer.compute_output_shape((6, 5)) == (6, 3)
