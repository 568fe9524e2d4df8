"""`headrace tune-input` on the transformed examples of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tensorflow_transform as tft

from configs.input import InputConfig
from configs.train import TrainConfig
from trainer.input.buckets import choose_buckets
from trainer.input.choices import Found, find
from trainer.input.errors import told_by_file
from trainer.input.memory import Room, Sample, choose_cache, estimate_examples
from trainer.input.packing import Packing
from trainer.input.pipeline import InputPipeline, Split
from trainer.input.reading import Reading


def measure(train: TrainConfig, label_key: str, graph: Path, files: Sequence[str], seconds: float) -> Found:
    """Try the settings on these files, the train split. Raises TrainingError if it is empty or damaged.

    `cache: auto` counts as what it comes to; a cache in memory that does not fit is not tried.
    """
    spec = tft.TFTransformOutput(str(graph)).transformed_feature_spec()
    packing = Packing(spec)
    with told_by_file(files, packing):
        sample = Sample.of(files, packing)
    room, examples = Room.here(sample.bytes_each), estimate_examples(files)
    buckets, _ = choose_buckets(train.input.length_buckets, sample.lengths, train.batch_size)
    fits = choose_cache("auto", files, room).where

    def open_split(tried: InputConfig) -> Split:
        return InputPipeline(
            spec,
            label_key,
            train.batch_size,
            choose_cache(tried.cache, files, room).where,
            tried.shuffle,
            train.seed,
            steps_per_epoch=1,
            buckets=buckets,
            reading=Reading.of(tried),
        ).open("train", files)

    excluded = {"memory": set(), "disk": {"memory"}, "none": {"memory", "disk"}}[fits]
    if train.input.cache == "auto":
        excluded = excluded | {fits}  # which is what it comes to
    epochs = train.epochs if train.steps_per_epoch is None else _epochs(train, examples)
    return find(train.input, open_split, examples, epochs, seconds, excluded)


def _epochs(train: TrainConfig, examples: int) -> int:
    """Passes over the split in a training that counts steps."""
    return max(round(train.epochs * (train.steps_per_epoch or 0) * train.batch_size / max(examples, 1)), 1)
