"""Standard output for tables and progress."""

from __future__ import annotations

from rich.console import Console

from headrace.pipeline.unread import ReaderGoneError, silence


class Output(Console):
    """Where the reader of a pipe has gone, rich would end the process at once; here what goes on is tidied up first."""

    def __init__(self) -> None:
        super().__init__(highlight=False)
        self.unread = False

    def on_broken_pipe(self) -> None:
        """Write nothing from now on, and say why."""
        self.unread = self.quiet = True
        silence()
        raise ReaderGoneError
