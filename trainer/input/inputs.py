"""What a training reads: the train and the eval split, opened as the config says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
import tensorflow_transform as tft

from configs.errors import TrainingError
from trainer import columns
from trainer.columns.stored import loader
from trainer.input.buckets import choose_buckets
from trainer.input.errors import told_by_file
from trainer.input.memory import Room, Sample, Where, choose_cache
from trainer.input.packing import Packing
from trainer.input.pipeline import InputPipeline, Split
from trainer.input.reading import Reading
from trainer.input.sources import Sources
from trainer.input.worker import ALONE, Worker
from trainer.label_check import checked
from trainer.sections import TrainerSections

LARGE = 1 << 20
"""Bytes of a batch that is worth bringing to a device ahead of the step: tf.data takes 0.4 ms of a processor for each
that it brings, ten times as long as to fetch it, and a small one is there sooner.
"""


class Inputs(NamedTuple):
    """Both splits, and how they are read, in words."""

    train: Split
    eval: Split
    words: str
    own_batches: bool = False
    """Whether each worker of a cluster makes batches of its own of the train split, which together are one."""
    cache: Where = "none"
    """Where the parsed examples are kept."""
    bytes_each: int = 0
    """Of a parsed example in memory, about."""


def open_inputs(  # noqa: PLR0913
    train_patterns: Sequence[str],
    eval_patterns: Sequence[str],
    transform_output: tft.TFTransformOutput,
    sections: TrainerSections,
    *,
    start: int = 0,
    device: str | None = None,
    worker: Worker = ALONE,
) -> Inputs:
    """Open the transformed examples. Raises TrainingError if a split is empty, or a file damaged.

    start: batches that were trained on before; device: to which large batches are brought ahead of the step, such as
    `GPU:0`; worker: who reads, of a cluster.
    """
    spec, train = transform_output.transformed_feature_spec(), sections.train
    train_files, eval_files = _files(train_patterns, "train"), _files(eval_patterns, "eval")
    packing = Packing(spec)
    with told_by_file(train_files, packing):
        sample = Sample.of(train_files, packing)
    sources = Sources.of(train, Path(transform_output.transform_savedmodel_dir).parent, worker)
    cache = sources.cache(choose_cache(train.input.cache, train_files + eval_files, Room.here(sample.bytes_each)))
    lengths = sample.lengths if train.input.shuffle else None  # in the order of the files, lengths are as they come
    buckets, why = choose_buckets(train.input.length_buckets, lengths, train.batch_size)
    sources = sources.bucketed(buckets, lengths)
    training = InputPipeline(
        spec,
        sections.label.key,
        sources.batch_size,
        cache.where,
        sources.shuffle,
        train.seed,
        train.steps_per_epoch,
        buckets,
        Reading.of(train.input, device if sample.bytes_each * train.batch_size >= LARGE else None),
        loader(columns.build(sections.features)),
        sources.stream,
        checked(sections.label),
    )
    evaluation = dataclasses.replace(
        training, shuffle=0, steps_per_epoch=None, buckets=None, batch_size=train.batch_size
    )
    opened = training.open("train", sources.files(train_files), sources.start(start))
    evaluated = evaluation.open("eval", eval_files)
    told = cache.why + why + sources.told() + _small(opened, sources.batch_size)
    return Inputs(opened, evaluated, told, sources.own_batches, cache.where, sample.bytes_each)


def _files(patterns: Sequence[str], split: str) -> list[str]:
    files = sorted(file for pattern in patterns for file in tf.io.gfile.glob(pattern))
    if not files:
        raise TrainingError(f"the {split} split has no files: nothing matches {', '.join(patterns)}")
    return files


def _small(split: Split, batch_size: int) -> str:
    """A remark if one batch holds the whole split."""
    if split.size is None or split.size >= batch_size:
        return ""
    return f"; batch_size {batch_size:,} is more than the {split.size:,} examples: an epoch is a single step"
