"""The sums that statistics are made of, kept for each span between runs, so that each span is read once.

    <store>/<key of a span>/statistics-<digest>/<split>.arrow

A file of sums is the table of `headrace.components.statistics.accumulators`, followed by its SHA-256, which readers of
Arrow pass over. A damaged file counts as not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headrace.components.example_gen import shard_names
from headrace.components.example_gen.shared_spans import SharedSpans
from headrace.components.statistics.accumulators import are_sums, from_bytes, to_bytes
from headrace.components.statistics.combine import Shards, Statistics, Sums, Write
from headrace.configs.durable import write_bytes
from headrace.configs.errors import DataError

MADE_BY = ("tensorflow-data-validation", "tfx-bsl", "numpy", "pyarrow")
SUFFIX = ".arrow"
_DIGEST = hashlib.sha256().digest_size

AddUp = Callable[[Shards, Statistics, Write], None]
"""Adds up the shards of each key, and hands what comes out to the last argument."""


class KeptSums:
    """Where the sums of spans lie. `code`: a digest of the code that made them; `keys`: the key of each span's name;
    `shared`: where they lie too, if the store does not stay.
    """

    def __init__(self, store: Path, code: str, keys: Mapping[str, str], shared: SharedSpans | None = None) -> None:
        versions = [version(package) for package in MADE_BY]
        self._name = "statistics-" + hashlib.sha256("\0".join([code, *versions]).encode()).hexdigest()[:16]
        self._store, self.keys, self._shared = store, keys, shared

    def fetch(self, spans: Iterable[str]) -> None:
        """Have the sums of these spans in the store, where another machine kept them."""
        if self._shared is not None:
            self._shared.fetch([self.keys[span] for span in spans], self._name)

    def publish(self, spans: Iterable[str]) -> None:
        """Offer the sums of these spans to other machines."""
        if self._shared is not None:
            for span in spans:
                files = sorted((self._store / self.keys[span] / self._name).glob(f"*{SUFFIX}"))
                self._shared.publish(self.keys[span], self._name, files)

    def file(self, span: str, split: str) -> Path:
        """The file of a span's sums of a split."""
        return self._store / self.keys[span] / self._name / f"{split}{SUFFIX}"


def by_span(shards: Shards, kept: KeptSums, add_up: AddUp, write: Write) -> None:
    """Add up the spans that are not kept, keep them, and write the statistics of each split over all spans."""
    parts = {split: shard_names.by_span(files, kept.keys) for split, files in shards.items()}
    kept.fetch(dict.fromkeys(span for spans in parts.values() for span in spans))
    places = {kept.file(span, split): (span, files) for split, spans in parts.items() for span, files in spans.items()}
    missing = {str(file): files for file, (_, files) in places.items() if not is_whole(file)}
    print(f"Added up now: {len(missing)} of {sum(map(len, parts.values()))} parts", flush=True)
    if missing:
        add_up(missing, Sums(), _keep)
        kept.publish(dict.fromkeys(span for file, (span, _) in places.items() if str(file) in missing))
    statistics = Statistics()
    for split, spans in parts.items():
        total = statistics.create_accumulator()
        for span in spans:
            total = statistics.merge_accumulators([total, load(kept.file(span, split))])
        write((split, statistics.extract_output(total)))


def is_whole(file: Path) -> bool:
    """Whether there is such a file of sums, as it was written, and by code that wrote what is read now."""
    if not file.exists():
        return False
    content = file.read_bytes()
    return hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:] and are_sums(content)


def load(file: Path) -> list[Any]:
    """The accumulators in a whole file of sums. Raises DataError if there is anything else in it."""
    try:
        return from_bytes(file.read_bytes())
    except ValueError as error:
        raise DataError(f"holds no sums of statistics: {error}", file=str(file), hint="Remove it") from error


def save(file: Path, sums: list[Any]) -> None:
    """Write a file of sums, whole or not at all."""
    content = to_bytes(sums)
    write_bytes(file, content + hashlib.sha256(content).digest())


def _keep(added: tuple[str, list[Any]]) -> None:
    file, sums = added
    save(Path(file), sums)
