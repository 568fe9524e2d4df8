"""Gates of a nightly pipeline on this machine: a night that passes, and one whose data stops the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from command import Finished, headrace
from messages import says
from test_triggers import ROWS, write_day

from headrace.pipeline.results.run_folder import RunFolder

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: nightly}
data: {source: {kind: csv, path: "days/{YYYY}-{MM}-{DD}.csv"}, window: 3}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric}
  kind: {column: vocabulary}
gates:
  rows: {min: 100, max_decrease: 0.5, max_missing_spans: 0}
  freshness: {max_days: 1}
  drift:
    blessed: {columns: {kind: {l_infinity: 0.3}}}
    earlier_spans: {on_anomaly: warn}
  skew: {source: {kind: jsonl, path: "log/{YYYY}-{MM}-{DD}.jsonl"}, columns: {kind: {l_infinity: 0.3}}}
model: {kind: dnn, hidden: [4]}
train: {epochs: 1, batch_size: 64}
evaluate: {metrics: [auc], better_than_constant: false}
deploy: {push: null}
notify: {log: {kind: command, command: [tee, -a, events.jsonl], on: [failed, drifted]}}
"""


@pytest.fixture(scope="module")
def nights(new_folder: Callable[[str], Path]) -> tuple[Finished, Finished, Finished]:
    """A night that trains, one that is stopped, and the same again."""
    folder = new_folder("gates")
    (folder / "nightly.yaml").write_text(CONFIG)
    for day in (1, 2):
        write_day(folder, day)
    first = headrace(folder, "run", "nightly.yaml", "--param", "run_date=2026-11-03")
    write_day(folder, 4, taxed=3, share=0.9)
    (folder / "log").mkdir()
    fares = pd.read_csv(folder / "days/2026-11-01.csv")["fare"]
    lines = [json.dumps({"fare": fare, "kind": "ab"[row % 5 == 0]}) for row, fare in enumerate(fares)]
    (folder / "log/2026-11-05.jsonl").write_text("\n".join(lines))
    (folder / "log/2026-11-08.jsonl").write_text("not of the past")
    second, third = (headrace(folder, "run", "nightly.yaml", "--param", "run_date=2026-11-07") for _ in range(2))
    return first, second, third


def test_a_night_within_all_limits_trains_and_says_what_was_passed_and_what_could_not_be_judged(
    nights: tuple[Finished, Finished, Finished],
) -> None:
    first, *_ = nights
    assert first.code == 0, first.out + first.err
    gates = [line.removeprefix("gates").strip() for line in first.lines if line.startswith("gates ")]
    blessed, skew, passed = gates
    assert says(blessed, "gates.drift.blessed was not judged: no model is blessed")
    assert says(skew, "gates.skew was not judged: no request")
    assert passed == "passed: gates.rows, gates.freshness, gates.drift.earlier_spans"
    record = json.loads((first.folder.parents[1] / "blessed.json").read_text())
    assert record["models"][0]["statistics"].startswith("artifacts/StatisticsGen/statistics/")


def test_without_thresholds_the_run_says_loudly_that_every_model_is_blessed(
    nights: tuple[Finished, Finished, Finished],
) -> None:
    first, *_ = nights
    assert first.ending("warning").startswith("`evaluate.thresholds` is empty: every model ")
    assert first.ending("blessing") == "blessed: nothing is required of the metrics"
    page = (first.folder / "report.html").read_text()
    assert "Warning: <code>evaluate.thresholds</code> is empty" in page.replace("</b>", "")


def test_a_stopped_night_names_its_gates_and_shows_the_worst(nights: tuple[Finished, Finished, Finished]) -> None:
    _, second, _ = nights
    assert second.code == 1
    statuses = second.statuses()
    assert (statuses["DataVerdict"], statuses["DataGate"], statuses["Transform"]) == ("done", "failed", "skipped")
    error = second.run.node("DataGate").error or ""
    assert error.splitlines()[0] == "gates.rows, gates.freshness, gates.drift.blessed, gates.skew stop the run:"
    assert "  2026-11-03: missing spans 1, limit 0" in error
    assert "  2026-11-04: age of the newest span 3 days, limit 1 day" in error
    assert any(line.startswith("gates     gates.drift.earlier_spans: ") for line in second.lines)  # only warns
    page = (second.folder / "report.html").read_text()
    assert "stopped the run" in page
    assert "gates.drift.earlier_spans" in page


def test_a_stopped_night_is_told_with_its_gates_and_one_within_limits_is_not(
    nights: tuple[Finished, Finished, Finished],
) -> None:
    folder = nights[1].folder.parents[3]
    decoder, text, events = json.JSONDecoder(), (folder / "events.jsonl").read_text(), []
    while text:
        event, end = decoder.raw_decode(text)
        events.append(event)
        text = text[end:].lstrip()
    assert [event["subject"] for event in events] == [night.run.run_id for night in nights[1:]]
    assert events[0]["data"]["events"] == ["failed", "drifted"]
    stopped = {one["gate"]: one["stopped"] for one in events[0]["data"]["gates"]}
    stops = ("gates.rows", "gates.freshness", "gates.drift.blessed", "gates.skew")
    assert stopped == {**dict.fromkeys(stops, True), "gates.drift.earlier_spans": False}


def test_verdict_of_a_stopped_night_has_distances_as_computed_from_the_raw_files(
    nights: tuple[Finished, Finished, Finished],
) -> None:
    first, second, _ = nights
    verdict = RunFolder.read(second.folder).gates
    assert verdict is not None
    gates = {one.gate: {(row.what, row.measure): row for row in one.rows} for one in verdict.gates}
    days = [pd.read_csv(first.folder.parents[3] / f"days/2026-11-0{day}.csv") for day in (1, 2, 4)]
    shares = [frame["kind"].value_counts(normalize=True) for frame in (pd.concat(days[:2]), days[1], days[2])]
    for gate, before in (("gates.drift.blessed", shares[0]), ("gates.drift.earlier_spans", shares[1])):
        row = gates[gate]["kind", "L-infinity distance"]
        expected = shares[2].sub(before, fill_value=0).abs().max()
        assert float(row.value) == pytest.approx(expected, abs=0.04)  # train splits hold four rows in five
        assert row.passed is (gate == "gates.drift.blessed" and float(row.value) <= 0.3)
    change = gates["gates.rows"]["2026-11-04", "change of rows"]
    assert (change.value, change.now) == ("+0.0%", f"{ROWS} rows")


def test_logged_requests_are_compared_with_the_window_and_read_again_only_if_they_changed(
    nights: tuple[Finished, Finished, Finished],
) -> None:
    first, second, third = nights
    statuses = [night.statuses() for night in nights]
    assert [each["ServingStatistics"] for each in statuses] == ["done", "done", "cached"]
    assert [each["ServingLog"] for each in statuses] == ["done"] * 3
    verdict = RunFolder.read(second.folder).gates
    assert verdict is not None
    skew = verdict.gates[-1]
    rows = {(row.what, row.measure): row for row in skew.rows}
    days = pd.concat([pd.read_csv(first.folder.parents[3] / f"days/2026-11-0{day}.csv") for day in (2, 4)])
    expected = abs((days["kind"] == "a").mean() - 0.8)
    assert float(rows["kind", "L-infinity distance"].value) == pytest.approx(expected, abs=0.04)
    assert {what for what, _ in rows} == {"fare", "kind"}  # requests have no label
    assert RunFolder.read(third.folder).gates == verdict
