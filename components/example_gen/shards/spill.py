"""Rows sorted into partitions on disk, with the numbers of each row packed side by side.

    with PartitionSpill({path: range(10)}) as spill:
        spill.add(batch, np.array([3, 0, ...]))
    to_columns(SpilledRows([path], range(10)).of(3))

Each part of the data writes an Arrow file for each group of partitions, of record batches whose rows are sorted by
partition, and a file that says where those of each partition end. Both are mapped into memory to read some partitions:
a few rows of one then cost no call that reads or decodes them, and the buffer need not grow with the partitions.

Taking rows of many columns, one column after the other, costs a cache miss for each value. Packed into one column of
fixed-size binary values, the numbers of a row share a single miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.common.heap import return_pages, trim_heap
from headrace.common.record_batches import concatenated
from headrace.components.examples.arrow_columns import numbers_of, stacks_or_columns, valid_of

BUFFER = 16 << 20
"""Bytes that a part holds in memory before it writes them as a record batch."""

_END = np.dtype("<u4")
"""The end of a partition's rows in a record batch."""

_ROWS = "\0rows"
"""The name of the packed column; no column of the data has it."""

_COLUMNS = b"columns"
"""The key under which the schema's metadata holds the schema of the original columns."""

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_PACKED_TYPES: Mapping[int, str] = {
    **{arrow.id: np.dtype(arrow.to_pandas_dtype()).str for arrow in _INTEGERS},
    **{arrow.id: np.dtype(np.float32).str for arrow in (pa.float16(), pa.float32(), pa.float64())},
}
"""The NumPy type that numbers of an Arrow type are packed as. Floats become float32 in an example anyway."""

_Groups = dict[str, list[int]]
"""The positions of the numeric columns, by the type that they are packed as."""


class PartitionSpill:
    """Writes the rows of one part, sorted by partition. A part without rows has no files."""

    def __init__(self, files: Mapping[Path, range]) -> None:
        """`files`: the partitions in each file, from 0 on without gaps."""
        self._files = files
        self._held: list[pa.RecordBatch] = []
        self._numbers: list[np.ndarray] = []
        self._size = 0
        self._writers: dict[Path, pa.RecordBatchFileWriter] = {}

    def __enter__(self) -> PartitionSpill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        for writer in self._writers.values():
            writer.close()

    def add(self, batch: pa.RecordBatch, partitions: np.ndarray) -> None:
        """Add rows, given the number of each one's partition."""
        rows = to_rows(batch)
        self._held.append(rows)
        self._numbers.append(partitions)
        self._size += rows.nbytes
        if self._size >= BUFFER:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        numbers = np.concatenate(self._numbers)
        partitions = max(own.stop for own in self._files.values())
        # A stable sort of small integers is a radix sort.
        order = np.argsort(numbers.astype(np.min_scalar_type(partitions)), kind="stable")
        rows = concatenated(self._held)
        self._held, self._numbers, self._size = [], [], 0
        rows = rows.take(pa.array(order))
        ends = np.cumsum(np.bincount(numbers, minlength=partitions))
        for path, own in self._files.items():
            first = int(ends[own.start - 1]) if own.start else 0
            self._write(path, rows.slice(first, int(ends[own.stop - 1]) - first), ends[own.start : own.stop] - first)
        del rows
        trim_heap()

    def _write(self, path: Path, rows: pa.RecordBatch, ends: NDArray[np.int64]) -> None:
        is_first = path not in self._writers
        if is_first:
            self._writers[path] = pa.ipc.new_file(str(path), rows.schema)
        self._writers[path].write_batch(rows)
        with open(_path_of_ends(path), "wb" if is_first else "ab") as file:  # a task may be repeated
            file.write(ends.astype(_END).tobytes())


class SpilledRows:
    """The rows of a group of partitions in the files of some parts, which are mapped as long as this lives."""

    def __init__(self, paths: Sequence[Path], partitions: range) -> None:
        self._first = partitions.start
        self._parts = [_MappedPart.of(path, len(partitions)) for path in paths if path.exists()]

    def of(self, partition: int) -> pa.RecordBatch | None:
        """The rows of a partition, as `to_rows` made them, in the order of the parts; None if there are none."""
        found = [part.rows(partition - self._first) for part in self._parts]
        own = [rows for rows in found if rows is not None]
        return concatenated(own) if own else None


@dataclass(frozen=True)
class _MappedPart:
    """A part's file, without a descriptor that stays open. `ends`: the ends of the partitions, by record batch."""

    file: pa.Buffer
    batches: Sequence[pa.RecordBatch]
    ends: NDArray[np.uint32]

    @classmethod
    def of(cls, path: Path, partitions: int) -> _MappedPart:
        with pa.memory_map(str(path)) as file:
            mapped = file.read_buffer(file.size())
        with pa.ipc.open_file(mapped) as reader:
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        return cls(mapped, batches, np.fromfile(_path_of_ends(path), _END).reshape(-1, partitions))

    def rows(self, place: int) -> pa.RecordBatch | None:
        """A copy of the rows of a partition, given its place in the group; None if there are none."""
        last = self.ends[:, place].tolist()
        first = self.ends[:, place - 1].tolist() if place else [0] * len(last)
        places = zip(self.batches, first, last, strict=True)
        found = [batch.slice(start, end - start) for batch, start, end in places if end > start]
        # The empty batch makes a copy of a single one. The system maps up to 2 MB around each byte that is read.
        rows = concatenated([found[0].slice(0, 0), *found]) if found else None
        return_pages(self.file)
        return rows


def files_of(path: Path) -> tuple[Path, Path]:
    """The two files that a PartitionSpill writes for this path."""
    return path, _path_of_ends(path)


def _path_of_ends(path: Path) -> Path:
    return path.with_suffix(".ends")


def to_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its numeric columns packed into one, in which each row also has a bit for each missing value.

    The other columns stay as they are.
    """
    groups = _groups(batch.schema)
    positions = [place for own in groups.values() for place in own]
    if len(positions) < 2:
        return batch
    rows = np.zeros(batch.num_rows, _dtype(groups))
    _fill(rows, batch.select(positions), groups)
    own = pa.Array.from_buffers(pa.binary(rows.dtype.itemsize), len(rows), [None, pa.py_buffer(rows)])
    others = sorted({*range(batch.num_columns)} - {*positions})
    schema = pa.schema([pa.field(_ROWS, own.type), *(batch.schema.field(place) for place in others)])
    schema = schema.with_metadata({_COLUMNS: batch.schema.remove_metadata().serialize().to_pybytes()})
    return pa.RecordBatch.from_arrays([own, *(batch.column(place) for place in others)], schema=schema)


def to_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of rows that `to_rows` made, in another order, with float32 for float64."""
    if _COLUMNS not in (batch.schema.metadata or {}):
        return batch
    schema = pa.ipc.read_schema(pa.py_buffer(batch.schema.metadata[_COLUMNS]))
    names, groups, own = schema.names, _groups(schema), batch.column(0)
    rows = np.frombuffer(own.buffers()[1], _dtype(groups), own.offset + len(own))[own.offset :]  # a file pads buffers
    arrays: dict[str, pa.Array] = {}
    for group, positions in groups.items():
        values = _values(rows[group], rows[_missing(group)])
        arrays |= {names[place]: values.slice(number * len(own), len(own)) for number, place in enumerate(positions)}
    arrays |= dict(zip(batch.schema.names[1:], batch.columns[1:], strict=True))
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def column_count(batch: pa.RecordBatch) -> int:
    if _COLUMNS not in (batch.schema.metadata or {}):
        return int(batch.num_columns)
    return len(pa.ipc.read_schema(pa.py_buffer(batch.schema.metadata[_COLUMNS])).names)


def _fill(rows: NDArray[np.void], numbers: pa.RecordBatch, groups: _Groups) -> None:
    """Write numeric columns, ordered by group, into the rows."""
    group_of = [group for group, positions in groups.items() for _ in positions]
    place_in_group = np.concatenate([np.arange(len(positions)) for positions in groups.values()])
    for stack in stacks_or_columns(numbers):
        group, positions = group_of[stack.positions[0]], place_in_group[stack.positions]
        with np.errstate(over="ignore", invalid="ignore"):
            rows[group][:, positions] = stack.per_column(numbers_of(stack.values)).T
        valid = valid_of(stack.values)
        for place, own in zip(positions.tolist(), [] if valid is None else stack.per_column(valid), strict=False):
            rows[_missing(group)][:, place // 8] |= (~own).view(np.uint8) << np.uint8(place % 8)


def _values(numbers: NDArray[np.number], missing: NDArray[np.uint8]) -> pa.Array:
    """Numbers [rows, n], column after column; null where their bits in `missing` [rows, ceil(n / 8)] are set."""
    valid = None
    if missing.any():
        bits = np.unpackbits(missing, axis=1, count=numbers.shape[1], bitorder="little")
        valid = pa.py_buffer(np.packbits(bits.T.reshape(-1) == 0, bitorder="little"))
    values = np.ascontiguousarray(numbers.T).reshape(-1)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def _groups(schema: pa.Schema) -> _Groups:
    groups = _Groups()
    for place, arrow in enumerate(schema.types):
        if (group := _PACKED_TYPES.get(arrow.id)) is not None:
            groups.setdefault(group, []).append(place)
    return groups


def _dtype(groups: _Groups) -> np.dtype[np.void]:
    """The structured type of a packed row."""
    numbers = [(group, group, (len(positions),)) for group, positions in groups.items()]
    bits = [(_missing(group), np.uint8, (-(-len(positions) // 8),)) for group, positions in groups.items()]
    return np.dtype([*numbers, *bits])


def _missing(group: str) -> str:
    return f"missing {group}"
