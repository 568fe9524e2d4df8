"""Vocabularies learned from the train split: token counts of all columns in one pass, and one asset file per
vocabulary.

The values and their order are those of tft.vocabulary, which takes a dozen Beam stages for each vocabulary.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform.beam.experimental import PTransformAnalyzer

from headrace.common.value_counts import NO_COUNTS, counted, summed
from headrace.trainer.columns.analyzers.spans import AnalyzerOutput, analyze_by_span

Strings = npt.NDArray[np.object_]

EMPTY = b"49d0cd50-04bb-48c0-bc6f-5b575dce351a"
"""The only line in the file of an empty vocabulary, since a lookup table cannot be empty (as in tft.vocabulary)."""

_MAX_PENDING = 1 << 16
"""Counts that may wait to be aggregated."""


class VocabularyAnalyzer(NamedTuple):
    """The values of a data column, the most frequent first; of equally frequent ones, the greater text first."""

    name: str
    """The name under which TFTransformOutput finds the vocabulary."""
    key: str
    """The data column."""
    missing: str | int | float | None
    """Substitute for missing values; None: they are ignored."""
    top_k: int | None
    """Maximum number of values; None: no limit."""
    min_frequency: int
    """Values that occur less often are left out."""


def learn_vocabularies(texts: Mapping[VocabularyAnalyzer, tf.Tensor], *, by_span: bool = False) -> dict[Any, tf.Tensor]:
    """Return the paths of the vocabularies of string tensors.

    Args:
        texts: A tensor for each vocabulary: [batch], or all values or words in a batch; "" where missing. Values with
            line breaks are left out.
        by_span: Whether TFT may cache the counts of each span.
    """
    if not texts:
        return {}
    analyzers = tuple(texts)
    files = file_names([analyzer.name for analyzer in analyzers])
    count, write = CountTexts(len(analyzers)), WriteVocabularies(dict(zip(analyzers, files, strict=True)))
    tensors = list(texts.values())
    if by_span:
        outputs = [AnalyzerOutput(tf.string, [], EMPTY)] * len(analyzers)
        coder = TextCountsCoder(len(analyzers))
        paths = analyze_by_span(tensors, count, coder, write, outputs, "vocabularies")
    else:
        paths = tft.experimental.ptransform_analyzer(
            inputs=tensors,
            ptransform=LearnVocabularies(count, write),
            output_dtypes=[tf.string] * len(analyzers),
            output_shapes=[[]] * len(analyzers),
            output_asset_default_values=[EMPTY] * len(analyzers),
            name="vocabularies",
        )
    for analyzer, file in zip(analyzers, files, strict=True):
        tft.annotate_asset(analyzer.name, file)
    return dict(zip(analyzers, paths, strict=True))


class LearnVocabularies(PTransformAnalyzer):
    """Batches of strings, an array per column, to one vocabulary file per column."""

    def __init__(self, count: CountTexts, write: WriteVocabularies) -> None:
        super().__init__()
        self._count, self._write = count, write

    def expand(self, batches: beam.PCollection) -> tuple[beam.PCollection, ...]:
        """Count, then write."""
        self._write.base_temp_dir = self.base_temp_dir
        return batches | "Count" >> beam.CombineGlobally(self._count).without_defaults() | "Write" >> self._write


class WriteVocabularies(PTransformAnalyzer):
    """The token counts of all columns to one vocabulary file per column."""

    def __init__(self, files: dict[VocabularyAnalyzer, str]) -> None:
        """files: the name of each vocabulary's file, in the order of the columns."""
        super().__init__()
        self._files = list(files.items())

    def expand(self, counts: beam.PCollection) -> tuple[beam.PCollection, ...]:
        """Return the paths, each in a collection of its own."""
        columns = [str(column) for column in range(len(self._files))]
        paths = counts | "WriteFiles" >> beam.FlatMap(self._write_files).with_outputs(*columns)
        return tuple(paths[column] for column in columns)

    def _write_files(self, counts: Sequence[TextCounts]) -> Iterator[beam.pvalue.TaggedOutput]:
        tf.io.gfile.makedirs(self.base_temp_dir)
        for column, ((analyzer, name), column_counts) in enumerate(zip(self._files, counts, strict=True)):
            path = os.path.join(self.base_temp_dir, name)  # noqa: PTH118 (may be remote)
            with tf.io.gfile.GFile(path, "wb") as file:
                file.write(b"".join(value + b"\n" for value in select_values(analyzer, column_counts.aggregate())))
            yield beam.pvalue.TaggedOutput(str(column), np.array(path))


def select_values(analyzer: VocabularyAnalyzer, counts: pa.Table) -> list[bytes]:
    """Return the values of a vocabulary, in order. counts: as `TextCounts.table`."""
    frequent = counts.filter(pc.greater_equal(counts["counts"], analyzer.min_frequency))
    order = pc.sort_indices(frequent, [("counts", "descending"), ("values", "descending")])
    if analyzer.top_k is not None:
        order = order[: analyzer.top_k]
    values: list[bytes] = frequent["values"].take(order).to_pylist()
    return values or [EMPTY]


def file_names(vocabularies: Sequence[str]) -> list[str]:
    """Return a file name for each vocabulary: its own name if that is valid and unique."""
    names: list[str] = []
    for position, vocabulary in enumerate(vocabularies):
        name = re.sub(r"[^\w.-]", "_", vocabulary)
        names.append(name if name.lower() not in map(str.lower, names) else f"{position}_{name}")
    return names


@dataclass
class TextCounts:
    """How often each text of a column occurs.

    `table` has each text once; batches added since the last `aggregate` are pending.
    """

    table: pa.Table = field(default_factory=lambda: NO_COUNTS)
    pending: list[pa.Table] = field(default_factory=list)

    def add(self, texts: Strings | pa.Array) -> None:
        """Count the texts of a batch, ignoring missing (empty) ones and those with line breaks."""
        found = counted(texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_binary()))
        values = found["values"]
        countable = pc.greater(pc.binary_length(values), 0)
        for line_break in (b"\n", b"\r"):
            countable = pc.and_(countable, pc.less(pc.find_substring(values, line_break), 0))
        self.append(found.filter(countable))

    def append(self, table: pa.Table) -> None:
        """Add counts. They are aggregated once as many are pending as there are texts: linear time overall."""
        self.pending.append(table)
        if sum(part.num_rows for part in self.pending) > max(_MAX_PENDING, self.table.num_rows):
            self.aggregate()

    def aggregate(self) -> pa.Table:
        if self.pending:
            self.table = summed([self.table, *self.pending])
            self.pending = []
        return self.table


class CountTexts(beam.CombineFn):
    """Batches of strings, an array per column, to the TextCounts of each column."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self._columns = columns

    def create_accumulator(self) -> list[TextCounts]:
        return [TextCounts() for _ in range(self._columns)]

    def add_input(self, accumulator: list[TextCounts], batches: tuple[Strings | pa.Array, ...]) -> list[TextCounts]:
        for counts, texts in zip(accumulator, batches, strict=True):
            counts.add(texts)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[TextCounts]]) -> list[TextCounts]:
        """Add up counts."""
        total = self.create_accumulator()
        for accumulator in accumulators:
            for counts, other in zip(total, accumulator, strict=True):
                counts.append(other.aggregate())
        return total

    def compact(self, accumulator: list[TextCounts]) -> list[TextCounts]:
        """Aggregate what is pending."""
        for counts in accumulator:
            counts.aggregate()
        return accumulator

    def extract_output(self, accumulator: list[TextCounts]) -> list[TextCounts]:
        return self.compact(accumulator)


class TextCountsCoder:
    """TextCounts of all columns as one Arrow stream of column number, value and count."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def encode_cache(self, accumulator: list[TextCounts]) -> bytes:
        tables = [counts.aggregate() for counts in accumulator]
        numbers = np.repeat(np.arange(len(tables), dtype=np.int32), [table.num_rows for table in tables])
        every = pa.concat_tables([NO_COUNTS, *tables]).append_column("column", pa.array(numbers))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, every.schema) as stream:
            stream.write_table(every)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    def decode_cache(self, encoded_accumulator: bytes) -> list[TextCounts]:
        every = pa.ipc.open_stream(encoded_accumulator).read_all()
        edges = np.searchsorted(every["column"], np.arange(self._columns + 1, dtype=np.int32)).tolist()
        tables = [every.slice(first, last - first) for first, last in itertools.pairwise(edges)]
        return [TextCounts(table.select(NO_COUNTS.schema.names)) for table in tables]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._columns})"
