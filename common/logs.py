"""Where log messages go. The package logs to `headrace` and its children, and prints nothing itself.

A program that imports it sees what its own logging asks for: without the NullHandler that `headrace/__init__.py` adds,
Python would write warnings to standard error. The command line writes warnings there. A process whose output is its
log, such as that of a component or a pod, calls `log_to_stdout`.
"""

from __future__ import annotations

import logging


class _StdoutHandler(logging.Handler):
    """Writes to whatever `sys.stdout` is at that moment, and raises if that fails, as on a full disk."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), flush=True)


def log_to_stdout() -> None:
    """Write Headrace's log messages, from INFO up, to standard output, without a level or a time."""
    logger = logging.getLogger("headrace")
    logger.handlers[:] = [_StdoutHandler()]
    logger.setLevel(logging.INFO)
    logger.propagate = False
