"""The verdicts of the gates in `gates:`, as DataVerdict writes them: one JSON object, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel

MOST_ROWS = 20
"""Rows that a verdict lists; those beyond their limits come first."""
SHOWN_ROWS = 5
"""Rows that a message lists."""


class GateRow(BaseModel, frozen=True):
    """One quantity that a gate judged.

    what: the span or the column; measure: what was measured; before, now: what it was measured from, in words; excess:
    how far it is beyond the limit, relative to the limit, by which rows are ordered; at most 0 if it is within.
    """

    what: str
    measure: str
    value: str
    limit: str
    before: str = ""
    now: str = ""
    excess: float

    @property
    def passed(self) -> bool:
        """Whether it is within the limit."""
        return self.excess <= 0

    def __str__(self) -> str:
        """`fare: Jensen-Shannon divergence 0.31, limit 0.1 (mean 11.2 → mean 36.1)`."""
        both = " → ".join(text for text in (self.before, self.now) if text)
        return f"{self.what}: {self.measure} {self.value}, limit {self.limit}{both and f' ({both})'}"


class GateVerdict(BaseModel, frozen=True):
    """The verdict of one gate.

    gate: its path in the config; rows: what it judged, the worst first, at most MOST_ROWS; failed: how many rows are
    beyond their limits, listed or not; note: why something was not judged; "" if all was.
    """

    gate: str
    on_anomaly: Literal["stop", "warn"]
    rows: tuple[GateRow, ...] = ()
    failed: int = 0
    judged: int = 0
    note: str = ""

    @classmethod
    def of(cls, gate: str, on_anomaly: Literal["stop", "warn"], rows: Iterable[GateRow], note: str = "") -> GateVerdict:
        ordered = sorted(rows, key=lambda row: -row.excess)
        failed = sum(not row.passed for row in ordered)
        return cls(
            gate=gate,
            on_anomaly=on_anomaly,
            rows=tuple(ordered[:MOST_ROWS]),
            failed=failed,
            judged=len(ordered),
            note=note,
        )

    @property
    def passed(self) -> bool:
        """Whether nothing is beyond its limit."""
        return not self.failed

    @property
    def summary(self) -> str:
        """How many of its checks failed."""
        return f"{self.failed:,} of {self.judged:,} {'check' if self.judged == 1 else 'checks'} failed"

    @property
    def unjudged(self) -> str:
        """What was not judged, and why: `not judged: no request is logged yet`; "" if all was."""
        return self.note and f"{'judged in part' if self.judged else 'not judged'}: {self.note}"

    @property
    def stops(self) -> bool:
        return self.on_anomaly == "stop" and not self.passed

    @property
    def lines(self) -> list[str]:
        """The gate with what is wrong, one line for each of the worst rows."""
        listed = [row for row in self.rows if not row.passed][:SHOWN_ROWS]
        lines = [f"{self.gate}: {self.summary}"]
        lines += [f"  {row}" for row in listed]
        more = self.failed - len(listed)
        return [*lines, f"  and {more:,} more, in the report"] if more else lines


class DataVerdicts(BaseModel, frozen=True):
    """The verdicts of all gates, in the order of the config."""

    gates: tuple[GateVerdict, ...]

    @property
    def stopping(self) -> list[GateVerdict]:
        """The gates that stop the run."""
        return [one for one in self.gates if one.stops]


def explain_stop(stopping: Iterable[GateVerdict]) -> str:
    """Why the run stops, with the gates in the first line, and the way out."""
    listed = list(stopping)
    names = ", ".join(one.gate for one in listed)
    lines = [line for one in listed for line in one.lines]
    way_out = f"Correct the data, or the limits, or set `on_anomaly: warn` in {names} to train anyway."
    return "\n".join([f"{names} {'stops' if len(listed) == 1 else 'stop'} the run:", *lines, way_out])
