"""From new data to a file or table with its predictions: read a part, predict its rows, write them, part after part.

predict_file(request, Path("scored.parquet"), serial_map, work)

Memory holds a few batches. With a Beam runner, each part is a task whose rows go to a file of its own; the files are
then joined in the order of the parts, so the output does not depend on the runner.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from headrace.common.durable import replacing
from headrace.common.errors import DataError, RunError
from headrace.common.record_batches import concatenated, in_one_batch
from headrace.components.example_gen.checks import check_fraction
from headrace.components.examples.skips import Skipped, skipped_in_section
from headrace.components.examples.tfexample.rounding import RangeCheck
from headrace.components.predict.model import PredictionColumns, Predictor, RefusedRecordError
from headrace.components.predict.reading import Input, OpenedInput, open_input
from headrace.components.predict.writers import CSV, PARQUET, check_output, format_of, open_writer
from headrace.components.sources import ParallelMap
from headrace.configs.schema.predict import Probabilities
from headrace.trainer.description import ModelDescription

Item = TypeVar("Item")

_NUMBER = "\0"
"""The column with the number of a row. No name in data has this character."""
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EISDIR}
"""Errors of a folder or a disk that does not accept the output."""


@dataclass(frozen=True)
class Request:
    """What to predict, and by which model.

    keys: the columns to write before the predictions, None for all; prefix: precedes the names of the predictions'
    columns; probabilities: which of them are written, as in `PredictConfig`.
    """

    given: Input
    predictor: Predictor
    keys: Sequence[str] | None = None
    prefix: str = ""
    probabilities: Probabilities = "auto"


@dataclass(frozen=True)
class Predicted:
    """What was written. skipped: the records that could not be read; unreadable: as in `OpenedInput`."""

    rows: int
    skipped: Skipped
    unreadable: Mapping[str, str]


@dataclass
class RowCount:
    """The rows so far, and those that were skipped."""

    rows: int = 0
    skipped: Skipped = field(default_factory=Skipped)


@dataclass(frozen=True)
class Rows:
    """The opened input with everything that turns its rows into those of the output."""

    opened: OpenedInput
    predictor: Predictor
    columns: PredictionColumns
    skip_bad: bool

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the output."""
        keys = [pa.field(name, self.opened.types[name]) for name in self.opened.keys]
        return pa.schema([*keys, *self.columns.schema])

    def of(self, number: int, counted: RowCount) -> Iterator[pa.RecordBatch]:
        """The rows of a part, by its number, with their predictions. `counted` receives how many there are."""
        part, before = self.opened.parts[number], 0
        check, skipped = RangeCheck(skip_bad=self.skip_bad, file=part.file), counted.skipped
        for batch in _ahead(merged(self.opened.rows(part), self.predictor.rows_per_call)):
            rows, features, places = self._checked(batch, check)
            counted.skipped = skipped + check.skipped
            if rows.num_rows:
                try:
                    found = self.columns.of(self.predictor(features))
                except RefusedRecordError as error:
                    record, file = self.opened.place(number, before + places[error.row])
                    raise error.at(record, file) from None
                counted.rows += rows.num_rows
                kept = [rows.column(name).cast(self.schema.field(name).type) for name in self.opened.keys]
                yield pa.RecordBatch.from_arrays([*kept, *found.columns], schema=self.schema)
            before += batch.num_rows

    def _checked(
        self, batch: pa.RecordBatch, check: RangeCheck
    ) -> tuple[pa.RecordBatch, pa.RecordBatch, Sequence[int]]:
        """The rows without those to skip, the features of them, and their places in the batch."""
        features, places = self.opened.features_of(batch), range(batch.num_rows)
        if not self.skip_bad:
            return batch, check.checked(features), places
        found = check.checked(features.append_column(_NUMBER, pa.array(places, pa.int64())))
        kept = found.column(_NUMBER)
        return batch.take(kept), found.select(list(self.opened.features)), kept.to_pylist()


def predict_batch(predictor: Predictor, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns with the predictions for the features of some rows, which are of the model's types.

    Raises DataError for a number beyond float32's range, and for a row that the model refuses.
    """
    RangeCheck().checked(batch)
    description = predictor.description
    return PredictionColumns.by(description, probabilities=answered(description)).of(predictor(batch))


def answered(model: ModelDescription) -> Probabilities:
    """The probabilities in answers to single requests: of words the highest, as an answer is read as a whole."""
    return "best" if model.label.kind == "next_word" else "auto"


def predict_table(request: Request, parallel_map: ParallelMap, work: Path) -> tuple[pa.Table, Predicted]:
    """The output as a table in memory."""
    rows = _open(request, parallel_map, work)
    counted = RowCount()
    batches = list(chain.from_iterable(rows.of(number, counted) for number in range(len(rows.opened.parts))))
    return pa.Table.from_batches(batches, rows.schema), _finished(request, rows, [counted])


def predict_file(
    request: Request, output: Path, parallel_map: ParallelMap, work: Path, *, tasks: bool = False
) -> Predicted:
    """Write the output, which appears whole once all rows have been predicted, or else not at all.

    Args:
        request: what to predict.
        output: the file to write; its ending names the format.
        parallel_map: runs the scan and, with `tasks`, the prediction of each part.
        work: an existing folder for intermediate files.
        tasks: predict each part in a task of `parallel_map`, instead of one after the other in this process.
    """
    with skipped_in_section(request.given.data):
        rows = _open(request, parallel_map, work, output)
    parts = range(len(rows.opened.parts))
    with skipped_in_section(request.given.data), _explained(output), replacing(output) as partial_file:
        with open_writer(output, partial_file, rows.schema) as write:
            if tasks:
                counts = parallel_map("Predict", partial(_predict_part, rows=rows, work=work), list(parts))
                for number in parts:
                    _each(write, _stored(_path(work, number)))
            else:
                counts = [RowCount()]
                for number in parts:
                    _each(write, rows.of(number, counts[0]))
        return _finished(request, rows, counts)


def _open(request: Request, parallel_map: ParallelMap, work: Path, output: Path | None = None) -> Rows:
    """Find columns and types. Raises DataError if the output could not hold the columns."""
    description = request.predictor.description
    typed = output is None or format_of(output) == PARQUET
    opened = open_input(request.given, description, request.keys, parallel_map, work, typed=typed)
    joined = output is not None and format_of(output) == CSV
    columns = PredictionColumns.by(description, request.prefix, joined=joined, probabilities=request.probabilities)
    for name in columns.schema.names:
        if name in opened.keys:
            raise DataError(
                "is a column of the input, and also the name of a column with the predictions",
                column=name,
                hint="Give the predictions other names (`--prefix new_`), or list the other columns (`--columns`)",
            )
    if output is not None and any(Path(path).resolve() == output.resolve() for path in request.given.paths):
        raise RunError(f"{output} is one of the files that are read; name another output")
    rows = Rows(opened, request.predictor, columns, request.given.data.on_bad_record == "skip")
    if output is not None:
        check_output(output, rows.schema)
    return rows


def _finished(request: Request, rows: Rows, counts: Sequence[RowCount]) -> Predicted:
    """Add up the counts. Raises DataError if more records were skipped than the config allows."""
    skipped = reduce(Skipped.__add__, (one.skipped for one in counts), rows.opened.skipped)
    number = sum(one.rows for one in counts)
    check_fraction(request.given.data, skipped, number)
    return Predicted(number, skipped, rows.opened.unreadable)


@contextlib.contextmanager
def _explained(output: Path) -> Iterator[None]:
    """Name the output in the error of a disk that does not accept it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise RunError(f"{output} cannot be written: {os.strerror(error.errno)}") from error


def _predict_part(number: int, rows: Rows, work: Path) -> RowCount:
    """Write the rows of a part to a file of its own."""
    counted = RowCount()
    with pa.OSFile(str(_path(work, number)), "wb") as file, pa.ipc.new_stream(file, rows.schema) as stream:
        _each(stream.write_batch, rows.of(number, counted))
    return counted


def _stored(file: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(file)) as opened, pa.ipc.open_stream(opened) as stream:
        yield from stream
    file.unlink()


def _path(work: Path, part: int) -> Path:
    return work / f"predicted-{part:05d}.arrow"


def _each(write: Callable[[pa.RecordBatch], None], batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        write(batch)


def merged(batches: Iterator[pa.RecordBatch], rows_per_call: Callable[[int], int]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of as many as are in a call, or a multiple of it; the last may have fewer. A reader of
    wide records gives some dozen at a time, for which a call of the model takes almost as long.

    rows_per_call: the number for rows of about so many bytes.
    """
    waiting, found, held = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        waiting, found, held = [*waiting, batch], found + batch.num_rows, held + batch.nbytes
        if found and found >= (enough := rows_per_call(held // found)):
            table, whole = pa.Table.from_batches(waiting), found - found % enough
            yield in_one_batch(table.slice(0, whole))
            rest = table.slice(whole)
            waiting, found, held = rest.to_batches(), rest.num_rows, rest.nbytes
    if waiting:
        yield concatenated(waiting)


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items; each is computed in a thread while the one before it is in use."""
    with ThreadPoolExecutor(1) as thread:
        end = object()
        waiting = thread.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = thread.submit(next, items, end)
            yield item  # type: ignore[misc]  # not `end`
