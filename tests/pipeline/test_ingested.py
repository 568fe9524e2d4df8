"""Records that were left out, and notes on the data: seen in the last lines of a run."""

import json
from typing import Any

from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status, ingested
from headrace.pipeline.terminal.summary import summary


def run(status: Status = Status.DONE, **properties: Any) -> RunRecord:
    reported: dict[str, str | int | float] = {name: json.dumps(value) for name, value in properties.items()}
    node = NodeRecord("ExampleGen", status=status, outputs={"examples": ArtifactRecord("Examples", "x", reported)})
    return RunRecord("r-1", "p", "c.yaml", started=1.0, status=Status.INTERRUPTED, nodes=[node])


def test_records_left_out_are_counted_and_the_first_ones_reported() -> None:
    places = [f"f.csv:{line}: '\x1b[31m' is not an int" for line in range(1, 6)]
    record = run(rows={"train": 80, "eval": 15}, skipped={"count": 5, "reported": places}, notes=["f.csv changed"])
    assert [line for line in summary(record) if not line.startswith("interrupted")] == [
        "data      f.csv changed",
        "left out  5 of 100 records, which are unreadable",
        "          f.csv:1: '\N{REPLACEMENT CHARACTER}[31m' is not an int",
        "          f.csv:2: '\N{REPLACEMENT CHARACTER}[31m' is not an int",
        "          f.csv:3: '\N{REPLACEMENT CHARACTER}[31m' is not an int",
        "          ...",
    ]
    assert ingested(record).skipped_share == 0.05


def test_nothing_is_said_of_sound_data() -> None:
    assert not any("left out" in line or "data" in line for line in summary(run(rows={"train": 80})))


def test_skipped_records_are_reported_also_for_data_that_was_read_before() -> None:
    record = run(
        Status.CACHED, rows={"train": 1}, skipped={"count": 1, "reported": ["f.csv:2: x"]}, notes=["f.csv changed"]
    )
    assert [line for line in summary(record) if not line.startswith("interrupted")] == [
        "left out  1 of 2 records, which are unreadable",
        "          f.csv:2: x",
    ]


def test_rows_dropped_without_a_label_are_counted_also_for_data_that_was_read_before() -> None:
    for status in (Status.DONE, Status.CACHED):
        record = run(status, rows={"train": 80, "eval": 15})
        record.nodes[0].outputs["examples"].properties["dropped"] = 5
        (line,) = (line for line in summary(record) if not line.startswith("interrupted"))
        assert line.startswith("data      5 of 100 rows (5.00%) have no label and were left out")


def test_gap_is_reported_in_each_run_and_what_was_read_in_that_run_alone() -> None:
    reported = {"gaps": ["there is no data for 2"], "notes": ["f.csv changed"]}
    for status, notes, plan in (
        (Status.DONE, ("there is no data for 2", "f.csv changed"), "3 spans; read now: 1, 2"),
        (Status.CACHED, ("there is no data for 2",), "3 spans"),
    ):
        record = run(status, rows={"train": 1}, **reported)
        record.nodes[0].outputs["examples"].properties |= {"plan": "3 spans", "read": "read now: 1, 2"}
        assert ingested(record).notes == notes
        assert ingested(record).plan == plan
