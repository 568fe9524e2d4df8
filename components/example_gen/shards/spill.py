"""Rows sorted into partitions on disk, with the numbers of each row packed side by side.

    with PartitionSpill(path, partitions=10) as spill:
        spill.add(batch, np.array([3, 0, ...]))
    to_columns(next(read_batches(path, [0])))

Each part of the data writes one Arrow file, whose record batches are read individually by the partitions they belong
to. Taking rows of many columns, one column after the other, costs a cache miss for each value. Packed into one column
of fixed-size binary values, the numbers of a row share a single miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.common.heap import trim_heap
from headrace.common.record_batches import concatenated
from headrace.components.examples.arrow_columns import numbers_of, stacks_or_columns, valid_of

MIN_BUFFER, MAX_BUFFER = 16 << 20, 64 << 20
"""Bytes that a part holds in memory before it writes them."""

CHUNK_BYTES = 32 << 10
"""Bytes of a partition that should be written at once."""

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
    """Writes the rows of one part, sorted by partition. `chunks`: the partition of each record batch of the file."""

    def __init__(self, path: Path, partitions: int) -> None:
        self._path, self._partitions = path, partitions
        self._room = min(max(partitions * CHUNK_BYTES, MIN_BUFFER), MAX_BUFFER)
        self._held: list[pa.RecordBatch] = []
        self._numbers: list[np.ndarray] = []
        self._size = 0
        self._writer: pa.RecordBatchFileWriter | None = None
        self.chunks: list[int] = []

    def __enter__(self) -> PartitionSpill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def add(self, batch: pa.RecordBatch, partitions: np.ndarray) -> None:
        """Add rows, given the number of each one's partition."""
        rows = to_rows(batch)
        self._held.append(rows)
        self._numbers.append(partitions)
        self._size += rows.nbytes
        if self._size >= self._room:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        numbers = np.concatenate(self._numbers)
        # A stable sort of small integers is a radix sort.
        order = np.argsort(numbers.astype(np.min_scalar_type(self._partitions)), kind="stable")
        rows = concatenated(self._held)
        self._held, self._numbers, self._size = [], [], 0
        rows = rows.take(pa.array(order))
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._path), rows.schema)
        counts = np.bincount(numbers, minlength=self._partitions)
        ends = np.cumsum(counts)
        for number in np.flatnonzero(counts).tolist():
            self._writer.write_batch(rows.slice(int(ends[number] - counts[number]), int(counts[number])))
            self.chunks.append(number)
        del rows
        trim_heap()


def read_batches(path: Path, chunks: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Some record batches of a part's file, by their numbers, as `to_rows` made them."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        yield from (reader.get_batch(chunk) for chunk in chunks)


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
