"""From spans to sharded examples in a directory: look at all of it, plan, write, join, put in place."""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from headrace.components.example_gen.checks import (
    check_columns,
    check_fraction,
    check_key,
    check_rows,
    check_splits,
    check_written,
)
from headrace.components.example_gen.kept import MOST, Kept
from headrace.components.example_gen.manifest import Manifest, Span, check_unchanged
from headrace.components.example_gen.packing import Packing
from headrace.components.example_gen.rounding import Rounding, notes
from headrace.components.example_gen.shards import SMALLEST, Estimate, plan
from headrace.components.example_gen.sources import (
    ParallelMap,
    ReadOptions,
    ScanResult,
    Skipped,
    Source,
    open_source,
    reads_files,
)
from headrace.components.example_gen.span_store import COLUMNS, SURVEY, WRITTEN, SpanStore, Written, key_of, link
from headrace.components.example_gen.split import Layout, Shard
from headrace.components.example_gen.types import Kind, declared_types, widest
from headrace.components.example_gen.write import Read, Writer
from headrace.configs.data import DataConfig
from headrace.configs.errors import DataError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""What a disk says that takes no more."""

READ_BY = {"source", "types", "columns", "on_bad_record"}
"""The settings that decide what is read of a span, beside the types that a schema declares. All others decide how it is
written.
"""

CHECKED_BY = {"window", "spans", "fingerprint", "max_bad_fraction", "on_anomaly", "schema_file"}
"""But for these, which decide nothing of a span's shards. (Of a schema the types count, which are part of the keys; in
a pod its file lies elsewhere each time.)
"""


@dataclass(frozen=True)
class Ingested:
    """What came out: rows of each split, the kind of each column, one line about the shards, the key of each span (see
    `span_store`) and one line about which were read now (both empty for data without spans), the records left out, and
    lines that a user should see: `gaps` on what is not there, `changes` on what is not as it was, `rounded` on columns
    that lose digits.
    """

    rows: Mapping[str, int]
    kinds: Mapping[str, Kind]
    plan: str
    spans: Mapping[str, str] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)
    read: str = ""
    gaps: Sequence[str] = ()
    changes: Sequence[str] = ()
    rounded: Sequence[str] = ()

    @property
    def log(self) -> str:
        """All of it but the keys, for people."""
        told = f"Shards: {self.plan}{self.read and '; '}{self.read}"
        lines = [f"Rows: {dict(self.rows)}", f"Types: {self.kinds}", told]
        return "\n".join([*lines, *self.gaps, *self.changes, *self.rounded, *self.skipped.told])


def ingest(
    data: DataConfig,
    manifest: Manifest,
    output: Path,
    make_spread: Callable[[Path], ParallelMap],
    store: SpanStore | None = None,
) -> Ingested:
    """Write the examples of the spans in `manifest` under `output`: all of them, or after an error nothing.

    store: where spans are kept between runs; None: nowhere.
    """
    with _fresh(output) as work:
        named = [span for span in manifest.spans if span.name]
        store = store or SpanStore()
        files = [file for span in manifest.spans for file in span.files]
        changes = list(store.changed(files))
        run = _Run(data, manifest.checksums, store if named else SpanStore(), make_spread, work)
        run.kept.fetch(COLUMNS, map(run.key, manifest.spans))
        opened = [run.open(span) for span in manifest.spans]
        declared = declared_types(data, list(dict.fromkeys(name for one in opened for name in one.columns)))
        run.kept.fetch(SURVEY, (run.key(one.span, one.declared(declared)) for one in opened))
        looks = [run.look(one, declared) for one in opened]
        skipped = sum((look.survey.skipped for look in looks), Skipped())
        check_fraction(data, skipped, sum(sum(look.survey.rows.values()) for look in looks))
        kinds = _joined(look.kinds for look in looks)
        check_columns(data, kinds)
        run.kept.fetch(WRITTEN, (run.written_key(look, kinds) for look in looks))
        spans = {}
        written = []
        for look in looks:
            key, out = run.write(look, kinds)
            written.append(out)
            _put(look.span, out.folder, work / "joined")
            spans[look.span.name] = key
        rows = sum((Counter(out.rows) for out in written), Counter[str]())
        skipped = sum((out.skipped for out in written), skipped)
        check_fraction(data, skipped, sum(rows.values()))
        check_splits(data, rows)
        store.remember(files)
        ordered = {split: rows[split] for split in data.splits}
        told, read = _plan(manifest, written), run.told_read if named else ""
        rounded = list(notes(_roundings(written)))
        gaps = list(_gaps(manifest))
        found = Ingested(ordered, kinds, told, spans if named else {}, skipped, read, gaps, changes, rounded)
        print(found.log, flush=True)
        return found


@dataclass(frozen=True)
class _Opened:
    """A span, and the columns that are read of it."""

    span: Span
    source: Source
    columns: Sequence[str]

    def declared(self, types: Mapping[str, Kind]) -> dict[str, Kind]:
        """Those of its columns whose types are declared."""
        return {name: kind for name, kind in types.items() if name in self.columns}


@dataclass(frozen=True)
class _Look:
    """A span before it is written. `key`: of all that decides what is read; `kinds`: declared, or as found; `kept`:
    the columns, where they had to be read to find that.
    """

    span: Span
    source: Source
    key: str
    survey: ScanResult
    kinds: Mapping[str, Kind]
    kept: Kept | None


@dataclass
class _Run:
    """One call of `ingest`, span by span."""

    data: DataConfig
    checksums: bool
    kept: SpanStore
    make_spread: Callable[[Path], ParallelMap]
    work: Path
    read: list[str] = field(default_factory=list)
    """The names of the spans that had to be read."""
    room: int = MOST
    """Bytes of raw data whose columns may still be kept between looking and writing."""

    @property
    def told_read(self) -> str:
        """Which spans had to be read."""
        return f"read now: {', '.join(self.read) if self.read else 'none, all were kept'}"

    def key(self, span: Span, *more: object) -> str:
        """Of all that decides what is read of a span."""
        return key_of(self.data.model_dump(mode="json", include=READ_BY), *more, self.kept.code, span.fingerprint)

    def written_key(self, look: _Look, kinds: Mapping[str, Kind]) -> str:
        """Of all that decides the shards of a span."""
        own = {name: kinds[name] for name in look.kinds}
        return key_of(look.key, own, self.data.model_dump(mode="json", exclude=READ_BY | CHECKED_BY))

    def open(self, span: Span) -> _Opened:
        """What columns are in a span: from the store, or by a look at its files."""
        reading = ReadOptions(_columns(self.data), self.data.on_bad_record == "skip")
        source = open_source(self.data.source, span.paths, reading)
        key = self.key(span)
        columns = self.kept.columns(key)
        if columns is None:
            columns = source.columns()
            self.kept.keep_columns(key, columns)
        check_key(self.data, columns)
        return _Opened(span, source, columns)

    def look(self, opened: _Opened, types: Mapping[str, Kind]) -> _Look:
        """What is in a span, of whose columns some have declared types: from the store, or by looking at all of it."""
        span, source = opened.span, opened.source
        declared = opened.declared(types)
        key = self.key(span, declared)
        survey, kept = self.kept.survey(key), None
        if survey is None:
            self._check_unchanged(span)
            spread = self._spread(span, "look")
            size = sum(file.size for file in span.files)
            folder = self._folder(span, "columns") if size <= self.room else None
            self.room -= size if folder else 0
            kept = Kept.survey(source, source.parts(spread), declared, spread, folder)
            survey = kept.found
            check_rows(survey)
            self.kept.keep_survey(key, survey)
        kinds = {name: declared.get(name) or survey.kinds[name] for name in {**survey.kinds, **declared}}
        return _Look(span, source, key, survey, kinds, kept)

    def write(self, look: _Look, kinds: Mapping[str, Kind]) -> tuple[str, Written]:
        """The key and the shards of a span: from the store, or written now."""
        own, key = {name: kinds[name] for name in look.kinds}, self.written_key(look, kinds)
        found = self.kept.shards(key)
        if found is not None:
            return key, found
        self.read.append(look.span.name)
        written = self._write(look, own)
        self._check_unchanged(look.span)
        if reads_files(self.data.source):
            check_written(look.survey, written.rows, look.span.paths[0], written.skipped.count)
        return key, self.kept.keep_shards(key, written, (self.key(look.span), look.key))

    def _write(self, look: _Look, kinds: Mapping[str, Kind]) -> Written:
        data, source, spread = self.data, look.source, self._spread(look.span, "write")
        work = self.work / f"span-{look.span.number}"
        work.mkdir()
        parts = look.kept.parts if look.kept else source.parts(spread)
        kept = look.kept if look.kept and look.kept.fits(kinds) else None
        read = partial(_read, source=source, kinds=kinds, kept=kept)
        packing = Packing(data.compression, data.compression_level)
        size = _estimate(read, parts, kinds, look.survey, packing)
        planned = plan(data.splits, size, data.shards, data.readers)
        layout = Layout(data.splits, planned.shards, data.split_key, data.shuffle_seed, planned.piles)
        spent = look.kept.paths if look.kept else ()
        writer = Writer(layout, packing, work, work / "joined", skip_bad=data.on_bad_record == "skip")
        out, sizes = writer.write(parts, read, spread, spent)
        plan_told = f"{planned.reason}; wrote {_sizes(sizes, layout)}"
        return Written(work / "joined", dict(out.rows), plan_told, out.roundings, out.skipped)

    def _spread(self, span: Span, purpose: str) -> ParallelMap:
        return self.make_spread(self._folder(span, purpose))

    def _folder(self, span: Span, purpose: str) -> Path:
        folder = self.work / f"{purpose}-{span.number}"
        folder.mkdir()
        return folder

    def _check_unchanged(self, span: Span) -> None:
        if reads_files(self.data.source):
            check_unchanged(span, checksums=self.checksums)


def _columns(data: DataConfig) -> tuple[str, ...] | None:
    return data.columns if isinstance(data.columns, tuple) else None


def _joined(kinds: Iterator[Mapping[str, Kind]]) -> dict[str, Kind]:
    """The kinds that take the values of all spans."""
    joined: dict[str, Kind] = {}
    for own in kinds:
        joined |= {name: widest([kind, joined.get(name, kind)]) for name, kind in own.items()}
    return joined


def _put(span: Span, folder: Path, output: Path) -> None:
    """The shards of a span among those of the others."""
    for split in sorted(path for path in folder.iterdir() if path.is_dir()):
        for shard in sorted(split.iterdir()):
            name = shard.name.replace("data_tfrecord", f"data_tfrecord-{span.name}") if span.name else shard.name
            link(shard, output / split.name / name)


def _roundings(written: Sequence[Written]) -> dict[str, Rounding]:
    """Those of all spans together."""
    found: dict[str, Rounding] = {}
    for out in written:
        found |= {name: found.get(name, Rounding()) + own for name, own in out.roundings.items()}
    return found


def _gaps(manifest: Manifest) -> Iterator[str]:
    """A line about spans that are not there, and those about files that have several names."""
    names = manifest.missing
    if names:
        more = f" and {manifest.missing_count - len(names):,} more" if manifest.missing_count > len(names) else ""
        yield f"there is no data for {', '.join(names)}{more}"
    yield from manifest.repeated


def _plan(manifest: Manifest, written: Sequence[Written]) -> str:
    """Which spans there are, and how they are laid out."""
    names = [span.name for span in manifest.spans]
    if len(names) > 1:
        files = sum(len(list(out.folder.glob("Split-*/*"))) for out in written)
        return f"{len(names)} spans, {names[0]} to {names[-1]}, in {files} shards"
    (span,), (out,) = manifest.spans, written
    if not span.name:
        return out.plan
    return f"span {span.name}{'' if span.version is None else f', version {span.version}'}: {out.plan}"


def _read(
    number: int, part: object, source: Source, kinds: Mapping[str, Kind], kept: Kept | None
) -> Iterator[pa.RecordBatch]:
    return kept.batches(number, kinds) if kept else source.batches(part, kinds)


def _sizes(sizes: Mapping[Shard, int], layout: Layout) -> str:
    """How large the shards of each split came out."""
    out = []
    for split, count in layout.shards.items():
        own = [size for (name, _), size in sizes.items() if name == split]
        spread_out = f" (within {1 - min(own) / max(own):.0%})" if count > 1 and max(own) else ""
        out.append(f"{split} {count} x {sum(own) / count / 1e6:.3g} MB{spread_out}")
    return ", ".join(out)


def _estimate(
    read: Read, parts: Sequence[object], kinds: Mapping[str, Kind], survey: ScanResult, packing: Packing
) -> Estimate:
    """The bytes that all the rows will take, judged from the first ones."""
    rows = sum(survey.rows.values())
    size = survey.size + rows * sum(len(name) + 10 for name in kinds)
    if size < 2 * SMALLEST:
        return Estimate(size / packing.usual_ratio, size)
    batches = (batch for number, part in enumerate(parts) for batch in read(number, part) if batch.num_rows)
    return Estimate.of(next(batches), rows, packing)


@contextmanager
def _fresh(output: Path) -> Iterator[Path]:
    """A working directory inside `output`. At the end its folder `joined` is all that `output` holds; after an error
    `output` is empty.
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
        if isinstance(error, OSError) and error.errno in _FULL:
            raise _unwritten(error, output) from error
        raise


def _unwritten(error: OSError, output: Path) -> DataError:
    what = f"the examples cannot be written: {os.strerror(error.errno or 0)}"
    return DataError(what, file=str(output), hint="`pipeline.root` is the folder for all that a run writes")
