"""A run with `model: {kind: trees}` in an empty folder, from the file to a pushed model and its predictions.

Rows, weights and classes are those of the file, and the expected numbers are worked out by scikit-learn.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from command import headrace

from headrace.components.evaluation.result import read_evaluation

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data: {source: {kind: csv, path: parcels.csv}, splits: {train: 7, eval: 2, test: 1}}
label: {key: late, kind: multiclass, classes: [never, maybe, sure], weight: share}
features:
  weight: {column: numeric}
  shop: {column: vocabulary, top_k: 30}
  when: {column: datetime, part: weekday}
  both: {column: crossed, keys: [shop, when], hash_buckets: 100}
model: {kind: trees, learning_rate: 0.1, min_examples_per_leaf: 5}
train: {class_weight: balanced}
evaluate: {slices: [shop]}
"""


def parcels(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(3)
    weight, shop, day = random.normal(size=rows), random.integers(0, 40, rows), random.integers(1, 29, rows)
    score = np.abs(weight) + (shop % 4 == 0) + 0.5 * (day % 7 == 3) + random.normal(size=rows) / 3
    table = pd.DataFrame({
        "weight": np.where(random.random(rows) < 0.1, np.nan, weight.round(4)),
        "shop": [f"s{number}" for number in shop],
        "when": [f"2026-05-{number:02}" for number in day],
        "late": np.array(["never", "maybe", "sure"])[np.digitize(score, [0.6, 1.5])],
        "share": random.choice([0.5, 1.0, 3.0], rows),
    })  # fmt: skip
    return table.astype({"shop": str})


def test_trees_are_trained_judged_pushed_and_asked(tmp_path: Path) -> None:
    data = parcels(3000)
    data.to_csv(tmp_path / "parcels.csv", index=False)
    (tmp_path / "c.yaml").write_text(CONFIG, encoding="utf-8")
    done = headrace(tmp_path, "run", "c.yaml")
    assert done.code == 0, done.out + done.err
    assert "pushed" in done.out
    assert "blessed" in done.ending("blessing")
    record = json.loads((done.uri("Trainer", "model_run") / "training.json").read_text())
    losses = [epoch["metrics"]["val_loss"] for epoch in record["epochs"]]
    assert record["best_epoch"] == 1 + int(np.argmin(losses))
    assert record["stopped_early"]
    assert len(losses) == record["best_epoch"] + 50
    assert "class weights: never" in record["input"]
    metrics = read_evaluation(done.uri("Evaluator", "evaluation")).metrics
    assert metrics["accuracy"] is not None
    assert metrics["accuracy"] > data["late"].value_counts(normalize=True).max() + 0.1

    (pushed,) = (tmp_path / "serving" / "parcels").iterdir()
    asked = parcels(3000).drop(columns=["late", "share"])
    asked.loc[:20, "shop"] = "never seen"
    asked.loc[10:30, "weight"] = 1e30
    asked.to_csv(tmp_path / "new.csv", index=False)
    predicted = headrace(tmp_path, "predict", str(pushed), "--input", "new.csv", "--output", "p.csv")
    assert predicted.code == 0, predicted.err
    found = pd.read_csv(tmp_path / "p.csv")
    shares = found[[f"probability_{name}" for name in ("never", "maybe", "sure")]].to_numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    shares /= shares.sum(axis=1, keepdims=True)
    classes = ["maybe", "never", "sure"]  # as scikit-learn sorts them
    loss = sklearn.metrics.log_loss(data["late"][31:], shares[31:][:, [1, 0, 2]], labels=classes)
    frequencies = np.tile(data["late"].value_counts(normalize=True)[classes].to_numpy(), (len(data), 1))
    assert loss < 0.8 * sklearn.metrics.log_loss(data["late"], frequencies, labels=classes)

    again = headrace(tmp_path, "run", "c.yaml")
    assert again.statuses()["Trainer"] == "cached"
