"""Runs that ended early, and folders that are not as this version writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.components.evaluation.result import read_evaluation, write_evaluation
from headrace.components.stored_models.blessed_record import AWAITING, WITHDRAWN, Entry
from headrace.components.stored_models.push_record import PushRecord
from headrace.pipeline.report import write_report
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, Status

START = 1_700_000_000.0
EVIL = "<script>alert(1)</script>"
Run = Any  # what the fixtures of conftest.py give


def test_run_that_failed_at_once_shows_cause_log_and_config(run: Run) -> None:
    log = run.folder / "logs" / "Spans.log"
    log.write_text("INFO:absl:noise\nlooking for *.csv\n")
    run.record.status = Status.FAILED
    run.record.nodes = [
        NodeRecord("Spans", [], Status.FAILED, START, START + 1, log=str(log), error=f"no file: {EVIL}\n  mend it"),
        NodeRecord("ExampleGen", ["Spans"], Status.SKIPPED),
    ]
    page = run.report()
    text = page.all_text()
    assert "Failed in Spans" in text
    assert f"no file: {EVIL} mend it" in text
    assert "looking for *.csv" in text
    assert "noise" not in text
    assert ("a", {"href": "logs/Spans.log"}) in page.tags
    assert page.table("Component")["ExampleGen"]["Status"] == "○ skipped"
    assert "trip_miles" in text
    assert not any(heading in page.tables for heading in ("Metric", "Column"))


def test_run_without_config_or_components_still_has_a_page(run: Run) -> None:
    (run.folder / "config.yaml").unlink()
    run.record.status, run.record.error = Status.INTERRUPTED, "interrupted by the user"
    text = run.report().all_text()
    assert "! Interrupted" in text
    assert "interrupted by the user" in text


def test_outputs_of_another_version_are_left_out_and_the_rest_is_shown(whole: Run) -> None:
    (whole.artifacts / "Trainer" / "model_run" / "1" / "training.json").write_text('{"epochs": 3}')
    (whole.artifacts / "Evaluator" / "evaluation" / "1" / "evaluation.json").write_text("{")
    (whole.folder / "config.yaml").write_text("pipeline: {name: taxi}\nunknown: 1\n")
    page = whole.report()
    assert "unknown: 1" in page.all_text()
    assert page.table("Split")["train"]["Rows"] == "300"
    with pytest.raises(KeyError):
        page.table("Metric")


def test_gate_that_stopped_leaves_the_validators_anomalies(run: Run) -> None:
    from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies

    anomalies = Anomalies()
    anomalies.anomaly_info["company"].reason.add(short_description="new value", description="Examples hold 'x'")
    directory = run.output("ExampleValidator", "anomalies") / "Split-eval"
    directory.mkdir()
    (directory / "SchemaDiff.pb").write_bytes(anomalies.SerializeToString())
    run.output("ExampleGen", "examples", {"rows": '{"train": 3, "eval": 1}'})
    run.record.nodes.append(NodeRecord("DataGate", [], Status.FAILED, START, START, error="unfit"))
    table = run.report().table("Column")
    assert table["company"] == {
        "Column": "company",
        "Split": "eval",
        "Rule": "new value",
        "What was found": "Examples hold 'x'",
    }


def test_pipeline_folder_that_was_moved_is_read_where_it_is_now(whole: Run, tmp_path: Path) -> None:
    whole.record.write(whole.folder)
    moved = tmp_path / "elsewhere"
    (tmp_path / "taxi").rename(moved)
    page = whole.read(write_report(moved / "runs" / "r-1"))
    assert page.table("Epoch")["1"]["val_auc"] == "0.8000"


def test_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_report(tmp_path)


def test_blessed_model_that_was_rolled_back_from_is_not_called_pushed(whole: Run) -> None:
    evaluation = whole.artifacts / "Evaluator" / "evaluation" / "1"
    write_evaluation(evaluation, replace(read_evaluation(evaluation), blessed=True, reasons=()))
    assert "Blessed, but rolled back before" not in whole.report().all_text()
    whole.record.node("Pusher").outputs["pushed_model"].properties[WITHDRAWN] = "the model was rolled back"
    assert "Blessed, but rolled back before" in whole.report().all_text()


def test_blessed_model_awaits_approval_until_it_is_promoted(whole: Run, tmp_path: Path) -> None:
    evaluation = whole.artifacts / "Evaluator" / "evaluation" / "1"
    write_evaluation(evaluation, replace(read_evaluation(evaluation), blessed=True, reasons=()))
    pushed = whole.record.node("Pusher").outputs["pushed_model"].properties
    pushed |= {"pushed": 0, AWAITING: str(tmp_path / "serving")}
    command = f"headrace promote {whole.record.config_file} --to {whole.record.run_id}"
    text = whole.report().all_text()
    assert "Blessed, awaiting approval" in text
    assert command in text
    model, started = tmp_path / "model", whole.record.node("Pusher").started
    before, version = (tmp_path / "serving" / number for number in ("17", str(int(started) + 60)))
    model.mkdir()
    whole.record.node("Trainer").outputs["model"] = ArtifactRecord("Model", str(model), {})
    file, entry = tmp_path / "taxi" / "pushed.json", Entry(uri=str(model), blessed_at="2026-03-01")
    PushRecord().write(file, entry, before)  # until a rollback, after which it awaits approval again
    assert command in whole.report().all_text()
    PushRecord.read(file).write(file, entry, version)
    text = whole.report().all_text()
    assert f"Pushed to {version}" in text
    assert command not in text
