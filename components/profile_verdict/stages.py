"""What tf.data's threads do, in words, from the names of their trace events."""

from __future__ import annotations

import re

STARTING = "starting the epoch's iterator"
READING = "reading files"
PARSING = "parsing examples"
SHUFFLING = "shuffling"
BATCHING = "batching"
CACHING = "filling the cache"

_ITERATORS = {
    "TFRecord": READING,
    "TextLine": READING,
    "FixedLengthRecord": READING,
    "ParallelInterleave": None,
    "Interleave": READING,
    "FlatMap": None,
    "Batch": BATCHING,
    "ParallelBatch": BATCHING,
    "PaddedBatch": BATCHING,
    "Rebatch": BATCHING,
    "Unbatch": BATCHING,
    "Shuffle": SHUFFLING,
    "ShuffleAndRepeat": SHUFFLING,
    "MemoryCache": CACHING,
    "MemoryCacheImpl": CACHING,
    "FileCache": CACHING,
    "Prefetch": None,
    "ParallelMap": None,
    "Root": None,
}
"""Stages by the last part of their name; None: its own time is a wait for other threads, or nothing."""
_OPERATIONS = {"ParseExample": PARSING, "ParseSingleExample": PARSING, "RandomShuffle": SHUFFLING}


def stage_of(name: str) -> str | None:
    """What an event of a thread of tf.data's is part of, in words; None where it is a wait, or holds other events."""
    if name.startswith("MakeIterator::"):
        return STARTING
    if name.startswith("Iterator::"):
        last = re.sub(r"(\[\d+\])?$", "", name.rsplit("::", 1)[-1])
        kind = re.sub(r"V\d+$", "", last)
        return _ITERATORS.get(kind, f"tf.data's {kind}")
    _, colon, kind = name.rpartition(":")
    if colon and "::" not in name and kind.isidentifier():
        kind = re.sub(r"V\d+$", "", kind)
        if kind.endswith("Dataset"):
            return STARTING
        return _OPERATIONS.get(kind, f"the operation {kind} in a map")
    return None
