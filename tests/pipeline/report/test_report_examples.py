"""What the report shows of single examples, and of what predictions depend on; what `report.rows: none` withholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from headrace.components.canary.verdict import (
    AnswersVerdict,
    CanaryVerdict,
    DifferentAnswer,
    OddAnswer,
    SignatureVerdict,
)
from headrace.components.evaluation.result import (
    Evaluation,
    Explanation,
    FeatureImportance,
    PartialDependence,
    Screening,
    read_evaluation,
    write_evaluation,
)
from headrace.components.gates.verdict import DataVerdicts, GateRow, GateVerdict
from headrace.configs.loading.loader import load
from headrace.pipeline.report.evaluation import evaluation_section
from headrace.pipeline.report.formatting import NONE
from headrace.pipeline.results.record import Status
from headrace.pipeline.results.verdict import ModelVerdict

EVIL = "<script>alert(1)</script>"
EVIL_VALUE = '"><img src=x onerror=alert(2)>'


@pytest.fixture
def evaluation(whole: Any) -> Evaluation:
    """That of the run."""
    return read_evaluation(whole.artifacts / "Evaluator" / "evaluation" / "1")


def test_worst_examples_are_rows_with_label_prediction_loss_and_values(whole: Any) -> None:
    page = whole.report()
    rows = page.table("Label", "Prediction")
    assert rows["1"] == {
        "Label": "1", "Prediction": "0", "Loss": "4.5000", EVIL: "0.25", "company": EVIL_VALUE, "hour": "(missing)"
    }  # fmt: skip
    assert rows["0"]["company"] == "(empty)"
    assert rows["0"][EVIL] == "x" * 200 + "\\u202e"
    assert "with the first 3 of the columns that the model reads (4 more)" in page.all_text()
    assert not {"script", "img"} & {tag for tag, _ in page.tags}


def test_importance_has_its_error_and_less_important_columns_are_folded(whole: Any) -> None:
    page = whole.report()
    tables = [table for table in page.tables if table[0][0] == "Column" and "Increase" in table[0]]
    assert [len(table) - 1 for table in tables] == [12, 10]
    assert [cell.strip() for cell in tables[0][1]] == ["company", "", "0.5000", "0.0100"]
    assert tables[1][-1][0] == f"{EVIL}19"
    assert "10 less important columns" in page.all_text()
    assert page.table("company", "probability of 1")[EVIL_VALUE]["probability of 1"] == "0.6250"


def test_of_thousands_of_columns_the_most_important_are_listed(whole: Any, evaluation: Evaluation) -> None:
    importance = tuple(FeatureImportance(f"x{number}", 1 / (1 + number), 0.001) for number in range(5000))
    explanation = replace(evaluation.explanation, importance=importance)
    write_evaluation(whole.artifacts / "Evaluator" / "evaluation" / "1", replace(evaluation, explanation=explanation))
    page = whole.report()
    tables = [table for table in page.tables if table[0][0] == "Column" and "Increase" in table[0]]
    assert [row[0] for table in tables for row in table[1:]] == [f"x{number}" for number in range(200)]
    assert "188 less important columns" in page.all_text()
    assert "The other 4,800 columns raise it by at most 0.0050 each" in page.all_text()


def test_dependence_on_numbers_is_drawn_and_so_are_errors(evaluation: Evaluation) -> None:
    section = evaluation_section(evaluation, ModelVerdict(), None, rows=True)
    assert section.explanation is not None
    (hour,) = section.explanation.pictures
    assert hour.chart.count("<circle") == 3
    assert ">hour, 3: 0.5<" not in hour.chart  # the line is named after what is predicted
    assert ">probability of 1, 3: 0.5<" in hour.chart
    cells, errors = section.pictures[-2:]
    assert cells.chart.count('class="cell"') == 3
    assert cells.heading == "Predicted against actual: label over prediction"
    assert errors.chart.count("<circle") == 3
    few = replace(evaluation, example_count=1000)
    assert "for a sample of 100 examples" in evaluation_section(few, ModelVerdict(), None).pictures[-1].heading


def test_dependence_on_codes_is_a_table_unless_a_feature_takes_their_order(whole: Any, evaluation: Evaluation) -> None:
    codes = PartialDependence("company", (1200.0, 8001.0), ((0.25,), (0.5,)), (1,))
    hours = replace(codes, column="hour", values=(0.0, 5.0))
    both = replace(evaluation, explanation=replace(evaluation.explanation, dependence=(codes, hours)))
    config = load(whole.folder / "config.yaml")
    section = evaluation_section(both, ModelVerdict(), config, rows=True).explanation
    assert section is not None
    assert [(one.column, one.rows) for one in section.tables] == [("company", (("1200", (0.25,)), ("8001", (0.5,))))]
    assert [one.heading for one in section.pictures] == ["Mean prediction over hour"]


def test_what_is_made_for_others_has_neither_rows_nor_values(evaluation: Evaluation) -> None:
    section = evaluation_section(evaluation, ModelVerdict(), None)
    assert section.worst is None
    assert section.explanation is not None
    assert (section.explanation.pictures, section.explanation.tables) == ([], [])
    assert len(section.explanation.rows) == 12


def test_why_importance_was_not_measured_is_said(whole: Any, evaluation: Evaluation) -> None:
    without = replace(evaluation, explanation=Explanation(note="the model reads 300 columns"))
    write_evaluation(whole.artifacts / "Evaluator" / "evaluation" / "1", without)
    assert "Importance was not measured: the model reads 300 columns." in whole.report().all_text()


def test_what_was_screened_of_a_wide_table_is_said(whole: Any, evaluation: Evaluation) -> None:
    where = whole.artifacts / "Evaluator" / "evaluation" / "1"
    assert "one by one" not in whole.report().all_text()
    screened = replace(evaluation.explanation, screening=Screening(300, 270, 8, 0.0031))
    write_evaluation(where, replace(evaluation, explanation=screened))
    shown = " ".join(whole.report().all_text().split())
    assert "among 100 examples" in shown
    assert "reads 300 columns" in shown
    assert "270 columns in blocks whose permutation did not raise the loss were not measured one by one." in shown
    assert "8 columns in blocks that raised it by at most 0.0031" in shown
    write_evaluation(where, replace(evaluation, explanation=replace(screened, screening=Screening(300, 278, 0, 0.0))))
    assert "lack of time" not in whole.report().all_text()


@pytest.mark.parametrize("rows", ["none", 10])
@pytest.mark.parametrize("readable", [True, False])
def test_without_rows_no_value_of_a_single_row_is_on_the_page(whole: Any, rows: Any, *, readable: bool) -> None:
    config = yaml.safe_load((whole.folder / "config.yaml").read_text())
    further = {} if readable else {"of_another_version": 1}
    (whole.folder / "config.yaml").write_text(yaml.safe_dump({**config, **further, "report": {"rows": rows}}))
    verdict = next(whole.artifacts.glob("DataGate/verdict/1/value"))
    verdict.write_text(verdict.read_text().replace("img", "img ANOMALY"))
    examples = next(one for one in whole.record.nodes if one.id == "ExampleGen").outputs["examples"]
    examples.properties["skipped"] = '{"count": 1, "reported": ["x.csv, line 7: RECORD"]}'
    examples.properties["rounded"] = '["column id: ROUNDED"]'
    odd = (OddAnswer(what="wrong rank", outcome="refused", detail="ODD"),)
    asked = SignatureVerdict(name="serving_default", examples=1, odd=odd)
    differing = DifferentAnswer(output="predictions", rows=1, row=1, trained="TRAINED", exported="EXPORTED")
    canary = CanaryVerdict(
        reasons=("serving_default: CANARY",), signatures=(asked,), answers=AnswersVerdict(differing=differing)
    )
    canary.write(whole.output("Canary", "blessing"))
    drift = GateRow(what="hour", measure="distance", value="0.5", limit="0.1", before="EARLIER", now="LATER", excess=4)
    gates = DataVerdicts(gates=(GateVerdict.of("gates.drift.blessed", "warn", [drift]),))
    (whole.output("DataVerdict", "verdict") / "value").write_text(gates.model_dump_json())
    failed = whole.record.nodes[-3]
    failed.status, failed.error = Status.FAILED, "FAILURE"
    (whole.folder / "logs" / f"{failed.id}.log").write_text("LOGGED\n")
    whole.record.error = "RECORDED"
    page, html = whole.report(), (whole.folder / "report.html").read_text()
    told = (
        "ANOMALY",
        "RECORD",
        "ROUNDED",
        "ODD",
        "CANARY",
        "TRAINED",
        "EXPORTED",
        "EARLIER",
        "LATER",
        "FAILURE",
        "LOGGED",
        "Chicago Carriage",
    )
    # the record's own error is shown only if no component failed
    assert [word for word in told if word in html] == ([] if rows == "none" else [*told])
    assert ("Worst predictions" in page.all_text()) is (rows == 10)
    assert ("Mean prediction over hour" in page.all_text()) is (rows == 10)
    columns = page.table("Column", "Type")
    assert (columns["trip_miles"]["Max"] == NONE) is (rows == "none")
    assert columns["trip_miles"]["Mean"] != NONE
    assert "400" in page.all_text()


@pytest.mark.parametrize(
    ("gate", "sides"), [("gates.skew", ("Training data", "Requests")), ("gates.drift.blessed", ("Before", "Now"))]
)
def test_columns_of_a_gate_are_named_after_what_it_compares(whole: Any, gate: str, sides: tuple[str, str]) -> None:
    row = GateRow(what="hour", measure="distance", value="0.5", limit="0.1", before="mean 3", now="mean 9", excess=4)
    gates = DataVerdicts(gates=(GateVerdict.of(gate, "warn", [row]),))
    (whole.output("DataVerdict", "verdict") / "value").write_text(gates.model_dump_json())
    shown = whole.report().table("Span or column", "Measure")["hour"]
    assert tuple(shown[side] for side in sides) == ("mean 3", "mean 9")
