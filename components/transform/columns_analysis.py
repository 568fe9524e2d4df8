"""Transform's analysis of feature columns: accumulators over whole batches, and one graph that is traced once.

Each group of shards is read and accumulated by one worker, and the groups are merged in order, so the results do not
depend on the number of workers. Accumulators travel as bytes, in an entry for the statistics and one for the counts of
texts; what is stored for a span is these entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf

from headrace.components.examples import shard_names
from headrace.components.file_groups import FileGroup, MergeInOrder, file_groups
from headrace.components.span_analysis import AnalysisCache, log_analyzed, read_entry, write_entry
from headrace.components.transform.analyzer_inputs import AnalyzerInputs
from headrace.components.transform.columnar import Columnar
from headrace.components.transform.example_errors import errors_written_to, training_error_from
from headrace.components.transform.record_blocks import record_blocks, rows_at_once
from headrace.components.transform.shards import READ_BATCHES, read_records
from headrace.components.transform.task import AnalysisTask
from headrace.components.transform.transform_fn import traces_analyzers, write_transform_fn
from headrace.trainer import columns
from headrace.trainer.columns import Batch
from headrace.trainer.columns.analysis import (
    ColumnAnalyzers,
    ColumnsAccumulator,
    Statistics,
    as_tensors,
    statistics_of,
)
from headrace.trainer.columns.analyzers.numbers import Floats
from headrace.trainer.columns.base import is_foreign, prefix_errors
from headrace.trainer.columns.raw import RawTensor, with_float64
from headrace.trainer.preprocessing import transform
from headrace.trainer.sections import TrainerSections
from headrace.trainer.target import with_target

ALL = "all"
"""Names the examples without spans."""

Encoded = dict[bytes, bytes]
"""An accumulator as bytes, by entry."""
MakePipeline = Callable[[], beam.Pipeline]


def analyze_columns(task: AnalysisTask, sections: TrainerSections, make_pipeline: MakePipeline | None) -> Statistics:
    """Write the transform function of feature columns, and return the statistics that it has as constants.

    make_pipeline: None to read the examples in this process.
    """
    temporary = Path(task.temporary)
    analyzers = _analyzers(sections)
    cache = task.cache() if task.by_span else AnalysisCache(temporary, "", {ALL: ALL})
    spans = shard_names.by_span(task.files, task.keys) if task.by_span else {ALL: task.files}
    accumulators = []
    if analyzers:
        cache.fetch(spans)
        new = cache.without(spans, analyzers.entries)
        if task.by_span:
            log_analyzed(new, cached=len(spans) - len(new))
        groups = [group for span in new for group in file_groups(span, spans[span])]
        if groups:
            failed = temporary / "failed"
            accumulate = AccumulateShards(sections.to_json(), task.schema.SerializeToString(), failed)
            with training_error_from(failed):
                _accumulate(groups, accumulate, StoreSpan(cache, sections.to_json()), make_pipeline)
        accumulators = [_stored(cache, span, analyzers) for span in spans]
        if task.by_span:
            cache.publish(spans)
    results = analyzers.results(analyzers.merge(accumulators), temporary / "vocabularies")
    write_transform_fn(
        lambda inputs: transform(inputs, sections, results=as_tensors(results)), task.type_specs(), task.graph
    )
    return statistics_of(results)


class AccumulateShards(beam.DoFn):
    """Groups of shards to the accumulators of their examples, by span and number of the group."""

    def __init__(self, sections: str, schema: bytes, failed: Path) -> None:
        """
        Args:
            sections: TrainerSections as JSON.
            schema: Of the examples, serialized.
            failed: The file to which the message of a TrainingError is written.
        """
        self._sections, self._schema, self._failed = sections, schema, failed

    def setup(self) -> None:
        """Look at how what the analyzers add is computed."""
        sections = TrainerSections.from_json(self._sections)
        self._analyzers = _analyzers(sections)
        self._columnar = Columnar(sections, self._schema)
        self._graph: AnalyzerInputs | None = None

    def process(self, group: FileGroup) -> Iterator[tuple[str, tuple[int, Encoded]]]:
        accumulator = self._analyzers.create()
        with errors_written_to(self._failed):
            for file in group.files:
                accumulator = self._add_file(accumulator, file)
        yield group.key, (group.number, self._analyzers.encode(accumulator))

    def _add_file(self, accumulator: ColumnsAccumulator, file: str) -> ColumnsAccumulator:
        analyzers = self._analyzers
        if not self._columnar.covers:
            for serialized in read_records(file):
                accumulator = analyzers.add(accumulator, *self._inputs(serialized))
            return accumulator
        size, rows = rows_at_once(file, READ_BATCHES)
        for block in record_blocks(file, rows):
            if (found := self._columnar.analyzed(block, analyzers)) is None:
                found = self._inputs(block.serialized())
            accumulator = analyzers.add(accumulator, *found, at_once=size)
        return accumulator

    def _inputs(self, serialized: tf.Tensor) -> tuple[Floats | None, list[Any]]:
        """What the graph computes; it is traced for the first batch that needs it."""
        if self._graph is None:
            self._graph = AnalyzerInputs(TrainerSections.from_json(self._sections), self._schema)
        return self._graph(serialized)


class StoreSpan:
    """Merges the accumulators of a span's groups, and writes them to its files."""

    def __init__(self, cache: AnalysisCache, sections: str) -> None:
        self._cache, self._sections = cache, sections

    def merge(self, groups: Sequence[Encoded]) -> Encoded:
        analyzers = _analyzers(TrainerSections.from_json(self._sections))
        return analyzers.encode(analyzers.merge(map(analyzers.decode, groups)))

    def write(self, span: str, encoded: Encoded) -> None:
        for entry, content in encoded.items():
            write_entry((str(self._cache.file(span, entry)), entry), [content])


def uses_tft(sections: TrainerSections, task: AnalysisTask) -> bool:
    """Whether a function of the user's asks TFT to analyze something.

    Only such functions are traced: those of `column: custom`, and of kinds that are not this project's.
    """
    built = columns.build(sections.features)
    foreign = {name: column for name, column in built.items() if is_foreign(column)}
    if not foreign:
        return False

    def of_users(inputs: Mapping[str, RawTensor]) -> dict[str, tf.Tensor]:
        folder = Path(task.temporary) / "nothing-learned"
        learned = ColumnAnalyzers(foreign)
        results = as_tensors(learned.results(learned.create(), folder))
        batch = Batch(with_float64(inputs, sections.float64), built, results=results)
        outputs = {}
        for name, column in foreign.items():
            with prefix_errors(name):
                outputs[name] = column.transform(batch)
        return outputs

    return traces_analyzers(of_users, task.type_specs(), task.temporary)


def _accumulate(
    groups: Sequence[FileGroup], accumulate: AccumulateShards, store: StoreSpan, make_pipeline: MakePipeline | None
) -> None:
    """Write the accumulator of each span."""
    if make_pipeline is None:
        accumulate.setup()
        by_span: dict[str, list[Encoded]] = {}
        for group in groups:
            for span, (_, encoded) in accumulate.process(group):
                by_span.setdefault(span, []).append(encoded)
        for span, parts in by_span.items():
            store.write(span, store.merge(parts))
        return
    with make_pipeline() as pipeline:
        _ = (
            pipeline
            | "Groups" >> beam.Create(groups)
            | "Spread" >> beam.Reshuffle()
            | "Accumulate" >> beam.ParDo(accumulate)
            | "Merge" >> MergeInOrder(store.merge)
            | "Write" >> beam.MapTuple(store.write)
        )


def _stored(cache: AnalysisCache, span: str, analyzers: ColumnAnalyzers) -> ColumnsAccumulator:
    files = cache.entries(span)
    return analyzers.decode({entry: next(read_entry(files[entry], 1)) for entry in analyzers.entries})


def _analyzers(sections: TrainerSections) -> ColumnAnalyzers:
    return ColumnAnalyzers(with_target(columns.build(sections.features), sections.label))
