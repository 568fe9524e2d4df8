"""Input pipelines over the same transformed examples, from the lecture notes' plain one to ours, a choice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft

from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.transformed_columns import ColumnsWriter, columns_schema, file_name

SHUFFLE = 10_000
"""Examples in the shuffle buffer: what TFX's factory takes by default."""
READ_BATCH = 1024
AUTOTUNE = tf.data.AUTOTUNE

LECTURE = "lecture: map one by one, shuffle, batch, prefetch"
STOCK = "TFX tf_dataset_factory"
NUMPY = "NumPy gather in memory"

Fetch = Callable[[int], int]
"""Fetches this many batches, and says how many examples they held."""


class Pipelines:
    """The pipelines to compare; each method opens one, endless and shuffled through SHUFFLE examples or more."""

    def __init__(self, files: list[str], output: tft.TFTransformOutput, label_key: str, batch_size: int) -> None:
        self.files, self.output, self.label_key, self.batch_size = files, output, label_key, batch_size
        self.spec = output.transformed_feature_spec()

    def all(self) -> dict[str, Callable[[], Fetch]]:
        """Name → how to open it: each row but TFX's and NumPy's is the one above with one choice more."""
        return {
            STOCK: lambda: fetcher(self.stock()),
            LECTURE: lambda: fetcher(self.lecture()),
            "+ parse whole batches": lambda: fetcher(self.batched_parse()),
            "+ read files side by side, parse in parallel": lambda: fetcher(self.parallel()),
            "+ batch inside the interleave, shuffle by gather": lambda: fetcher(self.gathered()),
            "+ pack columns (ours, cache: none)": lambda: fetcher(self.ours("none").dataset),
            "+ parsed examples on disk (ours, cache: disk)": lambda: fetcher(self.ours("disk").dataset),
            "+ parsed examples in memory (ours, cache: memory)": lambda: fetcher(self.ours("memory").dataset),
            "the lecture's with cache() before its shuffle": lambda: fetcher(self.lecture(cache=True)),
            NUMPY: self.numpy,
        }

    def lecture(self, cache: bool = False) -> tf.data.Dataset:
        """What the lecture notes teach."""

        def parse(record: tf.Tensor) -> Any:
            return self._features(tf.io.parse_single_example(record, self.spec))

        examples = tf.data.TFRecordDataset(self.files, "GZIP").map(parse)
        examples = examples.cache() if cache else examples
        return examples.repeat().shuffle(SHUFFLE).batch(self.batch_size).prefetch(AUTOTUNE)

    def batched_parse(self) -> tf.data.Dataset:
        """The same, but batches are parsed, not examples."""
        records = tf.data.TFRecordDataset(self.files, "GZIP").repeat().shuffle(SHUFFLE)
        return records.batch(self.batch_size).map(self._parse).prefetch(AUTOTUNE)

    def parallel(self) -> tf.data.Dataset:
        """The same, but tf.data finds out how many files to read and batches to parse at a time."""
        paths = tf.data.Dataset.from_tensor_slices(self.files)
        records = paths.interleave(lambda path: tf.data.TFRecordDataset(path, "GZIP"), num_parallel_calls=AUTOTUNE)
        batches = records.repeat().shuffle(SHUFFLE).batch(self.batch_size)
        return batches.map(self._parse, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)

    def gathered(self) -> tf.data.Dataset:
        """The same, but records leave the files in batches, and a pool of parsed columns is shuffled by gather."""
        paths = tf.data.Dataset.from_tensor_slices(self.files)
        records = paths.interleave(
            lambda path: tf.data.TFRecordDataset(path, "GZIP").batch(READ_BATCH), num_parallel_calls=AUTOTUNE
        )
        parsed = records.map(self._parse, num_parallel_calls=AUTOTUNE).repeat().rebatch(SHUFFLE // 2)

        def mix(pool: Any, arriving: Any) -> Any:
            together = tf.nest.map_structure(lambda *columns: tf.concat(columns, 0), pool, arriving)
            order = tf.random.shuffle(tf.range(tf.size(together[1])))
            hold = tf.minimum(tf.size(order), SHUFFLE)
            return tuple(
                tf.nest.map_structure(lambda column, part=part: tf.gather(column, part), together)
                for part in (order[:hold], order[hold:])
            )

        empty = tf.nest.map_structure(
            lambda column: tf.zeros([0, *column.shape[1:]], column.dtype), parsed.element_spec
        )
        mixed = parsed.scan(empty, mix).filter(lambda _, label: tf.size(label) > 0)
        return mixed.rebatch(self.batch_size).prefetch(AUTOTUNE)

    def stock(self, epochs: int | None = None) -> tf.data.Dataset:
        """`fn_args.data_accessor.tf_dataset_factory`, as the templates of TFX call it."""
        from tfx.components.util import tfxio_utils
        from tfx.types import standard_artifacts
        from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

        examples = standard_artifacts.Examples()
        examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
        factory = tfxio_utils.get_tf_dataset_factory_from_artifact([examples], [])
        options = TensorFlowDatasetOptions(
            self.batch_size, num_epochs=epochs, label_key=self.label_key, shuffle_buffer_size=SHUFFLE
        )
        return factory(self.files, options, self.output.transformed_metadata.schema)

    def ours(self, cache: Any, endless: bool = True, files: list[str] | None = None) -> InputSplit:
        """The product's pipeline."""
        pipeline = InputPipeline(
            feature_spec=self.spec,
            label_key=self.label_key,
            batch_size=self.batch_size,
            cache=cache,
            shuffle=SHUFFLE,
            steps_per_epoch=1 if endless else None,
        )
        return pipeline.open("train", files or self.files)

    def numpy(self) -> Fetch:
        """The columns in memory, fetched at random positions."""
        columns = self.columns()
        random, size = np.random.default_rng(0), len(columns[self.label_key])

        def positions() -> Iterator[np.ndarray]:
            while True:
                order = random.permutation(size)
                yield from (order[start : start + self.batch_size] for start in range(0, size, self.batch_size))

        batches = positions()
        return lambda count: sum(
            len({name: column[which] for name, column in columns.items()}[self.label_key])
            for _, which in zip(range(count), batches, strict=False)
        )

    def columns(self) -> dict[str, np.ndarray]:
        """All examples as columns, the label among them: [examples, ...] each."""
        parts: dict[str, list[np.ndarray]] = {}
        for features, label in self.ours("memory").peek.as_numpy_iterator():
            for name, column in {**features, self.label_key: label}.items():
                parts.setdefault(name, []).append(column)
        return {name: np.concatenate(columns) for name, columns in parts.items()}

    def write_columns(self, columns: dict[str, np.ndarray]) -> list[str]:
        """These columns as Transform writes them, beside the TFRecords and in as many files."""
        schema, count = columns_schema(self.spec), len(self.files)
        assert schema is not None
        paths = [str(Path(self.files[0]).with_name(file_name(number, count))) for number in range(count)]
        parts = zip(*(np.array_split(column, count) for column in columns.values()), strict=True)
        for path, part in zip(paths, parts, strict=True):
            with ColumnsWriter(path, schema) as writer:
                writer.add({name: pa.array(column) for name, column in zip(columns, part, strict=True)})
        return paths

    def _parse(self, records: tf.Tensor) -> Any:
        return self._features(tf.io.parse_example(records, self.spec))

    def _features(self, columns: dict[str, tf.Tensor]) -> Any:
        return columns, columns.pop(self.label_key)


def fetcher(dataset: tf.data.Dataset) -> Fetch:
    """Fetches batches in a graph, as a training step does."""
    iterator = iter(dataset)

    @tf.function(autograph=False)
    def fetch(count: tf.Tensor) -> tf.Tensor:
        def body(step: tf.Tensor, examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            _, label = iterator.get_next()
            return step + 1, examples + tf.size(label)

        return tf.while_loop(lambda step, _: step < count, body, (0, 0), parallel_iterations=1)[1]

    return lambda count: int(fetch(tf.constant(count)))
