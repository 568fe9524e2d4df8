"""Delimited text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.section import Name
from headrace.configs.sources.base import FileSource


class CsvSource(FileSource):
    """Comma-separated (or otherwise delimited) text files, UTF-8, plain or gzip (by the ending `.gz`)."""

    kind: Literal["csv"]
    """`csv`."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """One character between fields; `"\\t"` for tabs."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """The character around fields that hold delimiters or line breaks; doubled inside a field, it stands for itself."""
    column_names: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Names of the columns for files without a header line; null: every file starts with the same header line."""
    null_values: tuple[str, ...] = ("",)
    """Unquoted texts that mean "missing"; in columns of numbers they do so in quotes too. An empty text always does."""

    @model_validator(mode="after")
    def _marks_can_be_told_apart(self) -> CsvSource:
        for name, mark in (("delimiter", self.delimiter), ("quote", self.quote)):
            if mark in "\r\n" or not mark.isascii():
                raise ValueError(f"{name}: {mark!r} cannot be used; any other ASCII character can")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}; they must differ")
        names = self.column_names or ()
        if twice := next((name for number, name in enumerate(names) if name in names[:number]), None):
            raise ValueError(f'column_names: "{twice}" stands there twice')
        return self
