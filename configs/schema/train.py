"""`train:` how the model is trained: devices, the tf.data input pipeline, checkpoints and the profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from headrace.configs.schema.optimizer import ClipConfig, LearningRateSchedule, OptimizerConfig
from headrace.configs.schema.section import Name, PositiveInt, Section, defaults_of

Auto = Literal["auto"]
Strategy = Literal["auto", "cpu", "one_gpu", "mirrored", "multi_worker", "tpu"]
EmbeddingUpdates = Literal["auto", "rows", "whole"]
Precision = Literal["float32", "mixed_bfloat16", "mixed_float16"]
GrpcAddress = Annotated[str, Field(pattern=r"^grpc://[^\s/:]+:[0-9]{1,5}$")]
"""`grpc://host:port`."""

DISTRIBUTED = frozenset({"mirrored", "multi_worker", "tpu"})
"""Strategies that train on multiple devices, in a process of their own."""
UNKNOWN_EPOCHS, UNKNOWN_BATCH_SIZE, UNKNOWN_PATIENCE = 5, 1024, 2
"""What `auto` is where the number of examples plays no part: before training, and for epochs of a given number of
steps."""
CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS = "checkpoints", "checkpoint"
"""Names of two arguments of the Trainer that are not part of its config, because they do not affect its result: the
folder of its checkpoints, and CheckpointConfig as JSON."""


def _on_off(value: object) -> object:
    """Accept the booleans that YAML 1.1 parsers read for on and off."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


Jit = Annotated[Literal["auto", "on", "off"], BeforeValidator(_on_off)]


def _names(value: object) -> object:
    """Accept classes that are integers as names of settings."""
    return {str(name): weight for name, weight in value.items()} if isinstance(value, dict) else value


ClassWeight = (
    Literal["balanced"]
    | Annotated[
        dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=1), BeforeValidator(_names)
    ]
)


class ServiceConfig(Section):
    """A tf.data service, and how its workers share the data."""

    address: GrpcAddress
    """Address of the dispatcher, as `headrace tfdata-service` prints it."""
    sharding: Literal["dynamic", "off"] = "dynamic"
    """dynamic: a distributed epoch, in which the workers share the files and each example occurs once; off: each worker
    reads everything in its own order, endlessly, which requires `train.steps_per_epoch`. The eval split always uses
    dynamic."""
    coordinated: bool = False
    """Coordinated reads: the workers shuffle and make whole batches, and the trainer takes them from each worker in
    turn. Requires `sharding: off`."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds to wait for the first response, and later for a batch before the trainer reads the rest itself."""


def service_config(setting: str | ServiceConfig | None) -> ServiceConfig | None:
    """`train.input.service` in its long form: an address alone means the defaults."""
    return ServiceConfig(address=setting) if isinstance(setting, str) else setting


class InputConfig(Section):
    """The tf.data input pipeline: interleave, batch, parse, cache, shuffle, prefetch. `headrace tune-input` measures
    which settings are fastest for the data of a config.
    """

    cache: Literal["auto", "memory", "disk", "none"] = "auto"
    """Where parsed examples are cached in the first epoch. auto: in memory if they fit in a quarter of the free memory,
    else on disk if they fit in half of the free space, else nowhere: every epoch reads and parses them. Columns
    (`transform.materialize`) are mapped into memory instead: `memory` shuffles all of their examples, `disk` and `none`
    pass them through the pool of `shuffle`, and auto chooses `memory` or `none` by the same quarter."""
    shuffle: Annotated[int, Field(ge=0)] = 16384
    """Size of the train split's shuffle buffer, in examples; 0: file order. With the cache in memory, all examples are
    shuffled."""
    deterministic: bool = True
    """Whether the same seed gives the same batches. false: examples are used in the order in which they are read, which
    is faster with slow files."""
    threads: Auto | PositiveInt = "auto"
    """Number of private threads of the input pipeline. auto: one with the cache in memory, or, for images, the number
    of cores minus one; else it shares TensorFlow's threads."""
    prefetch: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Batches to prepare ahead of the step. auto: 16, or as many as fit in 64 MB, but at least two; with `autotune`,
    tf.data decides. Small batches of examples in memory are cut from up to 16,384 (16 MB) at a time, and two or more
    such pieces are prepared ahead, also with 0."""
    length_buckets: Auto | tuple[PositiveInt, ...] | None = "auto"
    """Group examples of similar length into batches, to reduce padding of features with many values. A list: the
    lengths at which one bucket ends and the next begins; null: no grouping; auto: group if more than a quarter would be
    padding."""
    read_batch: PositiveInt = 1024
    """Examples that are read and parsed at a time."""
    open_files: PositiveInt = 16
    """Maximum number of files read at the same time."""
    autotune: bool = False
    """Let tf.data's autotuning choose how many batches are parsed, loaded and prepared in parallel, for `threads` and
    `prefetch` that are `auto`. Off by default: stopping an iterator waits up to a minute for the autotuning thread, and
    reading was no faster with it (docs/training_inside.md)."""
    own_shards: bool = False
    """With `strategy: multi_worker`, each worker reads only its share of the train split's files and makes its own part
    of each batch. Requires `steps_per_epoch`. false: each worker reads all files, and the weights are the same as on
    one device."""
    snapshot: Name | None = None
    """A local folder in which parsed examples are stored for later runs with the same transform graph, examples and
    code. The three most recently used snapshots of each split are kept. Columns need none, and make none."""
    service: GrpcAddress | ServiceConfig | None = None
    """A tf.data service that reads and parses TFRecords: its address, or settings (see docs/training_speed.md)."""


class CheckpointConfig(Section):
    """Checkpoints of an unfinished training. If a run is killed, the next one resumes from the last checkpoint, as long
    as config, data and code are the same. They are removed when training is complete.
    """

    every_steps: PositiveInt | None = 1000
    """Minimum number of batches between checkpoints, which are written after a whole execution of steps. null: only
    when SIGTERM (or Ctrl-C) stops training."""
    keep: PositiveInt = 2
    """Number of checkpoints to keep."""


class ProfileConfig(Section):
    """A profile of some training steps, analyzed by the component ProfileVerdict and shown by TensorBoard."""

    batches: Annotated[tuple[PositiveInt, ...], Field(min_length=2, max_length=2)] = (50, 60)
    """First and last step to profile, counted from 1 across all epochs. Steps that run as one graph
    (`train.steps_per_execution`) are profiled together, so the range is extended to whole executions. It ends with the
    epoch in which it begins."""
    fail_if_input_bound_above: Annotated[float, Field(ge=0, le=1)] | None = None
    """Stop the run before anything is pushed if the steps wait for input for more than this fraction of the time, 0
    to 1. null: only report it."""

    @model_validator(mode="after")
    def _ascending(self) -> ProfileConfig:
        first, last = self.batches
        if first > last:
            raise ValueError(f"batches: the first step, {first}, is after the last, {last}")
        return self


class EarlyStopping(Section):
    """Stop when the eval loss no longer improves."""

    patience: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Epochs without a better eval loss before training stops. auto: 2 if `train.epochs` is a number; else as many as
    have about 800 steps, from 2 to 12."""
    min_delta: Annotated[float, Field(ge=0)] = 0.0
    """Minimum decrease of the eval loss that counts as better."""


class TrainConfig(Section):
    """How the model is trained."""

    epochs: Auto | PositiveInt = "auto"
    """Maximum number of passes over the train split. auto: as many as have about 10,000 steps, from 10 to 100, and 5
    with `steps_per_epoch`; `early_stopping` decides the end."""
    steps_per_epoch: PositiveInt | None = None
    """Batches per epoch. null: the whole train split."""
    batch_size: Auto | PositiveInt = "auto"
    """Examples per batch; with multiple devices, the total across all of them. auto: the power of two that gives an
    epoch about 64 to 128 steps, from 32 to 1,024; 1,024 with `steps_per_epoch`. For a text label it is lower if the
    batch would have more than 2^24 scores of words (rows x places x classes), but at least 8."""
    strategy: Strategy = "auto"
    """What to train on. auto: a TPU; else the workers of TF_CONFIG; else all GPUs (mirrored); else the CPU."""
    precision: Precision = "float32"
    """Precision of the layers' computations. Weights and predictions are always float32."""
    jit: Jit = "auto"
    """Whether to compile the steps with XLA. auto: measure both if training takes long enough, and use the faster."""
    steps_per_execution: Auto | PositiveInt = "auto"
    """Steps that run as one graph, without returning to Python. auto: up to 64, preferably a divisor of the steps per
    epoch (see docs/training.md)."""
    optimizer: Name | OptimizerConfig = "adam"
    """Name of a Keras optimizer, or dotted path of your own; with arguments: `{kind: adamw, weight_decay: 0.01}` (see
    docs/training.md)."""
    learning_rate: Annotated[float, Field(gt=0)] | LearningRateSchedule = 0.001
    """Learning rate of the optimizer: a number, or a schedule such as `{schedule: cosine, initial: 0.01, warmup_steps:
    100}`."""
    clip: ClipConfig | None = None
    """How gradients are clipped. null: not at all."""
    class_weight: ClassWeight | None = None
    """Factors of the classes in the loss of training: `balanced`, inversely proportional to the frequency of each class
    in the train split; or a number for each class, such as `{no: 1, yes: 10}`, and 1 for those not named. The eval
    loss, early stopping and the evaluation do not use them. null: none."""
    embedding_updates: EmbeddingUpdates = "auto"
    """Which weights of an embedding table an optimizer step changes. rows: those of the categories in the batch, so the
    cost does not grow with the vocabulary; requires adam, adagrad or sgd on a single device. whole: all of them. auto:
    rows for tables of 1,048,576 weights or more, where possible (see docs/training.md)."""
    gradient_accumulation: PositiveInt = 1
    """Number of batches whose gradients are averaged for one optimizer step, as if batches were that much larger."""
    checkpoint: CheckpointConfig = defaults_of(CheckpointConfig)
    """Checkpoints of an unfinished training."""
    warm_start: bool = False
    """Start with the weights of the latest blessed model where they match, instead of new ones."""
    early_stopping: EarlyStopping | None = defaults_of(EarlyStopping)
    """When to stop early. null: train for all epochs. The weights of the epoch with the lowest eval loss are exported
    in either case."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the initial weights and of shuffling."""
    input: InputConfig = defaults_of(InputConfig)
    """The tf.data input pipeline."""
    profile: ProfileConfig | None = None
    """A profile of some steps. null: none, at no cost."""

    @property
    def max_epochs(self) -> int:
        """`epochs` as a number: `auto` is replaced when training starts, and is UNKNOWN_EPOCHS before."""
        return UNKNOWN_EPOCHS if self.epochs == "auto" else self.epochs

    @property
    def global_batch_size(self) -> int:
        """`batch_size` as a number: `auto` is replaced when training starts, and is UNKNOWN_BATCH_SIZE before."""
        return UNKNOWN_BATCH_SIZE if self.batch_size == "auto" else self.batch_size

    @property
    def patience(self) -> int | None:
        """`early_stopping.patience` as a number, in epochs; None if training does not stop early."""
        if self.early_stopping is None:
            return None
        return UNKNOWN_PATIENCE if self.early_stopping.patience == "auto" else self.early_stopping.patience
