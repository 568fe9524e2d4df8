"""JSON lines."""

from __future__ import annotations

from typing import Literal

from configs.sources.base import FileSource


class JsonlSource(FileSource):
    """Text files with one JSON object a line, UTF-8, plain or gzip (by the ending `.gz`). Lists become multi-valued
    features; `null`, or a name that a line does not have, is a missing value.
    """

    kind: Literal["jsonl"]
    """`jsonl`."""
