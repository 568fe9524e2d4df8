"""Rows to shuffled shards on disk, in three steps, each of tasks that do not depend on each other:

scatter   a part of the data is read, and its rows are dealt out to piles (see `split`) in a file of its own
pack      a pile is gathered from all the parts' files, shuffled, encoded and packed
join      the packed piles of a shard are laid one after the other

Which row lands where depends on the data and the seed alone, and each pile is packed as a whole, so neither do the
bytes depend on which worker does what when. Gzip members that follow each other are one gzip file (RFC 1952), and so
are TFRecords, so nothing is packed twice. Memory is bounded by the size of a pile.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.components.example_gen.packing import Packing
from headrace.components.example_gen.parts import files_of_part, room
from headrace.components.example_gen.rounding import Rounding, Roundings
from headrace.components.example_gen.side_by_side import columns, width
from headrace.components.example_gen.skips import Skipped
from headrace.components.example_gen.sources.base import ParallelMap, choose_map
from headrace.components.example_gen.spill import Spill, read_chunks, together
from headrace.components.example_gen.split import Dealer, Layout, Shard, random
from headrace.components.example_gen.tfrecord import framed_examples

ENCODED = 4 << 20
"""Bytes of columns that are encoded at a time: so many rows that calls cost little, and little against a pile."""

Read = Callable[[int, object], Iterator[pa.RecordBatch]]
"""The rows of a part of the data, given its number and itself, as batches of one schema."""


@dataclass(frozen=True)
class Pile:
    """The number of a pile, and its record batches in the file of each part."""

    number: int
    chunks: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Scattered:
    """What became of a part: the rows of each split, the pile of each record batch of its file, what float32 does to
    its columns of doubles, and the rows that were left out because float32 cannot hold a number in them.
    """

    rows: Counter[str]
    chunks: Sequence[int]
    roundings: Mapping[str, Rounding]
    skipped: Skipped

    def __add__(self, other: Scattered) -> Scattered:
        """Both together; chunks are numbered part by part, so there are none of both."""
        names = {**self.roundings, **other.roundings}
        none = Rounding()
        roundings = {name: self.roundings.get(name, none) + other.roundings.get(name, none) for name in names}
        return Scattered(self.rows + other.rows, (), roundings, self.skipped + other.skipped)


@dataclass(frozen=True)
class Writer:
    """Writes the shards of `layout` under `output`, and what it needs on the way under `work`. skip_bad: leave out rows
    with a number beyond float32, instead of raising DataError.
    """

    layout: Layout
    packing: Packing
    work: Path
    output: Path
    skip_bad: bool = False

    def write(
        self, parts: Sequence[object], read: Read, spread: ParallelMap, spent: Sequence[Path] = ()
    ) -> tuple[Scattered, dict[Shard, int]]:
        """All of them; what became of all parts, and the bytes of each shard. `spent`: files that only `read` needs."""
        owner = list(self.layout.all_piles())
        scattered = spread("Scatter", partial(self.scatter, read=read), list(enumerate(parts)))
        chunks = [_chunks_of(own.chunks, len(owner)) for own in scattered]
        piles = [Pile(number, [own[number] for own in chunks]) for number in range(len(owner))]
        sizes = spread("Pack", self.pack, piles)
        shards = [(shard, [pile for pile, own in enumerate(owner) if own == shard]) for shard in dict.fromkeys(owner)]
        copied = sum(sizes) if len(owner) > len(shards) else 0
        old = [*spent, *map(self._scattered_path, range(len(parts)))]
        last = [*(partial(self.join, *shard) for shard in shards), *(partial(_remove, path) for path in old)]
        found = dict(zip((shard for shard, _ in shards), choose_map(spread, copied)("Join", _call, last), strict=False))
        return reduce(Scattered.__add__, scattered), {shard: found[shard] for shard in self.layout.all_shards()}

    def scatter(self, numbered: tuple[int, object], read: Read) -> Scattered:
        """Deal a part's rows out to the piles in its file."""
        number, part = numbered
        owner = list(self.layout.all_piles())
        roundings = Roundings(skip_bad=self.skip_bad, file=files_of_part(part))
        dealer, dealt = Dealer(self.layout, number), np.zeros(len(owner), np.int64)
        with Spill(self._scattered_path(number), len(owner)) as spill:
            for batch in map(roundings.checked, read(number, part)):
                piles = dealer.deal(batch)
                spill.add(batch, piles)
                dealt += np.bincount(piles, minlength=len(owner))
        rows: Counter[str] = Counter()
        for (split, _), count in zip(owner, dealt.tolist(), strict=True):
            rows[split] += count
        return Scattered(rows, spill.chunks, dict(roundings), roundings.skipped)

    def pack(self, pile: Pile) -> int:
        """Shuffle, encode and pack a pile; its size in bytes. A pile without rows leaves no file."""
        rows = self._gathered(pile)
        if rows is None:
            return 0
        order = random(self.layout.seed, 1, pile.number).permutation(len(rows))
        step = max(1, room(ENCODED, width(rows)) * len(rows) // max(rows.nbytes, 1))
        stream = self.packing.stream()
        with open(self._packed_path(pile.number), "wb", buffering=0) as file:
            for start in range(0, len(rows), step):
                records = framed_examples(columns(rows.take(pa.array(order[start : start + step]))))
                file.write(stream.compress(memoryview(records.buffers()[2])))
            file.write(stream.flush())
            return file.tell()

    def join(self, shard: Shard, piles: Sequence[int]) -> int:
        """Lay the packed piles of a shard one after the other into its file; the file's size in bytes.

        A shard without rows is a TFRecord file without records.
        """
        path = shard_path(self.output, shard, self.layout.shards[shard[0]], self.packing)
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = [piece for pile in piles if (piece := self._packed_path(pile)).exists()]
        if not packed:
            return path.write_bytes(self.packing.stream().flush())
        packed[0].rename(path)
        with open(path, "ab") as joined:
            for piece in packed[1:]:
                with open(piece, "rb") as text:
                    shutil.copyfileobj(text, joined, 1 << 20)
                piece.unlink()
            return joined.tell()

    def _gathered(self, pile: Pile) -> pa.RecordBatch | None:
        parts = [(self._scattered_path(part), chunks) for part, chunks in enumerate(pile.chunks) if chunks]
        batches = [batch for path, chunks in parts for batch in read_chunks(path, chunks)]
        return together(batches) if batches else None

    def _scattered_path(self, part: int) -> Path:
        return self.work / f"scattered-{part:05d}.arrow"

    def _packed_path(self, pile: int) -> Path:
        return self.work / f"packed-{pile:05d}"


def _call(task: Callable[[], int]) -> int:
    return task()


def _remove(path: Path) -> int:
    """Letting go of a large file takes the system some milliseconds, so these are tasks too."""
    path.unlink(missing_ok=True)
    return 0


def shard_path(output: Path, shard: Shard, shards: int, packing: Packing) -> Path:
    """Where TFX's readers look for a shard."""
    split, number = shard
    return output / f"Split-{split}" / f"data_tfrecord-{number:05d}-of-{shards:05d}{packing.ending}"


def _chunks_of(owners: Sequence[int], piles: int) -> list[list[int]]:
    """The numbers of each pile's chunks, given the pile of each chunk."""
    chunks: list[list[int]] = [[] for _ in range(piles)]
    for chunk, pile in enumerate(owners):
        chunks[pile].append(chunk)
    return chunks
