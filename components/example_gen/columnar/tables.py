"""What Python code gives as data, made one table: {name: array}, a pandas DataFrame, or a pyarrow Table.

as_table({"x": numpy.arange(3), "image": numpy.zeros([3, 64])})
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.example_gen.columnar.stored import UnfitError, holds_lists
from headrace.components.example_gen.names import first_repeated
from headrace.configs.errors import DataError


def as_table(given: Any) -> pa.Table:
    """One column of one chunk for each name. Raises DataError that names the column, for what is no table of values."""
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        columns = dict(_pairs(list(given.schema.names), given.columns))
    elif isinstance(given, Mapping):
        columns = dict(_pairs([str(name) for name in given], list(given.values())))
    elif _is_pandas(given, "DataFrame"):
        columns = dict(
            _pairs([str(name) for name in given.columns], [given.iloc[:, place] for place in range(given.shape[1])])
        )
    else:
        raise DataError(
            f"found {_type_name(given)}; what is read is {{name: array}}, a pandas DataFrame or a pyarrow Table"
        )
    if not columns:
        raise DataError("there are no columns")
    arrays = {name: _array(name, column) for name, column in columns.items()}
    _check_lengths(arrays)
    return pa.table(arrays)


def digest(table: pa.Table) -> str:
    """SHA-256 of names, types and values, in hexadecimal digits; chunks and what lies under nulls do not matter."""
    found = hashlib.sha256()
    for name, column in zip(table.schema.names, table.columns, strict=True):
        found.update(f"{name!r}: {column.type}\n".encode())
        _add(found, column.combine_chunks())
    return found.hexdigest()


def _add(found: Any, column: pa.Array) -> None:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        return _add(found, column.dictionary_decode())
    found.update(np.packbits(column.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_struct(column.type) or pa.types.is_map(column.type):
        return found.update(repr(column.to_pylist()).encode())
    if holds_lists(column.type):
        column = column.cast(pa.list_(column.type.value_type))
        found.update(pc.list_value_length(column).fill_null(0).to_numpy().tobytes())
        return _add(found, column.flatten())
    values = column.drop_null()
    if values.type.num_buffers == 2 and not pa.types.is_boolean(values.type):
        width = values.type.bit_width // 8
        found.update(memoryview(values.buffers()[1] or b"")[values.offset * width :][: len(values) * width])
    elif not pa.types.is_null(values.type):
        texts = values.cast(pa.large_binary() if _is_text(values.type) else pa.string())
        found.update(pc.binary_length(texts).to_numpy(zero_copy_only=False).tobytes())
        found.update(b"".join(texts.cast(pa.large_binary()).to_pylist()))
    return None


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow) or pa.types.is_large_string(arrow))


def _pairs(names: list[str], columns: list[Any]) -> list[tuple[str, Any]]:
    if (twice := first_repeated(names)) is not None:
        raise DataError("two columns have this name", column=twice)
    return list(zip(names, columns, strict=True))


def _array(name: str, column: Any) -> pa.Array:
    try:
        return _converted(column)
    except UnfitError as error:
        raise DataError(str(error), column=name) from None
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"holds values that do not make one column: {error}", column=name) from None


def _converted(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if isinstance(column, pa.Array):
        return column
    if _is_pandas(column, "Series", "Index") or _is_pandas(column, "Categorical"):
        found = pa.array(column, from_pandas=True)
        return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
    if isinstance(column, np.ndarray):
        return _from_numpy(column)
    if isinstance(column, list | tuple):
        return pa.array(column)
    raise UnfitError(f"is {_type_name(column)}; a column is a NumPy array, a pandas Series, a pyarrow array or a list")


def _from_numpy(column: np.ndarray) -> pa.Array:
    if column.dtype.kind in "cV":
        raise UnfitError(f"is an array of {column.dtype}, which no feature can hold")
    if column.ndim not in (1, 2):
        raise UnfitError(f"has the shape {column.shape}; a column has one dimension, or two for several values a row")
    masked = isinstance(column, np.ma.MaskedArray) and bool(np.ma.getmaskarray(column).any())
    if column.ndim == 1:
        mask = np.ma.getmaskarray(column) if masked else None
        return pa.array(_native(np.ma.getdata(column)), mask=mask, from_pandas=column.dtype.kind == "O")
    if masked:
        raise UnfitError("has masked values within its rows; a list has values, or is missing as a whole")
    rows, width = column.shape
    values = pa.array(_native(np.ma.getdata(column).reshape(-1)), from_pandas=False)
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(width)), values)


def _native(values: np.ndarray) -> np.ndarray:
    """In the machine's byte order, which is the one that Arrow takes."""
    return np.ascontiguousarray(values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("=")))


def _check_lengths(arrays: Mapping[str, pa.Array]) -> None:
    first, *others = arrays
    for name in others:
        if len(arrays[name]) != len(arrays[first]):
            raise DataError(f"has {len(arrays[name])} rows, but {first!r} has {len(arrays[first])}", column=name)


def _is_pandas(given: Any, *names: str) -> bool:
    own = type(given)
    return own.__module__.startswith("pandas.") and any(each.__name__ in names for each in own.__mro__)


def _type_name(given: Any) -> str:
    own = type(given)
    return own.__name__ if own.__module__ == "builtins" else f"{own.__module__}.{own.__name__}"
