"""The inputs of a training: the train and the eval split, opened as the config says."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
import tensorflow_transform as tft

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import columns
from headrace.trainer.columns.image import stored_image_bytes, stored_image_loader
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.buckets import choose_buckets
from headrace.trainer.input.errors import explain_file_errors, label_check
from headrace.trainer.input.mapped import MappedRows
from headrace.trainer.input.memory import (
    SAMPLE_EXAMPLES,
    CacheChoice,
    CacheKind,
    ExampleSample,
    FreeSpace,
    choose_cache,
    estimate_examples,
)
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.pipeline import InputPipeline, ReadSplits
from headrace.trainer.input.reading import SINGLE_WORKER, ClusterWorker, InputOptions
from headrace.trainer.input.sources import ExampleSources
from headrace.trainer.input.transformed_columns import are_columns, column_files
from headrace.trainer.input.weights import ExampleWeights
from headrace.trainer.sections import TrainerSections
from headrace.trainer.tasks import joined_labels

PREFETCH_TO_DEVICE_BYTES = 1 << 20
"""Batches of at least this size are copied to a device ahead of the step. For each batch that it copies, tf.data takes
0.4 ms of a processor, ten times as long as to fetch it; a small batch arrives sooner without.
"""


class Inputs(NamedTuple):
    """Both splits, and a description of how they are read."""

    train: InputSplit
    eval: InputSplit
    words: str
    """How they are read, for the log and the training record."""
    own_batches: bool = False
    """Whether each worker of a cluster makes its own part of each batch of the train split."""
    cache: CacheKind = "none"
    """Where the parsed examples are cached."""
    bytes_each: int = 0
    """Approximate size of a parsed example in memory."""
    columns: bool = False
    """Whether they are columns that are mapped into memory, and not parsed."""
    remarks: tuple[str, ...] = ()
    """What a user should see at the end of the run; `words` contains it as well."""


class TransformedExamples(NamedTuple):
    """The transformed examples of both splits."""

    output: tft.TFTransformOutput
    train: list[str]
    """Files of the train split."""
    eval: list[str]
    """Files of the eval split."""
    sample: ExampleSample
    """A sample of the train split."""

    @classmethod
    def of(
        cls, output: tft.TFTransformOutput, train_patterns: Sequence[str], eval_patterns: Sequence[str]
    ) -> TransformedExamples:
        """Find the files. Raises TrainingError if a split has none, or its first file is damaged."""
        train, evaluation = _files(train_patterns, "train"), _files(eval_patterns, "eval")
        spec = output.transformed_feature_spec()
        if are_columns(train):
            rows = MappedRows(train, spec)
            return cls(output, train, evaluation, ExampleSample(rows.bytes_each, rows.first_lengths(SAMPLE_EXAMPLES)))
        packing = Packing(spec)
        with explain_file_errors(train, packing):
            return cls(output, train, evaluation, ExampleSample.of(train, packing))


@dataclass(frozen=True)
class InputPlan:
    """How examples will be read, decided from the config before reading them."""

    examples: TransformedExamples
    training: InputPipeline
    sources: ExampleSources
    cache: CacheChoice
    label: LabelConfig
    words: str
    """The reasons for the decisions, except those about the sources."""

    @classmethod
    def of(
        cls,
        examples: TransformedExamples,
        sections: TrainerSections,
        device: str | None = None,
        worker: ClusterWorker = SINGLE_WORKER,
    ) -> InputPlan:
        """Decide. device, worker: as in `plan_inputs`."""
        train, output, sample = sections.train, examples.output, examples.sample
        graph, mapped = Path(output.transform_savedmodel_dir).parent, are_columns(examples.train)
        sources = ExampleSources.of(train, graph, worker, columns=mapped)
        space = FreeSpace.here(sample.bytes_each)
        cache = sources.cache(choose_cache(train.input.cache, examples.train + examples.eval, space))
        lengths = sample.lengths if train.input.shuffle else None  # without a shuffle the order of the files is kept
        buckets, why = choose_buckets(train.input.length_buckets, lengths, train.global_batch_size)
        sources = sources.bucketed(buckets, lengths)
        batch_bytes = sample.bytes_each * train.global_batch_size
        prefetch_device = device if batch_bytes >= PREFETCH_TO_DEVICE_BYTES else None
        spec = output.transformed_feature_spec()
        weights = ExampleWeights.of("train", examples.train, spec, sections.label, train.class_weight)
        features = columns.build(sections.features)
        training = InputPipeline(
            feature_spec=spec,
            stored_bytes=stored_image_bytes(features),
            label_key=sections.label.key,
            batch_size=sources.batch_size,
            cache=cache.kind,
            shuffle=sources.shuffle,
            seed=train.seed,
            steps_per_epoch=train.steps_per_epoch,
            buckets=buckets,
            reading=InputOptions.of(train.input, prefetch_device, batch_bytes),
            load=stored_image_loader(features),
            source=sources.stream,
            snapshot=sources.snapshots.files if sources.snapshots else None,
            joined=functools.partial(joined_labels, sections.label) if sections.label.tasks else None,
            weights=weights,
            check=label_check(sections.label),
        )
        words = "; ".join([cache.why + why, *([weights.words] if weights else [])])
        return cls(examples, training, sources, cache, sections.label, words)

    def open_train(self, start: int = 0) -> InputSplit:
        """Open the train split after `start` batches."""
        return self.training.open("train", self.sources.files(self.examples.train), self.sources.start(start))

    def open_eval(self, batch_size: int) -> InputSplit:
        spec = self.training.feature_spec
        evaluation = dataclasses.replace(
            self.training,
            shuffle=0,
            steps_per_epoch=None,
            buckets=None,
            batch_size=batch_size,
            weights=ExampleWeights.of("eval", self.examples.eval, spec, self.label),
        )
        return evaluation.open("eval", self.examples.eval)

    def open(self, train: TrainConfig, start: int = 0) -> Inputs:
        """Open both splits, the train split after `start` batches. train: the `train:` section."""
        trained_on, evaluation = self.open_train(start), self.open_eval(train.global_batch_size)
        own_batches, each = self.sources.own_batches, self.examples.sample.bytes_each
        remarks = _batch_size_remark(None if own_batches else trained_on.size, self.examples.train, train)
        words = "; ".join([self.words + self.sources.describe(), *remarks])
        columns = are_columns(self.examples.train)
        return Inputs(trained_on, evaluation, words, own_batches, self.cache.kind, each, columns, remarks)

    def reading_once(self) -> InputPlan:
        """The same plan, whose splits can be opened again without reading what the cache holds."""
        return dataclasses.replace(self, training=dataclasses.replace(self.training, read=ReadSplits()))


def plan_inputs(
    train_patterns: Sequence[str],
    eval_patterns: Sequence[str],
    transform_output: tft.TFTransformOutput,
    sections: TrainerSections,
    *,
    device: str | None = None,
    worker: ClusterWorker = SINGLE_WORKER,
) -> InputPlan:
    """Decide how to read the transformed examples. Raises TrainingError if a split has no files or one is damaged.

    Args:
        train_patterns: Patterns of the files of the train split.
        eval_patterns: Patterns of the files of the eval split.
        transform_output: The transform graph.
        sections: The config.
        device: Where to copy large batches ahead of the step, such as `GPU:0`.
        worker: Which worker of a cluster reads.
    """
    examples = TransformedExamples.of(transform_output, train_patterns, eval_patterns)
    return InputPlan.of(examples, sections, device, worker)


def _files(patterns: Sequence[str], split: str) -> list[str]:
    files = sorted(file for pattern in patterns for file in tf.io.gfile.glob(pattern))
    if not files:
        raise TrainingError(f"the {split} split has no files: nothing matches {', '.join(patterns)}")
    return column_files(str(Path(files[0]).parent)) if are_columns(files) else files


def _batch_size_remark(size: int | None, files: Sequence[str], train: TrainConfig) -> tuple[str, ...]:
    """Return a remark if one batch holds the whole train split. size: of the split, None if it is not known."""
    roughly = ""
    if size is None:
        size, roughly = estimate_examples(files), "roughly "
    batch_size = train.global_batch_size
    if size >= batch_size:
        return ()
    what = "an epoch is a single step" if train.steps_per_epoch is None else "a batch contains some of them repeatedly"
    return (f"batch_size {batch_size:,} is more than the {roughly}{size:,} examples of the train split: {what}",)
