"""JSON lines."""

from __future__ import annotations

from typing import Literal

from headrace.configs.sources.base import FileSource


class JsonlSource(FileSource):
    """Text files with one JSON object a line, UTF-8, plain or gzip (by the ending `.gz`).

    Lists become multi-valued features; `null`, or a key that a line does not have, is a missing value; true and false
    are 1 and 0. A key with numbers in some lines and strings in others needs a declared type: as `string`, numbers keep
    the text that they are written in. Objects inside objects cannot be read; `data.columns` can leave them out. The
    columns that can be named in `types` and elsewhere are the keys of the first 200 lines of the first eight files, and
    those in `data.columns`.
    """

    kind: Literal["jsonl"]
    """`jsonl`."""
