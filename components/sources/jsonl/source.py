"""JSON lines as a source: blocks of whole lines, read by pyarrow where that is certain to be right, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

from headrace.common.errors import BadRecordError, ContradictionError, DataError, UnreadableColumnError
from headrace.common.storage.files import stats
from headrace.components.examples.parts import NAMED, part_length
from headrace.components.examples.skips import Skips
from headrace.components.sources.base import HEAD_FILES, Head, ParallelMap, RowScanner, ScanResult
from headrace.components.sources.files import SourceFiles
from headrace.components.sources.jsonl.blocks import LineBlock, blocks, lines_of
from headrace.components.sources.jsonl.exact import (
    BadLineError,
    ConflictError,
    LineParser,
    NestedListError,
    ObjectError,
)
from headrace.components.sources.jsonl.fast import (
    NOTHING_KNOWN,
    BlockReader,
    batch_of,
    cast_column,
    kind_of,
)
from headrace.components.sources.nested import KnownPaths, check_objects, parents_of
from headrace.components.sources.streams import (
    LineRange,
    first_ranges,
    is_gzip,
    line_at,
    line_ranges,
    open_for,
    open_truncated,
    text_size,
)
from headrace.components.sources.types import ARROW, LIST, Kind, widest
from headrace.configs.schema.sources import FileSource

HEAD_LINES, HEAD_BLOCKS = 200, 2
"""How many lines and blocks of each of the first files are read for the names of the columns. (A last line without a
line break is a block of its own.)
"""

OTHER_FILES, OTHER_BYTES = 8, 1 << 16
"""How many other files, and how many bytes of each, show before a run whether they contradict the first one."""

Part = tuple[LineRange, ...]


@dataclass(frozen=True)
class JsonlFiles(SourceFiles[FileSource], RowScanner):
    """The files of one config, in the order of their paths."""

    fork_safe: ClassVar[bool] = True
    open_ended: ClassVar[bool] = True
    splittable: ClassVar[bool] = True
    """Whether reading can start in the middle of a file."""

    @staticmethod
    def open_text(path: str, skips: Skips | None) -> AbstractContextManager[BinaryIO]:
        """The text of a file, as lines; with `skips`, what a truncated gzip file still has."""
        return open_for(path, skips)

    def columns(self) -> list[str]:
        """The keys of the first lines, in order of occurrence, then the others that the config names."""
        wanted = self.options.columns or ()
        return [*self._head, *(name for name in wanted if name not in self._head)]

    def parts(self, parallel_map: ParallelMap) -> list[Part]:
        """The files, cut and grouped into parts of about the same size."""
        states = stats(self.files)
        length = part_length(sum(map(text_size, states)), len(self._head), NAMED)
        return line_ranges(states, length, splittable=self.splittable)

    def head(self) -> Head:
        """The first blocks of the first files. A key never has both numbers and strings, so the kinds are settled."""
        read = self._blocks(map(LineRange, self.files[:HEAD_FILES]), Skips(reported=0))
        found, everything = first_ranges(read, lambda block: block.text.count(b"\n"))
        part = tuple(LineRange(one.path, 0, one.end) for one in found) or (LineRange(self.files[0], 0, 0),)
        whole = everything and len(self.files) <= HEAD_FILES
        return Head(self, part, whole=whole, settled=True, scanned=None if whole else (*part, *self._elsewhere(part)))

    def _elsewhere(self, part: Part) -> Part:
        """The first lines of some other files, from all over their order, and the last lines if they can be read alone.

        part: what is read of the first files.
        """
        others, end = self.files[self.files.index(part[-1].path) + 1 :], part[-1].end or 0
        chosen = others[:: -(-len(others) // OTHER_FILES) or 1]
        found = [LineRange(path, 0, OTHER_BYTES) for path in dict.fromkeys([*chosen, *others[-1:]])]
        last = self.files[-1]
        size = 0 if not self.splittable or is_gzip(last) else stats([last])[0].size
        start = max(size - OTHER_BYTES, OTHER_BYTES if others else end)
        return (*found, LineRange(last, start)) if start < size else tuple(found)

    def scan_rows(
        self, part: Part, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """`on_batch` receives the columns of each block as they were read.

        Raises DataError for a key with numbers on some lines and strings on others.
        """
        result = ScanResult({lines.path: 0 for lines in part})
        names, paths = self.options.columns, self._paths
        skips, reader, known = Skips(), BlockReader(declared, names, paths), dict(self._head)
        objects = set(paths.objects)
        for block in self._blocks(part, skips):
            parser = LineParser(declared, names, paths, kinds=known, objects=objects)
            batch, kinds = self._scan_block(block, reader, parser, skips)
            if batch.num_rows:
                on_batch(batch)
            known |= {name: widest([kind, known.get(name, kind)]) for name, kind in kinds.items()}
            result += ScanResult({block.path: batch.num_rows}, len(block.text), kinds)
        found = dict.fromkeys(sorted(objects | reader.objects), part[0].path)
        check_objects({**self._head, **result.kinds}, found)
        return replace(result, skipped=skips.skipped, objects=found)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """One batch per block."""
        skips, names, paths = Skips(reported=0), self.options.columns, self._paths
        reader = BlockReader(kinds, names, paths, only=names is not None and kinds.keys() >= set(names))
        for block in self._blocks(part, skips):
            batch = reader.read(block.text)
            if batch is not None and kinds.keys() >= set(batch.schema.names):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                missing = pa.nulls(batch.num_rows)
                cast = {name: cast_column(columns.get(name, missing), kind) for name, kind in kinds.items()}
                yield _batch(cast, batch.num_rows)
                continue
            parser = self._parse_lines(block, LineParser(kinds, names, paths, one_kind=False), skips)
            if parser.rows:
                values = parser.columns()
                arrays = {name: pa.array(values[name][1], ARROW[kind]) for name, kind in kinds.items()}
                yield _batch(arrays, len(parser.rows))

    @property
    def _head(self) -> dict[str, Kind]:
        """The keys of the first lines, as far as these can be read, and what they show of the kinds."""
        return self._first[0]

    @property
    def _paths(self) -> KnownPaths:
        """The paths of objects and of values on the first lines."""
        return self._first[1]

    @cached_property
    def _first(self) -> tuple[dict[str, Kind], KnownPaths]:
        """What the first lines show of the columns. Where some have an object and others a value, the value counts."""
        heads = [*self._heads()]
        parser = self._noted(heads, NOTHING_KNOWN)
        values, objects = _with_values(parser.kinds), frozenset(parser.objects)
        kinds = {name: kind for name, kind in parser.kinds.items() if kind != "missing" or name not in objects}
        if mistaken := objects & values:
            others = self._noted(heads, KnownPaths(objects, values)).kinds
            kinds = {name: kind for name, kind in kinds.items() if name in others or not parents_of([name]) & mistaken}
        return kinds, KnownPaths(objects - values, _with_values(kinds))

    def _noted(self, heads: Sequence[Sequence[bytes]], known: KnownPaths) -> LineParser:
        """The kinds and objects on the first lines."""
        parser = LineParser({}, self.options.columns, known)
        for head in heads:
            _note_kinds(head, parser)
        return parser

    def _heads(self) -> Iterator[list[bytes]]:
        """The first lines of the first files."""
        for path in self.files[:HEAD_FILES]:
            yield [line for _, line in self._first_lines(path)]

    def _first_lines(self, path: str) -> Iterator[tuple[int, bytes]]:
        """The first lines of a file, with their places in its text."""
        first = islice(blocks(LineRange(path), Skips(reported=0), open_text=self.open_text), HEAD_BLOCKS)
        return islice(((block.offset + at, line) for block in first for at, line in lines_of(block.text)), HEAD_LINES)

    def _blocks(self, part: Iterable[LineRange], skips: Skips) -> Iterator[LineBlock]:
        to_skip = skips if self.options.skip_bad else None
        columns = len(self._head)
        return (block for lines in part for block in blocks(lines, to_skip, columns=columns, open_text=self.open_text))

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
        for start, line in lines_of(block.text):
            try:
                parser.add(line)
            except BadLineError as error:
                indent = len(line) - len(line.lstrip(b" \t\r"))
                make_error = partial(self._line_error, block.path, block.offset + start + indent, error)
                if not self.options.skip_bad or isinstance(error, ConflictError) or _is_of_column(error, parser):
                    raise make_error() from None
                skips.add(make_error)
        return parser

    def _line_error(self, path: str, offset: int, error: BadLineError) -> DataError:
        line = line_at(path, offset, open_truncated)
        what = error.what
        if isinstance(error, ObjectError) and error.column is not None:
            what += self._such_as_value(error.column)
        place: dict[str, Any] = {"file": path, "line": line, "column": error.column, "hint": self.hint(error)}
        if isinstance(error, ConflictError | ObjectError):
            return ContradictionError(what, readable_as=getattr(error, "readable_as", None), **place)
        if isinstance(error, NestedListError):
            return UnreadableColumnError(what, **place)
        return BadRecordError(what, data_hint=error.data_hint, **place)

    def _such_as_value(self, column: str) -> str:
        """Where the first value of a column is, among the first lines: it may be the mistake, not the objects."""
        for path in self.files[:HEAD_FILES]:
            for offset, line in self._first_lines(path):
                parser = LineParser({}, (column,))
                parser.note_kinds(line)
                if parser.kinds.get(column, "missing") != "missing":
                    return f", such as {path}:{line_at(path, offset, open_truncated)}"
        return ""

    def hint(self, error: BadLineError) -> str:
        """What to do about a record that cannot be read."""
        return error.hint


def _is_of_column(error: BadLineError, parser: LineParser) -> bool:
    """Whether it is a list of lists where nothing else is known of the column, whose mistake it is, not the line's."""
    column = error.column or ""
    unknown = column not in parser.declared and parser.kinds.get(column, "missing") == "missing"
    return isinstance(error, NestedListError) and unknown


def _note_kinds(head: Sequence[bytes], parser: LineParser) -> None:
    """Take note of the kinds in some lines: all at once where that is certain to be right, else line by line."""
    reader = BlockReader({}, parser.names, parser.known)
    batch = reader.read(b"\n".join(head))
    kinds = {} if batch is None else _kinds_of(batch)
    if kinds and not any(_conflict(kind, parser.kinds.get(name, kind)) for name, kind in kinds.items()):
        parser.kinds |= {name: widest([kind, parser.kinds.get(name, kind)]) for name, kind in kinds.items()}
        parser.objects |= reader.objects
        return
    for line in head:
        parser.note_kinds(line)


def _with_values(kinds: Mapping[str, Kind]) -> frozenset[str]:
    return frozenset(name for name, kind in kinds.items() if kind != "missing")


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
    return batch_of(list(columns), list(columns.values()), rows)
