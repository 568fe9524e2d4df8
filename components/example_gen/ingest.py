"""From spans to sharded examples in a folder: scan all spans, agree on the kinds of columns, then write them.

result = ingest(config.data, manifest, output, make_map)
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.common.errors import DataError
from headrace.common.names import join_names
from headrace.components.example_gen.checks import check_columns, check_fraction, check_splits, thin_classes
from headrace.components.example_gen.required import RequiredColumn
from headrace.components.example_gen.shards.group_split import GroupRows, group_lines
from headrace.components.example_gen.span_ingest import ScannedSpan, SpanIngester
from headrace.components.example_gen.span_store import COLUMNS, SCAN, SHARDS, SpanShards, SpanStore, link
from headrace.components.examples.column_files import shards_and_columns
from headrace.components.examples.shard_names import with_span
from headrace.components.examples.skips import Skipped
from headrace.components.examples.tfexample.float64_columns import check_names
from headrace.components.examples.tfexample.rounding import ColumnRounding, rounding_notes
from headrace.components.sources import ParallelMap
from headrace.components.sources.nested import check_objects
from headrace.components.sources.types import Kind, declared_types, widest
from headrace.components.spans.manifest import SpanManifest
from headrace.components.spans.split_spans import RoleOfSpans
from headrace.configs.schema.data import DataConfig

logger = logging.getLogger(__name__)

_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""Errors of a disk that accepts no more data."""


@dataclass(frozen=True)
class IngestResult:
    """What was written.

    Attributes:
        rows: the rows of each split.
        kinds: the kind of each column.
        plan: one line about the number and size of the shards.
        spans: the key of each span in the store; empty for data without spans.
        span_rows: the rows of each span, of all splits; empty for data without spans.
        skipped: the records that were skipped.
        read: one line about which spans were read in this run; "" for data without spans.
        gaps: lines about data that is missing or found under several names, about classes that a split lacks, and about
            groups that upset the shares of the splits.
        changes: lines about files that changed since they were last read.
        rounded: lines about columns that lose digits.
        dropped: the number of rows that were dropped because they have no label.
        roles: the spans of each split, their numbers by their names, with `data.split_spans`.
    """

    rows: Mapping[str, int]
    kinds: Mapping[str, Kind]
    plan: str
    spans: Mapping[str, str] = field(default_factory=dict)
    span_rows: Mapping[str, int] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)
    read: str = ""
    gaps: Sequence[str] = ()
    changes: Sequence[str] = ()
    rounded: Sequence[str] = ()
    dropped: int = 0
    roles: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def log(self) -> str:
        """Everything but the keys, for people."""
        shards = f"Shards: {self.plan}{self.read and '; '}{self.read}"
        lines = [f"Rows: {dict(self.rows)}", f"Types: {self.kinds}", shards]
        lines += [f"Dropped: {self.dropped:,} rows without a label"] if self.dropped else []
        return "\n".join([*lines, *self.gaps, *self.changes, *self.rounded, *self.skipped.reported])


def ingest(
    data: DataConfig,
    manifest: SpanManifest,
    output: Path,
    make_map: Callable[[Path], ParallelMap],
    store: SpanStore | None = None,
    *,
    required: RequiredColumn | None = None,
    may_lack: bool = False,
) -> IngestResult:
    """Write the examples of all spans in `manifest` to `output`, or after an error nothing.

    Args:
        data: what to read, and how to write it.
        manifest: the spans to read.
        output: the folder that gets a folder for each split.
        make_map: makes a parallel map, given an existing folder for its results.
        store: where spans are stored between runs; None: nowhere.
        required: the column without a value in which a row is dropped; None for none.
        may_lack: whether the data may be without rows, and without some of the columns that `data.columns` names.
    """
    with _fresh(output) as work:
        named = any(span.name for span in manifest.spans)
        store = store or SpanStore()
        files = [file for span in manifest.spans for file in span.files]
        changes = list(store.changed(files))
        kept = store if named else SpanStore()
        roles = RoleOfSpans.in_run(data.split_spans, manifest)
        spans = SpanIngester(data, manifest.checksums, kept, make_map, work, required, roles.split_of, may_lack)
        scanned, kinds = _scan(spans, manifest)
        keys, stored = _write(spans, scanned, kinds)
        rows, skipped, dropped = _totals(scanned, stored)
        check_fraction(data, skipped, sum(rows.values()) + dropped)
        groups = sum((shards.groups for shards in stored), GroupRows())
        if not may_lack:
            check_splits(data, rows, dropped, groups)
        store.remember(files)
        result = IngestResult(
            rows={split: rows[split] for split in data.splits},
            kinds=kinds,
            plan="; ".join([_plan(manifest, stored), *_held_out(roles.splits)]),
            spans=keys if named else {},
            span_rows={name: sum(own.rows.values()) for name, own in zip(keys, stored, strict=True)} if named else {},
            skipped=skipped,
            read=f"read now: {', '.join(spans.read) or 'none, all were stored'}" if named else "",
            gaps=[
                *_gaps(manifest),
                *_thin_classes(data, stored, rows),
                *group_lines(data.split_keys, groups, rows, data.hashed_splits),
            ],
            changes=changes,
            rounded=list(rounding_notes(_roundings(stored))),
            dropped=dropped,
            roles=roles.splits,
        )
        logger.info(result.log)
        return result


def _totals(scanned: Sequence[ScannedSpan], stored: Sequence[SpanShards]) -> tuple[Counter[str], Skipped, int]:
    """The rows of each split, the skipped records and the number of dropped rows, of all spans."""
    rows = sum((Counter(shards.rows) for shards in stored), Counter[str]())
    skipped = sum((one.result.skipped for one in scanned), Skipped())
    return rows, sum((shards.skipped for shards in stored), skipped), sum(shards.dropped for shards in stored)


def _scan(spans: SpanIngester, manifest: SpanManifest) -> tuple[list[ScannedSpan], dict[str, Kind]]:
    """Scan all spans; returns them with the kinds that hold the values of all of them."""
    spans.store.fetch(COLUMNS, map(spans.key, manifest.spans))
    opened = [spans.open(span) for span in manifest.spans]
    declared = declared_types(spans.data, list(dict.fromkeys(name for one in opened for name in one.columns)))
    spans.store.fetch(SCAN, (spans.key(one.span, one.declared(declared)) for one in opened))
    scanned = [spans.scan(one, declared) for one in opened]
    skipped = sum((one.result.skipped for one in scanned), Skipped())
    check_fraction(spans.data, skipped, sum(sum(one.result.rows.values()) for one in scanned))
    kinds: dict[str, Kind] = {}
    for one in scanned:
        kinds |= {name: widest([kind, kinds.get(name, kind)]) for name, kind in one.kinds.items()}
    check_names(spans.data.float64_columns, kinds)
    check_objects(kinds, {path: file for one in reversed(scanned) for path, file in one.result.objects.items()})
    if not spans.may_lack:
        check_columns(spans.data, kinds)
    return scanned, kinds


def _write(
    spans: SpanIngester, scanned: Sequence[ScannedSpan], kinds: Mapping[str, Kind]
) -> tuple[dict[str, str], list[SpanShards]]:
    """Write all spans and link their shards into the output; returns the key of each span, and the shards."""
    spans.store.fetch(SHARDS, (spans.shards_key(one, kinds) for one in scanned))
    keys, stored = dict[str, str](), list[SpanShards]()
    for one in scanned:
        keys[one.span.name], shards = spans.write(one, kinds)
        stored.append(shards)
        _link_shards(one.span.name, shards.folder, spans.work / "joined")
    return keys, stored


def _link_shards(span: str, folder: Path, output: Path) -> None:
    """Link the shards of a span, and their columns, into the output, under names that contain the span's."""
    for shard in shards_and_columns(folder):
        link(shard, output / shard.parent.relative_to(folder) / with_span(shard.name, span))


def _roundings(stored: Sequence[SpanShards]) -> dict[str, ColumnRounding]:
    """What float32 does to each column, over all spans."""
    found: dict[str, ColumnRounding] = {}
    for shards in stored:
        found |= {name: found.get(name, ColumnRounding()) + own for name, own in shards.roundings.items()}
    return found


def _held_out(roles: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    return (f"{split} is {join_names(own)}" for split, own in roles.items() if split != "train")


def _thin_classes(data: DataConfig, stored: Sequence[SpanShards], rows: Mapping[str, int]) -> Iterator[str]:
    """Lines about classes of which a split that the hash decides has no rows in any span."""
    if not isinstance(data.stratify, str):
        return
    classes: dict[str, Counter[str]] = defaultdict(Counter)
    for shards in stored:
        for value, own in shards.classes.items():
            classes[value].update(own)
    yield from thin_classes(data.stratify, classes, [split for split in data.hashed_splits if rows[split]])


def _gaps(manifest: SpanManifest) -> Iterator[str]:
    """Lines about spans that do not exist, and about files that have several names."""
    names = manifest.missing
    if names:
        more = f" and {manifest.missing_count - len(names):,} more" if manifest.missing_count > len(names) else ""
        yield f"there is no data for {', '.join(names)}{more}"
    yield from manifest.repeated


def _plan(manifest: SpanManifest, stored: Sequence[SpanShards]) -> str:
    """One line about the spans and their shards."""
    names = [span.name for span in manifest.spans]
    if len(names) > 1:
        files = sum(len(list(shards.folder.glob("Split-*/*"))) for shards in stored)
        return f"{len(names)} spans, {names[0]} to {names[-1]}, in {files} shards"
    (span,), (shards,) = manifest.spans, stored
    if not span.name:
        return shards.plan
    return f"span {span.name}{'' if span.version is None else f', version {span.version}'}: {shards.plan}"


@contextmanager
def _fresh(output: Path) -> Iterator[Path]:
    """A working folder inside `output`. At the end, `output` holds only what is in its folder `joined`; after an error
    it is empty.
    """
    shutil.rmtree(output, ignore_errors=True)
    work = output / ".writing"
    work.mkdir(parents=True)
    try:
        yield work
        for folder in sorted((work / "joined").iterdir()):
            folder.rename(output / folder.name)
        shutil.rmtree(work)
    except BaseException as error:
        shutil.rmtree(output)
        output.mkdir()
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            what = f"the examples cannot be written: {os.strerror(error.errno or 0)}"
            hint = "`pipeline.root` is the folder for everything that a run writes"
            raise DataError(what, file=str(output), hint=hint) from error
        raise
