"""Rows to shards on disk.

Each part of the data writes its own piece of every shard, a gzip member of its own; then each shard's pieces are laid
one after the other in the order of the parts. Gzip members that follow each other are one gzip file (RFC 1952), so
nothing is packed twice, no encoded row passes between Beam's stages, and the bytes do not depend on which worker wrote
what when.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.example_gen.encode import encode
from components.example_gen.sources.base import Source
from components.example_gen.split import Dealer, Layout, Shard
from components.example_gen.tfrecord import frame, gzip_stream
from components.example_gen.types import Kind

HELD = 1 << 18
"""Bytes of packed data that a shard's piece holds before they go to disk."""


def write_part(
    numbered: tuple[int, object], source: Source, kinds: Mapping[str, Kind], layout: Layout, work: Path
) -> Counter[str]:
    """Read a part, encode it, and write its pieces of the shards under `work`; the rows of each split."""
    number, part = numbered
    dealer = Dealer(layout, number)
    pieces: dict[Shard, Piece] = {}
    rows: Counter[str] = Counter()
    for batch in source.batches(part, kinds):
        deals = list(dealer.deal(batch))
        records = frame(encode(batch).take(pa.array(np.concatenate([places for _, places in deals]))))
        for (shard, places), text in zip(deals, _runs(records, [len(places) for _, places in deals]), strict=True):
            if shard not in pieces:
                pieces[shard] = Piece(piece_path(work, shard, number))
            pieces[shard].write(text)
            rows[shard[0]] += len(places)
    for piece in pieces.values():
        piece.close()
    return rows


def join_pieces(shard: Shard, layout: Layout, parts: int, work: Path, output: Path) -> int:
    """Lay the pieces of a shard one after the other into its file under `output`; the file's size in bytes.

    A shard without rows is a TFRecord file without records.
    """
    path = shard_path(output, shard, layout.shards[shard[0]])
    path.parent.mkdir(parents=True, exist_ok=True)
    pieces = [piece for number in range(parts) if (piece := piece_path(work, shard, number)).exists()]
    if not pieces:
        path.write_bytes(gzip_stream().flush())
    elif len(pieces) == 1:
        pieces[0].rename(path)
    else:
        with open(path, "wb") as joined:
            for piece in pieces:
                with open(piece, "rb") as text:
                    shutil.copyfileobj(text, joined, 1 << 20)
                piece.unlink()
    return path.stat().st_size


def shard_path(output: Path, shard: Shard, shards: int) -> Path:
    """Where TFX's readers look for a shard."""
    split, number = shard
    return output / f"Split-{split}" / f"data_tfrecord-{number:05d}-of-{shards:05d}.gz"


def piece_path(work: Path, shard: Shard, part: int) -> Path:
    """Where a part's piece of a shard lies until the pieces are joined."""
    return work / f"part-{part:05d}" / f"{shard[0]}-{shard[1]:05d}.gz"


class Piece:
    """A gzip file written in a few large steps, and open only then: there may be more shards than file handles."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._stream = path, gzip_stream()
        self._held: list[bytes] = []
        self._size = 0

    def write(self, text: memoryview) -> None:
        """Pack some records."""
        self._hold(self._stream.compress(text))
        if self._size >= HELD:
            self._to_disk()

    def close(self) -> None:
        """Write the rest, and the end of the gzip member."""
        self._hold(self._stream.flush())
        self._to_disk()

    def _hold(self, packed: bytes) -> None:
        self._held.append(packed)
        self._size += len(packed)

    def _to_disk(self) -> None:
        with open(self._path, "ab") as file:
            file.writelines(self._held)
        self._held, self._size = [], 0


def _runs(records: pa.BinaryArray, lengths: list[int]) -> list[memoryview]:
    """The bytes of each run of `lengths` consecutive records, without a copy."""
    offsets, data = np.frombuffer(records.buffers()[1], np.int32), memoryview(records.buffers()[2])
    cuts = offsets[np.cumsum([0, *lengths]) + records.offset]
    return [data[start:stop] for start, stop in pairwise(cuts)]
