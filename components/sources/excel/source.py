"""Workbooks as a source: one sheet of each file, which is held in memory while its rows are converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.components.examples.skips import Skips
from headrace.components.sources.base import (
    HEAD_FILES,
    HEAD_ROWS,
    Head,
    ParallelMap,
    RowScanner,
    ScanResult,
    first_pieces,
)
from headrace.components.sources.conversion import convert_columns, row_errors, slice_batch
from headrace.components.sources.excel.sheet import Sheet, read_sheet
from headrace.components.sources.files import SourceFiles
from headrace.components.sources.stored_types import stored_kind
from headrace.components.sources.types import Kind
from headrace.configs.schema.sources import ExcelSource


@dataclass(frozen=True)
class SheetRows:
    """Rows of one file. sheet: these, if they are in memory already."""

    path: str
    sheet: Sheet | None = None


Part = tuple[SheetRows, ...]


@dataclass(frozen=True)
class ExcelFiles(SourceFiles[ExcelSource], RowScanner):
    """The files of one config, in the order of their paths."""

    fork_safe: ClassVar[bool] = True

    @classmethod
    def ordered(cls, files: Sequence[str]) -> Sequence[str]:
        """By their paths, without the files by which an open Excel locks others."""
        return sorted(path for path in files if not path.rpartition("/")[2].startswith("~$"))

    def columns(self) -> list[str]:
        """The columns of the first file."""
        return self.options.select(self._first.names)

    def parts(self, parallel_map: ParallelMap) -> list[Part]:
        """The files, each of which is read as a whole."""
        return [(SheetRows(path),) for path in self.files]

    def head(self) -> Head:
        """The first rows of the first files. A text below them turns a column of numbers into one of texts."""
        files = self.files[:HEAD_FILES]
        sheets = ((path, self._first if path == files[0] else self._sheet(path, HEAD_ROWS + 1)) for path in files)
        read, _ = first_pieces(((path, sheet), len(sheet.numbers), sheet.size) for path, sheet in sheets)
        part = tuple(SheetRows(path, sheet.first(HEAD_ROWS)) for path, sheet in read)
        whole = len(part) == len(self.files) and all(len(sheet.numbers) <= HEAD_ROWS for _, sheet in read)
        return Head(self, part, whole=whole, settled=whole)

    def scan_rows(
        self, part: Part, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """`on_batch` receives the columns."""
        result = ScanResult()
        for piece in part:
            sheet, skips = self._read(piece), Skips()
            kinds = {name: declared.get(name) or stored_kind(sheet.columns[name].type) for name in self.columns()}
            batch = self._converted(piece.path, sheet, kinds, skips)
            for rows in slice_batch(batch):
                on_batch(rows)
            result += ScanResult({piece.path: batch.num_rows}, batch.nbytes, kinds, skips.skipped)
        return result

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The rows in their order, in batches of bounded size."""
        for piece in part:
            yield from slice_batch(self._converted(piece.path, self._read(piece), kinds, Skips(reported=0)))

    @cached_property
    def _first(self) -> Sheet:
        return self._sheet(self.files[0], HEAD_ROWS + 1)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("source", "files", "options")}

    def _sheet(self, path: str, rows: int | None = None) -> Sheet:
        return read_sheet(path, self.source.sheet, self.source.header_row, rows, self.source.null_values)

    def _read(self, part: SheetRows) -> Sheet:
        """The sheet of a file. Raises DataError if its columns differ from those of the first one."""
        sheet = part.sheet or self._sheet(part.path)
        for name in self.columns():
            if name not in sheet.columns:
                hint = f"All files need the columns of {self.files[0]}; list those that they share in `data.columns`"
                raise DataError(f"sheet {sheet.name!r} has no column {name!r}", file=part.path, hint=hint)
        extra = [name for name in self.options.select(sheet.names) if name not in self._first.names]
        if extra:
            hint = "All files need the same columns; list the ones that they share in `data.columns`"
            raise DataError(f"has no column {extra[0]!r}, which {part.path} has", file=self.files[0], hint=hint)
        return sheet

    def _converted(self, path: str, sheet: Sheet, kinds: Mapping[str, Kind], skips: Skips) -> pa.RecordBatch:
        """The rows in these kinds, without those that do not fit, if they are to be skipped. Raises DataError."""
        batch, bad = convert_columns({name: sheet.columns[name] for name in kinds}, kinds, path)
        for make_error in row_errors(bad, path, lambda row: f"row {sheet.numbers[row]} of sheet {sheet.name!r}"):
            if not self.options.skip_bad:
                raise make_error()
            skips.add(make_error)
        return batch
