"""What the first requests of a model server's log say before anything runs (`gates.skew`)."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from trips_folder import CONFIG
from validated import reported

from headrace.pipeline.api import load_checked

SKEW = CONFIG + "gates: {skew: {source: {kind: KIND, path: 'log/*'}}}\n"
CSV, JSON = SKEW.replace("KIND", "csv"), SKEW.replace("KIND", "jsonl")


@pytest.fixture(autouse=True)
def log() -> Path:
    """The first file of the log."""
    folder = Path("log")
    folder.mkdir()
    return folder / "1"


def noted(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    Path("c.yaml").write_text(text, encoding="utf-8")
    with caplog.at_level(logging.WARNING, logger="headrace"):
        load_checked("c.yaml", None, (), data=True)
    return list(caplog.messages)


@pytest.mark.parametrize("text", [None, "", "fare\n", "id\n", "id,fare\n1,2.5\n2,3.5\n"])
def test_a_log_that_fits_and_one_that_is_empty_yet_are_fine(
    log: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    if text is not None:
        log.write_text(text, encoding="utf-8")
    assert noted(CSV, caplog) == []


@pytest.mark.parametrize("text", ["\n", '{"fare": 1.5, "extra": 1}\n{"fare": 2, "extra": "a"}\n'])
def test_json_lines_that_the_run_accepts_are_fine(log: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    log.write_text(text, encoding="utf-8")
    assert noted(JSON, caplog) == []


def test_a_gate_that_warns_refuses_requests_that_stop_the_run_and_no_others(
    log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn = JSON.replace("path: 'log/*'}", "path: 'log/*'}, on_anomaly: warn")
    log.write_text('{"fare": 1.5, "extra": 1}\n{"fare": 2, "extra": "a"}\n', encoding="utf-8")
    assert noted(warn, caplog) == []
    log.write_text('{"fare": 1.5}\n{"fare": \n', encoding="utf-8")
    (problem,) = reported(warn)
    assert problem.startswith("c.yaml:7: gates.skew.source: ")
    assert "log/1:2: " in problem
    assert problem.endswith("skip such records with `gates.skew.on_bad_record: skip`")


@pytest.mark.parametrize(
    ("config", "text", "words"),
    [
        (CSV, "fare\n1.5\n2,3\n", "log/1:3: "),
        (JSON, '{"fare": 1.5}\n{"fare": \n', "log/1:2: "),
        (JSON, '{"fare": 1.5}\n{"fare": "x"}\n', "column 'fare'"),
        (JSON, b"\x80\n", "log/1"),
    ],
)
def test_requests_that_cannot_be_read_are_refused(log: Path, config: str, text: str | bytes, words: str) -> None:
    log.write_bytes(text if isinstance(text, bytes) else text.encode())
    (problem,) = reported(config)
    assert problem.startswith("c.yaml:7: gates.skew.source: ")
    assert words in problem
    assert "data.on_bad_record" not in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fair\n1.5\n", 'such as fare; did you mean "fair"?'),
        ("fare\nx\n", "the log holds text in fare, "),
    ],
)
def test_columns_that_the_gate_would_find_odd_are_noted(
    log: Path, text: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.write_text(text, encoding="utf-8")
    (note,) = noted(CSV, caplog)
    assert note.startswith("note: c.yaml:7: gates.skew.source: ")
    assert words in note


def test_a_column_that_requests_lack_is_noted_unless_each_may_lack_some(
    log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.write_text("fare\n1.5\n", encoding="utf-8")
    more = "features:\n  hour: {column: numeric}\n"
    (note,) = noted(CSV.replace("features:\n", more), caplog)
    assert "the log lacks hour, " in note
    log.write_text(json.dumps({"fare": 1.5}) + "\n", encoding="utf-8")
    caplog.clear()
    assert noted(JSON.replace("features:\n", more), caplog) == []


SCHEMA = "".join(f'feature {{ name: "{name}" type: {kind} }}\n' for name, kind in [("fare", "FLOAT"), ("extra", "INT")])


@pytest.mark.parametrize(
    ("config", "text", "words"),
    [
        (CSV, "fare,extra\n1.5,x\n", None),  # the gate compares no such column
        (JSON, '{"fare": "x"}\n', "the log holds text in fare"),  # whose types are those of its values
    ],
)
def test_requests_have_the_types_that_a_run_reads_them_with(
    log: Path, config: str, text: str, words: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    Path("schema.pbtxt").write_text(SCHEMA, encoding="utf-8")
    log.write_text(text, encoding="utf-8")
    found = noted(config.replace("label:", "  schema: schema.pbtxt\nlabel:", 1), caplog)
    assert len(found) == (words is not None)
    assert words is None or words in found[0]


def test_a_csv_log_must_have_the_types_of_the_schema(log: Path) -> None:
    Path("schema.pbtxt").write_text(SCHEMA, encoding="utf-8")
    log.write_text("fare\n1.5\nx\n", encoding="utf-8")
    (problem,) = reported(CSV.replace("label:", "  schema: schema.pbtxt\nlabel:", 1))
    assert problem.startswith("c.yaml:8: gates.skew.source: ")
    assert "log/1:3: " in problem
