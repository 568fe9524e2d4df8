"""How long to train, in batches of what size, and which kind of model, if the config leaves that to the number of
examples.

budget = Budget.of(train, files, scores_of_row(label, output))
train = budget.applied(train)       # numbers for `auto`
budget.words                        # {"batch_size": "32: auto, for 1,200 examples", ...}
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import tensorflow as tf
import tensorflow_transform as tft

from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import ModelBase
from headrace.configs.schema.table_model import TableModel
from headrace.configs.schema.train import UNKNOWN_BATCH_SIZE, UNKNOWN_EPOCHS, UNKNOWN_PATIENCE, TrainConfig
from headrace.trainer.columns import vocabulary_size
from headrace.trainer.input.memory import estimate_examples
from headrace.trainer.sections import TrainerSections
from headrace.trainer.target import with_target_classes

STEPS_PER_EPOCH = 64
"""Minimum number of steps in an epoch, as long as a batch has more than the fewest examples."""
BATCH_SIZES = 32, 1024
"""The fewest and the most examples in a batch."""
SCORES = 1 << 24
"""The most scores of words that a batch of text labels holds: 64 MiB, in each of a few tensors and their gradients."""
FEWEST_TEXTS = 8
"""The fewest examples in such a batch, however many scores they have."""
STEPS = 10_000
"""Steps in the longest training, as long as the number of its epochs is within EPOCHS."""
EPOCHS = 10, 100
PATIENCE_STEPS = 800
"""Steps without a better eval loss after which training stops, as long as the number of epochs is within PATIENCE."""
PATIENCE = 2, 12


@dataclass(frozen=True)
class Budget:
    """Numbers for the settings that are `auto`, None for the others."""

    examples: int = 0
    """Number of examples in the train split, estimated if they are many; 0: unknown or of no account."""
    batch_size: int | None = None
    epochs: int | None = None
    patience: int | None = None
    row_scores: int = 0
    """The scores of an example's words, if they made the batch smaller."""
    model: ModelBase | None = None
    """The model that suits the table."""
    table: int = 0
    """Number of examples by which it was chosen; 0: it depends on none."""

    @classmethod
    def of(cls, train: TrainConfig, patterns: Sequence[str], row_scores: int = 0) -> Budget:
        """Choose the numbers from the files of the train split. patterns: of these files; row_scores: see below."""
        stop = train.early_stopping
        auto_patience = stop is not None and stop.patience == "auto"
        if train.batch_size != "auto" and train.epochs != "auto" and not auto_patience:
            return NO_BUDGET
        examples = 0 if train.steps_per_epoch is not None else _count(patterns)
        unbounded = choose_batch_size(examples)
        batch_size = choose_batch_size(examples, row_scores) if train.batch_size == "auto" else train.batch_size
        steps = -(-examples // batch_size)
        return cls(
            examples,
            batch_size if train.batch_size == "auto" else None,
            choose_epochs(steps) if train.epochs == "auto" else None,
            choose_patience(steps if train.epochs == "auto" else 0) if auto_patience else None,
            row_scores if train.batch_size == "auto" and batch_size < unbounded else 0,
        )

    def applied(self, train: TrainConfig) -> TrainConfig:
        """Replace what is `auto`."""
        numbers = {"batch_size": self.batch_size, "epochs": self.epochs}
        update: dict[str, object] = {name: number for name, number in numbers.items() if number is not None}
        if self.patience is not None and train.early_stopping is not None:
            update["early_stopping"] = train.early_stopping.model_copy(update={"patience": self.patience})
        return train.model_copy(update=update)

    def with_model(self, sections: TrainerSections, patterns: Sequence[str]) -> Self:
        """With the kind of model, if the config leaves it to the table. patterns: of the files of the train split."""
        model, features, train = sections.model, sections.features, sections.train
        if not isinstance(model, TableModel):
            return self
        examples = 0 if model.is_always_wide(features, train) else self.examples or _count(patterns)
        return replace(self, table=examples, model=model.for_table(examples, features, train))

    @property
    def words(self) -> dict[str, str]:
        """For the log and the training record: each chosen number, and what it depends on."""
        numbers = {"batch_size": self.batch_size, "epochs": self.epochs, "patience": self.patience}
        why = f"auto, for {self.examples:,} examples" if self.examples else "auto"
        words = {name: f"{number:,}: {why}" for name, number in numbers.items() if number is not None}
        if self.model is not None:
            words["model"] = f"{self.model.kind}: auto" + (f", for {self.table:,} examples" if self.table else "")
        if self.row_scores:
            words["batch_size"] += f", each with {self.row_scores:,} scores of words"
        return words


NO_BUDGET = Budget()
"""For a config without `auto`."""


def choose_batch_size(examples: int, row_scores: int = 0) -> int:
    """The largest power of two that leaves an epoch 64 steps, within BATCH_SIZES, and has at most SCORES scores.

    row_scores: of an example, as `scores_of_row` returns them.
    """
    fewest, most = BATCH_SIZES
    found = min(max(_power(examples // STEPS_PER_EPOCH), fewest), most) if examples else UNKNOWN_BATCH_SIZE
    return min(found, max(_power(SCORES // row_scores), FEWEST_TEXTS)) if row_scores else found


def _power(number: int) -> int:
    """The largest power of two up to a number; 1 for 0."""
    return 1 << max(number.bit_length() - 1, 0)


def scores_of_row(label: LabelConfig, output: tft.TFTransformOutput) -> int:
    """Of a text label, how many scores an example has at most: of every class at each of its places. 0 for others.

    Raises TrainingError if the learned vocabulary is empty.
    """
    if label.kind != "text":
        return 0
    places = (label.text_feature.max_tokens or 0) + 1
    return places * with_target_classes(label, vocabulary_size(output)).num_classes


def choose_epochs(steps: int) -> int:
    """The number of epochs with STEPS steps, within EPOCHS. steps: in an epoch; 0: unknown."""
    return min(max(-(-STEPS // steps), EPOCHS[0]), EPOCHS[1]) if steps else UNKNOWN_EPOCHS


def choose_patience(steps: int) -> int:
    """The number of epochs with PATIENCE_STEPS steps, within PATIENCE. steps: in an epoch; 0: unknown."""
    return min(max(-(-PATIENCE_STEPS // steps), PATIENCE[0]), PATIENCE[1]) if steps else UNKNOWN_PATIENCE


def _count(patterns: Sequence[str]) -> int:
    """The number of examples; 0 if a file is damaged, which is reported when the split is opened."""
    files = sorted({file for pattern in patterns for file in tf.io.gfile.glob(pattern)})
    try:
        return estimate_examples(files)
    except (OSError, EOFError, zlib.error, tf.errors.OpError):
        return 0
