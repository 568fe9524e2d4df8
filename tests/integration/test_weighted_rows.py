"""Rows without a label, a column of weights and weights of classes, from the file to predictions of one run.

The expected numbers are worked out from the rows of the file by pandas and scikit-learn.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import tensorflow as tf
from command import Finished, headrace
from row_splits import splits
from sklearn.utils.class_weight import compute_class_weight

from headrace.components.evaluation.result import Evaluation, read_evaluation

pytestmark = pytest.mark.slow

ROWS = 4000
CONFIG = """\
pipeline: {name: claims}
data: {source: {kind: csv, path: claims.csv}}
label: {key: fraud, kind: binary, classes: ["no", "yes"], missing: drop, weight: share}
features:
  amount: {column: numeric}
  channel: {column: vocabulary}
model: {kind: dnn, hidden: [8]}
train: {epochs: 4, batch_size: 64, learning_rate: 0.01, class_weight: balanced}
evaluate: {slices: [channel], better_than_constant: false}
deploy: {canary: null}
"""


@dataclass(frozen=True)
class Story:
    """A run and its predictions of all rows. data: the file, with the split and the prediction of each row."""

    done: Finished
    data: pd.DataFrame
    evaluation: Evaluation
    training: str
    model: Path

    def rows(self, split: str) -> pd.DataFrame:
        """The rows of a split."""
        return self.data[self.data["split"] == split]


def claims() -> pd.DataFrame:
    random = np.random.default_rng(4)
    amount, channel = random.normal(size=ROWS), random.choice(["web", "phone", "shop"], ROWS)
    fraud = amount + 1.5 * (channel == "web") + random.normal(size=ROWS) > 2.5
    label = np.where(random.random(ROWS) < 0.1, "", np.where(fraud, "yes", "no"))
    share = random.choice([0.0, 0.5, 40.0], ROWS)
    return pd.DataFrame({"id": range(ROWS), "amount": amount.round(4), "channel": channel, "fraud": label}).assign(
        share=share
    )


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("claims")
    data = claims()
    data.to_csv(folder / "claims.csv", index=False)
    data.drop(columns=["fraud", "share"]).to_csv(folder / "new.csv", index=False)
    (folder / "c.yaml").write_text(CONFIG, encoding="utf-8")
    done = headrace(folder, "run", "c.yaml")
    assert done.code == 0, done.out + done.err
    predicted = headrace(folder, "predict", "c.yaml", "--input", "new.csv", "--output", "p.csv")
    assert predicted.code == 0, predicted.err
    data["p"] = pd.read_csv(folder / "p.csv")["probability_yes"]
    data["split"] = data["id"].map(splits(done.uri("ExampleGen", "examples")))
    training = (done.uri("Trainer", "model_run") / "training.json").read_text()
    model = next((folder / "serving" / "claims").iterdir())
    return Story(done, data, read_evaluation(done.uri("Evaluator", "evaluation")), training, model)


def test_rows_without_a_label_are_in_no_split_and_counted(story: Story) -> None:
    missing = story.data["fraud"] == ""
    assert (story.data["split"].isna() == missing).all()
    assert f"{missing.sum():,} of {ROWS:,} rows" in story.done.ending("data")


def test_training_records_the_mean_weight_and_the_weights_of_the_classes(story: Story) -> None:
    train = story.rows("train")
    often = np.repeat(train["fraud"], (train["share"] * 2).astype(int))
    no, yes = compute_class_weight("balanced", classes=np.array(["no", "yes"]), y=often)
    mean = train["share"].mean()
    words = f"weights of 'share' divided by their mean, {mean:.4g}; class weights: no {no:.4g}, yes {yes:.4g}"
    assert words in json.loads(story.training)["input"]


def test_evaluation_uses_the_column_and_not_the_weights_of_the_classes(story: Story) -> None:
    test, found = story.rows("test"), story.evaluation
    chosen: list[tuple[pd.DataFrame, dict[str, float | None]]] = [(test, found.metrics)]
    chosen += [(test[test["channel"] == one.name.split(" = ")[1]], one.metrics) for one in found.slices]
    assert len(chosen) == 4
    for rows, metrics in chosen:
        y, weight = rows["fraud"] == "yes", rows["share"]
        above = rows["p"] > 0.5
        assert metrics["binary_crossentropy"] == pytest.approx(
            sklearn.metrics.log_loss(y, rows["p"], sample_weight=weight, labels=[False, True]), rel=1e-4
        )
        assert metrics["binary_accuracy"] == pytest.approx(
            sklearn.metrics.accuracy_score(y, above, sample_weight=weight)
        )
    positive = test.loc[test["fraud"] == "yes", "share"].sum() / test["share"].sum()
    assert found.constant["binary_accuracy"] == pytest.approx(max(positive, 1 - positive))
    assert found.example_count == (test["share"] > 0).sum()
    report = (story.done.folder / "report.html").read_text(encoding="utf-8")
    assert f"{found.example_count} examples of the test split, weighted by the column share." in report


def test_balanced_classes_raise_the_predictions_above_the_share_of_the_rare_one(story: Story) -> None:
    train = story.rows("train")
    share = np.average(train["fraud"] == "yes", weights=train["share"])
    assert share < 0.25
    assert np.average(train["p"], weights=train["share"]) > share + 0.05


def test_the_model_neither_needs_nor_returns_the_weight(story: Story) -> None:
    signatures = tf.saved_model.load(str(story.model)).signatures
    transformed = signatures["transform_features"].structured_outputs
    assert {*transformed} == {"amount", "channel", "fraud"}
    assert {*signatures["serving_raw"].structured_input_signature[1]} == {"amount", "channel"}
