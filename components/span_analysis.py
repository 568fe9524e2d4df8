"""Transform's analysis of data in spans: each span is read once, and its accumulators are cached for the next run.

    <store>/<key of a span>/analysis-<digest>/<number>     a TFRecord file: an entry's key in TFT, then accumulators

TFT has a cache of its own (tensorflow_transform.beam.analyzer_cache), which adds a dozen Beam stages to the pipeline
for each span and analyzer, so that a nightly run costs more than reading the whole window again. Here all cached spans
are a single dataset to TFT, which has the entries of all of them: TFT merges them in the same way, and the pipeline
stays as small as for two spans.

TFT caches quantiles, which a user's own preprocessing_fn may ask for, as pickles, and loading a pickle can run code.
Here their sketches are stored as plain bytes, so that what comes from a disk or an object store is data and nothing
else.

The analysis of feature columns without TFT (`headrace.components.transform.columns_analysis`) has its entries in the
same files.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from tensorflow_transform import analyzer_nodes, analyzers
from tensorflow_transform.beam import analysis_graph_builder
from tensorflow_transform.beam.analyzer_cache import DatasetCache, DatasetKey
from tfx_bsl.sketches import QuantilesSketch
from tfx_bsl.tfxio import tf_example_record

from headrace.common.durable import replacing
from headrace.components.examples.shard_names import by_span
from headrace.components.spans.shared_spans import SharedSpans, StoredPart
from headrace.trainer.input.reading import records_of

logger = logging.getLogger(__name__)

MADE_BY = ("tensorflow", "tensorflow-transform", "tfx-bsl", "numpy", "pyarrow")
CACHED = DatasetKey("kept", is_cached=False)
"""The dataset of all spans whose entries are cached."""

Read = Callable[[str], Iterator[pa.RecordBatch]]
EntryFile = tuple[str, bytes]
"""The file of an entry, and its key in TFT."""
Entries = dict[bytes, Path]
"""The file of each entry, by its key in TFT."""


class AnalysisCache(StoredPart):
    """The cached entries of spans."""

    def __init__(self, store: Path, meaning: str, keys: Mapping[str, str], shared: SharedSpans | None = None) -> None:
        """Open a cache. meaning: everything that determines the entries, other than the span and the graph."""
        super().__init__("analysis", store, meaning, MADE_BY, keys, shared)

    def files(self, span: str) -> list[Path]:
        """The files of a span's entries."""
        return sorted(self.entries(span).values())

    def without(self, spans: Iterable[str], entries: Iterable[bytes]) -> list[str]:
        """The spans for which one of these entries is not cached."""
        return [span for span in spans if not self.entries(span).keys() >= set(entries)]

    def file(self, span: str, entry: bytes) -> Path:
        return self.folder(span) / hashlib.sha256(entry).hexdigest()[:16]

    def entries(self, span: str) -> Entries:
        folder = self.folder(span)
        files = [file for file in folder.iterdir() if not file.suffix] if folder.is_dir() else []
        return {entry: file for file in files if (entry := _entry_of(file)) is not None}


class SketchCoder(analyzer_nodes.CacheCoder):
    """Encodes quantile sketches by the serialization of tfx_bsl."""

    def encode_cache(self, accumulator: Any) -> bytes:
        state: bytes = accumulator.__getstate__()
        return state

    def decode_cache(self, encoded_accumulator: bytes) -> Any:
        """Deserialize a sketch. Raises RuntimeError for bytes that are not one."""
        sketch = QuantilesSketch.__new__(QuantilesSketch)
        sketch.__setstate__(encoded_accumulator)
        return sketch


@contextlib.contextmanager
def _plain_quantiles() -> Iterator[None]:
    """Make TFT encode quantiles by SketchCoder while it builds a pipeline. Workers get the coder with the pipeline."""
    combiner = analyzers.QuantilesCombiner
    before = combiner.accumulator_coder
    combiner.accumulator_coder = property(lambda _: SketchCoder())
    try:
        yield
    finally:
        combiner.accumulator_coder = before


def log_analyzed(new: Collection[str], *, cached: int) -> None:
    """Log which spans are analyzed now, and how many were before."""
    logger.info(f"Analyzed now: {', '.join(new) or 'no spans'}; cached: {cached} spans")


class AnalyzeBySpan:
    """Analyzes data in spans for a `preprocessing_fn`. `read`: reads a file as RecordBatches."""

    def __init__(
        self,
        preprocessing_fn: Callable[..., Any],
        tfxio: tf_example_record.TFExampleBeamRecord,
        cache: AnalysisCache,
        read: Read,
    ) -> None:
        self._function, self._tfxio, self._cache, self._read = preprocessing_fn, tfxio, cache, read

    @_plain_quantiles()
    def analyze(self, pipeline: beam.Pipeline, files: Sequence[str]) -> Any:
        """The transform function of all examples in the files. Reads only spans that are not cached, and caches
        their accumulators.
        """
        spans = by_span(files, self._cache.keys)
        self._cache.fetch(spans)
        entries = {span: found for span in spans if (found := self._cache.entries(span))}
        entries, raw_too = self._sufficient(spans, entries)
        new = {DatasetKey(f"new-{number}"): span for number, span in enumerate(spans) if span not in entries}
        log_analyzed(new.values(), cached=len(entries))
        files_of = {key: spans[span] for key, span in new.items()}
        if entries and raw_too:
            files_of[CACHED] = [file for span in entries for file in spans[span]]
        data = self._batches(pipeline, files_of)
        result, computed = (
            {**data, CACHED: data.get(CACHED)} if entries else data,
            {CACHED: DatasetCache(_decoded(pipeline, entries), None)} if entries else {},
            self._tfxio.TensorAdapterConfig(),
        ) | "Analyze" >> tft_beam.AnalyzeDatasetWithCache(self._function, pipeline=pipeline)
        self._store(pipeline, {span: computed[key].cache_dict for key, span in new.items() if key in computed})
        return result

    def _sufficient(self, spans: Iterable[str], entries: dict[str, Entries]) -> tuple[dict[str, Entries], bool]:
        """The spans that have all entries that TFT needs, and whether TFT needs their raw examples in any case, as it
        does if an analyzer works on the results of another.
        """
        if not self._asks_for_raw(entries):
            return entries or {span: {} for span in spans}, False
        if not entries:
            return entries, False
        needed = analysis_graph_builder.get_analysis_cache_entry_keys(self._function, self._types(), [CACHED], False)
        entries = {span: found for span, found in entries.items() if needed and needed <= found.keys()}
        return entries, bool(entries) and self._asks_for_raw(entries)

    def _asks_for_raw(self, entries: dict[str, Entries]) -> bool:
        cache = {CACHED: DatasetCache(dict.fromkeys(_common(entries), True), None)}
        asked = analysis_graph_builder.get_analysis_dataset_keys(self._function, self._types(), [CACHED], cache, False)
        return CACHED in asked

    def _types(self) -> dict[str, tf.TypeSpec]:
        specs: dict[str, tf.TypeSpec] = self._tfxio.TensorAdapter().OriginalTypeSpecs()
        return specs

    def _batches(
        self, pipeline: beam.Pipeline, files: Mapping[DatasetKey, Sequence[str]]
    ) -> dict[DatasetKey, beam.PCollection]:
        """The examples of each dataset, read by one transform for all of them."""
        if not files:
            return {}
        files_by_key = [(key.key, file) for key, own in files.items() for file in own]
        read = (
            pipeline
            | "Shards" >> beam.Create(files_by_key)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(_read_into, self._read).with_outputs(*(key.key for key in files))
        )
        return {key: read[key.key] for key in files}

    def _store(self, pipeline: beam.Pipeline, computed: Mapping[str, Mapping[bytes, beam.PCollection]]) -> None:
        """Write all entries, also the empty ones, by one transform."""
        found = {
            (str(self._cache.file(span, entry)), entry): encoded
            for span, own in computed.items()
            for entry, encoded in own.items()
        }
        parts = [
            encoded | f"WithFile[{number}]" >> beam.Map(_with_file, file)
            for number, (file, encoded) in enumerate(found.items())
        ]
        every = pipeline | "Files" >> beam.Create([(file, None) for file in found])
        _ = (
            (every, *parts)
            | "AllEntries" >> beam.Flatten()
            | "ByFile" >> beam.GroupByKey()
            | "Write" >> beam.MapTuple(write_entry)
        )


def _common(entries: dict[str, Entries]) -> list[bytes]:
    """The keys that all spans have."""
    first, *others = entries.values() or [{}]
    return [entry for entry in first if all(entry in other for other in others)]


def _decoded(pipeline: beam.Pipeline, entries: dict[str, Entries]) -> dict[bytes, beam.PCollection]:
    """The cached accumulators of each key, from all spans."""
    return {
        entry: pipeline
        | f"Cached[{number}]" >> beam.Create([found[entry] for found in entries.values()])
        | f"ReadCached[{number}]" >> beam.FlatMap(read_entry, 1)
        for number, entry in enumerate(_common(entries))
    }


def _read_into(keyed: tuple[str, str], read: Read) -> Iterator[beam.pvalue.TaggedOutput]:
    key, file = keyed
    return (beam.pvalue.TaggedOutput(key, batch) for batch in read(file))


def _with_file(encoded: bytes, file: EntryFile) -> tuple[EntryFile, bytes]:
    return file, encoded


def read_entry(file: Path, start: int) -> Iterator[bytes]:
    """The records of an entry, from number `start` on."""
    return iter(records_of(str(file), "").skip(start).as_numpy_iterator())


def _entry_of(file: Path) -> bytes | None:
    """The key of an entry; None for a damaged file, which is logged."""
    try:
        first, *_ = read_entry(file, 0)
    except (tf.errors.DataLossError, ValueError) as error:
        logger.warning(f"{file} is damaged, so its span is analyzed again: {error}")
        return None
    return bytes(first)


def write_entry(keyed: EntryFile, encoded: Iterable[bytes | None]) -> None:
    file, entry = Path(keyed[0]), keyed[1]
    with replacing(file) as partial, tf.io.TFRecordWriter(str(partial)) as records:
        for record in (entry, *encoded):
            if record is not None:
                records.write(record)
