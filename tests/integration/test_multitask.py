"""Several labels of one model, from `headrace init` to the predictions of one run.

The expected numbers are worked out from the rows of the file by NumPy and scikit-learn, label by label.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import tensorflow as tf
from command import Finished, headrace
from forks import ALL
from row_splits import splits

import headrace as api
from headrace.components.evaluation.result import Evaluation, read_evaluation

pytestmark = pytest.mark.slow

ROWS = 2000
TASKS = ["price", "sold", "grade"]
SET = ["train.epochs=6", "train.batch_size=64", "train.jit=off", "model.kind=dnn", "model.hidden=[16]"]


@dataclass(frozen=True)
class Story:
    """A run of what init wrote, and its predictions of all rows."""

    folder: Path
    init: Finished
    done: Finished
    data: pd.DataFrame
    predicted: pd.DataFrame
    evaluation: Evaluation
    model: Path

    @property
    def test(self) -> pd.DataFrame:
        """The predicted rows of the test split."""
        return self.predicted[(self.data["split"] == "test").to_numpy()]


def homes() -> pd.DataFrame:
    random = np.random.default_rng(5)
    area, age = random.normal(size=(2, ROWS)).round(4)
    color = random.choice(["red", "green"], ROWS)
    price = (200_000 + 40_000 * area + 9_000 * (color == "red") + 8_000 * random.normal(size=ROWS)).round(2)
    sold = np.where(area + age + 0.4 * random.normal(size=ROWS) > 0, "yes", "no").astype(object)
    sold[random.random(ROWS) < 0.25] = None
    grade = np.select([age > 0.5, age > -0.5], ["A", "B"], "C")
    columns = {"id": range(ROWS), "area": area, "age": age, "color": color}
    return pd.DataFrame({**columns, "price": price, "sold": sold, "grade": grade})


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("homes")
    data = homes()
    data.to_csv(folder / "homes.csv", index=False)
    labels = ["--label", "price,sold", "--label", "grade"]
    init = headrace(folder, "init", "homes.csv", *labels)
    assert init.code == 0, init.err
    sets = [word for one in [*SET, "data.columns=all"] for word in ("--set", one)]
    done = headrace(folder, "run", "homes.yaml", *sets)
    assert done.code == 0, done.out + done.err
    predicted = headrace(folder, "predict", "homes.yaml", "--input", "homes.csv", "--output", "p.csv")
    assert predicted.code == 0, predicted.err
    data["split"] = data["id"].map(splits(done.uri("ExampleGen", "examples")))
    model = next((folder / "serving" / "homes").iterdir())
    evaluation = read_evaluation(done.uri("Evaluator", "evaluation"))
    return Story(folder, init, done, data, pd.read_csv(folder / "p.csv"), evaluation, model)


def test_init_writes_a_task_for_each_label(story: Story) -> None:
    text = (story.folder / "homes.yaml").read_text(encoding="utf-8")
    for line in (
        "  kind: multitask",
        "    price: {kind: regression}",
        "    sold: {kind: binary, classes: ['no', 'yes'], missing: mask}",
        "    grade: {kind: multiclass, classes: [A, B, C]}",
        "  metrics: [price/r_squared, price/root_mean_squared_error,",
        "    sold/auc: {min: 0.55}",
    ):
        assert line in text, text
    missing = story.data["sold"].isna().sum()
    assert f"note: {missing:,} rows have no sold, and count for the other labels only" in story.init.err


def test_predictions_have_the_columns_of_each_task_prefixed_with_its_name(story: Story) -> None:
    assert [*story.predicted][-8:] == [
        "price_prediction",
        "sold_prediction",
        "sold_probability_no",
        "sold_probability_yes",
        "grade_prediction",
        *(f"grade_probability_{name}" for name in "ABC"),
    ]
    p = story.predicted
    assert (p["sold_prediction"] == np.where(p["sold_probability_yes"] > 0.5, "yes", "no")).all()
    grades = p[[f"grade_probability_{name}" for name in "ABC"]].to_numpy()
    assert (p["grade_prediction"] == np.array([*"ABC"])[grades.argmax(axis=1)]).all()
    np.testing.assert_allclose(grades.sum(axis=1), 1, rtol=1e-5)


def by_scikit_learn(rows: pd.DataFrame) -> dict[str, Any]:
    """The metrics that init asked for, each over the rows that have the label."""
    sold = rows[rows["sold"].notna()]
    yes, p = sold["sold"] == "yes", sold["sold_probability_yes"]
    grades = rows[[f"grade_probability_{name}" for name in "ABC"]]
    errors = rows["price_prediction"] - rows["price"]
    return {
        "price/r_squared": pytest.approx(1 - np.mean(errors**2) / np.var(rows["price"]), rel=1e-3),
        "price/root_mean_squared_error": pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-3),
        "price/mean_absolute_error": pytest.approx(np.mean(np.abs(errors)), rel=1e-3),
        "sold/auc": pytest.approx(sklearn.metrics.roc_auc_score(yes, p), abs=1e-3),
        "sold/binary_accuracy": pytest.approx(np.mean((p > 0.5) == yes)),
        "sold/binary_crossentropy": pytest.approx(sklearn.metrics.log_loss(yes, p), rel=1e-3),
        "grade/accuracy": pytest.approx(np.mean(rows["grade_prediction"] == rows["grade"])),
        "grade/crossentropy": pytest.approx(sklearn.metrics.log_loss(rows["grade"], grades), rel=1e-3),
    }


def test_metrics_of_the_split_and_of_slices_are_those_of_scikit_learn_for_each_task(story: Story) -> None:
    test = story.test
    assert story.evaluation.metrics == by_scikit_learn(test)
    slices = {one.name: one for one in story.evaluation.slices}
    assert {*slices} == {"color = red", "color = green"}
    for color in ("red", "green"):
        rows = test[test["color"] == color]
        assert slices[f"color = {color}"].metrics == by_scikit_learn(rows)
        assert slices[f"color = {color}"].example_count == len(rows)
    counts = {name: (one.example_count, one.unlabelled) for name, one in story.evaluation.tasks.items()}
    lacking = int(test["sold"].isna().sum())
    assert counts == {"price": (len(test), 0), "sold": (len(test) - lacking, lacking), "grade": (len(test), 0)}


def test_the_model_must_beat_the_best_constant_in_each_task(story: Story) -> None:
    test = story.test
    shares = test["grade"].value_counts(normalize=True)
    yes = (test["sold"].dropna() == "yes").mean()
    limits = {check.metric: check.limit for check in story.evaluation.checks if check.bound == "better_than_constant"}
    assert limits == {
        "price/mean_squared_error": pytest.approx(np.var(test["price"]), rel=1e-4),
        "sold/binary_crossentropy": pytest.approx(-yes * np.log(yes) - (1 - yes) * np.log(1 - yes)),
        "grade/crossentropy": pytest.approx(-np.sum(shares * np.log(shares))),
    }
    assert story.evaluation.blessed


def test_a_threshold_that_one_task_misses_keeps_the_model_back_and_trains_nothing(story: Story) -> None:
    sets = [word for one in [*SET, "data.columns=all"] for word in ("--set", one)]
    wanted = "evaluate.thresholds.grade/accuracy.min=0.9999"
    again = headrace(story.folder, "run", "homes.yaml", *sets, "--set", wanted)
    assert again.code == 0, again.err
    assert "not blessed" in again.out
    assert "grade/accuracy is" in again.out
    evaluation = read_evaluation(again.uri("Evaluator", "evaluation"))
    assert [reason.split(" ")[0] for reason in evaluation.reasons] == ["grade/accuracy"]
    assert again.uri("Trainer", "model") == story.done.uri("Trainer", "model")


def test_beam_comes_to_the_same_evaluation(story: Story) -> None:
    changed = ["beam.runner=direct", "evaluate.thresholds.price/mean_absolute_error.max=1e9"]
    sets = [word for one in [*SET, "data.columns=all", *changed] for word in ("--set", one)]
    again = headrace(story.folder, "run", "homes.yaml", *sets)
    assert again.code == 0, again.err
    assert again.statuses()["Trainer"] == "cached"
    assert again.statuses()["Evaluator"] == "done"
    assert again.run_dir is not None
    assert "1 pipeline, " in (again.run_dir / "run.json").read_text(encoding="utf-8")
    evaluation = read_evaluation(again.uri("Evaluator", "evaluation"))
    assert evaluation.metrics == story.evaluation.metrics
    assert evaluation.intervals == story.evaluation.intervals
    assert {one.name: one.metrics for one in evaluation.slices} == {
        one.name: one.metrics for one in story.evaluation.slices
    }
    for name, task in evaluation.tasks.items():
        assert task.curves == story.evaluation.tasks[name].curves
        assert task.worst == story.evaluation.tasks[name].worst


def test_the_loss_weight_trains_again_transforms_nothing_and_compares_each_task_with_the_baseline(story: Story) -> None:
    changed = ["train.epochs=1", "label.tasks.sold.loss_weight=0.25"]
    changed += ["evaluate.thresholds.sold/auc.not_worse_than_baseline_by=0.9"]
    sets = [word for one in [*SET, "data.columns=all", *changed] for word in ("--set", one)]
    again = headrace(story.folder, "run", "homes.yaml", *sets)
    assert again.code == 0, again.err
    for component, output in (("DataGate", "verdict"), ("Transform", "transform_graph")):
        assert again.uri(component, output) == story.done.uri(component, output), component
    assert again.uri("Trainer", "model") != story.done.uri("Trainer", "model")
    evaluation = read_evaluation(again.uri("Evaluator", "evaluation"))
    assert evaluation.baseline == story.evaluation.metrics
    (check,) = [one for one in evaluation.checks if one.compares]
    assert (check.metric, check.passed) == ("sold/auc", True)
    assert check.limit == pytest.approx((story.evaluation.metrics["sold/auc"] or 0) - 0.9)
    assert {"price/root_mean_squared_error", "sold/auc", "grade/accuracy"} <= evaluation.change.keys()


def test_the_served_model_has_outputs_of_each_task(story: Story) -> None:
    signatures = tf.saved_model.load(str(story.model)).signatures
    raw = {"area": tf.float32, "age": tf.float32, "color": tf.string}
    served = signatures["serving_raw"](
        **{name: tf.constant(story.data[name].tolist(), kind) for name, kind in raw.items()}
    )
    np.testing.assert_allclose(served["price_predictions"][:, 0], story.predicted["price_prediction"], rtol=1e-5)
    np.testing.assert_allclose(
        served["sold_probabilities"], story.predicted[["sold_probability_no", "sold_probability_yes"]], rtol=1e-3
    )
    assert served["grade_classes"][0].numpy().tolist() == [b"A", b"B", b"C"]
    parts = [served[f"{name}_predictions"] for name in TASKS]
    np.testing.assert_array_equal(served["predictions"], np.concatenate(parts, axis=1))


def test_python_predicts_the_same_columns(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(story.folder)
    found = api.runs("homes.yaml")[-1].model().predict(story.data[["area", "age", "color"]].head(20))
    columns = [*story.predicted][-8:]
    assert found.column_names[-8:] == columns
    for name in ("price_prediction", "sold_probability_yes", "grade_probability_B"):
        np.testing.assert_allclose(found[name].to_numpy(), story.predicted[name][:20], rtol=1e-3)


def test_report_and_card_show_every_task(story: Story) -> None:
    report = (story.done.folder / "report.html").read_text(encoding="utf-8")
    places = [report.index(f"<h3>Task {name}: ") for name in TASKS]
    assert places == sorted(places)
    sold = report[places[1] : places[2]]
    assert '<th scope="row">yes</th>' in sold
    assert "ROC: true positives" in sold
    assert '<th scope="row">price/root_mean_squared_error</th>' in report
    assert "Worst predictions of task grade" in report
    card = (story.done.folder / "model_card.md").read_text(encoding="utf-8")
    assert "price, a number. sold, one of 2 classes: no, yes." in card


def test_training_reports_the_metrics_of_each_task(story: Story) -> None:
    training = json.loads((story.done.uri("Trainer", "model_run") / "training.json").read_text())
    best = training["epochs"][training["best_epoch"] - 1]["metrics"]
    rows = story.predicted[(story.data["split"] == "eval").to_numpy()]
    known = rows[rows["sold"].notna()]
    assert best["val_sold/binary_accuracy"] == pytest.approx(
        np.mean(known["sold_prediction"] == known["sold"]), abs=1e-4
    )
    assert best["val_price/mean_absolute_error"] == pytest.approx(
        np.mean(np.abs(rows["price_prediction"] - rows["price"])), rel=1e-3
    )


def test_compiled_pipeline_of_several_labels_equals_a_local_run(story: Story) -> None:
    """`headrace verify`: what Kubeflow would run gives the same examples, statistics, graph, metrics and model."""
    given = [*SET, "train.epochs=2", "deploy.canary=null", "evaluate.importance=none"]
    sets = [word for one in given for word in ("--set", one)]
    done = headrace(story.folder, "verify", "homes.yaml", *sets, **{ALL: "1"})
    found = {line.split()[1].rstrip(":"): line for line in done.out.splitlines() if line.startswith("same")}
    assert done.code == 0, done.out + done.err
    assert "byte for byte" in found["ExampleGen.examples"]
    assert "byte for byte" in found["Transform.transformed_examples"]
    assert "node for node" in found["Transform.transform_graph"]
    metrics = re.search(r"(\d+) metrics in (\d+) slices", found["Evaluator.evaluation"])
    assert metrics is not None
    assert int(metrics[1]) >= len(TASKS)
    assert "Pusher.pushed_model" in found
    assert not [line for line in done.out.splitlines() if line.startswith("DIFFERENT")]
