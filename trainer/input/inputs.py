"""What a training reads: the train and the eval split, opened as the config says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
import tensorflow_transform as tft

from headrace.configs.errors import TrainingError
from headrace.configs.train import TrainConfig
from headrace.trainer import columns
from headrace.trainer.columns.stored import loader
from headrace.trainer.input.buckets import choose_buckets
from headrace.trainer.input.errors import told_by_file
from headrace.trainer.input.memory import Cache, Room, Sample, Where, choose_cache, estimate_examples
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.pipeline import InputPipeline, Split
from headrace.trainer.input.reading import Reading
from headrace.trainer.input.sources import Sources
from headrace.trainer.input.worker import ALONE, Worker
from headrace.trainer.label_check import checked
from headrace.trainer.sections import TrainerSections

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
    remarks: tuple[str, ...] = ()
    """What a user should see beside the words, which hold it too."""


class Examples(NamedTuple):
    """The transformed examples."""

    output: tft.TFTransformOutput
    train: list[str]
    """Files of the train split."""
    eval: list[str]
    """Files of the eval split."""
    sample: Sample
    """Of the train split."""

    @classmethod
    def of(cls, output: tft.TFTransformOutput, train_patterns: Sequence[str], eval_patterns: Sequence[str]) -> Examples:
        """Raises TrainingError if a split has no files, or its first file is damaged."""
        train, evaluation = _files(train_patterns, "train"), _files(eval_patterns, "eval")
        packing = Packing(output.transformed_feature_spec())
        with told_by_file(train, packing):
            return cls(output, train, evaluation, Sample.of(train, packing))


@dataclass(frozen=True)
class Plan:
    """How examples are read as a config says, decided before they are."""

    examples: Examples
    training: InputPipeline
    sources: Sources
    cache: Cache
    words: str
    """Of what was decided, but for the sources."""

    @classmethod
    def of(
        cls, examples: Examples, sections: TrainerSections, device: str | None = None, worker: Worker = ALONE
    ) -> Plan:
        """device, worker: as in `open_inputs`."""
        train, output, sample = sections.train, examples.output, examples.sample
        sources = Sources.of(train, Path(output.transform_savedmodel_dir).parent, worker)
        room = Room.here(sample.bytes_each)
        cache = sources.cache(choose_cache(train.input.cache, examples.train + examples.eval, room))
        lengths = sample.lengths if train.input.shuffle else None  # in the order of the files, they are as they come
        buckets, why = choose_buckets(train.input.length_buckets, lengths, train.batch_size)
        sources = sources.bucketed(buckets, lengths)
        batch_bytes = sample.bytes_each * train.batch_size
        training = InputPipeline(
            feature_spec=output.transformed_feature_spec(),
            label_key=sections.label.key,
            batch_size=sources.batch_size,
            cache=cache.where,
            shuffle=sources.shuffle,
            seed=train.seed,
            steps_per_epoch=train.steps_per_epoch,
            buckets=buckets,
            reading=Reading.of(train.input, device if batch_bytes >= LARGE else None, batch_bytes),
            load=loader(columns.build(sections.features)),
            source=sources.stream,
            check=checked(sections.label),
        )
        return cls(examples, training, sources, cache, cache.why + why)

    def open_train(self, start: int = 0) -> Split:
        """The train split, behind so many batches."""
        return self.training.open("train", self.sources.files(self.examples.train), self.sources.start(start))

    def open_eval(self, batch_size: int) -> Split:
        """The eval split."""
        evaluation = dataclasses.replace(
            self.training, shuffle=0, steps_per_epoch=None, buckets=None, batch_size=batch_size
        )
        return evaluation.open("eval", self.examples.eval)


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
    examples = Examples.of(transform_output, train_patterns, eval_patterns)
    plan = Plan.of(examples, sections, device, worker)
    train, evaluation = plan.open_train(start), plan.open_eval(sections.train.batch_size)
    own_batches, each = plan.sources.own_batches, examples.sample.bytes_each
    remarks = _small(None if own_batches else train.size, examples.train, sections.train)
    words = "; ".join([plan.words + plan.sources.told(), *remarks])
    return Inputs(train, evaluation, words, own_batches, plan.cache.where, each, remarks)


def _files(patterns: Sequence[str], split: str) -> list[str]:
    files = sorted(file for pattern in patterns for file in tf.io.gfile.glob(pattern))
    if not files:
        raise TrainingError(f"the {split} split has no files: nothing matches {', '.join(patterns)}")
    return files


def _small(size: int | None, files: Sequence[str], train: TrainConfig) -> tuple[str, ...]:
    """A remark if one batch holds the whole train split; size: of it, where that is known."""
    told = ""
    if size is None:
        size, told = estimate_examples(files), "roughly "
    if size >= train.batch_size:
        return ()
    what = "an epoch is a single step" if train.steps_per_epoch is None else "a batch has some of them several times"
    return (f"batch_size {train.batch_size:,} is more than the {told}{size:,} examples of the train split: {what}",)
