"""`train:` how it is trained."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.checkpoint import CheckpointConfig
from headrace.configs.devices import Jit, Precision, Strategy
from headrace.configs.input import InputConfig
from headrace.configs.optimizer import ClipConfig, OptimizerConfig
from headrace.configs.profile import ProfileConfig
from headrace.configs.schedules import Schedule
from headrace.configs.section import Name, Section

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
    """Batches in an epoch; null: the whole train split."""
    batch_size: PositiveInt = 1024
    """Examples in a batch; over several devices: in all of them together."""
    strategy: Strategy = "auto"
    """What it runs on. auto: a TPU; else the workers of TF_CONFIG; else all GPUs (mirrored); else the CPU."""
    precision: Precision = "float32"
    """Of the layers' computations. Weights and predictions are float32 in each case."""
    jit: Jit = "auto"
    """Compile steps by XLA. auto: measure in a training that lasts, and keep the faster."""
    steps_per_execution: Literal["auto"] | PositiveInt = "auto"
    """Steps that run as one graph, between which Python sees nothing. auto: up to 64, if it can a number that divides
    the steps of an epoch (see docs/training.md)."""
    optimizer: Name | OptimizerConfig = "adam"
    """A Keras optimizer, by name, or the dotted path of your own; with arguments: `{kind: adamw, weight_decay: 0.01}`
    (see docs/training.md)."""
    learning_rate: Annotated[float, Field(gt=0)] | Schedule = 0.001
    """Of the optimizer: a number, or a schedule such as `{schedule: cosine, initial: 0.01, warmup_steps: 100}`."""
    clip: ClipConfig | None = None
    """How gradients are clipped; null: not at all."""
    gradient_accumulation: PositiveInt = 1
    """Batches whose gradients are averaged for one optimizer step: as if batches were so many times larger."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """What is kept of a training that is not done."""
    warm_start: bool = False
    """Begin with the weights of the latest blessed model, where they fit, not with new ones."""
    early_stopping: EarlyStopping | None = EarlyStopping()
    """null: train for all epochs. The weights of the epoch with the lowest eval loss are exported either way."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the initial weights and the shuffling."""
    input: InputConfig = InputConfig()
    """The tf.data input pipeline."""
    profile: ProfileConfig | None = None
    """A profile of some steps; null: none, and training pays nothing for it."""
