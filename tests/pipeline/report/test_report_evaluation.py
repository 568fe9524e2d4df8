"""What the evaluation section shows of intervals, classes, decisions and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from headrace.components.evaluation.result import (
    ClassMetrics,
    Confusion,
    Curves,
    DecisionPoint,
    Evaluation,
    Metrics,
    SliceMetrics,
    ThresholdCheck,
    write_evaluation,
)
from headrace.pipeline.report.evaluation import evaluation_section
from headrace.pipeline.report.formatting import NONE
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.verdict import ModelVerdict, read_verdict

PLAIN = Evaluation("test", 100, 0, {"accuracy": 0.8, "macro_f1": 0.7}, None, (), (), True, (), None)


def _table(run: Any, evaluation: Evaluation, *headings: str) -> dict[str, dict[str, str]]:
    """A table of the report of a run with this evaluation: {row's heading: {column's heading: text}}."""
    write_evaluation(run.output("Evaluator", "evaluation"), evaluation)
    found: dict[str, dict[str, str]] = run.report().table(*headings)
    return found


def test_metrics_have_their_intervals_and_those_without_a_dash(run: Any) -> None:
    rows = _table(run, replace(PLAIN, intervals={"accuracy": (0.71234, 0.88766)}), "Metric")
    assert {name: row["95% interval"] for name, row in rows.items()} == {
        "accuracy": "0.7123 to 0.8877",
        "macro_f1": NONE,
    }


def test_change_has_its_interval_and_is_better_or_worse_only_if_that_leaves_no_doubt(run: Any) -> None:
    baseline: Metrics = {"accuracy": 0.79, "macro_f1": 0.65}
    change = {"accuracy": (-0.01, 0.03), "macro_f1": (0.02, 0.08)}
    evaluation = replace(PLAIN, baseline=baseline, intervals={"accuracy": (0.7, 0.9)}, change=change)
    rows = _table(run, evaluation, "Metric")
    assert {name: row["Change"].split() for name, row in rows.items()} == {
        "accuracy": ["+0.0100", "\N{MINUS SIGN}0.0100", "to", "+0.0300"],
        "macro_f1": ["+0.0500", "+0.0200", "to", "+0.0800"],
    }
    assert _judged(evaluation) == [None, True]
    certain = replace(evaluation, change={"accuracy": (-0.03, -0.01)}, metrics={"accuracy": 0.77})
    assert _judged(certain) == [False]


@pytest.mark.parametrize(
    ("value", "baseline", "better"),
    [(1.02, 1.05, True), (1.0, 1.05, True), (0.9, 0.95, False), (1.04, 1.0, False), (0.955, 1.04, None)],
)
def test_calibration_is_better_if_it_is_surely_nearer_to_one(
    value: float, baseline: float, better: bool | None
) -> None:
    change = (value - baseline - 0.01, value - baseline + 0.01)
    evaluation = replace(
        PLAIN, metrics={"calibration": value}, baseline={"calibration": baseline}, change={"calibration": change}
    )
    assert _judged(evaluation) == [better]


def _judged(evaluation: Evaluation) -> list[bool | None]:
    """Whether each metric is better than the baseline's."""
    return [metric.better for metric in evaluation_section(evaluation, ModelVerdict(), None).metrics]


def test_bounds_of_slices_that_are_too_small_name_the_bound_and_the_setting(run: Any) -> None:
    checks = (
        ThresholdCheck("accuracy", "min", None, None, None, passed=False, slicing="hour"),
        ThresholdCheck("accuracy", "max_gap", None, None, None, passed=False, slicing="hour"),
    )
    run.output("Pusher", "pushed_model", {"pushed": 0})
    evaluation = replace(PLAIN, checks=checks, blessed=False, reasons=tuple(map(str, checks)))
    write_evaluation(run.output("Evaluator", "evaluation"), evaluation)
    rule = "accuracy is 0.8000; it must be known in each slice by hour with at least `min_examples` examples"
    assert read_verdict(RunFolder(run.folder, run.record)).reasons == (
        f"{rule}, to judge `min` (none is that large)",
        f"{rule}, to judge `max_gap` (fewer than two are that large)",
    )


def test_without_any_interval_there_is_no_column_for_them(run: Any) -> None:
    assert "95% interval" not in _table(run, PLAIN, "Metric")["accuracy"]


def test_classes_are_shown_by_name_with_what_is_predicted_for_them(run: Any) -> None:
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    label = {"key": "big_tipper", "kind": "multiclass", "classes": ["<b>cat", "dog ", "never"]}
    (run.folder / "config.yaml").write_text(yaml.safe_dump({**config, "label": label, "evaluate": {}}))
    confusion = Confusion((0, 1, 2), ((8.0, 2.0, 0.0), (1.0, 3.0, 0.0), (0.0, 5.0, 0.0)))
    rows = _table(run, replace(PLAIN, confusion=confusion), "Label", "Examples")
    names = ("<b>cat", '"dog "', "never")
    assert {name: [row[each] for each in ("Examples", *names)] for name, row in rows.items()} == {
        "<b>cat": ["10", "8", "2", "0"],
        '"dog "': ["4", "1", "3", "0"],
        "never": ["5", "0", "5", "0"],
    }
    assert {name: [row[each] for each in ("precision", "recall", "f1")] for name, row in rows.items()} == {
        "<b>cat": [f"{8 / 9:.4f}", "0.8000", f"{16 / 19:.4f}"],
        '"dog "': ["0.3000", "0.7500", f"{6 / 14:.4f}"],
        "never": [NONE, "0.0000", "0.0000"],
    }


def test_classes_have_their_areas_the_lowest_first(run: Any) -> None:
    classes = (ClassMetrics(0, 0.75, 0.9, 0.8, 0.7, 0.6), ClassMetrics(1, 0.25, 0.8, 0.5, 0.4, 0.3))
    unknown = ClassMetrics(2, 0.0, None, 0.0, 0.0, 0.0)
    of_one = replace(PLAIN, classes=(*classes, unknown))
    rows = _table(run, of_one, "Class", "Examples in it")
    assert {name: row["auc"] for name, row in rows.items()} == {"1": "0.8000", "0": "0.9000", "2": NONE}
    assert [rows["1"][each] for each in ("Examples in it", "precision", "recall", "f1")] == [
        "25%", "0.5000", "0.4000", "0.3000"
    ]  # fmt: skip


@pytest.mark.parametrize(("threshold", "several", "counts"), [
    (None, "Each class against all others.", "the most probable class counts as predicted."),
    (0.3, "An example may belong to several.", "a class counts as predicted above a probability of 0.3."),
])  # fmt: skip
def test_what_classes_are_and_when_they_count_as_predicted_is_said(
    run: Any, threshold: float | None, several: str, counts: str
) -> None:
    classes = (ClassMetrics(0, 0.75, 0.9, 0.8, 0.7, 0.6),)
    evaluation = replace(PLAIN, classes=classes, decision_threshold=threshold)
    write_evaluation(run.output("Evaluator", "evaluation"), evaluation)
    page = run.report().all_text()
    assert several in page
    assert counts in page


def test_decisions_are_shown_at_a_few_thresholds_and_drawn_at_all(run: Any) -> None:
    points = tuple(DecisionPoint(1 - n / 100, n / 100, 0.9, n / 99, 0.5) for n in range(1, 100))
    evaluation = replace(PLAIN, curves=Curves(decisions=points), decision_threshold=0.3)
    rows = _table(run, evaluation, "Threshold", "Examples above it")
    assert [*rows] == ["0.89", "0.78", "0.67", "0.56", "0.45", "0.34", "0.23", "0.12", "0.01"]
    assert rows["0.67"] == {
        "Threshold": "0.67", "Examples above it": "33%", "precision": "0.9000", "recall": "0.3333", "f1": "0.5000"
    }  # fmt: skip
    (picture,) = evaluation_section(evaluation, ModelVerdict(), None).pictures
    assert ">0.3<" in picture.chart
    assert picture.legend == (("precision", "first"), ("recall", "second"))


def test_thresholds_close_to_one_are_told_apart_from_it_and_from_each_other(run: Any) -> None:
    points = tuple(DecisionPoint(threshold, 0.1, 0.9, 0.9, 0.9) for threshold in (0.99995, 0.99991, 0.5))
    rows = _table(run, replace(PLAIN, curves=Curves(decisions=points)), "Threshold", "Examples above it")
    assert [*rows] == ["0.99995", "0.99991", "0.5"]


def test_errors_of_numbers_are_drawn_over_the_share_of_examples() -> None:
    evaluation = replace(PLAIN, curves=Curves(errors=((0.05, -2.0), (0.5, 0.1), (0.95, 7.0))))
    (picture,) = evaluation_section(evaluation, ModelVerdict(), None).pictures
    assert picture.heading.startswith("Errors")
    assert picture.chart.count("<circle") == 3


@pytest.mark.parametrize(("ends", "shown"), [((0.5, 0.9), (0.0, 100.0)), ((0.7, 0.75), (50.0, 75.0)), (None, None)])
def test_the_interval_of_a_slice_ends_at_the_axis(
    ends: tuple[float, float] | None, shown: tuple[float, float] | None
) -> None:
    intervals = {"accuracy": ends} if ends else {}
    slices = (
        SliceMetrics("town = a", {"accuracy": 0.6}, 50, None, intervals),
        SliceMetrics("town = b", {"accuracy": 0.8}, 50, None),
    )
    (table,) = evaluation_section(replace(PLAIN, slices=slices), ModelVerdict(), None).slicings
    assert table.rows[0].ends_at == (None if shown is None else pytest.approx(shown))
    assert table.rows[1].ends_at is None
