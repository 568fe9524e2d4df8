"""One live line for each component, on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.pipeline.local.record import NodeRecord, RunRecord
from headrace.pipeline.terminal.words import LOOKS, count, duration

REFRESHES_PER_SECOND = 8
_ROOMY = 72  # columns from which two spaces fit between the fields
_NO_ROOM_FOR_ROWS = 48
LOADING = "loading TensorFlow, TFX and Beam"


class LiveDisplay:
    """Redraws in place, eight times a second while something runs, so that the seconds tick."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console, self._clock = console, clock
        self._record: RunRecord | None = None
        # The runner forks: rich's proxies for stdout and stderr must not end up in a child.
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=REFRESHES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def update(self, record: RunRecord) -> None:
        """Redraw now; the record may change later without another call, and the next redraw shows it."""
        self._record = record
        if self._live.is_started:
            self._live.refresh()
        else:
            self._live.start(refresh=True)

    def close(self) -> None:
        """Draw the last state and give the cursor back."""
        self._live.stop()

    def _render(self) -> RenderableType:
        return "" if self._record is None else render(self._record, self._clock(), self._console)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def render(record: RunRecord, now: float, console: Console) -> RenderableType:
    """The headline and the table of components, as they stand at `now` (Unix seconds)."""
    if not record.nodes:
        return Group(_headline(record, now), Text(LOADING if not record.status.ended else "", "dim"))
    damages = [Text(f"{node.id}: {what}", "yellow") for node in record.nodes for what in node.damaged]
    return Group(_headline(record, now), _table(record, now, console), *damages)


def _headline(record: RunRecord, now: float) -> Text:
    seconds = (record.finished if record.finished is not None else now) - record.started
    return Text.assemble(
        (record.pipeline, "bold"), "  ", (f"run {record.run_id}", "dim"), "  ", duration(seconds), overflow="ellipsis"
    )


def _table(record: RunRecord, now: float, console: Console) -> Table:
    rows_fit = console.width >= _NO_ROOM_FOR_ROWS
    table = Table(box=None, pad_edge=False, padding=(0, 2 if console.width >= _ROOMY else 1, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True, min_width=1)
    table.add_column("component", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True, min_width=len("99.9 s"))
    if rows_fit:
        table.add_column("rows in", justify="right", no_wrap=True)
        table.add_column("rows out", justify="right", no_wrap=True)
    for node in record.nodes:
        table.add_row(*_cells(node, now, console.options.ascii_only)[: None if rows_fit else 4])
    return table


def _cells(node: NodeRecord, now: float, ascii_only: bool) -> list[Text]:
    look = LOOKS[node.status]
    quiet = "" if node.status.ended or node.started is not None else "dim"
    return [
        Text(look.ascii_symbol if ascii_only else look.symbol, look.style),
        Text(node.id, quiet),
        Text(node.status, look.style),
        Text(duration(node.seconds(now)), quiet),
        Text(count(node.rows_in), quiet),
        Text(count(node.rows_out), quiet),
    ]
