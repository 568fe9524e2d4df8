"""Text files of which the end may be missing."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import BinaryIO, cast

from headrace.components.example_gen.delimited.files import is_gzip, line_at, opened
from headrace.components.example_gen.skips import Skips
from headrace.components.example_gen.unpack import Unpacked
from headrace.configs.errors import DataError


def opened_for(path: str, skips: Skips | None) -> AbstractContextManager[BinaryIO]:
    """The bytes of the text; with `skips`, also of a gzip file that was cut off, as far as they go."""
    return opened(path) if skips is None else opened_to_the_end(path)


def opened_to_the_end(path: str) -> AbstractContextManager[BinaryIO]:
    """The bytes of the text, as far as they go."""
    return opened(path, _unpacked if is_gzip(path) else None)


def is_cut_off(stream: BinaryIO) -> bool:
    """Whether a stream that was read to its end is a gzip file that was cut off."""
    return getattr(stream, "cut_off", False)


def cut_off_at(path: str, offset: int) -> DataError:
    """The error for the record that starts at an offset of the text, the last one."""
    return DataError(
        "the gzip data ends in or after the record that starts here: the file was cut off",
        file=path,
        line=line_at(path, offset, opened_to_the_end),
        hint="Copy the file again",
    )


def _unpacked(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, Unpacked(stream))
