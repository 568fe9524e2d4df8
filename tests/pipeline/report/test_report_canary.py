"""What the report and the summary say of the canary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.components.canary.verdict import CanaryVerdict, OddAnswer, SignatureVerdict
from headrace.components.evaluation.result import read_evaluation, write_evaluation
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.verdict import read_verdict
from headrace.pipeline.terminal import summary

Run = Any  # what the fixtures of conftest.py give
EVIL = "<script>alert(1)</script>"
REASON = f"serving_default: an empty batch: ended by SIGABRT: {EVIL}"


def examined(whole: Run, *reasons: str) -> RunFolder:
    """The run with a model that the Evaluator blessed, and with a canary that failed for the reasons, or passed."""
    asked = SignatureVerdict(
        name="serving_default",
        examples=100,
        difference=1.5e-7,
        p50_ms=0.4,
        p99_ms=0.9,
        odd=(OddAnswer(what="an empty batch", outcome="crashed" if reasons else "refused", detail=EVIL),),
    )
    skipped = SignatureVerdict(name="generate", skipped="it takes length, which the examples do not have")
    verdict = CanaryVerdict(
        reasons=reasons, load_seconds=0.5, memory_bytes=495_000_000, warmup_requests=2, signatures=(skipped, asked)
    )
    verdict.write(whole.output("Canary", "blessing", {"blessed": int(not reasons)}))
    evaluation = whole.artifacts / "Evaluator" / "evaluation" / "1"
    write_evaluation(evaluation, replace(read_evaluation(evaluation), blessed=True, reasons=()))
    whole.record.write(whole.folder)
    return RunFolder.read(whole.folder)


def test_a_failed_canary_takes_the_blessing_and_its_reasons_are_shown(whole: Run) -> None:
    folder = examined(whole, REASON)
    verdict = read_verdict(folder)
    assert (folder.blessed, verdict.blessed, verdict.reasons) == (False, False, (f"canary: {REASON}",))
    lines = summary(folder.record, verdict)
    assert f"blessing  not blessed: canary: {REASON}" in lines
    assert not any(line.startswith("canary ") for line in lines)
    page = whole.report()
    assert "Not blessed" in page.all_text()
    assert page.all_text().count(REASON) == 2  # at the top, and in the section
    assert page.table("Signature", "Input")["serving_default"]["Outcome"] == "crashed"
    assert "script" not in {tag for tag, _ in page.tags}


def test_a_canary_that_passed_has_a_line_and_a_section_with_its_measurements(whole: Run) -> None:
    folder = examined(whole)
    assert folder.blessed is True
    passed = "canary    passed: 1 signature answered, 1 not asked, p99 at most 0.9 ms, 495 MB"
    assert passed in summary(folder.record, read_verdict(folder))
    page = whole.report()
    rows = page.table("Signature", "Examples")
    assert rows["serving_default"] == {
        "Signature": "serving_default", "Examples": "100", "Largest difference": "1.5e-07", "p50, ms": "0.4",
        "p99, ms": "0.9",
    }  # fmt: skip
    assert "not asked: it takes length" in page.all_text()
    assert page.table("Signature", "Input")["serving_default"]["Outcome"] == "refused"


def test_a_verdict_of_another_version_is_left_out(whole: Run) -> None:
    folder = examined(whole)
    (whole.artifacts / "Canary" / "blessing" / "1" / "verdict.json").write_text('{"reasons": 5}')
    assert (folder.canary, folder.blessed) == (None, True)
    assert "canary" not in {attributes.get("id") for _, attributes in whole.report().tags}
