"""`train:` how it is trained."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from configs.input import InputConfig
from configs.profile import ProfileConfig
from configs.section import Section

PositiveInt = Annotated[int, Field(gt=0)]


class EarlyStopping(Section):
    """Stop when the eval split stops improving."""

    patience: Annotated[int, Field(ge=0)] = 2
    """Epochs without a better eval loss before training stops."""
    min_delta: Annotated[float, Field(ge=0)] = 0.0
    """The least fall of the eval loss that counts as better."""


class TrainConfig(Section):
    """How it is trained."""

    epochs: PositiveInt = 5
    """Passes over the train split, at most."""
    steps_per_epoch: PositiveInt | None = None
    """Optimizer steps in an epoch; null: the whole train split."""
    batch_size: PositiveInt = 1024
    """Examples in a batch."""
    optimizer: str = "adam"
    """A Keras optimizer, by name."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.001
    """Of the optimizer, constant."""
    early_stopping: EarlyStopping | None = EarlyStopping()
    """null: train for all epochs. The weights of the epoch with the lowest eval loss are exported either way."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the initial weights and the shuffling."""
    input: InputConfig = InputConfig()
    """The tf.data input pipeline."""
    profile: ProfileConfig | None = None
    """A profile of some steps; null: none, and training pays nothing for it."""
