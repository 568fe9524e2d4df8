"""Python data as one Arrow table: {name: array}, a pandas DataFrame, a pyarrow Table, or the arrays of a .npz file.

as_table({"x": numpy.arange(3), "image": numpy.zeros([3, 64])})
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.common.errors import DataError
from headrace.components.sources.stored_types import ConversionError, holds_lists
from headrace.components.sources.types import first_duplicate

NPY_EXTENSION = ".npy"
MAX_DEFLATE_RATIO = 1032
"""The largest number of bytes that deflate can make of one (zlib's technical details)."""
ARROW_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What Arrow raises for values that do not form a column."""
BUFFER = 1 << 20
"""Bytes of a .npz file that are read at a time, since it may contain many small arrays."""


def as_table(given: Any) -> pa.Table:
    """A table with one chunk per column. Raises DataError, which names the column, for what is not a table."""
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        columns = dict(_pairs(list(given.schema.names), given.columns))
    elif isinstance(given, Mapping):
        columns = dict(_pairs([str(name) for name in given], list(given.values())))
    elif is_pandas(given, "DataFrame"):
        columns = dict(
            _pairs([str(name) for name in given.columns], [given.iloc[:, number] for number in range(given.shape[1])])
        )
    else:
        raise DataError(f"found {_type_name(given)}; expected {{name: array}}, a pandas DataFrame or a pyarrow Table")
    if not columns:
        raise DataError("there are no columns")
    arrays = {name: _array(name, column) for name, column in columns.items()}
    _check_lengths(arrays)
    return pa.table(arrays)


def digest(table: pa.Table) -> str:
    """The SHA-256 of names, types and values, in hexadecimal; chunking and the bytes under nulls do not matter."""
    sha256 = hashlib.sha256()
    for name, column in zip(table.schema.names, table.columns, strict=True):
        sha256.update(f"{name!r}: {column.type}\n".encode())
        _update(sha256, column.combine_chunks())
    return sha256.hexdigest()


def _update(sha256: Any, column: pa.Array) -> None:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        return _update(sha256, column.dictionary_decode())
    sha256.update(np.packbits(column.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_struct(column.type) or pa.types.is_map(column.type):
        return sha256.update(repr(column.to_pylist()).encode())
    if holds_lists(column.type):
        column = column.cast(pa.list_(column.type.value_type))
        sha256.update(pc.list_value_length(column).fill_null(0).to_numpy().tobytes())
        return _update(sha256, column.flatten())
    values = column.drop_null()
    if values.type.num_buffers == 2 and not pa.types.is_boolean(values.type):
        width = values.type.bit_width // 8
        sha256.update(memoryview(values.buffers()[1] or b"")[values.offset * width :][: len(values) * width])
    elif not pa.types.is_null(values.type):
        texts = values.cast(pa.large_binary() if _is_text(values.type) else pa.string())
        sha256.update(pc.binary_length(texts).to_numpy(zero_copy_only=False).tobytes())
        sha256.update(b"".join(texts.cast(pa.large_binary()).to_pylist()))
    return None


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow) or pa.types.is_large_string(arrow))


def _pairs(names: list[str], columns: list[Any]) -> list[tuple[str, Any]]:
    if (twice := first_duplicate(names)) is not None:
        raise DataError("two columns have this name", column=twice)
    return list(zip(names, columns, strict=True))


def _array(name: str, column: Any) -> pa.Array:
    try:
        return _converted(column)
    except ConversionError as error:
        raise DataError(str(error), column=name) from None
    except ARROW_ERRORS as error:
        is_flat = getattr(column, "ndim", 1) == 1 and hasattr(column, "__iter__")
        what = first_misfit([*column], "holds", error) if is_flat else str(error)
        raise DataError(f"has values that do not form one column: {what}", column=name) from None


def first_misfit(values: Sequence[Any], verb: str, error: Exception, first: int = 0) -> str:
    """Which of the values of a column is not of the type of those before it.

    Args:
        values: They do not form a column.
        verb: What a row does with its value.
        error: What Arrow says of them.
        first: The number of their first row.
    """
    number = _first_bad(values)
    other = next((value for value in values[:number] if value is not None), None)
    what = f"row {first + number:,} (counted from 0) {verb} {_shown(values[number])}"
    return what + (f", but an earlier one {_shown(other)}" if other is not None else f": {error}")


def _first_bad(values: Sequence[Any]) -> int:
    """The index of the first value that does not form a column with those before it."""
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pa.array(values[:middle], from_pandas=True)
            good = middle
        except ARROW_ERRORS:
            bad = middle
    return bad - 1


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def _converted(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if isinstance(column, pa.Array):
        return column
    if is_pandas(column, "Series", "Index") or is_pandas(column, "Categorical"):
        found = pa.array(column, from_pandas=True)
        return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
    if isinstance(column, np.ndarray):
        return _from_numpy(column)
    if isinstance(column, list | tuple):
        return pa.array(column)
    raise ConversionError(
        f"is {_type_name(column)}; expected a NumPy array, a pandas Series, a pyarrow array or a list"
    )


def _from_numpy(column: np.ndarray) -> pa.Array:
    if column.dtype.kind in "cV":
        raise ConversionError(f"is an array of {column.dtype}, which no feature can hold")
    if column.ndim not in (1, 2):
        raise ConversionError(f"has shape {column.shape}; a column has one dimension, or two for lists")
    masked = isinstance(column, np.ma.MaskedArray) and bool(np.ma.getmaskarray(column).any())
    if column.ndim == 1:
        mask = np.ma.getmaskarray(column) if masked else None
        return pa.array(_native(np.ma.getdata(column)), mask=mask, from_pandas=column.dtype.kind == "O")
    if masked:
        raise ConversionError("has masked values within its rows; a list has values or is missing as a whole")
    rows, width = column.shape
    values = pa.array(_native(np.ma.getdata(column).reshape(-1)), from_pandas=False)
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(width)), values)


def _native(values: np.ndarray) -> np.ndarray:
    """The values in the byte order of the machine, which Arrow requires."""
    return np.ascontiguousarray(values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("=")))


def _check_lengths(arrays: Mapping[str, pa.Array]) -> None:
    first, *others = arrays
    for name in others:
        if len(arrays[name]) != len(arrays[first]):
            raise DataError(f"has {len(arrays[name])} rows, but {first!r} has {len(arrays[first])}", column=name)


def is_pandas(given: Any, *names: str) -> bool:
    """Whether an object is of one of these classes of pandas, which is not imported for that."""
    cls = type(given)
    return cls.__module__.startswith("pandas.") and any(base.__name__ in names for base in cls.__mro__)


def _type_name(given: Any) -> str:
    cls = type(given)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


def read_arrays(stream: BinaryIO, size: int) -> dict[str, NDArray[Any] | bytes]:
    """The read-only arrays of a .npz file of `size` bytes by name. Members that are not arrays are returned as bytes.

    No header is trusted: memory is allocated only for sizes that the file can contain.

    Raises DataError for an array of Python objects, and for an array whose header states another size than its data
    has.
    """
    with zipfile.ZipFile(io.BufferedReader(cast(io.RawIOBase, stream), BUFFER)) as archive:
        return dict(_read(archive, member, size) for member in archive.infolist())


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> tuple[str, NDArray[Any] | bytes]:
    if not member.filename.endswith(NPY_EXTENSION):
        return member.filename, archive.read(member)
    name = member.filename.removesuffix(NPY_EXTENSION)
    most = min(member.compress_size, size) * (1 if member.compress_type == zipfile.ZIP_STORED else MAX_DEFLATE_RATIO)
    if member.file_size > most:
        raise _damaged(name, f"claims {member.file_size:,} bytes, but the file has room for at most {most:,}")
    data = archive.read(member)
    start = _header_length(name, data)
    shape, by_column, dtype = _header(data[:start])
    actual = len(data) - start
    if dtype.hasobject:
        what = "is an array of Python objects, which only unpickling can read, and unpickling can run any code"
        hint = "Save it as numbers or as fixed-width strings: `array.astype(str)`"
        raise DataError(what, column=name, hint=hint)
    stated = math.prod(shape) * dtype.itemsize
    if stated != actual:
        raise _damaged(name, f"claims {stated:,} bytes, of shape {shape} and {dtype}, but has {actual:,}")
    return name, np.ndarray(shape, dtype, data, start, order="F" if by_column else "C")


def _header_length(name: str, text: bytes) -> int:
    """The number of bytes before the values: magic string, version, length, and a header of that length."""
    version = np.lib.format.read_magic(io.BytesIO(text[: np.lib.format.MAGIC_LEN]))
    if version not in ((1, 0), (2, 0)):  # 3.0 is 2.0 with field names in UTF-8
        raise DataError("is a structured array", column=name, hint="Save each of its fields as an array")
    start = np.lib.format.MAGIC_LEN + 2 * version[0]
    return start + int.from_bytes(text[np.lib.format.MAGIC_LEN : start], "little")


@lru_cache(maxsize=256)
def _header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the order is Fortran's, and dtype. Cached: the arrays of a table mostly have the same header."""
    stream = io.BytesIO(text)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)


def _damaged(name: str, what: str) -> DataError:
    return DataError(what, column=name, hint="The file is damaged. Write it again")
