"""Displays that redraw the table of components in place: on a terminal, and below a cell of a notebook."""

from __future__ import annotations

import io
import threading
import time
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from headrace.pipeline.results.record import RunRecord
from headrace.pipeline.terminal.display import Display, MonotonicClock, PlainDisplay
from headrace.pipeline.terminal.table import render

REFRESHES_PER_SECOND = 8
NOTEBOOK_SECONDS = 1.0
"""Seconds between two drawings in a notebook while something runs."""
NOTEBOOK_WIDTH = 100
HTML_TABLE = '<pre style="line-height: 1.3; font-family: monospace">{code}</pre>'


def open_display(console: Console | None = None, clock: MonotonicClock = time.time) -> Display:
    """Choose the display for standard output: a live table on a terminal that can move its cursor and in a notebook,
    plain lines elsewhere.

    rich detects notebooks, and obeys NO_COLOR and TERM.
    """
    console = console or Console(highlight=False)
    if console.is_jupyter:
        return NotebookDisplay(clock)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveDisplay(console, clock)
    return PlainDisplay(console, clock)


class LiveDisplay(Display):
    """Redraws on a terminal, eight times a second while something runs, so that the seconds tick."""

    def __init__(self, console: Console, clock: MonotonicClock) -> None:
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
        """Redraw now. Later changes of the record show at the next redraw, without another call."""
        self._record = record
        if self._live.is_started:
            self._live.refresh()
        else:
            self._live.start(refresh=True)

    def close(self) -> None:
        """Draw the last state and restore the cursor."""
        self._live.stop()

    def _render(self) -> RenderableType:
        return "" if self._record is None else render(self._record, self._clock(), self._console)


class NotebookDisplay(Display):
    """Redraws one output of the cell, which stays after the run."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._record: RunRecord | None = None
        self._output: Any = None
        self._closed = threading.Event()
        self._ticks = threading.Thread(target=self._tick, daemon=True)
        self._drawing = threading.Lock()

    def update(self, record: RunRecord) -> None:
        """Redraw now. Later changes of the record show at the next redraw, without another call."""
        self._record = record
        self._draw()
        if self._ticks.ident is None:
            self._ticks.start()

    def close(self) -> None:
        """Draw the last state."""
        self._closed.set()
        if self._ticks.ident is not None:
            self._ticks.join()
        self._draw()

    def _tick(self) -> None:
        while not self._closed.wait(NOTEBOOK_SECONDS):
            self._draw()

    def _draw(self) -> None:
        if self._record is None:
            return
        from IPython.display import HTML, display

        with self._drawing:
            table = HTML(as_html(self._record, self._clock()))  # type: ignore[no-untyped-call]
            if self._output is None:
                self._output = display(table, display_id=True)  # type: ignore[no-untyped-call]
            else:
                self._output.update(table)


def as_html(record: RunRecord, now: float) -> str:
    """The table as HTML. Text that comes from the run is escaped."""
    console = Console(
        record=True,
        width=NOTEBOOK_WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        force_jupyter=False,
        color_system="truecolor",
    )
    console.print(render(record, now, console))
    return console.export_html(inline_styles=True, code_format=HTML_TABLE)
