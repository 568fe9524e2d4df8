"""Standard output that nobody reads any more: `headrace runs taxi.yaml | head -1`."""

from __future__ import annotations

import os
import select
import sys

EXIT_CODE = 141
"""What a shell gives for a program that wrote to a pipe without a reader."""


class ReaderGoneError(KeyboardInterrupt):
    """Ends a run as Ctrl-C does: what was going on is tidied up."""


def is_unread() -> bool:
    """Whether standard output is a pipe without a reader."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def silence() -> None:
    """Let what is still written, and Python's own flush at the end, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
