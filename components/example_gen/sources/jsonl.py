"""JSON lines, plain or gzip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice

import pyarrow as pa

from headrace.components.example_gen.delimited.blocks import Block
from headrace.components.example_gen.delimited.files import is_gzip, line_at
from headrace.components.example_gen.delimited.lenient import opened_to_the_end
from headrace.components.example_gen.json_lines.blocks import Stretch, blocks
from headrace.components.example_gen.json_lines.exact import BadLineError, ConflictError, Lines, lines_of, parsed
from headrace.components.example_gen.json_lines.fast import Reader, as_kind, kind_of
from headrace.components.example_gen.parts import NAMED, cut, grouped, part_length
from headrace.components.example_gen.skips import Skips
from headrace.components.example_gen.sources.base import Head, Reading, Spread, Survey
from headrace.components.example_gen.storage import resolve, stats
from headrace.components.example_gen.types import ARROW, LIST, Kind, widest
from headrace.configs.errors import DataError
from headrace.configs.sources import JsonlSource

GZIP_RATIO = 4
"""How much longer than its gzip file a text is taken to be."""

HEAD_FILES, HEAD_LINES, HEAD_BLOCKS = 8, 200, 2
"""The files, and the lines and blocks of each, that are looked at for the names of columns. A last line without a line
break is a block of its own.
"""

Part = tuple[Stretch, ...]


@dataclass(frozen=True)
class JsonlFiles:
    """The files of one config, in the order of their paths."""

    source: JsonlSource
    files: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def open(cls, source: JsonlSource, files: Sequence[str] | None, reading: Reading) -> JsonlFiles:
        """Find the files, unless they are given."""
        return cls(source, tuple(sorted(files if files is not None else resolve(source.path))), reading)

    def columns(self) -> list[str]:
        """The keys in the first lines, in the order in which they come, and what else the config asks for."""
        asked = self.reading.columns or ()
        return [*self._head, *(name for name in asked if name not in self._head)]

    def parts(self, spread: Spread) -> list[Part]:  # noqa: ARG002 - nothing has to be looked through
        """The files, plain ones cut, in parts of about the same size."""
        sizes = [state.size * (GZIP_RATIO if is_gzip(state.path) else 1) for state in stats(self.files)]
        length = part_length(sum(sizes), len(self._head), NAMED)
        pieces, own = [], []
        for path, size in zip(self.files, sizes, strict=True):
            ranges = [(0, None)] if is_gzip(path) else cut(size, length)
            pieces += [Stretch(path, start, end) for start, end in ranges]
            own += [size // len(ranges)] * len(ranges)
        return grouped(pieces, own, length)

    def head(self) -> Head:
        """The first block of the first file. Numbers and texts do not mix under a key, so its kinds are settled."""
        path = self.files[0]
        found = list(islice(blocks(Stretch(path), Skips(told=0) if self.reading.skip_bad else None), 2))
        end = found[0].offset + len(found[0].text) if found else 0
        return Head(self, (Stretch(path, 0, end),), whole=len(found) < 2 and len(self.files) == 1, settled=True)

    def survey(self, part: Part, declared: Mapping[str, Kind]) -> Survey:
        """One pass over the part. Raises DataError where a key has numbers in some lines and strings in others."""
        return self.survey_keeping(part, declared, lambda _: None)

    def survey_keeping(
        self, part: Part, declared: Mapping[str, Kind], keep: Callable[[pa.RecordBatch], None]
    ) -> Survey:
        """The same; `keep` gets the columns as they were read, of each block those that it has."""
        found = Survey({stretch.path: 0 for stretch in part})
        skips, reader, seen = Skips(), Reader(declared, self.reading.columns), dict(self._head)
        for block in self._blocks(part, skips):
            batch, kinds = self._surveyed(block, reader, Lines(declared, self.reading.columns, kinds=seen), skips)
            if batch.num_rows:
                keep(batch)
            seen |= {name: widest([kind, seen.get(name, kind)]) for name, kind in kinds.items()}
            found += Survey({block.path: batch.num_rows}, len(block.text), kinds)
        return replace(found, skipped=skips.skipped)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """One batch a block."""
        skips, names = Skips(told=0), self.reading.columns
        reader = Reader(kinds, names, only=names is not None and kinds.keys() >= set(names))
        for block in self._blocks(part, skips):
            found = reader.read(block.text)
            if found is not None and kinds.keys() >= set(found.schema.names):
                columns = {name: found.column(name) for name in found.schema.names}
                missing = pa.nulls(found.num_rows)
                whole = {name: as_kind(columns.get(name, missing), kind) for name, kind in kinds.items()}
                yield _batch(whole, found.num_rows)
                continue
            lines = self._exact(block, Lines(kinds, names, one_kind=False), skips)
            if lines.rows:
                values = lines.columns()
                whole = {name: pa.array(values[name][1], ARROW[kind]) for name, kind in kinds.items()}
                yield _batch(whole, len(lines.rows))

    def most_values(self, names: Sequence[str]) -> dict[str, int]:
        """The most values that one of the first lines has in each of these columns, of those of lists."""
        known = frozenset(names)
        most = {name: 0 for name, kind in self._head.items() if name in known and kind.endswith(LIST)}
        for head in self._heads() if most else ():
            for line in head:
                with suppress(BadLineError):
                    found = {name: value for name, value in parsed(line) if name in most and isinstance(value, list)}
                    most |= {name: max(most[name], len(value)) for name, value in found.items()}
        return most

    @cached_property
    def _head(self) -> dict[str, Kind]:
        """The keys of the first lines that can be read, and what is known of their kinds."""
        lines = Lines({}, self.reading.columns)
        for head in self._heads():
            _look(head, lines)
        return lines.kinds

    def _heads(self) -> Iterator[list[bytes]]:
        """The first lines of the first files."""
        for path in self.files[:HEAD_FILES]:
            first = islice(blocks(Stretch(path), Skips(told=0)), HEAD_BLOCKS)
            yield [line for _, line in islice((line for block in first for line in lines_of(block.text)), HEAD_LINES)]

    def _blocks(self, part: Part, skips: Skips) -> Iterator[Block]:
        to_skip = skips if self.reading.skip_bad else None
        columns = len(self._head)
        return (block for stretch in part for block in blocks(stretch, to_skip, columns=columns))

    def _surveyed(
        self, block: Block, reader: Reader, lines: Lines, skips: Skips
    ) -> tuple[pa.RecordBatch, dict[str, Kind]]:
        """The columns of a block, and kinds that take its values."""
        found = reader.read(block.text)
        if found is not None:
            kinds = _kinds_of(found)
            if not any(_conflict(kind, lines.kinds.get(name, kind)) for name, kind in kinds.items()):
                kinds = {name: lines.declared.get(name, kind) for name, kind in kinds.items()}
                return _surveyed_batch(found, kinds), kinds
        self._exact(block, lines, skips)
        found = {name: pa.array(values, ARROW[kind]) for name, (kind, values) in lines.columns().items()}
        return _batch(found, len(lines.rows)), {**lines.kinds, **lines.declared}

    def _exact(self, block: Block, lines: Lines, skips: Skips) -> Lines:
        """The lines of a block, read one by one."""
        for start, line in lines_of(block.text):
            try:
                lines.add(line)
            except BadLineError as error:
                told = partial(_told, block.path, block.offset + start, error)
                if isinstance(error, ConflictError) or not self.reading.skip_bad:
                    raise told() from None
                skips.add(told)
        return lines


def _look(head: Sequence[bytes], lines: Lines) -> None:
    """Take note of the kinds in some lines: of all at once where that is certain to be right, else line by line."""
    found = Reader({}, lines.names).read(b"\n".join(head))
    kinds = {} if found is None else _kinds_of(found)
    if kinds and not any(_conflict(kind, lines.kinds.get(name, kind)) for name, kind in kinds.items()):
        lines.kinds |= {name: widest([kind, lines.kinds.get(name, kind)]) for name, kind in kinds.items()}
        return
    for line in head:
        lines.look(line)


def _told(path: str, offset: int, error: BadLineError) -> DataError:
    line = line_at(path, offset, opened_to_the_end)
    return DataError(error.what, file=path, line=line, column=error.column, hint=error.hint)


def _kinds_of(batch: pa.RecordBatch) -> dict[str, Kind]:
    return {field.name: kind_of(field.type) or "missing" for field in batch.schema}


def _conflict(kind: Kind, before: Kind) -> bool:
    inner = {one.removesuffix(LIST) for one in (kind, before)} - {"missing"}
    return "string" in inner and len(inner) > 1


def _surveyed_batch(batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    """The columns in these kinds. Lists without a value stay lists: where others have values, they are not missing."""
    return _batch(
        {
            name: column if kinds[name] == "missing" else as_kind(column, kinds[name])
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        },
        batch.num_rows,
    )


def _batch(columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
