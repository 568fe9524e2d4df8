"""The table of components below a cell of a notebook."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console

from headrace.pipeline.local.record import RunRecord
from headrace.pipeline.terminal.live import render

SECONDS = 1.0
"""Between two drawings while something runs, so that the seconds tick."""
WIDTH = 100
PAGE = '<pre style="line-height: 1.3; font-family: monospace">{code}</pre>'


class NotebookDisplay:
    """Redraws one output of the cell, which stays when the run has ended."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._record: RunRecord | None = None
        self._output: Any = None
        self._closed = threading.Event()
        self._ticks = threading.Thread(target=self._tick, daemon=True)
        self._drawing = threading.Lock()

    def update(self, record: RunRecord) -> None:
        """Redraw now; the record may change later without another call, and the next drawing shows it."""
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
        while not self._closed.wait(SECONDS):
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def as_html(record: RunRecord, now: float) -> str:
    """The table that a terminal shows, with what comes from the run escaped."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, force_jupyter=False, color_system="truecolor"
    )
    console.print(render(record, now, console))
    return console.export_html(inline_styles=True, code_format=PAGE)
