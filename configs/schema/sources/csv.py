"""Delimited text: CSV and its relatives."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from headrace.common.errors import HeaderError
from headrace.configs.schema.section import Name
from headrace.configs.schema.sources.base import Lists
from headrace.configs.schema.sources.files import FileSource

DELIMITERS = (";", "\t", "|", ",")
"""Delimiters in common use."""
USUAL_ENCODING = "cp1252"
"""What text that is not UTF-8 most often is."""


class CsvSource(FileSource):
    """Comma-separated (or otherwise delimited) text files, plain or gzip (with the extension `.gz`)."""

    implementation: ClassVar[str] = "headrace.components.sources.csv.source.CsvFiles"
    found_by_paths: ClassVar[bool] = True
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    gzipped: ClassVar[bool] = True
    lists: ClassVar[Lists] = "none"

    kind: Literal["csv"]
    """`csv`."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """The character between fields; `"\\t"` for tabs, which is the default if the files end in `.tsv`."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """The character around fields that contain delimiters or line breaks. Doubled within a field, it stands for
    itself."""
    column_names: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Column names, for files without a header line. null: every file starts with the same header line."""
    null_values: tuple[str, ...] = ("",)
    """Unquoted texts that mean "missing"; in columns of numbers, quoted ones too. An empty text is always missing."""
    encoding: Name = "utf-8"
    """How characters are stored: UTF-8, or any encoding of one byte per character that Python knows and that contains
    ASCII, such as `cp1252` or `latin-1` (Western Europe), `cp1250`, `iso8859-15` or `koi8-r`."""
    decimal: Literal[".", ","] = "."
    """The character before the fraction of a number."""
    thousands: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """The character between groups of digits, such as the comma of `1,234,567` or a space, also one that does not
    break. Groups have three digits, or two before the last one (`12,34,567`); other texts, such as `1.2.2026`, are not
    numbers. The delimiter can be used too, for numbers in quotes. null: none."""
    comment: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Skip lines that start with this character, before the header too. null: none. It starts no comment later in a
    line or in a quoted field."""
    duplicate_names: Literal["error", "rename"] = "error"
    """What to do if a name occurs twice in the header, or a column has none. error: stop. rename: the second column
    called `price` becomes `price_2`, the third `price_3`, or the next number that no other column has, and a first
    column without a name, such as the index that pandas writes, becomes `unnamed_1`; the log of ExampleGen lists
    them."""

    def other_delimiter(self, columns: Sequence[str]) -> str | None:
        """The delimiter that a header which is a single column seems to have, or None."""
        most = max(DELIMITERS, key=columns[0].count) if len(columns) == 1 else self.delimiter
        return most if most != self.delimiter and most in columns[0] else None

    def check_delimiter(self, columns: Sequence[str]) -> None:
        """Raise HeaderError if the header seems to have another delimiter."""
        if delimiter := self.other_delimiter(columns):
            what = f"the header is a single column, {json.dumps(columns[0], ensure_ascii=False)}"
            way = f"set data.source.delimiter: {json.dumps(delimiter)}"
            raise HeaderError(f"{what}; {way}", setting=("delimiter", delimiter))

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        try:
            name = codecs.lookup(encoding).name.removesuffix("-sig")
            ascii_letters = [bytes([code]).decode(name) for code in range(128)]
            others = bytes(range(128, 256)).decode(name, "replace")
        except (LookupError, UnicodeError):
            raise ValueError(f"{encoding} is not an encoding that can be read; use utf-8, cp1252 or latin-1") from None
        if name != "utf-8" and (ascii_letters != [*map(chr, range(128))] or len(others) != 128):
            raise ValueError(f"{encoding} does not store each character in one byte; convert the files to UTF-8")
        return name

    @model_validator(mode="after")
    def _tabs_of_tsv_files(self) -> CsvSource:
        is_tsv = all(re.search(r"[.]tsv([.]gz)?$", path) for path in self.patterns)
        if "delimiter" not in self.model_fields_set and is_tsv:
            object.__setattr__(self, "delimiter", "\t")  # the model is frozen from now on
        return self

    @model_validator(mode="after")
    def _distinct_characters(self) -> CsvSource:
        for name, mark in (("delimiter", self.delimiter), ("quote", self.quote), ("comment", self.comment)):
            if mark is not None and (mark in "\r\n" or not mark.isascii()):
                raise ValueError(f"{name}: {mark!r} cannot be used; use another ASCII character, not a line break")
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}; they must differ")
        if self.decimal == self.delimiter:
            raise ValueError(f"delimiter and decimal are both {self.decimal!r}; set the delimiter, such as ';'")
        for name, mark in (("delimiter", self.delimiter), ("quote", self.quote)):
            if mark == self.comment:
                raise ValueError(f"comment and {name} are both {mark!r}; they must differ")
        return self

    @model_validator(mode="after")
    def _mark_between_digits(self) -> CsvSource:
        if self.thousands is None:
            return self
        if self.thousands in "\r\n\t+-" or self.thousands.isalnum():
            what = f"thousands: {self.thousands!r} cannot be used"
            raise ValueError(f"{what}; use a mark or a space, such as ',', '.', ' ' or \"'\"")
        for name, mark in (("decimal", self.decimal), ("quote", self.quote), ("comment", self.comment)):
            if mark == self.thousands:
                raise ValueError(f"thousands and {name} are both {mark!r}; they must differ")
        return self

    @model_validator(mode="after")
    def _distinct_column_names(self) -> CsvSource:
        names = self.column_names or ()
        if duplicate := next((name for number, name in enumerate(names) if name in names[:number]), None):
            raise ValueError(f'column_names: "{duplicate}" appears twice')
        return self
