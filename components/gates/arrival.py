"""Gates for how much data arrived, and how old it is. This module does not import TensorFlow."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Iterator, Mapping

from headrace.common.errors import GateError
from headrace.common.figures import figure, plural
from headrace.components.gates.verdict import DataVerdicts, GateRow, GateVerdict, explain_stop
from headrace.components.spans.find import date_of_run
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.gates import FreshnessGate, RowsGate

ROWS, FRESHNESS = "gates.rows", "gates.freshness"
MAY_BE_AHEAD = 1
"""Days by which the newest value may be after the date of the run, as in another time zone."""


def judge_rows(gate: RowsGate, manifest: SpanManifest, rows: Mapping[str, int], blessed: int | None) -> GateVerdict:
    """The verdict on the number of rows.

    Args:
        gate: the limits.
        manifest: the spans that the run reads.
        rows: the rows of each span by its name, in their order; {"": rows} for data without spans. Spans without files
            to train on do not count.
        blessed: the rows of the data of the model that is blessed now; None if it is not known, or not asked for.
    """
    *earlier, newest = [span.name for span in manifest.to_train_on if span.name in rows] or rows
    before = [rows[name] for name in earlier][-gate.spans :]
    usual: float | None = statistics.median(before) if before else None if newest else blessed
    where = f"median of {plural(len(before), 'span')}" if before else "blessed model's data"
    found = [*_bounds(gate, newest, rows[newest]), *_missing(gate, manifest)]
    if usual:
        found += _changes(gate, newest, rows[newest], usual, where)
    if not gate.compares or usual:
        return GateVerdict.of(ROWS, gate.on_anomaly, found)
    nothing = "the earlier spans have no rows" if before else "there is no earlier span in the window"
    return GateVerdict.of(
        ROWS, gate.on_anomaly, found, nothing if newest else "the data of a blessed model is not on record"
    )


def _bounds(gate: RowsGate, name: str, number: int) -> Iterator[GateRow]:
    what = name or "the data"
    if gate.min is not None:
        excess = (gate.min - number) / gate.min
        yield GateRow(what=what, measure="rows", value=f"{number:,}", limit=f"at least {gate.min:,}", excess=excess)
    if gate.max is not None:
        excess = (number - gate.max) / gate.max
        yield GateRow(what=what, measure="rows", value=f"{number:,}", limit=f"at most {gate.max:,}", excess=excess)


def _changes(gate: RowsGate, name: str, number: int, usual: float, where: str) -> Iterator[GateRow]:
    change = (number - usual) / usual
    for limit, sign, word in ((gate.max_decrease, -1, "a decrease"), (gate.max_increase, 1, "an increase")):
        if limit is not None:
            yield GateRow(
                what=name or "the data",
                measure="change of rows",
                value=f"{change:+.1%}",
                limit=f"{word} of {limit:.4g}",
                before=f"{where}: {figure(usual, 10)} rows",
                now=f"{number:,} rows",
                excess=(sign * change - limit) / limit,
            )


def _missing(gate: RowsGate, manifest: SpanManifest) -> Iterator[GateRow]:
    limit = gate.max_missing_spans
    if limit is None:
        return
    more = manifest.missing_count - len(manifest.missing)
    names = ", ".join(manifest.missing) + (f" and {more:,} more" if more else "")
    yield GateRow(
        what=names or "the window",
        measure="missing spans",
        value=f"{manifest.missing_count:,}",
        limit=f"{limit:,}",
        excess=(manifest.missing_count - limit) / max(limit, 1),
    )


def judge_freshness(gate: FreshnessGate, as_of: str, newest: str, time: dt.datetime | None = None) -> GateVerdict:
    """The verdict on the age of the newest data.

    Args:
        gate: the limit.
        as_of: the date of the run, as YYYY-MM-DD; "" if it has none.
        newest: the name of the newest span to train on; "" for data without spans.
        time: the newest value of `gate.column` in it; None if there is none, or if no column counts.
    """
    if not as_of:
        note = "`data.spans` selects spans without dates, so the run has no date to count up to"
        return GateVerdict.of(FRESHNESS, gate.on_anomaly, (), note)
    what, measure = (gate.column, "newest value") if gate.column else (newest, "newest span")
    day = time.date() if time is not None else dt.date.fromisoformat(newest) if gate.column is None else None
    age = None if day is None else (dt.date.fromisoformat(as_of) - day).days
    row = GateRow(
        what=what,
        measure=f"age of the {measure}",
        value="unknown: no value is a date" if age is None else _days(age),
        limit=_days(gate.max_days),
        before="" if day is None else f"{measure} {time or day}",
        now=f"run of {as_of}",
        excess=1.0 if age is None or age < -MAY_BE_AHEAD else (age - gate.max_days) / max(gate.max_days, 1),
    )
    return GateVerdict.of(FRESHNESS, gate.on_anomaly, [row])


def judge_without_new_data(freshness: str, data: DataConfig, manifest: SpanManifest) -> DataVerdicts:
    """The verdict on the age of the data of a run that has nothing new to train on, and so ends before DataVerdict.

    freshness: FreshnessGate as JSON, if the dates of spans count for it; else "", and there is no verdict.
    """
    if not freshness:
        return DataVerdicts(gates=())
    gate, as_of = FreshnessGate.model_validate_json(freshness), date_of_run(data, manifest)
    return DataVerdicts(gates=(judge_freshness(gate, as_of, manifest.newest_to_train_on.name),))


def stop_if_judged_so(verdict: DataVerdicts) -> None:
    """Raise GateError if a gate stops the run."""
    if verdict.stopping:
        raise GateError(explain_stop(verdict.stopping))


def _days(number: int) -> str:
    days = plural(abs(number), "day")
    return f"{days} after the run" if number < 0 else days
