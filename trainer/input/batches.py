"""How examples become batches, and what a training gets: one split of them.

Packed examples of any kind become `InputBatch` elements here. Where they come from is in pipeline.py; their order is in
gathered.py, for those in memory, and in streamed.py, for those that are read in every epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import tensorflow as tf

from headrace.trainer.input.buckets import LengthBuckets
from headrace.trainer.input.packing import Column, Packed, Packing, no_autograph
from headrace.trainer.input.reading import DEFAULT_INPUT_OPTIONS, InputOptions
from headrace.trainer.input.weights import ExampleWeights

InputBatch = tuple[dict[str, Column], tf.Tensor] | tuple[dict[str, Column], tf.Tensor, tf.Tensor]
"""Features by name, the label, and the weights of the examples in the loss if they have some: each [batch, ...]."""


@dataclass(frozen=True)
class InputSplit:
    """One split of the examples, ready for training."""

    make_dataset: Callable[[], tf.data.Dataset]
    """Creates `dataset`, which a training that takes `endless` does not need: its functions take time to trace."""
    make_peek: Callable[[], tf.data.Dataset]
    """Creates `peek`, which most trainings do not need."""
    steps: int | None
    """Batches in an epoch; None if that is not known before the first."""
    size: int | None
    """Examples in the split; None if they are parsed in every epoch."""
    seen: Callable[[], int]
    """Returns the number of examples read so far, if they are parsed in every epoch."""
    endless: Callable[[], tf.data.Dataset] | None = None
    """Creates a dataset of the same epochs one after another, each with its smaller last batch. One iterator then
    serves a whole training; starting an iterator takes as long as dozens of small steps."""

    @cached_property
    def dataset(self) -> tf.data.Dataset:
        """`InputBatch` elements: one epoch, whose last batch may be smaller, or endless batches of full size.

        Each iterator is the next epoch, so only training uses it; everything else uses `peek`.
        """
        return self.make_dataset()

    @cached_property
    def peek(self) -> tf.data.Dataset:
        """`InputBatch` elements: the examples in the order of the files, the same each time. Reading it does not
        count as an epoch.
        """
        return self.make_peek()


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Settings that turn packed examples into batches."""

    label_key: str
    """Which of the features is the label; "" with `joined`."""
    batch_size: int
    """Examples in a batch."""
    shuffle: int = 0
    """Examples in the shuffle's pool; with `cache="memory"`, all of them. 0: keep the order of the files."""
    seed: int = 0
    """The same seed gives the same batches in the same order."""
    steps_per_epoch: int | None = None
    """Steps in an epoch of an endless dataset; None: an epoch is the whole split."""
    buckets: LengthBuckets | None = None
    """If set, and examples are shuffled, those of a batch have similar lengths."""
    reading: InputOptions = DEFAULT_INPUT_OPTIONS
    """How to use the machine."""
    load: Callable[[dict[str, Column]], dict[str, Column]] | None = None
    """Converts a batch of stored features to those that the model takes; None if they are the same."""
    joined: Callable[[dict[str, Column]], tf.Tensor] | None = None
    """Takes several labels out of the columns of a batch, as one tensor; None for one label."""
    weights: ExampleWeights | None = None
    """The weights of the examples in the loss; None if all count the same."""
    check: Callable[[tf.Tensor], tf.Tensor] = tf.identity
    """Passes labels through, and fails for an invalid one."""

    @property
    def endless(self) -> bool:
        """Whether the dataset is endless."""
        return self.steps_per_epoch is not None

    @property
    def reading_memory(self) -> InputOptions:
        """How to use the machine for examples that are in memory, or mapped into it."""
        return self.reading.from_memory(loaded=self.load is not None)

    def batch(self, packed: Packed, packing: Packing) -> InputBatch:
        """Return packed examples as a batch, before `loaded`."""
        columns = packing.unpack(packed)
        label = self.check(self.joined(columns) if self.joined else columns.pop(self.label_key))
        return (columns, label) if self.weights is None else (columns, label, self.weights.take(columns, label))

    def loaded(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Convert stored features to those that the model takes."""
        load = self.load
        if load is None:
            return batches
        both = no_autograph(lambda features, *targets: (load(features), *targets))
        return batches.map(both, num_parallel_calls=self.reading.calls, deterministic=True)
