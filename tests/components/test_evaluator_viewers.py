"""What TFMA's own viewer draws of an evaluation, in a real browser: its JavaScript is in TFMA's wheel.

The page is the one that TFMA makes for Colab, with the data that it hands to its Jupyter widget. The viewer draws its
tables and charts with Google Charts, which it loads from the network: google_charts.js stands in for it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import tensorflow_model_analysis as tfma
from browsing import watched
from evaluator_runs import evaluate, predictions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headrace.components.evaluation.result import Evaluation

STATIC = Path(tfma.__file__).parent / "static"
CHARTS = Path(__file__).parent / "google_charts.js"
PAGE = """<!doctype html><html lang="en"><body><script src="vulcanized_tfma.js"></script>
<{tag} id="component"></{tag}>
<script>
const given = JSON.parse(atob("{given}"));
Object.assign(document.getElementById("component"), {config: given.config, data: given.data});
</script></body></html>"""
SHOWN = """(row) => [...row.cells].map((cell) => {
  const bounded = cell.querySelector("tfma-bounded-value");
  const parts = bounded ? [...bounded.shadowRoot.children].filter((one) => one.localName !== "style") : [cell];
  return parts.map((one) => one.textContent).join(" ").trim();
})"""
WITHOUT_BARS = "highlightHistogramBuckets_"
"""The viewer marks bars of the chart's drawing, which the stand-in does not make."""
NO_DRAWING = "Cannot read properties of undefined (reading 'children')"
"""What it reports when there is none, as a page error."""
METRICS = ("auc", "precision@0.3", "recall_at_precision@0.8", "binary_accuracy")


@pytest.fixture(scope="module")
def judged(examples: Any, models: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Evaluation, Path]:
    folder = tmp_path_factory.mktemp("evaluated")
    found, _ = evaluate(folder, "binary", examples, models["binary"], metrics=METRICS)
    return found, folder / "evaluation"


@pytest.fixture(scope="module")
def classes(examples: Any, models: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evaluation of a label of three classes."""
    folder = tmp_path_factory.mktemp("classes")
    evaluate(folder, "multiclass", examples, models["multiclass"])
    return folder / "evaluation"


@contextlib.contextmanager
def viewer(
    view: Any, tag: str, browser: Browser, folder: Path, at: str = "table[data-chart=Table] tr"
) -> Iterator[Page]:
    """A viewer with its data, without a network. tag: of its element; at: where two rows are waited for."""
    given = base64.b64encode(json.dumps({"config": view.config, "data": view.data}).encode()).decode()
    (folder / "index.html").write_text(PAGE.replace("{tag}", tag).replace("{given}", given), encoding="utf-8")
    shutil.copy(STATIC / "vulcanized_tfma.js", folder)
    with watched(browser, (folder / "index.html").as_uri(), offline=True) as page:
        page.page.route("https://www.gstatic.com/charts/loader.js", lambda route: route.fulfill(path=CHARTS))
        page.page.route("https://fonts.googleapis.com/**", lambda route: route.fulfill(body=""))
        page.page.goto(page.home)
        page.page.locator(at).nth(1).wait_for(state="attached")
        yield page.page
        assert [error for error in page.errors if WITHOUT_BARS not in error and error != NO_DRAWING] == []


@pytest.fixture
def drawn(judged: tuple[Evaluation, Path], browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The viewer with the slices by hour."""
    view = tfma.view.render_slicing_metrics(tfma.load_eval_result(str(judged[1])), slicing_column="hour")
    with viewer(view, "tfma-nb-slicing-metrics", browser, tmp_path) as page:
        yield page


def test_the_viewer_shows_each_metric_of_each_slice_with_its_interval(
    judged: tuple[Evaluation, Path], drawn: Page
) -> None:
    evaluation, _ = judged
    heading, *rows = drawn.locator("table[data-chart=Table] tr").evaluate_all(f"(rows) => rows.map({SHOWN})")
    assert sorted(heading[1:]) == sorted((*METRICS, "example_count"))
    slices = {each.name.replace(" = ", ":"): each for each in evaluation.slices}
    assert {row[0] for row in rows} == slices.keys()
    for row in rows:
        found, expected = dict(zip(heading, row, strict=True)), slices[row[0]]
        assert int(found["example_count"]) == expected.example_count
        for name in METRICS:
            value, ends = expected.metrics[name], expected.intervals.get(name)
            numbers = [float(number) for number in re.findall(r"-?\d+\.\d+|-?\d+", found[name])]
            assert numbers == pytest.approx([value, *(ends or ())], abs=1e-4), (row[0], name)
            assert ends is not None, (row[0], name)


def test_the_viewer_offers_every_metric_and_counts_slices_by_the_chosen_one(
    judged: tuple[Evaluation, Path], drawn: Page
) -> None:
    evaluation, _ = judged
    overview = drawn.locator("table[data-chart=ColumnChart]").first.locator("tr")
    heading, *bars = overview.evaluate_all(f"(rows) => rows.map({SHOWN})")
    assert heading[1] == "example_count"
    assert {int(bar[1]) for bar in bars} == {each.example_count for each in evaluation.slices}
    options = {text.strip() for text in drawn.locator("paper-item").all_text_contents()}
    assert {*METRICS} <= options


def test_the_viewer_of_time_series_shows_the_metrics_of_several_runs(
    judged: tuple[Evaluation, Path], examples: Any, models: Any, browser: Browser, tmp_path: Path
) -> None:
    other, _ = evaluate(tmp_path / "later", "binary", examples, models["worse"], metrics=METRICS)
    runs = [judged[0], other]
    folders = [judged[1], tmp_path / "later" / "evaluation"]
    results = tfma.load_eval_results([str(folder) for folder in folders], mode=tfma.constants.MODEL_CENTRIC_MODE)
    view = tfma.view.render_time_series(results)
    with viewer(view, "tfma-nb-time-series", browser, tmp_path) as page:
        heading, *rows = page.locator("table[data-chart=Table] tr").evaluate_all(f"(rows) => rows.map({SHOWN})")
    column = heading.index("auc")
    shown = sorted(float(re.findall(r"-?\d+\.\d+", row[column])[0]) for row in rows)
    assert shown == pytest.approx(sorted(run.metrics["auc"] or 0.0 for run in runs), abs=1e-4)


def test_the_viewer_shows_the_metrics_and_the_residuals_of_a_number(
    data: Any, examples: Any, models: Any, browser: Browser, tmp_path: Path
) -> None:
    names = ("mean_absolute_error", "r_squared")
    evaluation, _ = evaluate(tmp_path, "regression", examples, models["regression"], metrics=names)
    result = tfma.load_eval_result(str(tmp_path / "evaluation"))
    view = tfma.view.render_slicing_metrics(result, slicing_column="hour")
    with viewer(view, "tfma-nb-slicing-metrics", browser, tmp_path) as page:
        heading, *rows = page.locator("table[data-chart=Table] tr").evaluate_all(f"(rows) => rows.map({SHOWN})")
    slices = {each.name.replace(" = ", ":"): each for each in evaluation.slices}
    assert {row[0] for row in rows} == slices.keys()
    for row in rows:
        for name in names:
            numbers = [float(number) for number in re.findall(r"-?\d+\.\d+|-?\d+", row[heading.index(name)])]
            expected = [slices[row[0]].metrics[name], *slices[row[0]].intervals[name]]
            assert numbers == pytest.approx(expected, abs=1e-4), (row[0], name)
    with viewer(
        tfma.view.render_plot(result), "tfma-nb-plot", browser, tmp_path, at="table[data-chart=ComboChart] tr"
    ) as page:
        page.wait_for_timeout(1000)
        residuals = charted(page, "ComboChart", "PredictionResidual")
    p, labels = predictions(models["regression"], data)[:, 0], data["regression"]
    assert sum(float(row[-2]) for row in residuals) == len(labels)
    first, second = (float(row[0]) for row in residuals[1:3])
    for row in residuals[1:-1]:
        here = np.floor((p - float(row[0])) / (second - first) + 0.5) == 0
        assert float(row[-2]) == here.sum()
        if here.any():
            assert float(row[1]) == pytest.approx((labels - p)[here].mean(), abs=1e-6)


def charted(page: Page, kind: str, heading: str) -> list[list[str]]:
    """The rows of the chart of a kind whose headings begin so, and which has any."""
    charts = page.locator(f"table[data-chart={kind}]").evaluate_all(
        f"(charts) => charts.map((chart) => [...chart.rows].map({SHOWN}))"
    )
    (found,) = {json.dumps(rows) for first, *rows in charts if "".join(first).startswith(heading) and rows}
    rows: list[list[str]] = json.loads(found)
    return rows


@pytest.mark.parametrize("hour", [None, 2])
def test_the_viewer_of_plots_draws_calibration_and_matrices_of_the_whole_split_and_of_a_slice(
    judged: tuple[Evaluation, Path], data: Any, models: Any, browser: Browser, tmp_path: Path, hour: int | None
) -> None:
    rows, steps = np.arange(len(data["hour"])), 1000 if hour is None else 100
    chosen = slice(None) if hour is None else (data["hour"] == hour) & (rows % 10 != 0)
    p, labels = predictions(models["binary"], data)[:, 0][chosen], data["binary"][chosen]
    spec = tfma.SlicingSpec(feature_values={"hour": str(hour)}) if hour is not None else None
    view = tfma.view.render_plot(tfma.load_eval_result(str(judged[1])), slicing_spec=spec)
    with viewer(view, "tfma-nb-plot", browser, tmp_path, at="table[data-chart=ComboChart] tr") as page:
        page.wait_for_timeout(1000)
        residuals, roc = charted(page, "ComboChart", "PredictionResidual"), charted(page, "LineChart", "FPR")
        decisions = charted(page, "LineChart", "Threshold")
    assert sum(float(row[-2]) for row in residuals) == len(labels)
    assert len(roc) == len(decisions) == steps + 2
    for threshold in (0.2, 0.5, 0.8):
        above = p >= threshold + 1e-4  # the next of TFMA's 10,000 steps
        (row,) = (row for row in decisions if float(row[0]) == threshold)
        shown = float(row[1]), float(row[3]), float(row[5])
        expected = (above == labels).mean(), labels[above].mean(), above[labels == 1].mean()
        assert shown == pytest.approx(expected)
    points = {(round(float(row[0]), 6), round(float(row[3]), 6)) for row in roc}
    above = p >= 0.5001
    assert (round(above[labels == 0].mean(), 6), round(above[labels == 1].mean(), 6)) in points


@pytest.mark.parametrize("hour", [None, 2])
def test_the_viewer_of_plots_draws_the_matrix_of_classes(
    classes: Path, data: Any, models: Any, browser: Browser, tmp_path: Path, hour: int | None
) -> None:
    rows = np.arange(len(data["hour"]))
    chosen = slice(None) if hour is None else (data["hour"] == hour) & (rows % 10 != 0)
    predicted = predictions(models["multiclass"], data).argmax(1)[chosen]
    counts = pd.crosstab(data["multiclass"][chosen], predicted)
    spec = tfma.SlicingSpec(feature_values={"hour": str(hour)}) if hour is not None else None
    view = tfma.view.render_plot(tfma.load_eval_result(str(classes)), slicing_spec=spec)
    cell = "tfma-multi-class-confusion-matrix-at-thresholds .cell"
    with viewer(view, "tfma-nb-plot", browser, tmp_path, at=cell) as page:
        listed = page.locator(cell).evaluate_all(CELLS)
    heading, *lines = (line for line in pd.DataFrame(listed).pivot_table("text", "row", "column", "first").to_numpy())
    assert [*heading] == ["Class Id", "Total", "0", "1", "2"]
    for actual, (name, total, *found) in enumerate(lines):
        expected = [int(counts.get(each, {}).get(actual, 0)) for each in range(3)]
        assert (name, int(total), [int(one or 0) for one in found]) == (str(actual), sum(expected), expected)


CELLS = """(cells) => cells.filter((one) => one.offsetParent).map((one) => (
  {row: Number(one.getAttribute("row")), column: Number(one.getAttribute("column")), text: one.innerText.trim()}))"""
"""The cells of the matrix that are visible."""
