"""Transformed columns of a split as packed batches of row numbers, whose values are gathered when a batch is made.

    rows = MappedRows(files, feature_spec)            # maps the files into memory, and reads nothing
    rows.unpack((numbers,))                           # graph code: the columns of these rows, as parsing returns them

Shuffles and pools handle packed batches, whatever is in them; so examples come in the same order as if they were parsed
from TFRecords, but only a number of each is moved until then. The page cache of the system holds what is used often,
and gives way if memory is needed for anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.errors import TrainingError
from headrace.common.record_batches import concatenated
from headrace.trainer.input.packing import Column, Feature, Packed, Packing, as_described, no_autograph, ragged
from headrace.trainer.input.reading import InputOptions
from headrace.trainer.input.shuffle import permutation, small_integers
from headrace.trainer.input.transformed_columns import REBUILD, open_columns

COPIED_BYTES = 64 << 20
"""Columns of up to this size are copied, each into one piece, from which gathering takes half the time."""
COPIED_BYTES_IN_ORDER = 16 << 20
"""The same of columns that are not shuffled, of which a gather takes rows that lie side by side."""
GATHERED_ROWS = 16384
"""Rows that are gathered at once, which takes a call of Python: of a table of 16 columns it took 0.13 ms of a processor
for each 1,024, and 0.23 ms with 4096."""
GATHERED_BYTES = 16 << 20
"""Maximum size of examples that are gathered at once."""
PACKED_ROWS = 1 << 16
"""Rows that are packed at a time."""
_ROW = "row"


class BlockOrder(NamedTuple):
    """An order of all rows, block by block.

    first: the first row of each block; ends: the place after its last row; both int64 [blocks].
    """

    first: tf.Tensor
    ends: tf.Tensor

    def rows(self, places: tf.Tensor) -> tf.Tensor:
        """int64 [places]: the rows at these places, int64."""
        block = tf.searchsorted(self.ends, places, side="right", out_type=tf.int64)
        starts = tf.concat([tf.zeros([1], tf.int64), self.ends], axis=0)
        return tf.gather(self.first, block) + places - tf.gather(starts, block)


class MappedRows(Packing):
    """The rows of some files of transformed columns. Row numbers count through the files in their order.

    feature_spec: as stored; a string whose values all have one size may be uint8 [size] instead; block: rows that are
    read one after the other, in whatever files they are, and whose blocks a shuffle moves; None: files are read side by
    side, as those of TFRecords, and a shuffle moves files; copy: whether to copy small columns, for gathers at random
    places.
    """

    def __init__(
        self,
        files: Sequence[str],
        feature_spec: Mapping[str, Feature],
        block: int | None = None,
        *,
        copy: bool = False,
    ) -> None:
        tables = [_open(file, feature_spec) for file in files]
        self.sizes = [table.num_rows for table in tables]
        self._block = block
        if block is not None:
            self.sizes = [last - first for first, last in _blocks(0, sum(self.sizes), block)]
        self.numbers = small_integers(sum(self.sizes))
        super().__init__({_ROW: tf.io.FixedLenFeature([], self.numbers)})
        self._columns = Packing(feature_spec)
        self._spec = feature_spec
        table = pa.concat_tables(tables) if tables else pa.table({})
        self.bytes_each = -(-table.nbytes // max(table.num_rows, 1))
        self._bytes = table.nbytes
        table = table.combine_chunks() if copy and self.is_small() else table
        self._matrices = {
            name: _Matrix(name, [part.column(name) for part in table.to_batches() if part.num_rows], feature.shape[0])
            for name, feature in feature_spec.items()
            if feature.dtype == tf.uint8
        }
        others = [name for name in feature_spec if name not in self._matrices]
        parts = [part.select(others) for part in table.to_batches() if part.num_rows]
        self._parts: list[pa.RecordBatch] = parts
        self._starts = np.cumsum([0, *(part.num_rows for part in parts)])
        lengths = self._measured() if self._columns.lists else None
        self._lengths = None if lengths is None else tf.constant(lengths)

    def is_small(self, *, shuffled: bool = True) -> bool:
        """Whether the columns may be copied into memory. shuffled: whether gathers take rows at random places."""
        return self._bytes <= (COPIED_BYTES if shuffled else min(COPIED_BYTES, COPIED_BYTES_IN_ORDER))

    @property
    def in_tensors(self) -> bool:
        """Whether packed batches hold the values."""
        return False

    @property
    def can_be_split(self) -> bool:
        """Whether the columns of a batch can be split into those of smaller ones."""
        return self._columns.can_be_split

    @property
    def at_once(self) -> int:
        """How many rows to gather at once."""
        return min(GATHERED_ROWS, GATHERED_BYTES // max(self.bytes_each, 1))

    def stream(self, seed: tf.Tensor | None, reading: InputOptions) -> tf.data.Dataset:
        """Return the row numbers of an epoch, as `Stream`, in the order in which TFRecords would be read."""
        files = len(self.sizes)
        order = tf.range(files, dtype=tf.int64) if seed is None else permutation(files, seed)

        def blocks(order: NDArray[np.int64]) -> NDArray[np.int64]:
            return self._read(order.tolist(), reading)

        found = tf.ensure_shape(tf.numpy_function(blocks, [order], tf.int64, stateful=False), [None, 2])
        numbers = no_autograph(lambda block: (tf.cast(tf.range(*tf.unstack(block)), self.numbers)[:, tf.newaxis],))
        return tf.data.Dataset.from_tensor_slices(found).map(numbers)

    def in_order(self, reading: InputOptions) -> tf.Tensor:
        """Return the numbers of all rows, in the order of `stream` without a seed. There is at least one."""
        blocks = self._read(range(len(self.sizes)), reading)
        kind = self.numbers.as_numpy_dtype
        with tf.device("CPU"):
            return tf.constant(np.concatenate([np.arange(first, last, dtype=kind) for first, last in blocks]))

    def block_order(self, reading: InputOptions) -> BlockOrder:
        """Return the same order without a list of all numbers, which of many examples takes memory."""
        blocks = self._read(range(len(self.sizes)), reading)
        with tf.device("CPU"):
            return BlockOrder(tf.constant(blocks[:, 0]), tf.constant(np.cumsum(blocks[:, 1] - blocks[:, 0])))

    def _read(self, order: Sequence[int], reading: InputOptions) -> NDArray[np.int64]:
        return self.blocks(order, reading.read_batch, 1 if self._block else reading.open_files)

    def blocks(self, order: Sequence[int], size: int, open_files: int) -> NDArray[np.int64]:
        """Blocks of rows in the order in which tf.data's interleave reads as many records: int64 [blocks, 2], the first
        row and the one after the last.

        Args:
            order: The files' numbers, in the order in which they are opened.
            size: The most rows of a block.
            open_files: Files that take turns.
        """
        ends = np.cumsum([0, *self.sizes])
        waiting, found = list(order)[::-1], list[tuple[int, int]]()
        turns: list[Iterator[tuple[int, int]] | None] = [None] * min(open_files, len(order))
        while waiting or any(turns):
            for place in range(len(turns)):
                if turns[place] is None and waiting:
                    number = waiting.pop()
                    turns[place] = _blocks(int(ends[number]), int(ends[number + 1]), size)
                turn = turns[place]
                block = next(turn, None) if turn else None
                found += [block] if block else []
                turns[place] = turn if block else None
        return np.array(found, np.int64).reshape(-1, 2)

    def lengths(self, packed: Packed) -> tf.Tensor | None:
        """As of the columns of these rows."""
        return None if self._lengths is None else tf.gather(self._lengths, packed[0][:, 0])

    def first_lengths(self, count: int) -> NDArray[np.int64] | None:
        """int64 [at most count]: values of the first rows in the column where each has most."""
        return None if self._lengths is None else np.asarray(self._lengths[:count])

    def unpack(self, packed: Packed) -> dict[str, Column]:
        """Gather the columns of these rows."""
        types = [dtype for feature in self._spec.values() for dtype in _types(feature)]
        outputs = iter(tf.numpy_function(self._arrays, [packed[0]], types, stateful=False))
        columns: dict[str, Column] = {}
        for name, feature in self._spec.items():
            if name in self._columns.lists:
                splits, values = (tf.ensure_shape(next(outputs), [None]) for _ in range(2))
                columns[name] = as_described(feature, ragged(splits, values))
            else:
                columns[name] = tf.ensure_shape(next(outputs), [None, *feature.shape])
        return columns

    def gathered(self, numbers: NDArray[np.int64]) -> pa.RecordBatch:
        """Return the rows of these numbers, in that order."""
        if len(self._parts) == 1:
            return pc.take(self._parts[0], pa.array(numbers), boundscheck=False)
        part = np.searchsorted(self._starts, numbers, side="right") - 1
        by_part = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[by_part], np.arange(len(self._parts) + 1))
        taken = [
            pc.take(rows, pa.array(numbers[by_part[first:last]] - start), boundscheck=False)
            for rows, start, first, last in zip(self._parts, self._starts, bounds, bounds[1:], strict=False)
            if last > first
        ]
        places = np.empty_like(by_part)
        places[by_part] = np.arange(len(by_part))
        return pc.take(concatenated(taken), pa.array(places), boundscheck=False)

    def arrays(self, reading: InputOptions) -> Iterator[list[NDArray[Any]]]:
        """All columns, which are of fixed size, a block at a time, in the order of `in_order`."""
        for first, last in self._read(range(len(self.sizes)), reading):
            yield self._arrays(np.arange(first, last)[:, np.newaxis])

    def packed(self, rows: tf.Tensor) -> tuple[Packing, Packed]:
        """Return the values of these rows, integers [rows], packed. Some rows at a time: before that, they take several
        times the memory.
        """
        parts = []
        for first in range(0, len(rows), PACKED_ROWS):
            columns = self.unpack((rows[first : first + PACKED_ROWS, tf.newaxis],))
            lists = {name: _as_ragged(columns[name]) for name in self._columns.lists}
            parts.append(self._columns.pack(columns | lists))
        with tf.device("CPU"):
            return self._columns, parts[0] if len(parts) == 1 else self._columns.concat(parts)

    def _arrays(self, rows: NDArray[np.int64]) -> list[NDArray[Any]]:
        """What `unpack` makes columns of: the values of each, and before them, where they vary, their row splits."""
        batch = self.gathered(rows[:, 0])
        arrays: list[NDArray[Any]] = []
        for name, feature in self._spec.items():
            if name in self._matrices:
                arrays.append(self._matrices[name].rows(rows[:, 0]))
                continue
            column = batch.column(name)
            arrays += _lists(column, feature) if name in self._columns.lists else [_fixed(column, feature)]
        return arrays

    def _measured(self) -> NDArray[np.int64]:
        """int64 [rows]: the values of each row in the column where it has most."""
        most = [
            np.max([np.diff(part.column(name).offsets.to_numpy()) for name in self._columns.lists], axis=0)
            for part in self._parts
        ]
        return np.concatenate([np.zeros(0, np.int64), *most])


class _Matrix:
    """A column of bytes whose values all have one size, each of which is copied once, from the file to the batch.

    Arrow copies a gathered value of several parts three times, and TensorFlow twice more as a string: 224 x 224 images
    came at 0.6 times the rate.
    """

    def __init__(self, name: str, parts: Sequence[pa.Array], size: int) -> None:
        """Raises TrainingError if a value has another size."""
        self._size, self._parts = size, [_as_matrix(name, part, size) for part in parts]
        self._starts = np.cumsum([0, *map(len, self._parts)])

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """uint8 [numbers, size]."""
        if len(self._parts) == 1:
            return self._parts[0].take(numbers, axis=0)
        part = np.searchsorted(self._starts, numbers, side="right") - 1
        gathered = np.empty((len(numbers), self._size), np.uint8)
        for place, (which, row) in enumerate(zip(part.tolist(), (numbers - self._starts[part]).tolist(), strict=True)):
            gathered[place] = self._parts[which][row]
        return gathered


def _as_matrix(name: str, column: pa.Array, size: int) -> NDArray[np.uint8]:
    """uint8 [rows, size]: the values of a large_binary column, not copied."""
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column) + 1]
    if (np.diff(offsets) != size).any():
        raise TrainingError(f"features.{name}: a stored value does not have {size:,} bytes. {REBUILD}")
    return np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].reshape(-1, size)


def _as_ragged(column: tf.RaggedTensor | tf.SparseTensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_sparse(column) if isinstance(column, tf.SparseTensor) else column


def _blocks(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + size, stop)) for first in range(start, stop, size))


def _open(file: str, feature_spec: Mapping[str, Feature]) -> pa.Table:
    """Map a file. Raises TrainingError if it is damaged or lacks a feature of the transform graph."""
    table = open_columns(file)
    lacking = [name for name in feature_spec if name not in table.column_names]
    if lacking:
        raise TrainingError(f"{file} has no column {lacking[0]!r}, which the transform graph names. {REBUILD}")
    return table.select(list(feature_spec))


def _types(feature: Feature) -> list[tf.DType]:
    return [feature.dtype] if isinstance(feature, tf.io.FixedLenFeature) else [tf.int64, feature.dtype]


def _fixed(column: pa.Array, feature: Feature) -> NDArray[Any]:
    """[rows, ...]: a column of fixed size."""
    flat = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
    return _values(flat, feature).reshape(len(column), *feature.shape)


def _lists(column: pa.Array, feature: Feature) -> list[NDArray[Any]]:
    """Row splits, int64 [rows + 1], and values of a column of lists."""
    return [column.offsets.to_numpy(), _values(column.flatten(), feature)]


def _values(flat: pa.Array, feature: Feature) -> NDArray[Any]:
    if feature.dtype == tf.string:
        return flat.to_numpy(zero_copy_only=False)
    return flat.to_numpy().astype(feature.dtype.as_numpy_dtype, copy=False)
