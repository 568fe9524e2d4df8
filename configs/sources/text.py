"""Running text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.section import Name
from headrace.configs.sources.base import FileSource

Length = Annotated[int, Field(ge=1)]


class TextSource(FileSource):
    """Text files, UTF-8, plain or gzip (by the ending `.gz`): a column `text`, or with a `window` the columns `words`
    (multi-valued) and `next_word`, for training a model that tells the next word.

    White space at the ends of a text is cut off, and a text without anything else is left out. Words are what stands
    between white space, with their punctuation. A window lies in one text; a text without a word behind its first
    `window` words gives no example.
    """

    kind: Literal["text"]
    """`text`."""
    unit: Literal["line", "file", "string"] = "line"
    """What is one text: a line, a whole file (of at most 256 MiB), or a string in a Python file, such as its
    documentation."""
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
    text_key: Name | None = None
    """A column of this name, such as `notes.txt:120`, says from which text an example is: its file and the byte at
    which it starts. Files in folders below the part of `path` without wildcards and placeholders (of several paths, the
    part that they share) are named with those folders, so `notes/*/*.txt` gives `june/a.txt:120`. With
    `data.split_key` set to it, all windows of a text land in the same split; otherwise windows that share most of their
    words land in different ones. null: there is no such column."""

    @model_validator(mode="after")
    def _settings_agree(self) -> TextSource:
        if self.max_length is not None and self.max_length < self.min_length:
            raise ValueError(f"max_length is {self.max_length}, which is below min_length ({self.min_length})")
        if self.text_key in {"text", "words", "next_word"}:
            raise ValueError(f'text_key: "{self.text_key}" is the name of another column; choose one of your own')
        return self
