"""JSON lines as a source: blocks of whole lines, read by pyarrow where that is certain to be right, else one by one."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import ClassVar

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.components.example_gen.parts import NAMED, part_length, room
from headrace.components.example_gen.skips import Skips
from headrace.components.example_gen.sources.base import Head, ParallelMap, ReadOptions, ScanResult
from headrace.components.example_gen.sources.jsonl.exact import (
    BadLineError,
    ConflictError,
    LineParser,
    lines_of,
    parse_line,
)
from headrace.components.example_gen.sources.jsonl.fast import BlockReader, cast_column, kind_of
from headrace.components.example_gen.sources.streams import (
    CHUNK,
    LineRange,
    is_truncated,
    line_at,
    line_ranges,
    open_for,
    open_truncated,
    read_fully,
    text_size,
    truncation_error,
)
from headrace.components.example_gen.storage import resolve, stats
from headrace.components.example_gen.types import ARROW, LIST, Kind, widest
from headrace.configs.schema.sources import JsonlSource

HEAD_FILES, HEAD_LINES, HEAD_BLOCKS = 8, 200, 2
"""How many files, and how many lines and blocks of each, are read for the names of the columns. (A last line without a
line break is a block of its own.)
"""

LARGEST_LINE = 1 << 26
"""Bytes."""

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Part = tuple[LineRange, ...]


@dataclass(frozen=True)
class JsonlFiles:
    """The files of one config, in the order of their paths."""

    source: JsonlSource
    files: tuple[str, ...]
    options: ReadOptions = field(default_factory=ReadOptions)

    fork_safe: ClassVar[bool] = True
    open_ended: ClassVar[bool] = True

    @classmethod
    def open(cls, source: JsonlSource, files: Sequence[str] | None, options: ReadOptions) -> JsonlFiles:
        """Find the files, unless they are given."""
        return cls(source, tuple(sorted(files if files is not None else resolve(source.patterns))), options)

    def columns(self) -> list[str]:
        """The keys of the first lines, in order of occurrence, then the others that the config names."""
        wanted = self.options.columns or ()
        return [*self._head, *(name for name in wanted if name not in self._head)]

    def parts(self, parallel_map: ParallelMap) -> list[Part]:  # noqa: ARG002 - nothing has to be scanned
        """The files, cut and grouped into parts of about the same size."""
        states = stats(self.files)
        return line_ranges(states, part_length(sum(map(text_size, states)), len(self._head), NAMED))

    def head(self) -> Head:
        """The first block of the first file. A key never has both numbers and strings, so the kinds are settled."""
        path = self.files[0]
        first_two = list(islice(blocks(LineRange(path), Skips(reported=0) if self.options.skip_bad else None), 2))
        end = first_two[0].offset + len(first_two[0].text) if first_two else 0
        return Head(self, (LineRange(path, 0, end),), whole=len(first_two) < 2 and len(self.files) == 1, settled=True)

    def scan(self, part: Part, declared: Mapping[str, Kind]) -> ScanResult:
        """Read the whole part. Raises DataError for a key with numbers on some lines and strings on others."""
        return self.scan_rows(part, declared, lambda _: None)

    def scan_rows(
        self, part: Part, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """Like `scan`; `on_batch` receives the columns of each block as they were read."""
        result = ScanResult({lines.path: 0 for lines in part})
        skips, reader, known = Skips(), BlockReader(declared, self.options.columns), dict(self._head)
        for block in self._blocks(part, skips):
            parser = LineParser(declared, self.options.columns, kinds=known)
            batch, kinds = self._scan_block(block, reader, parser, skips)
            if batch.num_rows:
                on_batch(batch)
            known |= {name: widest([kind, known.get(name, kind)]) for name, kind in kinds.items()}
            result += ScanResult({block.path: batch.num_rows}, len(block.text), kinds)
        return replace(result, skipped=skips.skipped)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """One batch per block."""
        skips, names = Skips(reported=0), self.options.columns
        reader = BlockReader(kinds, names, only=names is not None and kinds.keys() >= set(names))
        for block in self._blocks(part, skips):
            batch = reader.read(block.text)
            if batch is not None and kinds.keys() >= set(batch.schema.names):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                missing = pa.nulls(batch.num_rows)
                cast = {name: cast_column(columns.get(name, missing), kind) for name, kind in kinds.items()}
                yield _batch(cast, batch.num_rows)
                continue
            parser = self._parse_lines(block, LineParser(kinds, names, one_kind=False), skips)
            if parser.rows:
                values = parser.columns()
                arrays = {name: pa.array(values[name][1], ARROW[kind]) for name, kind in kinds.items()}
                yield _batch(arrays, len(parser.rows))

    def max_list_lengths(self, names: Sequence[str]) -> dict[str, int]:
        """For each of these columns that holds lists, the length of the longest one on the first lines."""
        wanted = frozenset(names)
        longest = {name: 0 for name, kind in self._head.items() if name in wanted and kind.endswith(LIST)}
        for head in self._heads() if longest else ():
            for line in head:
                with suppress(BadLineError):
                    for name, value in parse_line(line):
                        if name in longest and isinstance(value, list):
                            longest[name] = max(longest[name], len(value))
        return longest

    @cached_property
    def _head(self) -> dict[str, Kind]:
        """The keys of the first lines, as far as these can be read, and what they show of the kinds."""
        parser = LineParser({}, self.options.columns)
        for head in self._heads():
            _note_kinds(head, parser)
        return parser.kinds

    def _heads(self) -> Iterator[list[bytes]]:
        """The first lines of the first files."""
        for path in self.files[:HEAD_FILES]:
            first = islice(blocks(LineRange(path), Skips(reported=0)), HEAD_BLOCKS)
            yield [line for _, line in islice((line for block in first for line in lines_of(block.text)), HEAD_LINES)]

    def _blocks(self, part: Part, skips: Skips) -> Iterator[LineBlock]:
        to_skip = skips if self.options.skip_bad else None
        columns = len(self._head)
        return (block for lines in part for block in blocks(lines, to_skip, columns=columns))

    def _scan_block(
        self, block: LineBlock, reader: BlockReader, parser: LineParser, skips: Skips
    ) -> tuple[pa.RecordBatch, dict[str, Kind]]:
        """The columns of a block, and kinds that hold their values."""
        batch = reader.read(block.text)
        if batch is not None:
            kinds = _kinds_of(batch)
            if not any(_conflict(kind, parser.kinds.get(name, kind)) for name, kind in kinds.items()):
                kinds = {name: parser.declared.get(name, kind) for name, kind in kinds.items()}
                return _scanned_batch(batch, kinds), kinds
        self._parse_lines(block, parser, skips)
        arrays = {name: pa.array(values, ARROW[kind]) for name, (kind, values) in parser.columns().items()}
        return _batch(arrays, len(parser.rows)), {**parser.kinds, **parser.declared}

    def _parse_lines(self, block: LineBlock, parser: LineParser, skips: Skips) -> LineParser:
        """Parse the lines of a block one by one."""
        for start, line in lines_of(block.text):
            try:
                parser.add(line)
            except BadLineError as error:
                make_error = partial(_line_error, block.path, block.offset + start, error)
                if isinstance(error, ConflictError) or not self.options.skip_bad:
                    raise make_error() from None
                skips.add(make_error)
        return parser


def _note_kinds(head: Sequence[bytes], parser: LineParser) -> None:
    """Take note of the kinds in some lines: all at once where that is certain to be right, else line by line."""
    batch = BlockReader({}, parser.names).read(b"\n".join(head))
    kinds = {} if batch is None else _kinds_of(batch)
    if kinds and not any(_conflict(kind, parser.kinds.get(name, kind)) for name, kind in kinds.items()):
        parser.kinds |= {name: widest([kind, parser.kinds.get(name, kind)]) for name, kind in kinds.items()}
        return
    for line in head:
        parser.note_kinds(line)


def _line_error(path: str, offset: int, error: BadLineError) -> DataError:
    line = line_at(path, offset, open_truncated)
    return DataError(error.what, file=path, line=line, column=error.column, hint=error.hint)


def _kinds_of(batch: pa.RecordBatch) -> dict[str, Kind]:
    return {field.name: kind_of(field.type) or "missing" for field in batch.schema}


def _conflict(kind: Kind, before: Kind) -> bool:
    inner = {one.removesuffix(LIST) for one in (kind, before)} - {"missing"}
    return "string" in inner and len(inner) > 1


def _scanned_batch(batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    """The columns in these kinds. Empty lists stay lists: if other blocks have values, these are not missing."""
    return _batch(
        {
            name: column if kinds[name] == "missing" else cast_column(column, kinds[name])
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        },
        batch.num_rows,
    )


def _batch(columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


@dataclass(frozen=True)
class LineBlock:
    """Some whole lines of a file. `offset`: where they start in the unpacked text."""

    path: str
    offset: int
    text: bytes


def blocks(lines: LineRange, skips: Skips | None = None, *, columns: int = 1) -> Iterator[LineBlock]:
    """The lines in blocks of about CHUNK bytes, or more for very many columns, without the file's byte order mark.

    skips: counts the last line of a truncated gzip file; None: it is an error.
    """
    rest, offset, size = b"", max(lines.start - 1, 0), room(CHUNK, columns, NAMED)
    with open_for(lines.path, skips) as stream:
        stream.seek(offset)
        skipping = lines.start > 0
        while text := read_fully(stream, size):
            if offset == 0 and not rest:
                text, offset = _without_mark(lines.path, text)
            text = rest + text
            if skipping:
                line = text.find(b"\n") + 1 or len(text)
                skipping = not text.endswith(b"\n", 0, line)
                text, offset = text[line:], offset + line
            stop = _last_line_end(text, offset, lines.end)
            if stop:
                yield LineBlock(lines.path, offset, text[:stop])
            elif len(text) > LARGEST_LINE:
                raise _too_long(lines.path, offset)
            rest, offset = text[stop:], offset + stop
            if lines.end is not None and not skipping and offset >= lines.end:
                return
        truncated = is_truncated(stream)
    if skips is not None and truncated:
        skips.add(partial(truncation_error, lines.path, offset))
    elif rest:
        yield LineBlock(lines.path, offset, rest)


def _last_line_end(text: bytes, offset: int, end: int | None) -> int:
    """The end of the last whole line of `text` that starts before `end`; 0 if there is none."""
    if end is not None and offset + len(text) >= end:
        if offset >= end:
            return 0
        return text.find(b"\n", end - 1 - offset) + 1 or text.rfind(b"\n", 0, max(end - 1 - offset, 0)) + 1
    return text.rfind(b"\n") + 1


def _without_mark(path: str, text: bytes) -> tuple[bytes, int]:
    if text.startswith(_UTF_16):
        raise DataError("is UTF-16, not UTF-8", file=path, hint=f"Convert it: iconv -f UTF-16 -t UTF-8 {path}")
    mark = len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
    return text[mark:], mark


def _too_long(path: str, offset: int) -> DataError:
    return DataError(
        f"the line that starts here is longer than {LARGEST_LINE >> 20} MiB",
        file=path,
        line=line_at(path, offset),
        hint="Each line must be one JSON object",
    )
