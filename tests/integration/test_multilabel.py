"""Labels with several classes, from JSON lines to the predictions of one run.

The expected numbers are worked out from the rows of the file by NumPy and scikit-learn.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import tensorflow as tf
import tensorflow_model_analysis as tfma
from command import Finished, headrace
from row_splits import splits
from test_evaluator_viewers import SHOWN, viewer

from headrace.components.evaluation.result import Evaluation, read_evaluation

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

ROWS = 2400
GENRES = ["drama", "comedy", "action"]
CONFIG = """\
pipeline: {name: films}
data: {source: {kind: jsonl, path: films.jsonl}, splits: {train: 6, eval: 2, test: 2}}
label: {key: genres, kind: multilabel, classes: [drama, comedy, action], missing: none, weight: votes}
features:
  pace: {column: numeric}
  studio: {column: vocabulary}
model: {kind: dnn, hidden: [8]}
train: {epochs: 4, batch_size: 64, learning_rate: 0.02, jit: "off"}
evaluate: {slices: [studio], decision_threshold: 0.4, thresholds: {macro_auc: {min: 0.6}}}
"""


@dataclass(frozen=True)
class Story:
    """A run and its predictions of all rows. p: [rows, classes]; labels: the same, of 0 and 1."""

    done: Finished
    data: pd.DataFrame
    labels: np.ndarray
    p: np.ndarray
    evaluation: Evaluation
    model: Path


def films() -> pd.DataFrame:
    random = np.random.default_rng(9)
    pace, studio = random.normal(size=ROWS).round(4), random.choice(["north", "south"], ROWS)
    chances = np.stack([pace < -0.2, studio == "north", pace > 1], axis=1) * 0.7 + 0.1
    drawn = random.random(chances.shape) < chances
    # in another order than that of the classes
    genres = [[GENRES[k] for k in reversed(range(3)) if row[k]] for row in drawn]
    votes = random.choice([0.5, 1.0, 4.0], ROWS)
    return pd.DataFrame({"id": range(ROWS), "pace": pace, "studio": studio, "genres": genres, "votes": votes})


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("films")
    data = films()
    data.to_json(folder / "films.jsonl", orient="records", lines=True)
    data[["pace", "studio"]].to_csv(folder / "new.csv", index=False)
    (folder / "c.yaml").write_text(CONFIG, encoding="utf-8")
    done = headrace(folder, "run", "c.yaml")
    assert done.code == 0, done.out + done.err
    predicted = headrace(folder, "predict", "c.yaml", "--input", "new.csv", "--output", "p.csv")
    assert predicted.code == 0, predicted.err
    found = pd.read_csv(folder / "p.csv")
    assert [*found] == ["pace", "studio", "prediction", *(f"probability_{genre}" for genre in GENRES)]
    likely = [[genre for genre in GENRES if row[f"probability_{genre}"] > 0.5] for _, row in found.iterrows()]
    assert found["prediction"].fillna("").to_list() == ["|".join(genres) for genres in likely]
    assert len({*map(tuple, likely)}) > 2
    data["split"] = data["id"].map(splits(done.uri("ExampleGen", "examples")))
    labels = np.array([[float(genre in row) for genre in GENRES] for row in data["genres"]])
    model = next((folder / "serving" / "films").iterdir())
    evaluation = read_evaluation(done.uri("Evaluator", "evaluation"))
    return Story(done, data, labels, found.iloc[:, 3:].to_numpy(), evaluation, model)


def example(pace: float, studio: str, genres: list[str]) -> bytes:
    found = tf.train.Example()
    found.features.feature["pace"].float_list.value.append(pace)
    found.features.feature["studio"].bytes_list.value.append(studio.encode())
    found.features.feature["genres"].bytes_list.value.extend(genre.encode() for genre in genres)
    return found.SerializeToString()


def test_metrics_of_the_split_and_of_slices_are_those_of_scikit_learn(story: Story) -> None:
    test = (story.data["split"] == "test").to_numpy()
    chosen = [(test, story.evaluation.metrics)]
    studios = {one.name.split(" = ")[1]: one.metrics for one in story.evaluation.slices}
    chosen += [(test & (story.data["studio"] == name).to_numpy(), metrics) for name, metrics in studios.items()]
    assert len(chosen) == 3
    for rows, metrics in chosen:
        y, p, weights = story.labels[rows], story.p[rows], {"sample_weight": story.data["votes"][rows]}
        above = p > 0.4
        assert metrics == {
            "macro_auc": pytest.approx(sklearn.metrics.roc_auc_score(y, p, average="macro", **weights), abs=5e-4),
            "micro_auc": pytest.approx(sklearn.metrics.roc_auc_score(y, p, average="micro", **weights), abs=5e-4),
            "macro_f1": pytest.approx(sklearn.metrics.f1_score(y, above, average="macro", **weights)),
            "micro_f1": pytest.approx(sklearn.metrics.f1_score(y, above, average="micro", **weights)),
            "subset_accuracy": pytest.approx(sklearn.metrics.accuracy_score(y, above, **weights)),
            "hamming_loss": pytest.approx(sklearn.metrics.hamming_loss(y, above, **weights)),
            "binary_crossentropy": pytest.approx(
                sklearn.metrics.log_loss(y.ravel(), p.ravel(), sample_weight=np.repeat(weights["sample_weight"], 3)),
                rel=1e-4,
            ),
        }


def test_the_model_is_blessed_by_the_shares_of_the_classes(story: Story) -> None:
    test = (story.data["split"] == "test").to_numpy()
    weights = story.data["votes"][test]
    shares = np.tile(np.average(story.labels[test], axis=0, weights=weights), (test.sum(), 1))
    loss = sklearn.metrics.log_loss(
        story.labels[test].ravel(), shares.ravel(), sample_weight=np.repeat(weights.to_numpy(), 3)
    )
    limits = {check.bound: check.limit for check in story.evaluation.checks}
    assert limits == {"min": 0.6, "better_than_constant": pytest.approx(loss)}
    assert story.evaluation.blessed
    assert (story.evaluation.unlabelled, story.evaluation.example_count) == (0, test.sum())


def test_the_served_model_names_the_classes_and_returns_the_labels_for_the_evaluation(story: Story) -> None:
    signatures = tf.saved_model.load(str(story.model)).signatures
    columns = story.data[["pace", "studio", "genres"]]
    examples = tf.constant([example(*row) for row in columns.itertuples(index=False)])
    served = signatures["serving_default"](examples=examples)
    np.testing.assert_allclose(served["probabilities"], story.p, rtol=1e-5)
    np.testing.assert_array_equal(served["predictions"], served["probabilities"])
    assert served["classes"][7].numpy().tolist() == [genre.encode() for genre in GENRES]
    np.testing.assert_array_equal(signatures["transform_features"](examples=examples)["genres"], story.labels)
    raw = signatures["serving_raw"](
        pace=tf.constant(columns["pace"], tf.float32), studio=tf.constant([*columns["studio"]])
    )
    np.testing.assert_allclose(raw["probabilities"], story.p, rtol=1e-5)


def test_report_and_card_show_every_class(story: Story) -> None:
    test = (story.data["split"] == "test").to_numpy()
    weights = story.data["votes"][test]
    shares = np.average(story.labels[test], axis=0, weights=weights)
    assert [one.share for one in story.evaluation.classes] == pytest.approx(shares.tolist())
    report = (story.done.folder / "report.html").read_text(encoding="utf-8")
    table = report[report.index("<h3>Classes</h3>") :]
    worst_first = sorted(story.evaluation.classes, key=lambda one: one.auc or 0)
    places = [table.index(f'<th scope="row">{GENRES[one.number]}</th>') for one in worst_first]
    assert places == sorted(places)
    card = (story.done.folder / "model_card.md").read_text(encoding="utf-8")
    assert "genres, any of 3 classes: drama, comedy, action. The output is a probability for each." in card
    assert story.evaluation.worst is not None
    known = {*map(str, GENRES), "none"}
    assert all({*row.label.split(", ")} | {*row.prediction.split(", ")} <= known for row in story.evaluation.worst.rows)


def test_the_viewer_of_tfma_shows_the_metrics_of_each_studio(story: Story, browser: Browser, tmp_path: Path) -> None:
    result = tfma.load_eval_result(str(story.done.uri("Evaluator", "evaluation")))
    assert not result.plots  # TFMA draws none of several classes at once
    view = tfma.view.render_slicing_metrics(result, slicing_column="studio")
    with viewer(view, "tfma-nb-slicing-metrics", browser, tmp_path) as page:
        heading, *rows = page.locator("table[data-chart=Table] tr").evaluate_all(f"(rows) => rows.map({SHOWN})")
        offered = {text.strip() for text in page.locator("paper-item").all_text_contents()}
    slices = {one.name.replace(" = ", ":"): one for one in story.evaluation.slices}
    assert {row[0] for row in rows} == slices.keys() == {"studio:north", "studio:south"}
    counts = {"example_count", "weighted_example_count"}
    assert {*heading[1:]} == {*story.evaluation.metrics, *counts} <= offered
    test = story.data[story.data["split"] == "test"]
    for row in rows:
        found, one = dict(zip(heading, row, strict=True)), slices[row[0]]
        rated = test.loc["studio:" + test["studio"] == row[0], "votes"]
        assert [float(found[name]) for name in sorted(counts)] == [len(rated), pytest.approx(rated.sum())]
        for name, value in one.metrics.items():
            shown = [float(number) for number in re.findall(r"-?\d+\.\d+|-?\d+", found[name])]
            assert shown == pytest.approx([value, *one.intervals[name]], abs=1e-4), (row[0], name)


def test_training_reports_the_area_over_all_pairs(story: Story) -> None:
    training = json.loads((story.done.uri("Trainer", "model_run") / "training.json").read_text())
    rows = (story.data["split"] == "eval").to_numpy()
    area = sklearn.metrics.roc_auc_score(
        story.labels[rows], story.p[rows], average="micro", sample_weight=story.data["votes"][rows]
    )
    best = training["epochs"][training["best_epoch"] - 1]["metrics"]
    assert best["val_micro_auc"] == pytest.approx(area, abs=5e-3)  # Keras sums over 200 thresholds
