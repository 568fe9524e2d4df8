"""The tables of a page as a browser would show them, without one.

tables(html)["metrics"]["auc"]       # ["0.7100", "0.7500 0.7000 to 0.8000"]
"""

from __future__ import annotations

from html.parser import HTMLParser

Table = dict[str, list[str]]
"""The text of each row's cells, by that of the first."""


class _Tables(HTMLParser):
    """found: the rows of each section's table, by the section's id."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._section, self._is_in_cell = "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
        elif tag == "table":
            self._rows = self.found[self._section] = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._is_in_cell &= tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._is_in_cell:
            self._rows[-1][-1] += data


def tables(html: str) -> dict[str, Table]:
    """The tables, without their headings, by the id of the section that each is in."""
    parser = _Tables()
    parser.feed(html)
    return {
        section: {name: cells for name, *cells in (list(map(_text, row)) for row in rows[1:])}
        for section, rows in parser.found.items()
    }


def _text(cell: str) -> str:
    return " ".join(cell.replace("\u200b", "").split())
