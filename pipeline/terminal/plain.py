"""One plain line for each change: for pipes, files and CI."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from rich.console import Console

from headrace.pipeline.local.record import NodeRecord, RunRecord, Status
from headrace.pipeline.terminal.words import count, duration

_STATUS_WIDTH = max(map(len, Status))


class PlainDisplay:
    """Writes `12:03:04 Transform         done         4.1 s  15,002 rows in  15,002 rows out`."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console, self._clock = console, clock
        self._shown: dict[str, Status] | None = None

    def update(self, record: RunRecord) -> None:
        """Write a line for each component whose status is another one than at the last call."""
        if self._shown is None:
            self._shown = {}
            self._write(f"{record.pipeline}  run {record.run_id}")
        width = max((len(node.id) for node in record.nodes), default=0)
        for node in record.nodes:
            if self._shown.get(node.id, Status.WAITING) is not node.status:
                if node.id not in self._shown:
                    self._write_all(f"{node.id:<{width}}  {what}" for what in node.damaged)
                self._shown[node.id] = node.status
                self._write(line(node, width, self._clock()))

    def close(self) -> None:
        """Nothing is left to do: every line stands already."""

    def _write_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._write(text)

    def _write(self, text: str) -> None:
        stamp = time.strftime("%H:%M:%S", time.localtime(self._clock()))
        self._console.print(f"{stamp} {text}", markup=False, highlight=False, soft_wrap=True, emoji=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def line(node: NodeRecord, width: int, now: float) -> str:
    """What is known of a component, in one line; its name padded to `width`."""
    seconds = duration(node.seconds(now)) if node.status.ended else ""
    rows_in = f"  {count(node.rows_in)} rows in" if node.rows_in is not None else ""
    rows_out = f"  {count(node.rows_out)} rows out" if node.rows_out is not None else ""
    return f"{node.id:<{width}}  {node.status:<{_STATUS_WIDTH}}  {seconds:>7}{rows_in}{rows_out}".rstrip()
