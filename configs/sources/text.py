"""Running text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.sources.base import FileSource

Length = Annotated[int, Field(ge=1)]


class TextSource(FileSource):
    """Text files, UTF-8, plain or gzip (by the ending `.gz`): a column `text`, and with a `window` the columns `words`
    (multi-valued) and `next_word` for training a model of language.
    """

    kind: Literal["text"]
    """`text`."""
    unit: Literal["line", "file"] = "line"
    """What is one text: a line (empty ones are left out), or a whole file."""
    window: Length | None = None
    """Words in an example, which the word after them is the label of; null: each text is an example."""
    stride: Length = 1
    """Words from the start of one window to the start of the next."""
    lowercase: bool = False
    """Whether words are made lower-case; only `window` uses it."""
    min_length: Annotated[int, Field(ge=0)] = 1
    """Characters; shorter texts are left out."""
    max_length: Length | None = None
    """Characters; longer texts are left out. null: no limit."""
    keep: str | None = None
    """A regular expression (RE2) that must match somewhere in a text, or it is left out; null: all are kept."""
