"""What a training reads: the train and the eval split, opened as the config says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
import tensorflow_transform as tft

from configs.errors import TrainingError
from trainer.input_pipeline import InputPipeline, Split
from trainer.memory import bytes_per_example, choose_cache
from trainer.packing import Packing
from trainer.sections import TrainerSections


class Inputs(NamedTuple):
    """Both splits, and how they are read, in words."""

    train: Split
    eval: Split
    words: str


def open_inputs(
    train_patterns: Sequence[str],
    eval_patterns: Sequence[str],
    transform_output: tft.TFTransformOutput,
    sections: TrainerSections,
) -> Inputs:
    """Open the transformed examples. Raises TrainingError if a split is empty."""
    spec, train = transform_output.transformed_feature_spec(), sections.train
    train_files, eval_files = _files(train_patterns, "train"), _files(eval_patterns, "eval")
    cache = choose_cache(
        train.input.cache, train_files + eval_files, lambda: bytes_per_example(train_files, Packing(spec))
    )
    training = InputPipeline(
        spec,
        sections.label.key,
        train.batch_size,
        cache.memory,
        train.input.shuffle,
        train.seed,
        train.steps_per_epoch,
    )
    evaluation = dataclasses.replace(training, shuffle=0, steps_per_epoch=None)
    opened = training.open("train", train_files)
    return Inputs(opened, evaluation.open("eval", eval_files), cache.why + _small(opened, train.batch_size))


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
