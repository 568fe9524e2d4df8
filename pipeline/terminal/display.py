"""What every display of a run has in common, and the two simple ones: plain lines, and nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console

from headrace.pipeline.interrupts import ReaderGoneError, discard_stdout
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status
from headrace.pipeline.terminal.table import count, duration

MonotonicClock = Callable[[], float]
"""Returns Unix seconds."""
_STATUS_WIDTH = max(map(len, Status))


class StandardOutput(Console):
    """Standard output. When the reader of a pipe is gone, rich would exit at once; this lets the command clean up."""

    def __init__(self) -> None:
        super().__init__(highlight=False)
        self.reader_gone = False

    def on_broken_pipe(self) -> None:
        """Discard further output and raise ReaderGoneError."""
        self.reader_gone = self.quiet = True
        discard_stdout()
        raise ReaderGoneError


class Display(contextlib.AbstractContextManager["Display"]):
    """Shows a run while it is in progress. Leaving the context closes it."""

    def update(self, record: RunRecord) -> None:
        """Show the record as it is now. Called at each change of it."""
        raise NotImplementedError

    def close(self) -> None:
        """Show the last state and restore the terminal. A second call does nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SilentDisplay(Display):
    """Shows nothing."""

    def update(self, record: RunRecord) -> None: ...


class PlainDisplay(Display):
    """Writes a line for each change, with the time of it, for pipes, files and CI.

    12:03:04 Transform         done         4.1 s  15,002 rows in  15,002 rows out
    """

    def __init__(self, console: Console, clock: MonotonicClock) -> None:
        self._console, self._clock = console, clock
        self._shown: dict[str, Status] | None = None

    def update(self, record: RunRecord) -> None:
        """Write a line for each component whose status has changed since the last call."""
        if self._shown is None:
            self._shown = {}
            self._write(record.started, f"{record.pipeline}  run {record.run_id}")
        width = max((len(node.id) for node in record.nodes), default=0)
        for node in record.nodes:
            if self._shown.get(node.id, Status.WAITING) is not node.status:
                at = (node.finished if node.status.ended else node.started) or record.finished or self._clock()
                for damage in node.damaged if node.id not in self._shown else ():
                    self._write(at, f"{node.id:<{width}}  {damage}")
                self._shown[node.id] = node.status
                self._write(at, _line(node, width, self._clock()))

    def _write(self, at: float, text: str) -> None:
        stamp = time.strftime("%H:%M:%S", time.localtime(at))
        self._console.print(f"{stamp} {text}", markup=False, highlight=False, soft_wrap=True, emoji=False)


def _line(node: NodeRecord, width: int, now: float) -> str:
    """One component in one line, its name padded to `width`."""
    seconds = duration(node.seconds(now)) if node.status.ended else ""
    rows_in = f"  {count(node.rows_in)} rows in" if node.rows_in is not None else ""
    rows_out = f"  {count(node.rows_out)} rows out" if node.rows_out is not None else ""
    return f"{node.id:<{width}}  {node.status:<{_STATUS_WIDTH}}  {seconds:>7}{rows_in}{rows_out}".rstrip()
