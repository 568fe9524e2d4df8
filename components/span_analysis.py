"""Transform's analysis of data in spans: each span is read once, and what TFT computed of it kept for the next run.

    <store>/<key of a span>/analysis-<digest>/<number>     an entry: its key for TFT, then what TFT kept, as TFRecords

TFT has a cache of its own (tensorflow_transform.beam.analyzer_cache), which puts a dozen Beam stages for each span and
analyzer into the pipeline, so that a night costs more than reading the whole window again. Here all spans that are kept
are one dataset to TFT, whose entries are all of theirs: it merges them all the same, and the pipeline stays as small as
it is for two spans.

TFT keeps quantiles, which a user's own function may ask for, as pickles; loading one runs what stands in it. Here their
sketches are kept in a form of their own, so that what comes from a disk or an object store is data and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
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

from headrace.components.example_gen.shard_names import by_span
from headrace.components.example_gen.shared_spans import SharedSpans
from headrace.configs.durable import replacing

MADE_BY = ("tensorflow", "tensorflow-transform", "tfx-bsl", "numpy", "pyarrow")
KEPT = DatasetKey("kept", is_cached=False)
"""All spans together whose entries are there."""

Read = Callable[[str], Iterator[pa.RecordBatch]]
Place = tuple[str, bytes]
"""The file of an entry, and its key for TFT."""
Entries = dict[bytes, Path]
"""The file of each entry, by its key for TFT."""


class KeptAnalysis:
    """Where the entries of spans lie. `meaning`: all that decides their content, but for the span and the graph;
    `keys`: the key of each span's name; `shared`: where they lie too, if the store does not stay.
    """

    def __init__(self, store: Path, meaning: str, keys: Mapping[str, str], shared: SharedSpans | None = None) -> None:
        parts = [meaning, *map(version, MADE_BY)]
        self._name = "analysis-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        self._store, self.keys, self._shared = store, keys, shared

    def fetch(self, spans: Iterable[str]) -> None:
        """Have the entries of these spans in the store, where another machine kept them."""
        if self._shared is not None:
            self._shared.fetch([self.keys[span] for span in spans], self._name)

    def publish(self, spans: Iterable[str]) -> None:
        """Offer the entries of these spans to other machines."""
        if self._shared is not None:
            for span in spans:
                self._shared.publish(self.keys[span], self._name, sorted(self.entries(span).values()))

    def file(self, span: str, entry: bytes) -> Path:
        """The file of an entry of a span."""
        return self._store / self.keys[span] / self._name / hashlib.sha256(entry).hexdigest()[:16]

    def entries(self, span: str) -> Entries:
        """Those that are there."""
        folder = self._store / self.keys[span] / self._name
        files = [file for file in folder.iterdir() if not file.suffix] if folder.is_dir() else []
        return {entry: file for file in files if (entry := _entry_of(file)) is not None}


class SketchCoder(analyzer_nodes.CacheCoder):
    """Sketches of quantiles as the bytes that tfx_bsl makes of them."""

    def encode_cache(self, accumulator: Any) -> bytes:
        """A sketch to bytes."""
        state: bytes = accumulator.__getstate__()
        return state

    def decode_cache(self, encoded_accumulator: bytes) -> Any:
        """Bytes to a sketch. Raises RuntimeError for bytes that are none."""
        sketch = QuantilesSketch.__new__(QuantilesSketch)
        sketch.__setstate__(encoded_accumulator)
        return sketch


@contextlib.contextmanager
def _plain_quantiles() -> Iterator[None]:
    """Let TFT keep quantiles by SketchCoder while it builds a pipeline. Workers get the coder with the pipeline."""
    combiner = analyzers.QuantilesCombiner
    before = combiner.accumulator_coder
    combiner.accumulator_coder = property(lambda _: SketchCoder())
    try:
        yield
    finally:
        combiner.accumulator_coder = before


class AnalyzeBySpan:
    """`preprocessing_fn` analyzed over data in spans. read: a file to RecordBatches."""

    def __init__(
        self,
        preprocessing_fn: Callable[..., Any],
        tfxio: tf_example_record.TFExampleBeamRecord,
        kept: KeptAnalysis,
        read: Read,
    ) -> None:
        self._function, self._tfxio, self._kept, self._read = preprocessing_fn, tfxio, kept, read

    @_plain_quantiles()
    def analyze(self, pipeline: beam.Pipeline, files: Sequence[str]) -> Any:
        """The transform function of all examples in the files; reads those of spans that are not kept, and keeps what
        it computes of them.
        """
        spans = by_span(files, self._kept.keys)
        self._kept.fetch(spans)
        entries = {span: found for span in spans if (found := self._kept.entries(span))}
        entries, raw_too = self._sufficient(spans, entries)
        new = {DatasetKey(f"new-{number}"): span for number, span in enumerate(spans) if span not in entries}
        print(f"Analyzed now: {', '.join(new.values()) or 'no span'}; kept: {len(entries)} spans", flush=True)
        files_of = {key: spans[span] for key, span in new.items()}
        if entries and raw_too:
            files_of[KEPT] = [file for span in entries for file in spans[span]]
        data = self._batches(pipeline, files_of)
        result, computed = (
            {**data, KEPT: data.get(KEPT)} if entries else data,
            {KEPT: DatasetCache(_decoded(pipeline, entries), None)} if entries else {},
            self._tfxio.TensorAdapterConfig(),
        ) | "Analyze" >> tft_beam.AnalyzeDatasetWithCache(self._function, pipeline=pipeline)
        self._keep(pipeline, {span: computed[key].cache_dict for key, span in new.items() if key in computed})
        return result

    def _sufficient(self, spans: Iterable[str], entries: dict[str, Entries]) -> tuple[dict[str, Entries], bool]:
        """The spans that have all entries that TFT needs, and whether it needs their raw examples all the same, as it
        does where an analyzer works on the results of another.
        """
        if not self._asks_for_raw(entries):
            return entries or {span: {} for span in spans}, False
        if not entries:
            return entries, False
        needed = analysis_graph_builder.get_analysis_cache_entry_keys(self._function, self._types(), [KEPT], False)
        entries = {span: found for span, found in entries.items() if needed and needed <= found.keys()}
        return entries, bool(entries) and self._asks_for_raw(entries)

    def _asks_for_raw(self, entries: dict[str, Entries]) -> bool:
        cache = {KEPT: DatasetCache(dict.fromkeys(_common(entries), True), None)}
        asked = analysis_graph_builder.get_analysis_dataset_keys(self._function, self._types(), [KEPT], cache, False)
        return KEPT in asked

    def _types(self) -> dict[str, tf.TypeSpec]:
        specs: dict[str, tf.TypeSpec] = self._tfxio.TensorAdapter().OriginalTypeSpecs()
        return specs

    def _batches(
        self, pipeline: beam.Pipeline, files: Mapping[DatasetKey, Sequence[str]]
    ) -> dict[DatasetKey, beam.PCollection]:
        """The examples of each dataset, read in one step for all of them."""
        if not files:
            return {}
        places = [(key.key, file) for key, own in files.items() for file in own]
        read = (
            pipeline
            | "Shards" >> beam.Create(places)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(_read_into, self._read).with_outputs(*(key.key for key in files))
        )
        return {key: read[key.key] for key in files}

    def _keep(self, pipeline: beam.Pipeline, computed: Mapping[str, Mapping[bytes, beam.PCollection]]) -> None:
        """Write all entries, in one step too; those of which nothing came out as well."""
        found = {
            (str(self._kept.file(span, entry)), entry): encoded
            for span, own in computed.items()
            for entry, encoded in own.items()
        }
        parts = [
            encoded | f"Place[{number}]" >> beam.Map(_placed, place)
            for number, (place, encoded) in enumerate(found.items())
        ]
        every = pipeline | "Places" >> beam.Create([(place, None) for place in found])
        _ = (
            (every, *parts)
            | "WithPlaces" >> beam.Flatten()
            | "ByPlace" >> beam.GroupByKey()
            | "Keep" >> beam.MapTuple(write_entry)
        )


def _common(entries: dict[str, Entries]) -> list[bytes]:
    """The keys that all the spans have."""
    first, *others = entries.values() or [{}]
    return [entry for entry in first if all(entry in other for other in others)]


def _decoded(pipeline: beam.Pipeline, entries: dict[str, Entries]) -> dict[bytes, beam.PCollection]:
    """What was kept under each key, of all spans together."""
    return {
        entry: pipeline
        | f"Kept[{number}]" >> beam.Create([found[entry] for found in entries.values()])
        | f"ReadKept[{number}]" >> beam.FlatMap(read_entry, 1)
        for number, entry in enumerate(_common(entries))
    }


def _read_into(place: tuple[str, str], read: Read) -> Iterator[beam.pvalue.TaggedOutput]:
    key, file = place
    return (beam.pvalue.TaggedOutput(key, batch) for batch in read(file))


def _placed(encoded: bytes, place: Place) -> tuple[Place, bytes]:
    return place, encoded


def read_entry(file: Path, start: int) -> Iterator[bytes]:
    """The records of an entry, from the one of that number on."""
    return islice(tf.compat.v1.io.tf_record_iterator(str(file)), start, None)


def _entry_of(file: Path) -> bytes | None:
    """The key of an entry; None for a file that is damaged, of which a line is said."""
    try:
        first, *_ = read_entry(file, 0)
    except (tf.errors.DataLossError, ValueError) as error:
        print(f"{file} is damaged, so its span is analyzed again: {error}", flush=True)
        return None
    return bytes(first)


def write_entry(place: Place, encoded: Iterable[bytes | None]) -> None:
    """Write an entry, whole or not at all."""
    file, entry = Path(place[0]), place[1]
    with replacing(file) as partial, tf.io.TFRecordWriter(str(partial)) as records:
        for record in (entry, *encoded):
            if record is not None:
                records.write(record)
