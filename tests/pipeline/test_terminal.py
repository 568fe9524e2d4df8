"""What a run says on the terminal, asserted as exact text."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from headrace.pipeline.results.record import NodeRecord, RunRecord, Status
from headrace.pipeline.results.verdict import Bound, ModelVerdict
from headrace.pipeline.terminal import failure_text, last_lines, open_display, print_summary, summary
from headrace.pipeline.terminal.table import duration, render

START = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        patch.setenv("TERM", "xterm")
        time.tzset()
        yield
    time.tzset()


def a_record() -> RunRecord:
    return RunRecord(
        run_id="r-1",
        pipeline="chicago-taxi",
        config_file="configs/taxi.yaml",
        started=START,
        nodes=[
            NodeRecord("ExampleGen", [], Status.CACHED, START, START + 0.02, rows_out=15_002),
            NodeRecord("Transform", ["ExampleGen"], Status.RUNNING, START + 1, rows_in=15_002),
            NodeRecord("Trainer", ["Transform"]),
        ],
    )


def shown(record: RunRecord, now: float, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(render(record, now, console))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_every_component_gets_one_line_with_status_seconds_and_rows() -> None:
    assert shown(a_record(), START + 5.14) == [
        "chicago-taxi  run r-1  5.1 s",
        "   component   status     time  rows in  rows out",
        "=  ExampleGen  cached    0.0 s             15,002",
        "▶  Transform   running   4.1 s   15,002",
        "·  Trainer     waiting",
    ]


def test_seconds_of_a_running_component_tick_with_the_clock() -> None:
    record = a_record()
    assert "4.1 s" in shown(record, START + 5.14)[3]
    assert "64.0 s" in shown(record, START + 65)[3]


def test_sixty_columns_hold_every_field_without_wrapping() -> None:
    record = a_record()
    record.nodes = [
        NodeRecord(
            "ExampleValidator", [], Status.INTERRUPTED, START, START + 3725, rows_in=1_234_567, rows_out=9_876_543
        ),
        NodeRecord("RecordBlessing"),
    ]
    lines = shown(record, START + 1, width=60)
    assert lines[1:] == [
        "  component        status          time   rows in  rows out",
        "! ExampleValidator interrupted 1 h 02 m 1,234,567 9,876,543",
        "· RecordBlessing   waiting",
    ]
    assert max(map(len, lines)) <= 60


def test_rows_give_way_where_the_terminal_is_very_narrow() -> None:
    assert shown(a_record(), START + 5.14, width=40)[2:] == [
        "= ExampleGen cached   0.0 s",
        "▶ Transform  running  4.1 s",
        "· Trainer    waiting",
    ]


def test_ascii_symbols_where_the_terminal_cannot_show_others() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=stream, width=80, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(render(a_record(), START + 5, console))
    assert capture.get().isascii()
    assert capture.get().splitlines()[3].startswith(">  Transform")


def live_output(**environment: str) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, _environ={"TERM": "xterm-256color", **environment})
    record = a_record()
    with open_display(console, clock=lambda: START + 2) as display:
        display.update(record)
        record.nodes[1].status, record.nodes[1].finished = Status.DONE, START + 5
        display.update(record)
    return stream.getvalue()


def test_terminal_shows_the_last_state_and_gives_the_cursor_back() -> None:
    output = live_output()
    assert "✓" in output
    assert output.rindex("done") > output.rindex("running")
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")


def test_no_color_leaves_no_colour_codes() -> None:
    assert "\x1b[32m" in live_output()
    plain = live_output(NO_COLOR="1")
    assert not any(f"\x1b[{code}m" in plain for code in (31, 32, 33, 34, 36))


def test_a_pipe_gets_one_line_at_each_change() -> None:
    stream = io.StringIO()
    now = START
    record = a_record()
    record.nodes[0] = NodeRecord("ExampleGen")
    with open_display(Console(file=stream, width=40), clock=lambda: now) as display:
        record.nodes[1] = NodeRecord("Transform")
        display.update(record)
        now += 1
        record.nodes[0] = NodeRecord("ExampleGen", [], Status.CACHED, now, now + 0.04, rows_out=15_002)
        record.nodes[1] = NodeRecord("Transform", [], Status.RUNNING, now, rows_in=15_002)
        display.update(record)
        display.update(record)
        now += 4.1
        record.nodes[1] = NodeRecord("Transform", [], Status.DONE, START + 1, now, rows_in=15_002, rows_out=15_002)
        record.nodes[2].status = Status.SKIPPED
        display.update(record)
    assert stream.getvalue().splitlines() == [
        "22:13:20 chicago-taxi  run r-1",
        "22:13:21 ExampleGen  cached         0.0 s  15,002 rows out",
        "22:13:21 Transform   running               15,002 rows in",
        "22:13:25 Transform   done           4.1 s  15,002 rows in  15,002 rows out",
        "22:13:25 Trainer     skipped",
    ]


def test_plain_lines_keep_brackets_of_a_name_as_they_are() -> None:
    stream = io.StringIO()
    record = a_record()
    record.run_id = "[red]r[/red]"
    with open_display(Console(file=stream), clock=lambda: START) as display:
        display.update(record)
    assert "run [red]r[/red]" in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (-0.2, "0.0 s"), (0.04, "0.0 s"), (99.94, "99.9 s"), (99.96, "1 m 40 s"), (3599.7, "1 h 00 m")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


LOG = """\
2026-07-30 12:00:00.123456: I external/local_xla/xla/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers
WARNING:absl:something about statistics
INFO:tensorflow:Assets written to: /x
/v/lib/python3.11/site-packages/tfx/a.py:3: UserWarning: old
  warnings.warn(
columns read: 18
Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/tfx/components/transform/executor.py", line 10, in Do
    self.Transform(inputs)
    ^^^^^^^^^^^^^^^^^^^^^^
  File "/home/me/project/mine/features.py", line 7, in miles
    return raw["trip_milez"]
           ~~~^^^^^^^^^^^^^^
KeyError: 'trip_milez'
"""


def test_last_lines_name_the_users_code_and_not_the_library(tmp_path: Path) -> None:
    log = tmp_path / "Transform.log"
    log.write_text(LOG)
    assert last_lines(log, 10) == [
        "columns read: 18",
        '  File "/home/me/project/mine/features.py", line 7, in miles',
        '    return raw["trip_milez"]',
        "KeyError: 'trip_milez'",
    ]


def test_only_the_end_of_a_large_log_is_read_and_lost_logs_are_empty(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("first\n" + "line of a log\n" * 100_000 + "\x1b[31mlast\x1b[0m\r\x1b[2Knew last\n")
    assert last_lines(log, 2) == ["line of a log", "new last"]
    assert last_lines(tmp_path / "none.log", 2) == []


def test_failure_names_component_cause_lines_and_log(tmp_path: Path) -> None:
    log = tmp_path / "Transform.log"
    log.write_text(LOG)
    node = NodeRecord("Transform", status=Status.FAILED, log=str(log), error="KeyError: 'trip_milez'")
    assert failure_text(node, n=2).splitlines() == [
        "Transform failed: KeyError: 'trip_milez'",
        "",
        "last lines of its log:",
        '    File "/home/me/project/mine/features.py", line 7, in miles',
        '      return raw["trip_milez"]',
        "",
        f"whole log: {log}",
    ]


def finished(status: Status = Status.DONE) -> RunRecord:
    record = a_record()
    record.status, record.finished = status, START + 31.2
    record.nodes[1].status = record.nodes[2].status = Status.DONE
    return record


LEAST = Bound("auc", 0.9312, "at least 0.85", 0.85, True)
MISSED = Bound("auc", 0.9, "at least 0.9190 (baseline: 0.9290)", 0.919, False)


def test_summary_of_a_blessed_run_names_blessing_push_report_and_time() -> None:
    other = Bound("auc", 0.9312, "within 0.01 of the baseline; there is none yet")
    verdict = ModelVerdict(True, (LEAST, other), (str(LEAST), str(other)), "serving/17")
    assert summary(finished(), verdict, Path("runs/r-1/report.html")) == [
        "blessing  blessed: auc is 0.9312; it must be at least 0.85",
        "          auc is 0.9312; it must be within 0.01 of the baseline; there is none yet",
        "pushed    serving/17",
        "report    runs/r-1/report.html",
        "time      31.2 s (1 of 3 components reused)",
    ]


def test_summary_of_a_blessed_run_that_pushed_nothing_says_why_and_what_to_do() -> None:
    waits = ModelVerdict(True, awaiting="headrace promote taxi.yaml --to r-1")
    assert summary(finished(), waits)[1:3] == [
        "pushed    nothing: the model waits for approval",
        "          headrace promote taxi.yaml --to r-1",
    ]
    served = "pushed    nothing: the model is in service as serving/17"
    assert summary(finished(), ModelVerdict(True, in_service="serving/17"))[1] == served


def test_summary_has_the_remarks_of_the_training() -> None:
    remark = "batch_size 4,096 is more than the 2,000 examples of the train split: an epoch is a single step"
    assert summary(finished(), remarks={"training": [remark]})[0] == f"training  {remark}"


def test_summary_of_a_refused_model_names_threshold_value_limit_and_baseline() -> None:
    refused = ModelVerdict(False, (LEAST, MISSED), (str(MISSED),), in_service="serving/17")
    assert summary(finished(), refused)[:2] == [
        "blessing  not blessed: auc is 0.9000; it must be at least 0.9190 (baseline: 0.9290)",
        "pushed    nothing; the model in service stays",
    ]
    assert summary(finished(), replace(refused, in_service=None))[1] == "pushed    nothing"


def test_near_miss_shows_enough_decimals_to_differ_from_the_limit() -> None:
    assert str(Bound("auc", 0.8499999, "at least 0.85", 0.85, False)) == "auc is 0.8499999; it must be at least 0.85"


def test_summary_on_a_terminal_colours_the_verdict_alone() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", _environ={})
    print_summary(console, finished(), ModelVerdict(False, (MISSED,), (str(MISSED),)))
    assert "\x1b[1;31mblessing  not blessed\x1b[0m: auc is 0.9000" in stream.getvalue()


def test_summary_of_a_failed_run_names_what_failed_and_what_was_skipped(tmp_path: Path) -> None:
    record = finished(Status.FAILED)
    record.nodes[1] = NodeRecord("Transform", status=Status.FAILED, error="KeyError: 'x'")
    record.nodes[2].status = Status.SKIPPED
    assert summary(record) == [
        "Transform failed: KeyError: 'x'",
        "",
        "skipped   Trainer",
        "time      31.2 s (1 of 3 components reused)",
    ]


@pytest.mark.parametrize("status", [Status.FAILED, Status.INTERRUPTED])
def test_summary_of_a_run_that_ended_after_its_push_says_what_is_in_service(status: Status) -> None:
    record, verdict = finished(status), ModelVerdict(True, (LEAST,), (str(LEAST),), "serving/17")
    record.nodes[2] = NodeRecord("PublishPredictions", status=status, error="OSError: disk full")
    assert "pushed    serving/17" not in summary(record, verdict)
    record.nodes[1] = NodeRecord("Pusher", status=Status.DONE)
    lines = summary(record, verdict)
    blessing = lines.index("blessing  blessed: auc is 0.9312; it must be at least 0.85")
    assert lines[blessing + 1] == "pushed    serving/17"
    assert ("PublishPredictions failed: OSError: disk full" in lines) is (status is Status.FAILED)


@pytest.mark.parametrize("trains", [True, False])
def test_summary_of_a_run_that_predicts_speaks_of_a_blessing_if_it_trains(*, trains: bool) -> None:
    record = finished()
    record.nodes.append(NodeRecord("ModelInService", status=Status.DONE))
    if not trains:
        record.nodes = [node for node in record.nodes if node.id != "Trainer"]
    lines = summary(record, ModelVerdict(True, (LEAST,), (str(LEAST),), "serving/17"))
    assert ("pushed    serving/17" in lines) is trains


def test_summary_of_an_interrupted_run_says_how_to_continue() -> None:
    assert summary(finished(Status.INTERRUPTED))[0].startswith("interrupted: the same command")
