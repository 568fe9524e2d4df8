"""Gates for how much data arrived and how old it is, and what a stop says."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tfx.types import standard_artifacts

from headrace.common.errors import GateError
from headrace.components.gates.arrival import judge_freshness, judge_rows
from headrace.components.gates.newest_time import newest_time
from headrace.components.gates.verdict import MOST_ROWS, DataVerdicts, GateRow, GateVerdict, explain_stop
from headrace.components.spans.find import date_of_run, find_spans
from headrace.components.spans.manifest import Span, SpanManifest
from headrace.components.trigger.component import LookForNew
from headrace.components.trigger.decision import TrainingData, TrainingRecord
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.gates import FreshnessGate, RowsGate

NOTHING_MISSING = SpanManifest((Span(0, ()),))


@given(
    st.lists(st.integers(1, 1000), min_size=2, max_size=12),
    st.integers(1, 8),
    st.floats(0.01, 1),
    st.floats(0.01, 3),
)
def test_rows_are_held_against_the_median_of_the_last_spans(
    counts: list[int], spans: int, decrease: float, increase: float
) -> None:
    gate = RowsGate(max_decrease=decrease, max_increase=increase, spans=spans)
    found = judge_rows(gate, NOTHING_MISSING, {f"{n:02}": count for n, count in enumerate(counts)}, None)
    change = counts[-1] / np.median(counts[-1 - spans : -1]) - 1
    assert found.failed == (change < -decrease - 1e-12) + (change > increase + 1e-12)
    assert found.judged == 2
    assert {row.value for row in found.rows} == {f"{change:+.1%}"}


def test_each_limit_of_rows_and_the_worst_first() -> None:
    manifest = SpanManifest(tuple(Span(n, (), str(n)) for n in (1, 2, 5)), missing=("3", "4"), missing_count=2)
    gate = RowsGate(min=150, max=400, max_decrease=0.5, max_missing_spans=1, on_anomaly="warn")
    found = judge_rows(gate, manifest, {"1": 300, "2": 500, "5": 100}, None)
    assert [str(row) for row in found.rows] == [
        "3, 4: missing spans 2, limit 1",
        "5: change of rows -75.0%, limit a decrease of 0.5 (median of 2 spans: 400 rows → 100 rows)",
        "5: rows 100, limit at least 150",
        "5: rows 100, limit at most 400",
    ]
    assert (found.failed, found.stops, found.passed) == (3, False, False)


def test_spans_with_files_of_other_splits_alone_do_not_count() -> None:
    splits = (("train", "test"), ("test",), ("train", "test"), ("train",), ("test",))
    manifest = SpanManifest(tuple(Span(n, (), str(n), splits=own) for n, own in enumerate(splits)))
    found = judge_rows(RowsGate(max_decrease=0.5), manifest, {"0": 300, "1": 5, "2": 200, "3": 100, "4": 240}, None)
    change = "3: change of rows -60.0%, limit a decrease of 0.5 (median of 2 spans: 250 rows → 100 rows)"
    assert [str(row) for row in found.rows] == [change]
    held_out = SpanManifest(tuple(Span(n, (), str(n)) for n in range(2)))  # by `data.split_spans`
    assert judge_rows(RowsGate(max_decrease=0.5), held_out, {"0": 100, "1": 40}, None).failed == 1


def test_data_without_spans_is_held_against_that_of_the_blessed_model() -> None:
    gate = RowsGate(max_decrease=0.5)
    found = judge_rows(gate, NOTHING_MISSING, {"": 90}, 200)
    assert (found.failed, found.rows[0].before) == (1, "blessed model's data: 200 rows")
    unknown = judge_rows(gate, NOTHING_MISSING, {"": 90}, None)
    assert (unknown.passed, unknown.judged) == (True, 0)
    assert "blessed model is not on record" in unknown.note
    alone = judge_rows(gate, NOTHING_MISSING, {"2026-11-20": 90}, 200)  # `--param window=1`
    assert (alone.judged, "no earlier span" in alone.note) == (0, True)


def test_a_gate_that_judged_some_of_its_limits_was_judged_in_part() -> None:
    why = "the data of a blessed model is not on record"
    gates = (RowsGate(max_decrease=0.5, min=1), RowsGate(max_decrease=0.5))
    first = [judge_rows(gate, NOTHING_MISSING, {"": 90}, None) for gate in gates]
    assert [one.unjudged for one in first] == [f"judged in part: {why}", f"not judged: {why}"]
    assert not judge_rows(RowsGate(min=1), NOTHING_MISSING, {"": 90}, None).unjudged


@pytest.mark.parametrize(
    ("as_of", "newest", "time", "age", "passed"),
    [
        ("2026-11-21", "2026-11-20", None, "1 day", True),
        ("2026-11-22", "2026-11-20", None, "2 days", False),
        ("2026-11-20", "2026-11-20", None, "0 days", True),
        ("2026-11-22", "2026-11-22", dt.datetime(2026, 11, 20, 23, 59), "2 days", False),
        ("2026-11-22", "", dt.datetime(2026, 11, 23, 23, 59), "1 day after the run", True),
        ("2026-11-22", "", dt.datetime(2026, 11, 24), "2 days after the run", False),
    ],
)
def test_age_of_the_newest_data(as_of: str, newest: str, time: dt.datetime | None, age: str, passed: bool) -> None:
    gate = FreshnessGate(max_days=1, column="at" if time else None)
    found = judge_freshness(gate, as_of, newest, time)
    assert (found.rows[0].value, found.passed) == (age, passed)
    assert found.rows[0].now == f"run of {as_of}"


def test_a_column_without_a_time_does_not_pass_and_a_run_without_a_date_is_not_judged() -> None:
    gate = FreshnessGate(max_days=1, column="at")
    assert judge_freshness(gate, "2026-11-21", "").rows[0].value == "unknown: no value is a date"
    assert not judge_freshness(gate, "2026-11-21", "").passed
    assert judge_freshness(gate, "", "12", dt.datetime(2020, 1, 1)).note.startswith("`data.spans` selects spans")


def test_a_backfill_is_judged_as_of_its_span_and_any_other_run_as_of_its_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for day in (18, 19, 20):
        Path(f"2026-11-{day}.csv").write_text("a\n1\n", encoding="utf-8")

    def as_of(**settings: object) -> str:
        source = {"kind": "csv", "path": "{YYYY}-{MM}-{DD}.csv"}
        data = DataConfig.model_validate_json(
            DataConfig.model_validate({"source": source, **settings}).model_dump_json(by_alias=True)
        )
        return date_of_run(data, find_spans(data))

    assert as_of(spans="2026-11-19", delay=2) == "2026-11-21"
    assert as_of(spans=("2026-11-18", "2026-11-19"), run_date="2026-12-24") == "2026-11-19"
    assert as_of(run_date="2026-12-24", delay=1) == "2026-12-24"
    assert as_of() in {str((dt.datetime.now(dt.UTC) - dt.timedelta(days=back)).date()) for back in (0, 1)}
    Path("7.csv").write_text("a\n1\n", encoding="utf-8")
    numbered = DataConfig.model_validate({"source": {"kind": "csv", "path": "{SPAN}.csv"}, "spans": 7})
    assert date_of_run(numbered, find_spans(numbered)) == ""


def _shard(path: Path, values: list[object]) -> str:
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for value in values:
            example = tf.train.Example()
            feature = example.features.feature["at"]
            if isinstance(value, bytes):
                feature.bytes_list.value.append(value)
            elif isinstance(value, int):
                feature.int64_list.value.append(value)
            elif isinstance(value, float):
                feature.float_list.value.append(value)
            writer.write(example.SerializeToString())
    return str(path)


@pytest.mark.parametrize(
    ("values", "date_format", "newest"),
    [
        ([b"2026-11-19", b"2026-11-20 12:30", b"2026-13-01", b"tomorrow", None], None, "2026-11-20 12:30"),
        ([b"2026-11-20T23:00:00-05:00", b"2026-11-20 23:30"], None, "2026-11-21 04:00"),
        ([b"02.12.2025", b"01.01.2026", b"31.12.2025"], "%d.%m.%Y", "2026-01-01"),
        ([1_700_000_000, 1_700_086_400, -(2**63), None], "epoch_s", "2023-11-15 22:13:20"),
        ([1_700_000_000_000_000], "epoch_us", "2023-11-14 22:13:20"),
        ([20_000.0, float("nan")], "epoch_days", "2024-10-04"),
        ([10**15], "epoch_s", "9999-12-31 23:59:59.999999"),
        ([b"1700000000"], "epoch_s", None),
        ([20_000], None, None),
        ([None], None, None),
    ],
)
def test_newest_value_of_a_column(
    tmp_path: Path, values: list[object], date_format: str | None, newest: str | None
) -> None:
    files = [_shard(tmp_path / f"{number}.gz", part) for number, part in enumerate((values[:1], values[1:]))]
    assert newest_time(files, "at", date_format) == (dt.datetime.fromisoformat(newest) if newest else None)
    assert newest_time(files, "other", date_format) is None


def test_a_night_without_new_data_stops_once_the_data_has_become_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `retrain: new_span`, such a run ends before DataVerdict."""
    monkeypatch.chdir(tmp_path)
    for name in ("train-2026-11-20.csv", "test-2026-11-20.csv", "test-2026-11-22.csv"):
        Path(name).write_text(f"a\n{name}\n", encoding="utf-8")
    paths = {split: f"{split}-{{YYYY}}-{{MM}}-{{DD}}.csv" for split in ("train", "test")}

    def look(run_date: str, gate: FreshnessGate) -> str:
        data = DataConfig.model_validate({"source": {"kind": "csv", "path": paths}, "run_date": run_date, "window": 9})
        found = find_spans(data)
        last = TrainingData(fingerprint=found.fingerprint, spans=("2026-11-20",), work="w", statistics="/s")
        TrainingRecord().with_judged(last, blessed=True).write(tmp_path / "trained.json")
        outputs = {key: [standard_artifacts.String()] for key in ("spans", "as_of", "go", "why", "verdict")}
        for key, (one,) in outputs.items():
            one.uri = str(tmp_path / key)
        settings = {"data": data.model_dump_json(by_alias=True), "retrain": "new_span", "limits": "", "work": "w"}
        settings |= {"trained": str(tmp_path / "trained.json"), "freshness": gate.model_dump_json()}
        LookForNew.EXECUTOR_SPEC.executor_class().Do({}, outputs, settings)
        return (tmp_path / "go").read_text()

    def verdict() -> DataVerdicts:
        return DataVerdicts.model_validate_json((tmp_path / "verdict").read_text())

    assert look("2026-11-22", FreshnessGate(max_days=2)) == "no"
    assert [(one.gate, one.passed) for one in verdict().gates] == [("gates.freshness", True)]
    assert look("2026-11-23", FreshnessGate(max_days=2, on_anomaly="warn")) == "no"
    with pytest.raises(GateError, match=r"^gates.freshness stops the run:\n.*1 of 1 .*\n  2026-11-20: .* 3 days"):
        look("2026-11-23", FreshnessGate(max_days=2))
    (stopping,) = verdict().stopping
    assert (stopping.gate, stopping.rows[0].value, stopping.rows[0].limit) == ("gates.freshness", "3 days", "2 days")


def test_a_stop_names_its_gates_first_and_the_worst_of_what_they_found() -> None:
    rows = [GateRow(what=f"c{n:02}", measure="m", value="v", limit="l", excess=n - 5) for n in range(40)]
    drift = GateVerdict.of("gates.drift.blessed", "stop", rows)
    assert (drift.failed, drift.judged, len(drift.rows)) == (34, 40, MOST_ROWS)
    few = GateVerdict.of("gates.rows", "stop", rows[:7])
    lines = explain_stop([few, drift]).splitlines()
    assert lines[0] == "gates.rows, gates.drift.blessed stop the run:"
    assert lines[1:3] == ["gates.rows: 1 of 7 checks failed", "  c06: m v, limit l"]
    assert lines[4] == "  c39: m v, limit l"
    assert lines[-2] == "  and 29 more, in the report"
    assert "`on_anomaly: warn` in gates.rows, gates.drift.blessed" in lines[-1]


@pytest.mark.parametrize(
    ("section", "settings", "word"),
    [
        (RowsGate, {}, "set at least one of"),
        (RowsGate, {"min": 2, "max": 1}, "min: 2 is greater than max: 1"),
        (RowsGate, {"max_decrease": 1.5}, "less than or equal to 1"),
        (FreshnessGate, {"max_days": 1, "format": "%Y"}, "name the column"),
        (FreshnessGate, {"max_days": 1, "column": "at", "format": "%Q"}, "`%Q` is not supported"),
        (FreshnessGate, {"max_days": 1, "column": "at", "format": "%H:%M"}, "%H:%M is a time of day"),
    ],
)
def test_settings_that_make_no_sense(
    section: type[RowsGate | FreshnessGate], settings: dict[str, object], word: str
) -> None:
    with pytest.raises(ValidationError, match=word):
        section.model_validate(settings)
