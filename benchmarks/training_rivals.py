"""Input pipelines that give a training like for like: the same examples, as well shuffled, cached or not.

    Rivals(pipelines).cached()      # name → how to open it, each with its parsed examples in memory
    Rivals(pipelines).uncached()    # each reads files in every epoch

grain and Hugging Face's datasets take part where they are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.training_ladder import LECTURE, NUMPY, STOCK, Fetch, Pipelines, fetcher

OURS_CACHED = "ours, columns, cache: memory"
OURS_UNCACHED = "ours, columns, cache: none"
OURS_RECORDS_CACHED = "ours, TFRecords, cache: memory"
OURS_RECORDS_UNCACHED = "ours, TFRecords, cache: none"
FACTORY_OF_BATCHES = "TFX's factory, cache(), batches in random order"
FACTORY = "TFX's factory, unbatch(), cache(), full shuffle"
FIVE_LINES = "five lines of tf.data, full shuffle"
GATHER = "tf.data over permuted row numbers, tf.gather of each column"
POLARS = "polars, rows at random positions"
GRAIN = "grain, by row"
DATASETS = "Hugging Face datasets, batches of random rows"

Open = Callable[[], Fetch]


class Rivals:
    """Endless pipelines over the examples of `pipelines`. Each epoch has every example once, in a new order."""

    def __init__(self, pipelines: Pipelines) -> None:
        self.pipelines = pipelines
        self.batch_size = pipelines.batch_size
        self.columns = pipelines.columns()
        self.column_files = pipelines.write_columns(self.columns)
        self.size = len(self.columns[pipelines.label_key])

    def cached(self) -> dict[str, Open]:
        """With what they need in memory. Only the batches of `FACTORY_OF_BATCHES` are the same in each epoch."""
        found: dict[str, Open] = {
            OURS_CACHED: lambda: fetcher(self.pipelines.ours("memory", files=self.column_files).dataset),
            OURS_RECORDS_CACHED: lambda: fetcher(self.pipelines.ours("memory").dataset),
            FACTORY_OF_BATCHES: lambda: fetcher(self.batches_in_random_order()),
            FACTORY: lambda: fetcher(self.factory()),
            FIVE_LINES: lambda: fetcher(self.five_lines()),
            GATHER: lambda: fetcher(self.gather()),
            NUMPY: self.pipelines.numpy,
            POLARS: self.polars,
        }
        if find_spec("grain"):
            found[GRAIN] = self.grain
        if find_spec("datasets"):
            found[DATASETS] = self.datasets
        return found

    def uncached(self) -> dict[str, Open]:
        """That read the files again in every epoch."""
        return {
            OURS_UNCACHED: lambda: fetcher(self.pipelines.ours("none", files=self.column_files).dataset),
            OURS_RECORDS_UNCACHED: lambda: fetcher(self.pipelines.ours("none").dataset),
            STOCK: lambda: fetcher(self.pipelines.stock()),
            LECTURE: lambda: fetcher(self.pipelines.lecture()),
        }

    def batches_in_random_order(self) -> tf.data.Dataset:
        """TFX's factory read once, as batches that then stay together."""
        batches = self.pipelines.stock(epochs=1).cache()
        return batches.shuffle(-(-self.size // self.batch_size)).repeat().prefetch(tf.data.AUTOTUNE)

    def factory(self) -> tf.data.Dataset:
        """TFX's factory read once, then one by one through a buffer that holds all."""
        examples = self.pipelines.stock(epochs=1).unbatch().cache()
        return examples.shuffle(self.size).repeat().batch(self.batch_size).prefetch(tf.data.AUTOTUNE)

    def five_lines(self) -> tf.data.Dataset:
        """Columns in memory, as the guides of tf.data shuffle them."""
        examples = tf.data.Dataset.from_tensor_slices(self._features_and_label())
        return examples.shuffle(self.size).repeat().batch(self.batch_size).prefetch(tf.data.AUTOTUNE)

    def gather(self) -> tf.data.Dataset:
        """Columns in memory, and batches of the numbers of rows: what an expert writes."""
        columns = tf.nest.map_structure(tf.constant, self._features_and_label())
        orders = tf.data.Dataset.range(1).repeat().map(lambda _: tf.random.shuffle(tf.range(self.size)))
        batches = orders.rebatch(self.batch_size).map(
            lambda rows: tf.nest.map_structure(lambda column: tf.gather(column, rows), columns)
        )
        return batches.prefetch(tf.data.AUTOTUNE)

    def polars(self) -> Fetch:
        """A DataFrame's rows, as NumPy arrays."""
        import polars as pl

        frame = pl.DataFrame({name: column.reshape(self.size) for name, column in self.columns.items()})
        return self._by_rows(lambda rows: [column.to_numpy() for column in frame[rows].iter_columns()])

    def grain(self) -> Fetch:
        """grain.MapDataset over rows, shuffled and batched by it."""
        grain = import_module("grain")
        rows = [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]
        batches = iter(grain.MapDataset.source(rows).shuffle(seed=0).repeat().batch(self.batch_size).to_iter_dataset())
        return lambda count: sum(len(next(batches)[self.pipelines.label_key]) for _ in range(count))

    def datasets(self) -> Fetch:
        """An Arrow table in memory, read at random positions as NumPy arrays."""
        datasets = import_module("datasets")
        table = datasets.Dataset.from_dict({name: column.reshape(self.size) for name, column in self.columns.items()})
        table = table.with_format("numpy")
        return self._by_rows(lambda rows: list(table[rows].values()))

    def _features_and_label(self) -> Any:
        features = dict(self.columns)
        return features, features.pop(self.pipelines.label_key)

    def _by_rows(self, take: Callable[[np.ndarray[Any, Any]], list[Any]]) -> Fetch:
        """Batches of permuted row numbers, each of which `take` turns into columns."""
        random = np.random.default_rng(0)

        def positions() -> Iterator[np.ndarray[Any, Any]]:
            while True:
                order = random.permutation(self.size)
                yield from (order[start : start + self.batch_size] for start in range(0, self.size, self.batch_size))

        batches = positions()
        return lambda count: sum(len(take(next(batches))[0]) for _ in range(count))
