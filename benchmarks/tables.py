"""Tables for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells as text. All columns except the first are numbers, and right-aligned."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """The table for the terminal, aligned with spaces."""
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        return "\n".join(_aligned(row, widths) for row in (self.head, *self.rows))

    def markdown(self) -> str:
        rule = ["---", *["---:"] * (len(self.head) - 1)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.head, rule, *self.rows))


@dataclass(frozen=True)
class Section:
    """The result of one benchmark: tables with captions, and notes on them.

    The page has the first table and `notes`, the terminal also the other tables and `details`.
    """

    title: str
    parts: Sequence[tuple[str, Table]]
    notes: Sequence[str]
    details: Sequence[str] = ()

    def text(self) -> str:
        blocks = [f"{caption}\n\n{table.text()}" for caption, table in self.parts]
        return "\n\n".join([f"== {self.title} ==", *blocks, _bullets([*self.notes, *self.details])])

    def markdown(self) -> str:
        caption, table = self.parts[0]
        return "\n\n".join([f"## {self.title}", caption, table.markdown(), _bullets(self.notes)])


def _aligned(row: Sequence[str], widths: Iterable[int]) -> str:
    first, *rest = [(cell, width) for cell, width in zip(row, widths, strict=True)]
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()


def _bullets(notes: Sequence[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)
