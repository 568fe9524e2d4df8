"""Which display a run gets: live lines on a terminal, one plain line for each change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console

from headrace.pipeline.local.record import RunRecord
from headrace.pipeline.terminal.live import LiveDisplay
from headrace.pipeline.terminal.notebook import NotebookDisplay
from headrace.pipeline.terminal.plain import PlainDisplay

Clock = Callable[[], float]


class Display(Protocol):
    """Shows a run while it goes on."""

    def update(self, record: RunRecord) -> None:
        """Show the record as it stands now; called at each change of it."""

    def close(self) -> None:
        """Show the last state and leave the terminal as it was; a second call does nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Silent:
    """Shows nothing."""

    def update(self, record: RunRecord) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_display(console: Console | None = None, clock: Clock = time.time) -> Display:
    """A display for standard output: live where that is a terminal that can move its cursor, or a notebook; plain
    elsewhere.

    `clock` gives Unix seconds. rich reads NO_COLOR and TERM, and knows notebooks.
    """
    console = console or Console(highlight=False)
    if console.is_jupyter:
        return NotebookDisplay(clock)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveDisplay(console, clock)
    return PlainDisplay(console, clock)
