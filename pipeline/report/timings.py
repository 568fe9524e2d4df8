"""How the run went: when each component waited and ran, and which Beam pipelines it executed."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.report.formatting import count
from headrace.pipeline.results.record import NodeRecord, RunRecord
from headrace.pipeline.terminal.table import STATUS_STYLES, duration


@dataclass(frozen=True)
class ComponentTiming:
    """One component. Positions and widths are percentages of the run's time; it waits once all its inputs are there."""

    node: NodeRecord
    symbol: str
    seconds: float | None
    waits_at: float = 0.0
    runs_at: float = 0.0
    width: float = 0.0

    @property
    def rows(self) -> str:
        """Rows read and written, `15,002 → 14,998`, as far as they are known."""
        known = [count(rows) for rows in (self.node.rows_in, self.node.rows_out) if rows is not None]
        return " → ".join(dict.fromkeys(known))

    @property
    def title(self) -> str:
        """Name, status and time in one line."""
        ran = f", {duration(self.seconds)}" if self.seconds is not None else ""
        return f"{self.node.id}: {self.node.status}{ran}"


@dataclass(frozen=True)
class Timings:
    """All components in the order of the DAG, and the labels of the time axis as (percent, text)."""

    rows: list[ComponentTiming]
    total: float
    axis: list[tuple[float, str]]


def read_timings(record: RunRecord) -> Timings:
    """Timings on an axis from the run's start to its end, or to the last recorded time of a run that did not end."""
    ends = [time for node in record.nodes for time in (node.started, node.finished) if time is not None]
    end = record.finished if record.finished is not None else max(ends, default=record.started)
    total = max(end - record.started, 1e-3)
    finished = {node.id: node.finished for node in record.nodes}
    rows = [_timing(node, record.started, end, finished) for node in record.nodes]
    axis = [(share * 25.0, duration(total * share / 4)) for share in range(5)]
    return Timings(rows, end - record.started, axis)


def _timing(node: NodeRecord, start: float, end: float, finished: dict[str, float | None]) -> ComponentTiming:
    symbol = STATUS_STYLES[node.status].symbol
    if node.started is None:
        return ComponentTiming(node, symbol, None)
    total = max(end - start, 1e-3)
    needed = [time for upstream in node.upstream if (time := finished.get(upstream)) is not None]
    ready = min(max(needed, default=start), node.started)
    seconds = node.seconds(end)
    return ComponentTiming(
        node,
        symbol,
        seconds,
        waits_at=100 * (ready - start) / total,
        runs_at=100 * (node.started - start) / total,
        width=100 * (seconds or 0.0) / total,
    )


def describe_beam(record: RunRecord) -> str:
    """`Beam direct: ExampleGen (2 pipelines, 14 transforms); not used by StatisticsGen`, or nothing without components.

    Components that were reused are not named, nor those of runs of versions that did not record it.
    """
    runners: dict[str, tuple[list[str], list[str]]] = {}
    for node in record.nodes:
        runner, _, executed = node.beam.partition(", ")
        if not runner:
            continue
        with_pipelines, without = runners.setdefault(runner, ([], []))
        if executed.startswith("no pipeline"):
            without.append(node.id)
        else:
            with_pipelines.append(f"{node.id} ({executed})")
    return " · ".join(f"{runner}: {_beam_components(*components)}" for runner, components in runners.items())


def _beam_components(with_pipelines: list[str], without: list[str]) -> str:
    others = f"not used by {', '.join(without)}" if without else ""
    return "; ".join(filter(None, (", ".join(with_pipelines), others)))
