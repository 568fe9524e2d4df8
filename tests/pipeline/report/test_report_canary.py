"""What the report and the summary say of the canary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.components.canary.verdict import (
    AnswersVerdict,
    CanaryVerdict,
    DifferentAnswer,
    OddAnswer,
    ProtocolVerdict,
    ReplayedFeature,
    ReplayedRow,
    ReplayVerdict,
    ServerVerdict,
    SignatureVerdict,
)
from headrace.components.evaluation.result import read_evaluation, write_evaluation
from headrace.pipeline.report.withheld import verdict_without_values
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.verdict import read_verdict
from headrace.pipeline.terminal import summary

Run = Any  # what the fixtures of conftest.py give
EVIL = "<script>alert(1)</script>"
REASON = f"serving_default: an empty batch: ended by SIGABRT: {EVIL}"


REPLAYED = ReplayVerdict(
    examples=1000,
    features=3,
    differing=(
        ReplayedFeature(
            name="speed", rows=1000, random=True, shown=(ReplayedRow(row=7, transformed="71.25", served=EVIL),)
        ),
        ReplayedFeature(name="pixels", rows=2, shown=(ReplayedRow(row=9, place=4, transformed="0.5", served="0.625"),)),
    ),
    only_transformed=("weight",),
)


SERVED = ServerVerdict(
    reasons=(f"gRPC: serving_default: {EVIL}",),
    version=1795402861,
    load_seconds=2.25,
    protocols=(
        ProtocolVerdict(
            protocol="gRPC",
            address="staging:8500",
            signatures=(
                SignatureVerdict(
                    name="serving_default",
                    examples=100,
                    difference=2e-7,
                    p50_ms=1.5,
                    p99_ms=3.25,
                    odd=(OddAnswer(what="an empty batch", outcome="hung", detail=EVIL),),
                ),
            ),
        ),
    ),
)


def examined(
    whole: Run,
    *reasons: str,
    answers: AnswersVerdict | None = None,
    replay: ReplayVerdict | None = None,
    server: ServerVerdict | None = None,
) -> RunFolder:
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
        reasons=reasons,
        load_seconds=0.5,
        memory_bytes=495_000_000,
        warmup_requests=2,
        latency_p50_ms=2.5,
        latency_p99_ms=20.0,
        signatures=(skipped, asked),
        answers=answers,
        replay=replay,
        server=server,
    )
    verdict.write(whole.output("Canary", "blessing", {"blessed": int(not reasons)}))
    evaluation = whole.artifacts / "Evaluator" / "evaluation" / "1"
    write_evaluation(evaluation, replace(read_evaluation(evaluation), blessed=True, reasons=()))
    whole.record.write(whole.folder)
    return RunFolder.read(whole.folder)


def test_answers_that_differ_from_the_trainers_are_shown_with_the_example_and_both_values(whole: Run) -> None:
    differing = DifferentAnswer(output="predictions", rows=3, row=17, place=2, trained="0.8312", exported="0.1204")
    answers = AnswersVerdict(split="eval", examples=128, difference=0.71, differing=differing)
    examined(whole, REASON, answers=answers)
    shown = whole.report().all_text()
    assert "3 of 128 answers differ from those of the Trainer's model; the largest difference is 0.71" in shown
    assert "example 17, value 2: 0.8312 in the Trainer, 0.1204 in the export" in shown


def test_answers_that_agree_have_a_line(whole: Run) -> None:
    folder = examined(whole, answers=AnswersVerdict(split="eval", examples=128, difference=6e-8))
    line = "answers   passed: 128 answers match the Trainer's model; the largest difference is 6e-08"
    assert line in summary(folder.record, read_verdict(folder))


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
    assert "Limit of p50 2.5 ms Limit of p99 20 ms" in page.all_text()
    rows = page.table("Signature", "Examples")
    assert rows["serving_default"] == {
        "Signature": "serving_default", "Examples": "100", "Largest difference": "1.5e-07", "p50, ms": "0.4",
        "p99, ms": "0.9",
    }  # fmt: skip
    assert "not asked: it takes length" in page.all_text()
    assert page.table("Signature", "Input")["serving_default"]["Outcome"] == "refused"


def test_features_that_differ_have_a_line_and_a_table_with_both_values(whole: Run) -> None:
    folder = examined(whole, replay=REPLAYED)
    lines = summary(folder.record, read_verdict(folder))
    assert "replay    2 of 3 features of 1,000 examples differ from what Transform wrote: speed in 1,000 (random)," in (
        line.partition(" pixels")[0] for line in lines
    )
    page = whole.report()
    assert [(row["Feature"], row["Example"], row["Transform wrote"], row["The model computes"])
            for row in page.table("Feature", "Examples that differ").values()] == [
        ("speed", "7", "71.25", EVIL), ("pixels", "9, value 4", "0.5", "0.625"),
    ]  # fmt: skip
    assert "weight, which only one side has" in page.all_text()
    assert "script" not in {tag for tag, _ in page.tags}


def test_replay_that_was_skipped_says_why(whole: Run) -> None:
    folder = examined(whole, replay=ReplayVerdict(skipped="the model has no signature x"))
    assert "replay    skipped: the model has no signature x" in summary(folder.record, read_verdict(folder))
    assert "skipped: the model has no signature x" in whole.report().all_text()


def test_values_of_the_replay_are_withheld_and_its_counts_stay(whole: Run) -> None:
    shown = verdict_without_values(read_verdict(examined(whole, REASON, replay=REPLAYED))).canary
    assert shown is not None
    assert shown.replay is not None
    assert [(one.name, one.rows, one.shown) for one in shown.replay.differing] == [
        ("speed", 1000, ()),
        ("pixels", 2, ()),
    ]


def test_staging_server_has_a_line_and_rows_in_both_tables(whole: Run) -> None:
    folder = examined(whole, REASON, server=SERVED)
    assert f"server    failed: gRPC: serving_default: {EVIL}" in summary(folder.record, read_verdict(folder))
    page = whole.report()
    row = page.table("Signature", "Address")["serving_default"]
    assert (row["Address"], row["Largest difference"]) == ("gRPC, staging:8500", "2.0e-07")
    assert (row["p50, ms"], row["p99, ms"]) == ("1.5", "3.2")
    odd = page.table("Signature", "Input")["serving_default, gRPC"]
    assert (odd["Outcome"], odd["Error"]) == ("hung", EVIL)
    assert "script" not in {tag for tag, _ in page.tags}


def test_staging_server_that_did_not_take_part_says_why(whole: Run) -> None:
    folder = examined(whole, server=ServerVerdict(skipped="staging:8500 does not answer"))
    assert "server    skipped: staging:8500 does not answer" in summary(folder.record, read_verdict(folder))
    assert "Not asked: staging:8500 does not answer" in whole.report().all_text()


def test_errors_of_the_staging_server_are_withheld_and_its_measurements_stay(whole: Run) -> None:
    shown = verdict_without_values(read_verdict(examined(whole, REASON, server=SERVED))).canary
    assert shown is not None
    assert shown.server is not None
    assert EVIL not in shown.model_dump_json()
    assert shown.server.protocols[0].signatures[0].p99_ms == 3.25


def test_a_verdict_of_another_version_is_left_out(whole: Run) -> None:
    folder = examined(whole)
    (whole.artifacts / "Canary" / "blessing" / "1" / "verdict.json").write_text('{"reasons": 5}')
    assert (folder.canary, folder.blessed) == (None, True)
    assert "canary" not in {attributes.get("id") for _, attributes in whole.report().tags}
