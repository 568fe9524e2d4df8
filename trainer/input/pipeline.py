"""The input pipeline: where the examples of a split come from, and where they stay between epochs.

pipeline = InputPipeline(feature_spec=spec, label_key="big_tipper", batch_size=1024, cache="memory", shuffle=16384)
train = pipeline.open("train", files)
for features, label in train.dataset:     # one epoch; each iteration has a different order
    ...

Records are batched as they are read and parsed a whole batch at a time; parsing them one by one takes many times as
long. What is parsed once stays in memory, in tensors, or on a disk, as columns like those that Transform writes.

    TFRecords, cache: memory           parsed before the first epoch; gathered from tensors        gathered.py
    TFRecords, cache: none             parsed in every epoch, through a pool                       streamed.py
    TFRecords, cache: disk, snapshot   parsed and written as columns before the first epoch; then as these:
    columns, cache: memory             gathered from columns, or from tensors if they are small    gathered.py
    columns, else                      row numbers through a pool, gathered from columns           streamed.py

The order of an epoch depends only on the seed and the number of the epoch. So `open(..., start=n)` returns what an
uninterrupted training would see after n batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer.input.batches import Batching, InputSplit
from headrace.trainer.input.disk_cache import cached_on_disk, map_parsed
from headrace.trainer.input.errors import explain_file_errors
from headrace.trainer.input.gathered import ExamplesInMemory, MappedExamples, PackedExamples, open_gathered
from headrace.trainer.input.mapped import MappedRows
from headrace.trainer.input.memory import CacheKind
from headrace.trainer.input.packing import Feature, Packing
from headrace.trainer.input.reading import without_autotune
from headrace.trainer.input.shuffle import MANY, Stream, permutation
from headrace.trainer.input.streamed import open_streamed
from headrace.trainer.input.transformed_columns import are_columns

ReadSplits: TypeAlias = dict[tuple[str, CacheKind], Any]
"""The examples of splits, by name and cache, that several trainings on the same examples read only once."""
Examples = TypeVar("Examples")


@dataclass(frozen=True, kw_only=True)
class InputPipeline(Batching):
    """Settings that turn transformed examples into batches."""

    feature_spec: Mapping[str, Feature]
    """The feature spec of the transformed examples."""
    stored_bytes: Mapping[str, int] = field(default_factory=dict)
    """The size of each value of features that are stored as bytes of one size; of columns, `load` gets such a feature
    as uint8 [batch, size], and of TFRecords as string [batch]."""
    cache: CacheKind = "memory"
    """Where the parsed examples are cached."""
    source: Callable[[str, Sequence[str], Packing, Stream], Stream] | None = None
    """Where a split's examples come from, by its name, if not from its files."""
    snapshot: Callable[[str, Sequence[str], Packing, Stream], list[str]] | None = None
    """Writes a split's examples as columns, by its name, or finds those of an earlier run."""
    read: ReadSplits | None = None
    """If set, a split that is opened again is not read again, as far as `cache` holds it."""

    def open(self, name: str, files: Sequence[str], start: int = 0) -> InputSplit:
        """Open a split. Raises TrainingError if it is empty or a file is damaged.

        Args:
            name: The split.
            files: Its TFRecord files of tf.Example, or its files of transformed columns.
            start: Batches that were trained on before, in all epochs together; the dataset starts after them.
        """
        files, parsing = sorted(files), Packing(self.feature_spec)
        with explain_file_errors(files, parsing):
            if are_columns(files):
                copy = self.cache != "memory" and self.shuffle > 0
                split = self._open_rows(name, MappedRows(files, self._columns_spec, copy=copy), start)
            else:
                split = self._open_records(name, files, parsing, start)
        if split is None:
            raise TrainingError(
                f"the {name} split holds no examples. Give it more hash buckets in `data.splits`, or the pipeline more"
                " data"
            )
        return split

    @property
    def _columns_spec(self) -> Mapping[str, Feature]:
        matrices = {name: tf.io.FixedLenFeature([size], tf.uint8) for name, size in self.stored_bytes.items()}
        return {**self.feature_spec, **matrices}

    def _open_rows(self, name: str, rows: MappedRows, start: int) -> InputSplit | None:
        """Open a split of columns; None if it is empty."""
        if not sum(rows.sizes):
            return None
        if self.cache != "memory":
            return open_streamed(self, lambda seed: rows.stream(seed, self.reading), rows, start)
        return open_gathered(self, self._once(name, lambda: self._rows_in_memory(rows)), start)

    def _rows_in_memory(self, rows: MappedRows) -> ExamplesInMemory:
        if rows.is_small(shuffled=self.shuffle > 0):
            return PackedExamples(*rows.packed(rows.in_order(self.reading)))
        if not self.shuffle:
            return MappedExamples(rows, rows.block_order(self.reading))
        no_list = not self.buckets and sum(rows.sizes) >= MANY
        return MappedExamples(rows, None if no_list else rows.in_order(self.reading))

    def _open_records(self, name: str, files: Sequence[str], packing: Packing, start: int) -> InputSplit | None:
        """Open a split of TFRecords; None if it is empty."""
        stream = self._records(files, packing)
        stream = self.source(name, files, packing, stream) if self.source else stream
        if self.snapshot:
            columns = self.snapshot(name, files, packing, stream)
            return self._open_rows(name, map_parsed(columns, self._columns_spec), start)
        if self.cache == "disk":
            rows = self._once(name, lambda: cached_on_disk(stream(None), packing, self._columns_spec))
            return self._open_rows(name, rows, start)
        if self.cache == "none":
            is_empty = not list(without_autotune(stream(None).take(1)))
            return None if is_empty else open_streamed(self, stream, packing, start)
        examples = self._once(name, lambda: _in_memory(stream, packing))
        return None if examples is None else open_gathered(self, examples, start)

    def _once(self, name: str, read: Callable[[], Examples]) -> Examples:
        """Return what `read` returns, or what it returned before of this split."""
        if self.read is None:
            return read()
        key = (name, self.cache)
        if key not in self.read:
            self.read[key] = read()
        found: Examples = self.read[key]
        return found

    def _records(self, files: Sequence[str], packing: Packing) -> Stream:
        """Return the examples in these files."""
        paths, gzip = tf.constant(files, tf.string), all(file.endswith(".gz") for file in files)

        def stream(seed: tf.Tensor | None) -> tf.data.Dataset:
            order = tf.range(len(files), dtype=tf.int64) if seed is None else permutation(len(files), seed)
            ordered = tf.data.Dataset.from_tensor_slices(tf.gather(paths, order))
            return self.reading.packed(ordered, packing, len(files), gzip)

        return stream


def _in_memory(stream: Stream, packing: Packing) -> PackedExamples | None:
    """All examples of a stream; None if there are none."""
    batches = list(without_autotune(stream(None)))
    with tf.device("CPU"):
        return PackedExamples(packing, packing.concat(batches)) if batches else None
