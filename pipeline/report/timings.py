"""When each component waited and ran."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.local.record import NodeRecord, RunRecord
from headrace.pipeline.report.figures import count
from headrace.pipeline.terminal.table import STATUS_STYLES, duration


@dataclass(frozen=True)
class Timing:
    """One component; places and widths in percent of the whole run. It waits from when all it needs is there."""

    node: NodeRecord
    symbol: str
    seconds: float | None
    waits_at: float = 0.0
    runs_at: float = 0.0
    width: float = 0.0

    @property
    def rows(self) -> str:
        """`15,002 → 15,002`, as far as it is known."""
        known = [count(rows) for rows in (self.node.rows_in, self.node.rows_out) if rows is not None]
        return " → ".join(dict.fromkeys(known))

    @property
    def title(self) -> str:
        """All of it in one line."""
        ran = f", {duration(self.seconds)}" if self.seconds is not None else ""
        return f"{self.node.id}: {self.node.status}{ran}"


@dataclass(frozen=True)
class Timings:
    """All components in the order of the DAG, and the marks of the time axis as (percent, text)."""

    rows: list[Timing]
    total: float
    axis: list[tuple[float, str]]


def read_timings(record: RunRecord) -> Timings:
    """Places on the time axis, from the run's start to the last thing known of it."""
    ends = [time for node in record.nodes for time in (node.started, node.finished) if time is not None]
    end = record.finished if record.finished is not None else max(ends, default=record.started)
    total = max(end - record.started, 1e-3)
    finished = {node.id: node.finished for node in record.nodes}
    rows = [_timing(node, record.started, end, finished) for node in record.nodes]
    axis = [(share * 25.0, duration(total * share / 4)) for share in range(5)]
    return Timings(rows, end - record.started, axis)


def _timing(node: NodeRecord, start: float, end: float, finished: dict[str, float | None]) -> Timing:
    symbol = STATUS_STYLES[node.status].symbol
    if node.started is None:
        return Timing(node, symbol, None)
    total = max(end - start, 1e-3)
    needed = [time for upstream in node.upstream if (time := finished.get(upstream)) is not None]
    ready = min(max(needed, default=start), node.started)
    seconds = node.seconds(end)
    return Timing(
        node,
        symbol,
        seconds,
        waits_at=100 * (ready - start) / total,
        runs_at=100 * (node.started - start) / total,
        width=100 * (seconds or 0.0) / total,
    )
