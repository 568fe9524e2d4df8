"""Statistics stored by span: accumulators that later runs merge, so that each span is read once.

    <store>/<key of a span>/statistics-<digest>/<split>.arrow

A file is the Arrow table of `headrace.components.statistics.accumulators`, followed by its SHA-256, which Arrow's
readers ignore. A damaged file counts as missing.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.common.durable import write_bytes
from headrace.common.errors import DataError
from headrace.components.examples import shard_names
from headrace.components.spans.shared_spans import SharedSpans, StoredPart
from headrace.components.statistics.accumulators import from_bytes, is_accumulator, to_bytes
from headrace.components.statistics.combine import Accumulator, AccumulatorCombiner, Shards, StatisticsCombiner, Write

logger = logging.getLogger(__name__)

MADE_BY = ("tensorflow-data-validation", "tfx-bsl", "numpy", "pyarrow")
"""The packages whose versions are part of the digest."""
SUFFIX = ".arrow"
_DIGEST = hashlib.sha256().digest_size

Combine = Callable[[Shards, StatisticsCombiner, Write], None]
"""Combines the shards of each key and passes the output to the last argument."""


class SpanStatisticsStore(StoredPart):
    """The folder of stored accumulators, and their shared storage if the folder's disk does not last."""

    def __init__(self, store: Path, code: str, keys: Mapping[str, str], shared: SharedSpans | None = None) -> None:
        """Open a store. code: a digest of the code that computes the accumulators."""
        super().__init__("statistics", store, code, MADE_BY, keys, shared)

    def files(self, span: str) -> list[Path]:
        """The files of a span's splits."""
        return sorted(self.folder(span).glob(f"*{SUFFIX}"))

    def file(self, span: str, split: str) -> Path:
        return self.folder(span) / f"{split}{SUFFIX}"


def combine_by_span(shards: Shards, stored: SpanStatisticsStore, combine: Combine, write: Write) -> None:
    """Compute and store the accumulators that are missing, and write the statistics of each split over all spans."""
    parts = {split: shard_names.by_span(files, stored.keys) for split, files in shards.items()}
    stored.fetch(dict.fromkeys(span for spans in parts.values() for span in spans))
    files = {stored.file(span, split): (span, own) for split, spans in parts.items() for span, own in spans.items()}
    missing = {str(file): own for file, (_, own) in files.items() if not is_whole(file)}
    logger.info(f"Computed {len(missing)} of {sum(map(len, parts.values()))} parts (a split of a span each)")
    if missing:
        combine(missing, AccumulatorCombiner(), _save_computed)
        stored.publish(dict.fromkeys(span for file, (span, _) in files.items() if str(file) in missing))
    combiner = StatisticsCombiner()
    for split, spans in parts.items():
        total = combiner.create_accumulator()
        for span in spans:
            total = combiner.merge_accumulators([total, load(stored.file(span, split))])
        write((split, combiner.extract_output(total)))


def is_whole(file: Path) -> bool:
    """Whether a file exists, is undamaged, and has the format that is read now."""
    if not file.exists():
        return False
    content = file.read_bytes()
    return hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:] and is_accumulator(content)


def load(file: Path) -> Accumulator:
    """The accumulator in a file that is whole. Raises DataError if the file holds anything else."""
    try:
        return from_bytes(file.read_bytes())
    except ValueError as error:
        raise DataError(f"holds no statistics accumulator: {error}", file=str(file), hint="Remove it") from error


def save(file: Path, accumulator: Accumulator) -> None:
    """Write an accumulator to a file in one step."""
    content = to_bytes(accumulator)
    write_bytes(file, content + hashlib.sha256(content).digest())


def _save_computed(computed: tuple[str, Accumulator]) -> None:
    file, accumulator = computed
    save(Path(file), accumulator)
