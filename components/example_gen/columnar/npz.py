"""The arrays of a .npz file, of which no header is trusted before as much memory is asked for."""

from __future__ import annotations

import io
import math
import zipfile
from functools import lru_cache
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from headrace.configs.errors import DataError

ENDING = ".npy"
MOST_TIMES = 1032
"""Bytes that deflate makes of one at most (zlib's technical details)."""
BUFFER = 1 << 20
"""Bytes of the file that are read at a time, since many small arrays lie side by side."""


def read_arrays(stream: BinaryIO, size: int) -> dict[str, NDArray[Any] | bytes]:
    """The arrays in a file of `size` bytes by name, read-only; what is not an array comes as its bytes.

    Raises DataError for an array of Python objects, and for one whose header promises other than the bytes that the
    archive holds of it, or which are more than the file can hold.
    """
    with zipfile.ZipFile(io.BufferedReader(cast(io.RawIOBase, stream), BUFFER)) as archive:
        return dict(_read(archive, member, size) for member in archive.infolist())


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> tuple[str, NDArray[Any] | bytes]:
    if not member.filename.endswith(ENDING):
        return member.filename, archive.read(member)
    name = member.filename.removesuffix(ENDING)
    most = min(member.compress_size, size) * (1 if member.compress_type == zipfile.ZIP_STORED else MOST_TIMES)
    if member.file_size > most:
        raise _damaged(name, f"claims {member.file_size:,} bytes, of which the file has room for {most:,}")
    text = archive.read(member)
    start = _length_of_header(name, text)
    shape, by_column, dtype = _header(text[:start])
    held = len(text) - start
    if dtype.hasobject:
        what = "is an array of Python objects, which only unpickling could read, and that can run any code"
        hint = "Save it as numbers or fixed-width texts: `array.astype(str)`"
        raise DataError(what, column=name, hint=hint)
    promised = math.prod(shape) * dtype.itemsize
    if promised != held:
        raise _damaged(name, f"claims {promised:,} bytes, of shape {shape} and {dtype}; {held:,} are there")
    return name, np.ndarray(shape, dtype, text, start, order="F" if by_column else "C")


def _length_of_header(name: str, text: bytes) -> int:
    """Bytes before the values: magic bytes, version, length, and as many bytes as this says."""
    version = np.lib.format.read_magic(io.BytesIO(text[: np.lib.format.MAGIC_LEN]))
    if version not in ((1, 0), (2, 0)):  # 3.0 is 2.0 with names of fields in UTF-8
        raise DataError("is a structured array", column=name, hint="Save each of its fields as an array")
    start = np.lib.format.MAGIC_LEN + 2 * version[0]
    return start + int.from_bytes(text[np.lib.format.MAGIC_LEN : start], "little")


@lru_cache(maxsize=256)
def _header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns lie one after the other, and type. The arrays of a table mostly have the same header."""
    stream = io.BytesIO(text)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)


def _damaged(name: str, what: str) -> DataError:
    return DataError(what, column=name, hint="The file is damaged: write it again")
