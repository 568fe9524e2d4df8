"""CSV files as a source: cut into segments of whole records, which are read in parallel.

Where a record ends depends on all the quotes before it. So each range of a file is scanned twice in one fast pass, once
for each state (outside or inside quotes) that it may start in; joining the ranges in order then shows which state was
the true one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import ClassVar

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.storage.files import at_once, stat, stats
from headrace.components.examples.parts import grouped, part_length
from headrace.components.examples.skips import Skips
from headrace.components.sources.base import (
    HEAD_FILES,
    Head,
    ParallelMap,
    Result,
    RowScanner,
    ScanResult,
    choose_map,
    suggest_columns,
)
from headrace.components.sources.csv.bad_records import first_error, without_bad_records
from headrace.components.sources.csv.blocks import Block, Segment, blocks, chunks, unclosed_quote
from headrace.components.sources.csv.header import CsvHeader, read_header, rows_start, same_header
from headrace.components.sources.csv.parse import CsvFormat, infer, parse
from headrace.components.sources.csv.quotes import Dialect, ends_in_quotes, record_ends, without_comments
from headrace.components.sources.files import SourceFiles
from headrace.components.sources.streams import first_ranges, is_gzip, line_start, text_size
from headrace.components.sources.types import Kind
from headrace.configs.schema.sources import CsvSource

logger = logging.getLogger(__name__)

Part = tuple[Segment, ...]


@dataclass(frozen=True)
class CsvFiles(SourceFiles[CsvSource], RowScanner):
    """The CSV files of one config, in the order of their paths."""

    fork_safe: ClassVar[bool] = True

    def columns(self) -> list[str]:
        """The columns to read, named by the config or by the header of the first file."""
        return list(self._format.selected)

    def parts(self, parallel_map: ParallelMap) -> list[Part]:
        """The files, cut and grouped into parts of about the same size."""
        for column, name in self._first.renamed:
            why = f"another column is called {name!r}; this one" if name.strip() else "a column without a name"
            logger.info("%s: %s is read as %r", self.files[0], why, column)
        sizes = {state.path: text_size(state) for state in stats(self.files)}
        size = sum(sizes.values())
        length = part_length(size, len(self._first.columns))
        segments = self._segments(length, choose_map(parallel_map, size))
        return grouped(segments, [_size(segment, sizes) for segment in segments], length)

    def head(self) -> Head:
        """The first blocks of the first files."""
        read = self._blocks(map(self._rows_of, self.files[:HEAD_FILES]), Skips(reported=0))
        found, everything = first_ranges(read, lambda block: len(record_ends(block.text, self._dialect)))
        none = Segment(self.files[0], self._first.rows_at, self._first.rows_at)
        part = tuple(Segment(one.path, one.start, one.end) for one in found) or (none,)
        whole = everything and len(self.files) <= HEAD_FILES
        return Head(self, part, whole=whole, settled=whole)

    def scan_rows(
        self, part: Part, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """`on_batch` receives the columns as they were parsed."""
        result = ScanResult({segment.path: 0 for segment in part})
        skips = Skips()
        for block in self._blocks(part, skips):
            read = partial(infer, csv_format=self._format, declared=declared, expected=result.kinds)
            for batch, kinds in self._read(block, read, skips):
                on_batch(batch)
                result += ScanResult({block.path: len(batch)}, len(block.text), kinds)
        return replace(result, skipped=skips.skipped)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """One batch per block."""
        read = partial(parse, csv_format=self._format, kinds=kinds)
        skips = Skips(reported=0)
        return (batch for block in self._blocks(part, skips) for batch in self._read(block, read, skips))

    @cached_property
    def _dialect(self) -> Dialect:
        return Dialect(self.source.delimiter, self.source.quote, self.source.comment, self.source.section)

    @cached_property
    def _format(self) -> CsvFormat:
        columns = self._first.columns
        known = frozenset(columns)
        if unknown := [name for name in self.options.columns or () if name not in known]:
            what = f"`data.columns` names {unknown[0]!r}, which is not a column"
            raise DataError(what, file=self.files[0], hint=suggest_columns(unknown[0], columns))
        given = self.source
        return CsvFormat(
            columns,
            self._dialect,
            given.null_values,
            selected=tuple(self.options.select(columns)),
            encoding=given.encoding,
            decimal=given.decimal,
            thousands=given.thousands,
        )

    @cached_property
    def _first(self) -> CsvHeader:
        return self._header(self.files[0])

    def _header(self, path: str) -> CsvHeader:
        if self.source.column_names is not None:
            return CsvHeader(self.source.column_names, rows_start(path))
        rename = self.source.duplicate_names == "rename"
        return read_header(path, self._dialect, self.source.encoding, rename=rename)

    def _segments(self, length: int, parallel_map: ParallelMap) -> list[Segment]:
        """All files in segments of about `length` bytes. A gzip file can only be read as a whole."""
        files = at_once(partial(self._ranges, length=length), self.files)
        to_scan = [piece for ranges in files if len(ranges) > 1 for piece in ranges]
        scans = iter(parallel_map("FindRecords", partial(scan_range, dialect=self._dialect), to_scan))
        segments = []
        for ranges in files:
            if len(ranges) == 1:
                segments.append(Segment(ranges[0].path, ranges[0].start))
            else:
                segments += join_ranges(ranges, list(islice(scans, len(ranges))), self._dialect)
        return segments

    def _rows_of(self, path: str) -> Segment:
        """All rows of a file. Raises DataError if its header differs from that of the first one."""
        header = self._header(path)
        same_header(path, header, self.files[0], self._first)
        return Segment(path, header.rows_at)

    def _ranges(self, path: str, length: int) -> list[FileRange]:
        start = self._rows_of(path).start
        size = 0 if is_gzip(path) else stat(path).size - start
        ranges = cut_ranges(path, start, size, length)
        return ranges if self.source.comment is None else at_lines(ranges)

    def _blocks(self, part: Iterable[Segment], skips: Skips) -> Iterator[Block]:
        to_skip = skips if self.options.skip_bad else None
        columns = len(self._first.columns)
        found = (block for segment in part for block in blocks(segment, self._dialect, to_skip, columns=columns))
        texts = (replace(block, text=without_comments(block.text, self._dialect)) for block in found)
        return (block for block in texts if block.text.strip(b"\r\n"))

    def _read(self, block: Block, read: Callable[[bytes], Result], skips: Skips) -> Iterator[Result]:
        """What `read` returns for the block; nothing if none of its records can be read."""

        def read_encoded(text: bytes) -> Result:
            return read(self._format.to_utf_8(text))

        try:
            yield read_encoded(block.text)
        except pa.ArrowInvalid as error:
            if not self.options.skip_bad:
                raise first_error(block, self._format, read_encoded, error) from None
            text = without_bad_records(block, self._format, read_encoded, skips)
            if text.strip(b"\r\n"):
                yield read_encoded(text)


@dataclass(frozen=True)
class FileRange:
    """The bytes of a file from `start` to `end`, cut without regard to records. `first`: its rows start at `start`."""

    path: str
    start: int
    end: int
    first: bool = False


@dataclass(frozen=True)
class RangeScan:
    """The scan of a range for one state at its start: the offset of the first record that starts in it, and the state
    at its end.
    """

    first_record: int | None
    inside_at_end: bool


def cut_ranges(path: str, start: int, size: int, length: int) -> list[FileRange]:
    """The `size` bytes from `start` on in ranges of about `length` bytes; at least one range, which may be empty."""
    count = max(1, round(size / length))
    cuts = [start + size * number // count for number in range(count + 1)]
    return [FileRange(path, *cut, first=not number) for number, cut in enumerate(pairwise(cuts))]


def at_lines(ranges: Sequence[FileRange]) -> list[FileRange]:
    """The ranges of a file, moved to the starts of lines, so that none starts within a comment."""
    path, first, last = ranges[0].path, ranges[0].start, ranges[-1].end
    cuts = sorted({first, *(min(line_start(path, piece.start), last) for piece in ranges[1:]), last})
    return [FileRange(path, *cut, first=not number) for number, cut in enumerate(pairwise(cuts))] or [*ranges]


def scan_range(piece: FileRange, dialect: Dialect) -> tuple[RangeScan, RangeScan]:
    """Scan a range for both states: as if it started outside quotes, and as if it started inside."""
    firsts: list[int | None] = [None, None]
    states = [False, True]
    for offset, before, text in chunks(piece.path, piece.start, piece.end, dialect, first=piece.first):
        for which in (0, 1):
            if firsts[which] is None:
                ends = record_ends(text, dialect, inside=states[which], before=before)
                firsts[which] = offset + int(ends[0]) if len(ends) else None
        after = {state: ends_in_quotes(text, dialect, inside=state, before=before) for state in set(states)}
        states = [after[state] for state in states]
    return RangeScan(firsts[0], states[0]), RangeScan(firsts[1], states[1])


def join_ranges(
    ranges: Sequence[FileRange], scans: Sequence[tuple[RangeScan, RangeScan]], dialect: Dialect
) -> list[Segment]:
    """The ranges of one file as segments of whole records. Raises DataError if a quote is never closed."""
    path, starts, inside = ranges[0].path, [ranges[0].start], False
    for number, both in enumerate(scans):
        actual = both[inside]
        if number and actual.first_record is not None:
            starts.append(actual.first_record)
        inside = actual.inside_at_end
    if inside:
        raise unclosed_quote(path, ranges[0].start, dialect)
    ends = [*starts[1:], ranges[-1].end]
    return [Segment(path, start, end) for start, end in zip(starts, ends, strict=True) if start < end]


def _size(segment: Segment, sizes: Mapping[str, int]) -> int:
    return sizes[segment.path] if segment.end is None else segment.end - segment.start
