"""The table of components, and how its figures and states are written."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.pipeline.results.record import NodeRecord, RunRecord, Status

LOADING = "loading TensorFlow, TFX and Beam"
_WIDE = 72  # columns from which two spaces fit between the fields
_WITH_ROWS = 48  # columns from which the row counts fit


@dataclass(frozen=True)
class StatusStyle:
    """How a status is shown: a rich style, a symbol, and one for terminals limited to ASCII."""

    style: str
    symbol: str
    ascii_symbol: str


STATUS_STYLES = {
    Status.WAITING: StatusStyle("dim", "·", "."),
    Status.RUNNING: StatusStyle("cyan", "▶", ">"),
    Status.CACHED: StatusStyle("blue", "=", "="),
    Status.DONE: StatusStyle("green", "✓", "+"),
    Status.FAILED: StatusStyle("bold red", "✗", "x"),
    Status.SKIPPED: StatusStyle("dim", "○", "-"),
    Status.INTERRUPTED: StatusStyle("yellow", "!", "!"),
}


def duration(seconds: float | None) -> str:
    """`4.1 s`, `2 m 05 s`, `1 h 02 m`; empty for None."""
    if seconds is None:
        return ""
    seconds = max(seconds, 0.0)
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"


def count(number: int | None) -> str:
    """`15,002`; empty for None."""
    return "" if number is None else f"{number:,}"


def render(record: RunRecord, now: float, console: Console) -> RenderableType:
    """The headline and the table of components at `now` (Unix seconds)."""
    if not record.nodes:
        return Group(_headline(record, now), Text(LOADING if not record.status.ended else "", "dim"))
    damages = [Text(f"{node.id}: {damage}", "yellow") for node in record.nodes for damage in node.damaged]
    return Group(_headline(record, now), _table(record, now, console), *damages)


def _headline(record: RunRecord, now: float) -> Text:
    seconds = (record.finished if record.finished is not None else now) - record.started
    return Text.assemble(
        (record.pipeline, "bold"), "  ", (f"run {record.run_id}", "dim"), "  ", duration(seconds), overflow="ellipsis"
    )


def _table(record: RunRecord, now: float, console: Console) -> Table:
    with_rows = console.width >= _WITH_ROWS
    table = Table(box=None, pad_edge=False, padding=(0, 2 if console.width >= _WIDE else 1, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True, min_width=1)
    table.add_column("component", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True, min_width=len("99.9 s"))
    if with_rows:
        table.add_column("rows in", justify="right", no_wrap=True)
        table.add_column("rows out", justify="right", no_wrap=True)
    for node in record.nodes:
        table.add_row(*_cells(node, now, console.options.ascii_only)[: None if with_rows else 4])
    return table


def _cells(node: NodeRecord, now: float, ascii_only: bool) -> list[Text]:
    shown = STATUS_STYLES[node.status]
    quiet = "" if node.status.ended or node.started is not None else "dim"
    return [
        Text(shown.ascii_symbol if ascii_only else shown.symbol, shown.style),
        Text(node.id, quiet),
        Text(node.status, shown.style),
        Text(duration(node.seconds(now)), quiet),
        Text(count(node.rows_in), quiet),
        Text(count(node.rows_out), quiet),
    ]
