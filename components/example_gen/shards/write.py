"""Rows to shuffled shards on disk, in three stages of independent tasks:

scatter   read a part of the data, and sort its rows by partition (see `layout`) into a file of its own
pack      collect some partitions, one after the other, from the files of all parts; shuffle, encode and compress them
join      concatenate the compressed partitions of each shard

Which row goes where depends on the data and the seed alone, and a partition is compressed as a whole, so the bytes do
not depend on which worker does what and when. Concatenated gzip members are one gzip file (RFC 1952), and concatenated
TFRecord files are one TFRecord file, so nothing is compressed twice. Memory is bounded by the size of a partition.
"""

from __future__ import annotations

import operator
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.common.heap import trim_heap
from headrace.components.example_gen.required import RequiredColumn, with_value
from headrace.components.example_gen.shards.coded_columns import coded_integers, coded_texts, with_columns
from headrace.components.example_gen.shards.group_split import GroupRows
from headrace.components.example_gen.shards.layout import Partitioner, Shard, ShardLayout, random_state
from headrace.components.example_gen.shards.spill import (
    PartitionSpill,
    SpilledRows,
    column_count,
    files_of,
    to_columns,
)
from headrace.components.examples import column_files
from headrace.components.examples.arrow_columns import offsets_of
from headrace.components.examples.column_files import ColumnWriter
from headrace.components.examples.compression import Compression
from headrace.components.examples.parts import files_of_part, room, split_of_part
from headrace.components.examples.shard_names import shard_path
from headrace.components.examples.skips import Skipped
from headrace.components.examples.tfexample.encode import feature_dictionary
from headrace.components.examples.tfexample.float64_columns import with_bits
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.examples.tfexample.rounding import ColumnRounding, RoundingAccumulator
from headrace.components.sources.base import ParallelMap, choose_map

ENCODE_BYTES = 4 << 20
"""Bytes of columns that are encoded at a time: many enough to amortize the calls, few against a partition."""

MOST_GROUPS, OF_A_GROUP = 8, 64
"""Groups of partitions, whose intermediate files are removed once they are packed, and the fewest partitions in one."""
TASKS, OF_A_TASK = 32, 8
"""Tasks that pack the partitions of a group, if there are enough, and the most partitions of one."""

ReadPart = Callable[[int, object], Iterator[pa.RecordBatch]]
"""The rows of a part of the data, given its number and the part itself, as batches of one schema."""


@dataclass(frozen=True)
class ScatterResult:
    """The result of scattering one part, or several.

    Attributes:
        rows: the rows of each split.
        roundings: what float32 does to the columns of doubles.
        skipped: rows that were skipped because float32 cannot hold a number in them.
        dropped: the number of rows that were dropped because they have no label.
        groups: with a split key, the rows of each group.
    """

    rows: Counter[str]
    roundings: Mapping[str, ColumnRounding]
    skipped: Skipped
    dropped: int = 0
    groups: GroupRows = field(default_factory=GroupRows)

    def __add__(self, other: ScatterResult) -> ScatterResult:
        names = {**self.roundings, **other.roundings}
        none = ColumnRounding()
        roundings = {name: self.roundings.get(name, none) + other.roundings.get(name, none) for name in names}
        skipped, dropped = self.skipped + other.skipped, self.dropped + other.dropped
        groups = self.groups + other.groups
        return ScatterResult(self.rows + other.rows, roundings, skipped, dropped, groups)


@dataclass(frozen=True)
class ShardWriter:
    """Writes the shards of one span.

    Attributes:
        layout: the shards, and which row goes to which.
        compression: how they are compressed.
        work: an existing folder for intermediate files.
        output: the folder that gets the shards.
        skip_bad: skip rows with a number beyond float32's range, instead of raising DataError.
        required: the column without a value in which a row is dropped; None for none.
        columns: whether to write the rows as columns as well, if each has one value (see `column_files`).
        float64: the columns whose bits are written too (see `float64_columns`).
    """

    layout: ShardLayout
    compression: Compression
    work: Path
    output: Path
    skip_bad: bool = False
    required: RequiredColumn | None = None
    columns: bool = False
    float64: Sequence[str] = ()

    def write(
        self, parts: Sequence[object], read: ReadPart, parallel_map: ParallelMap, spent: Sequence[Path] = ()
    ) -> tuple[ScatterResult, dict[Shard, int]]:
        """Write all shards; returns the sum over all parts, and the bytes of each shard.

        `spent`: files that only `read` needs, which are removed.
        """
        owner = list(self.layout.all_partitions())
        in_beam = getattr(parallel_map, "in_beam", False)  # where each call starts a pipeline
        groups = _cut(range(len(owner)), 1 if in_beam else min(len(owner) // OF_A_GROUP, MOST_GROUPS))
        scatter = partial(self.scatter, read=read, groups=groups)
        results = parallel_map("Scatter", scatter, list(enumerate(parts)))
        sizes, obsolete = 0, list(spent)
        for group in groups:
            scattered = [self._scattered_path(part, group) for part in range(len(parts))]
            tasks = [
                partial(self.pack, own, scattered, group) for own in _cut(group, max(TASKS, len(group) // OF_A_TASK))
            ]
            removals = [partial(_remove, path) for path in obsolete]
            sizes += sum(parallel_map("Pack", operator.call, [*removals, *tasks]))
            obsolete = [file for path in scattered for file in files_of(path)]
        members = {
            shard: [number for number, own in enumerate(owner) if own == shard] for shard in dict.fromkeys(owner)
        }
        copied = sizes if len(owner) > len(members) else 0
        joins = [partial(self.join, shard, numbers) for shard, numbers in members.items()]
        totals = choose_map(parallel_map, copied)(
            "Join", operator.call, [*joins, *(partial(_remove, path) for path in obsolete)]
        )
        found = dict(zip(members, totals, strict=False))  # the removals come last
        return reduce(ScatterResult.__add__, results), {shard: found[shard] for shard in self.layout.all_shards()}

    def scatter(self, numbered: tuple[int, object], read: ReadPart, groups: Sequence[range]) -> ScatterResult:
        """Sort the rows of a part, given with its number, by partition into its file of each group of partitions."""
        number, part = numbered
        owner = list(self.layout.all_partitions())
        roundings = RoundingAccumulator(skip_bad=self.skip_bad, file=files_of_part(part))
        partitioner = Partitioner(self.layout, number, files_of_part(part), split_of_part(part))
        totals, dropped = np.zeros(len(owner), np.int64), 0
        with PartitionSpill({self._scattered_path(number, group): group for group in groups}) as spill:
            for rows_read in read(number, part):
                complete = with_value(rows_read, self.required)
                dropped += rows_read.num_rows - complete.num_rows
                batch = roundings.checked(complete)
                partitions = partitioner.assign(batch)
                spill.add(with_bits(batch, self.float64), partitions)
                totals += np.bincount(partitions, minlength=len(owner))
        rows: Counter[str] = Counter()
        for (split, _), count in zip(owner, totals.tolist(), strict=True):
            rows[split] += count
        lossy = {name: own for name, own in roundings.items() if name not in self.float64}
        return ScatterResult(rows, lossy, roundings.skipped, dropped, partitioner.groups)

    def pack(self, partitions: range, scattered: Sequence[Path], group: range) -> int:
        """Shuffle, encode and compress each of these partitions; their size in bytes. An empty one leaves no file.

        scattered: the parts' files of the group that the partitions are of.
        """
        spilled, size = SpilledRows(scattered, group), 0
        for number in partitions:
            trim_heap()
            rows = spilled.of(number)
            size += 0 if rows is None else self._pack(number, rows)
        return size

    def _pack(self, partition: int, rows: pa.RecordBatch) -> int:
        order = random_state(self.layout.seed, 1, partition).permutation(len(rows))
        step = max(1, room(ENCODE_BYTES, column_count(rows)) * len(rows) // max(rows.nbytes, 1))
        texts = coded_texts(rows, order) if self.columns else {}
        integers = coded_integers(to_columns(rows), order) if self.columns else {}
        coded = {**texts, **integers}
        dictionaries = {name: feature_dictionary(name, column.dictionary) for name, column in coded.items()}
        rows = rows.select([name for name in rows.schema.names if name not in texts])
        compressor, columns = self.compression.compressor(), ColumnWriter(self._columns_path(partition))
        with open(self._packed_path(partition), "wb", buffering=0) as file, closing(columns):
            for start in range(0, len(order), step):
                own = order[start : start + step]
                batch = to_columns(rows.take(pa.array(own)))
                parts = {name: column.slice(start, len(own)) for name, column in coded.items()}
                batch = with_columns(batch, {name: parts[name] for name in texts})
                records = framed_examples(with_columns(batch, parts), dictionaries)
                file.write(compressor.compress(memoryview(records.buffers()[2])))
                if self.columns:
                    columns.add(batch, np.diff(offsets_of(records)))
            file.write(compressor.flush())
            return file.tell()

    def join(self, shard: Shard, partitions: Sequence[int]) -> int:
        """Concatenate the packed partitions of a shard into its file; the file's size in bytes.

        A shard without rows is a TFRecord file without records.
        """
        split, number = shard
        path = shard_path(self.output, split, number, self.layout.shards[split], self.compression.suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = [file for partition in partitions if (file := self._packed_path(partition)).exists()]
        if not packed:
            return path.write_bytes(self.compression.compressor().flush())
        size = _join(packed, path)
        if columns := [file for number in partitions if (file := self._columns_path(number)).exists()]:
            beside = column_files.path_beside(path)
            beside.parent.mkdir(parents=True, exist_ok=True)
            _join(columns, beside)
            column_files.finish(beside, path)
        return size

    def _scattered_path(self, part: int, group: range) -> Path:
        return self.work / f"scattered-{part:05d}-{group.start:05d}.arrow"

    def _packed_path(self, partition: int) -> Path:
        return self.work / f"packed-{partition:05d}"

    def _columns_path(self, partition: int) -> Path:
        return self.work / f"columns-{partition:05d}.arrow"


def _join(files: Sequence[Path], into: Path) -> int:
    """Move the content of some files into one; its size in bytes."""
    files[0].rename(into)
    with open(into, "ab") as joined:
        for file in files[1:]:
            with open(file, "rb") as source:
                shutil.copyfileobj(source, joined, 1 << 20)
            file.unlink()
        return joined.tell()


def _remove(path: Path) -> int:
    """A task as well, because removing a large file takes milliseconds."""
    path.unlink(missing_ok=True)
    return 0


def _cut(numbers: range, pieces: int) -> list[range]:
    """Ranges of about the same length, of at least one number each."""
    pieces = max(1, min(pieces, len(numbers)))
    ends = [numbers.start + len(numbers) * place // pieces for place in range(pieces + 1)]
    return [range(*own) for own in pairwise(ends)]
