"""What the headers of a .npz file promise, before as much memory is asked for."""

from __future__ import annotations

import math
import zipfile
from typing import IO, Any

import numpy as np

from configs.errors import DataError

ENDING = ".npy"
MOST_TIMES = 1032
"""Bytes that deflate makes of one at most (zlib's technical details)."""


def check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Raise DataError for an array whose header promises other than the bytes that the archive holds of it, or which
    are more than a file of `size` bytes can hold.
    """
    for member in archive.infolist():
        if not member.filename.endswith(ENDING):
            continue
        name = member.filename.removesuffix(ENDING)
        most = min(member.compress_size, size) * (1 if member.compress_type == zipfile.ZIP_STORED else MOST_TIMES)
        if member.file_size > most:
            raise _damaged(name, f"claims {member.file_size:,} bytes, of which the file has room for {most:,}")
        with archive.open(member) as stream:
            shape, dtype = _header(name, stream)
            held = member.file_size - stream.tell()
        promised = math.prod(shape) * dtype.itemsize
        if promised != held and not dtype.hasobject:
            raise _damaged(name, f"claims {promised:,} bytes, of shape {shape} and {dtype}; {held:,} are there")


def _header(name: str, stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(stream)
    if version not in read:  # 3.0 is 2.0 with names of fields in UTF-8
        raise DataError("is a structured array", column=name, hint="Save each of its fields as an array")
    shape, _, dtype = read[version](stream)
    return shape, dtype


def _damaged(name: str, what: str) -> DataError:
    return DataError(what, column=name, hint="The file is damaged: write it again")
