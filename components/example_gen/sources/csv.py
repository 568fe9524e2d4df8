"""Delimited text files, plain or gzip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice

import pyarrow as pa

from headrace.components.example_gen.delimited.align import Range, look, ranges, segments
from headrace.components.example_gen.delimited.blocks import Block, Segment, blocks
from headrace.components.example_gen.delimited.files import is_gzip
from headrace.components.example_gen.delimited.header import Header, nearest, read_header, rows_start, same_header
from headrace.components.example_gen.delimited.locate import located, without_bad
from headrace.components.example_gen.delimited.parse import Format, infer, parse
from headrace.components.example_gen.delimited.quotes import Dialect
from headrace.components.example_gen.parts import grouped, part_length
from headrace.components.example_gen.skips import Skips
from headrace.components.example_gen.sources.base import Head, Reading, Result, Spread, Survey, for_work
from headrace.components.example_gen.storage import at_once, resolve, stat
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError
from headrace.configs.sources import CsvSource

GZIP_RATIO = 4
"""How much longer than its gzip file a text is taken to be."""

Part = tuple[Segment, ...]


@dataclass(frozen=True)
class CsvFiles:
    """The CSV files of one config, in the order of their paths."""

    source: CsvSource
    files: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def open(cls, source: CsvSource, files: Sequence[str] | None, reading: Reading) -> CsvFiles:
        """Find the files, unless they are given."""
        return cls(source, tuple(sorted(files if files is not None else resolve(source.path))), reading)

    def columns(self) -> list[str]:
        """Those that are read of the names in the first file's header, or of those of the config."""
        return list(self._format.chosen)

    def parts(self, spread: Spread) -> list[Part]:
        """The files, cut and grouped into parts of about the same size."""
        sizes = dict(zip(self.files, at_once(_text_size, self.files), strict=True))
        size = sum(sizes.values())
        length = part_length(size, len(self._first.columns))
        pieces = self._cut(length, for_work(spread, size))
        return grouped(pieces, [_size(piece, sizes) for piece in pieces], length)

    def head(self) -> Head:
        """The first block of the first file."""
        path, skips = self.files[0], Skips(told=0) if self.reading.skip_bad else None
        start = Segment(path, self._first.rows_at)
        found = list(islice(blocks(start, self._dialect, skips, columns=len(self._first.columns)), 2))
        end = found[0].offset + len(found[0].text) if found else start.start
        whole = len(found) < 2 and len(self.files) == 1
        return Head(self, (replace(start, end=end),), whole=whole, settled=whole)

    def survey(self, part: Part, declared: Mapping[str, Kind]) -> Survey:
        """One pass of pyarrow's reader over the part."""
        return self.survey_keeping(part, declared, lambda _: None)

    def survey_keeping(
        self, part: Part, declared: Mapping[str, Kind], keep: Callable[[pa.RecordBatch], None]
    ) -> Survey:
        """The same; `keep` gets the columns as they were read."""
        found = Survey({segment.path: 0 for segment in part})
        skips = Skips()
        for block in self._blocks(part, skips):
            read = partial(infer, how=self._format, declared=declared, expected=found.kinds)
            for batch, kinds in self._read(block, read, skips):
                keep(batch)
                found += Survey({block.path: len(batch)}, len(block.text), kinds)
        return replace(found, skipped=skips.skipped)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """One batch a block."""
        read = partial(parse, how=self._format, kinds=kinds)
        skips = Skips(told=0)
        return (batch for block in self._blocks(part, skips) for batch in self._read(block, read, skips))

    @cached_property
    def _dialect(self) -> Dialect:
        return Dialect(self.source.delimiter, self.source.quote)

    @cached_property
    def _format(self) -> Format:
        columns = self._first.columns
        known = frozenset(columns)
        if unknown := [name for name in self.reading.columns or () if name not in known]:
            what = f"`data.columns` names {unknown[0]!r}, which is no column"
            raise DataError(what, file=self.files[0], hint=nearest(unknown[0], columns))
        return Format(columns, self._dialect, self.source.null_values, tuple(self.reading.chosen(columns)))

    @cached_property
    def _first(self) -> Header:
        return self._header(self.files[0])

    def _header(self, path: str) -> Header:
        if self.source.column_names is not None:
            return Header(self.source.column_names, rows_start(path))
        return read_header(path, self._dialect)

    def _cut(self, length: int, spread: Spread) -> list[Segment]:
        """Every file in segments of about `length` bytes; a gzip file can only be read as a whole."""
        files = at_once(partial(self._ranges, length=length), self.files)
        pieces = [piece for own in files if len(own) > 1 for piece in own]
        seen = iter(spread("FindRecords", partial(look, dialect=self._dialect), pieces))
        cut = []
        for own in files:
            one = [Segment(own[0].path, own[0].start)]
            cut += one if len(own) == 1 else segments(own, list(islice(seen, len(own))), self._dialect)
        return cut

    def _ranges(self, path: str, length: int) -> list[Range]:
        header = self._header(path)
        same_header(path, header, self.files[0], self._first)
        size = 0 if is_gzip(path) else stat(path).size - header.rows_at
        return ranges(path, header.rows_at, size, length)

    def _blocks(self, part: Part, skips: Skips) -> Iterator[Block]:
        to_skip = skips if self.reading.skip_bad else None
        columns = len(self._first.columns)
        found = (block for segment in part for block in blocks(segment, self._dialect, to_skip, columns=columns))
        return (block for block in found if block.text.strip(b"\r\n"))

    def _read(self, block: Block, read: Callable[[bytes], Result], skips: Skips) -> Iterator[Result]:
        """What `read` makes of the block; nothing if no record of it can be read."""
        try:
            yield read(block.text)
        except pa.ArrowInvalid as error:
            if not self.reading.skip_bad:
                raise located(block, self._format, read, error) from None
            text = without_bad(block, self._format, read, skips)
            if text.strip(b"\r\n"):
                yield read(text)


def _text_size(path: str) -> int:
    return stat(path).size * (GZIP_RATIO if is_gzip(path) else 1)


def _size(piece: Segment, sizes: Mapping[str, int]) -> int:
    return sizes[piece.path] if piece.end is None else piece.end - piece.start
