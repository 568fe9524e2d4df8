"""Transformed examples as Arrow columns, in files that are mapped into memory instead of being read and parsed.

    Split-train/transformed_columns-00000-of-00010.arrow

    with ColumnsWriter(path, columns_schema(spec)) as writer:     # Transform
        writer.add({"fare": column, ...})
    for file in column_files(folder):
        table = open_columns(file)                                # everything that reads what Transform wrote

A file has the same rows in the same order as the TFRecord file of the same number would have. It is an uncompressed
Arrow IPC file without nulls, whose columns are the features of the transformed feature spec, sorted by name:

    FixedLenFeature []              float32, int64 or large_binary
    FixedLenFeature [k, ...]        fixed_size_list of the flattened values
    RaggedFeature, VarLenFeature    large_list of the values of each row

Categories are int32, where the spec says int64. A folder has either such files or
TFRecords: TFX's readers take every file in the folder of a split.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer.input.packing import is_list_feature

VERSION_KEY, VERSION = b"headrace.transformed_columns", b"1"
"""The schema's metadata: the version of this layout."""
BATCH_BYTES = 32 << 20
"""Size from which rows are written as a record batch: few of them, and not all rows of a shard in memory."""
_NAME = re.compile(r"transformed_columns-(\d{5})-of-(\d{5})\.arrow")
REBUILD = "`headrace run --fresh` rebuilds the transformed examples"
_TYPES = {tf.float32: pa.float32(), tf.int64: pa.int64(), tf.string: pa.large_binary()}
_IPC = pa.ipc.IpcWriteOptions(use_threads=False)  # threads would not survive a fork


def file_name(number: int, count: int) -> str:
    """The name of file `number` of `count`."""
    return f"transformed_columns-{number:05d}-of-{count:05d}.arrow"


def column_files(folder: str) -> list[str]:
    """The files of a split, sorted; none if it is stored as TFRecords. Raises TrainingError if one is missing."""
    matches = [found for path in Path(folder).glob("*.arrow") if (found := _NAME.fullmatch(path.name))]
    names = sorted(found[0] for found in matches)
    expected = [file_name(number, int(matches[0][2])) for number in range(int(matches[0][2]))] if matches else []
    if names != expected:
        missing = sorted({*expected} - {*names})
        what = f"{missing[0]} is missing" if missing else "it has files of several executions of Transform"
        raise TrainingError(f"{folder}: {what}. {REBUILD}")
    return [str(Path(folder, name)) for name in names]


def are_columns(files: Sequence[str]) -> bool:
    """Whether these files of a split are columns, and not TFRecords."""
    return any(_NAME.fullmatch(Path(file).name) for file in files)


def columns_schema(spec: Mapping[str, Any], small: Collection[str] = ()) -> pa.Schema | None:
    """The schema for a transformed feature spec; None if a feature cannot be a column: a tf.io.SparseFeature, or ragged
    values in several levels.

    small: the integer features whose values fit in int32, as those of categories.
    """
    types = {name: _type(feature, name in small) for name, feature in sorted(spec.items())}
    if any(one is None for one in types.values()):
        return None
    fields = [pa.field(name, one, nullable=False) for name, one in types.items()]
    return pa.schema(fields, {VERSION_KEY: VERSION})


def open_columns(path: str) -> pa.Table:
    """The rows of a file, mapped into memory. Raises TrainingError for a file that is damaged or not known."""
    try:
        table = pa.ipc.open_file(pa.memory_map(path)).read_all()
        table.validate()
    except FileNotFoundError:
        raise TrainingError(f"{path} is gone: something removed it. {REBUILD}") from None
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TrainingError(f"{path} is damaged: {error}. {REBUILD}") from error
    version = (table.schema.metadata or {}).get(VERSION_KEY)
    if version != VERSION:
        what = f"version {version.decode(errors='replace')}" if version else "another program's"
        raise TrainingError(f"{path} is of a layout that this version does not read ({what}). {REBUILD}")
    return table


class ColumnsWriter:
    """Writes one file, which cannot be opened before it is complete.

    with ColumnsWriter(path, schema) as writer:
        writer.add(columns)
    """

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._path, self._schema = Path(path), schema
        self._parts: list[list[pa.Array]] = []
        self._bytes = 0
        self._stack = ExitStack()
        sink = self._stack.enter_context(pa.OSFile(path, "wb"))
        self._file = self._stack.enter_context(pa.ipc.new_file(sink, schema, options=_IPC))

    def __enter__(self) -> ColumnsWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Complete the file; remove it after an error."""
        if kind is None:
            self._flush()
        self._stack.close()
        if kind is not None:
            self._path.unlink()

    def add(self, columns: Mapping[str, pa.Array]) -> int:
        """Add rows: a column for each feature, of lists or of single values, without nulls. Returns their number."""
        arrays = [_as_type(columns[field.name], field.type) for field in self._schema]
        self._parts.append(arrays)
        self._bytes += sum(array.nbytes for array in arrays)
        if self._bytes >= BATCH_BYTES:
            self._flush()
        return len(arrays[0])

    def _flush(self) -> None:
        """Write the rows so far. Their columns are joined one after the other, so that only one is in memory twice."""
        columns, whole = [list(parts) for parts in zip(*self._parts, strict=True)], list[pa.Array]()
        self._parts, self._bytes = [], 0
        for parts in columns:
            whole.append(pa.concat_arrays(parts))
            parts.clear()
        if whole and len(whole[0]):
            self._file.write_batch(pa.RecordBatch.from_arrays(whole, schema=self._schema))


def _type(feature: object, small: bool) -> pa.DataType | None:
    """The type of a column. small: whether integers fit in int32."""
    value = _TYPES[feature.dtype]  # type: ignore[attr-defined]
    value = pa.int32() if small and value == pa.int64() else value
    if isinstance(feature, tf.io.FixedLenFeature):
        return pa.list_(value, math.prod(feature.shape)) if len(feature.shape) else value
    return pa.large_list(value) if is_list_feature(feature) else None


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as it is stored; lists keep their values, and those of one value each become single values."""
    if pa.types.is_dictionary(column.type):
        return column.dictionary.cast(kind).take(column.indices)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(column.flatten().cast(kind.value_type), kind.list_size)
    single = pa.types.is_large_list(column.type) and not pa.types.is_large_list(kind)
    return (column.flatten() if single else column).cast(kind)
