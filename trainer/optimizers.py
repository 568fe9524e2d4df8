"""The optimizer that the config names, with its arguments, learning rate schedule, clipping and accumulation.

optimizer(TrainConfig(optimizer="sgd"), batches=1000)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import keras
from keras.optimizers import schedules

from headrace.common.errors import TrainingError
from headrace.configs.rules.keras_names import OPTIMIZER_ARGUMENTS, SHARED_ARGUMENTS
from headrace.configs.schema.optimizer import (
    ConstantSchedule,
    CosineSchedule,
    ExponentialSchedule,
    InverseTimeSchedule,
    LearningRateSchedule,
    OptimizerConfig,
    PiecewiseSchedule,
    PolynomialSchedule,
    optimizer_config,
)
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.hooks import resolve, unknown_name

OptimizerFactory = Callable[..., keras.optimizers.Optimizer]
Decay = Callable[[Any], Any]
"""The learning rate as a function of the optimizer step since the end of the warm-up, float32."""


def optimizer(train: TrainConfig, batches: int | None = None) -> keras.optimizers.Optimizer:
    """Create an optimizer, not built.

    Raises TrainingError for a name or an argument that Keras does not have, if the user's own function returns anything
    but a Keras optimizer, and if the training is too short for a single optimizer step.

    batches: number of batches in the whole training, None if that is not known.
    """
    if batches is not None:
        leftover_batches(train, batches)
    config = optimizer_config(train.optimizer)
    rate = learning_rate(train.learning_rate, train.gradient_accumulation, batches)
    created = _user_optimizer(config, rate) if config.is_own else _keras_optimizer(config, rate)
    if train.clip is not None:
        created.clipnorm, created.clipvalue = train.clip.norm, train.clip.value
        created.global_clipnorm = train.clip.global_norm
    if train.gradient_accumulation > 1:
        created.gradient_accumulation_steps = train.gradient_accumulation
    return created


def leftover_batches(train: TrainConfig, batches: int) -> tuple[str, ...]:
    """Return a remark if the last batches are too few for an optimizer step, so their gradients are never applied.

    Raises TrainingError if all batches together are too few. batches: number of batches in the whole training.
    """
    per_step = train.gradient_accumulation
    if batches < per_step:
        raise TrainingError(
            f"train.gradient_accumulation: {per_step:,} batches make one step of the optimizer, and the whole training"
            f" has {batches:,}, so nothing is learned. Lower it, lower `train.batch_size`, or raise `train.epochs`"
        )
    if not (rest := batches % per_step):
        return ()
    return (f"gradient_accumulation {per_step:,}: the last {rest:,} of {batches:,} batches made no optimizer step",)


def _keras_optimizer(config: OptimizerConfig, rate: Any) -> keras.optimizers.Optimizer:
    known: dict[str, OptimizerFactory] = {
        known.lower(): kind
        for known, kind in vars(keras.optimizers).items()
        if inspect.isclass(kind) and known not in ("Optimizer", "LossScaleOptimizer")
    }
    name = config.kind.lower()
    if name not in known:
        raise unknown_name("train.optimizer", config.kind, known)
    try:
        return known[name](learning_rate=rate, **_typed(config.arguments, OPTIMIZER_ARGUMENTS.get(name, {})))
    except (TypeError, ValueError) as error:
        raise TrainingError(f"train.optimizer: Keras refuses the arguments of {config.kind}: {error}") from error


def _typed(arguments: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    """Convert integers to floats where Keras expects floats: it refuses `momentum=0`."""
    kinds = {**own, **SHARED_ARGUMENTS}
    numbers = {name for name, kind in kinds.items() if kind.startswith("number")}
    return {
        name: float(value) if name in numbers and isinstance(value, int) else value for name, value in arguments.items()
    }


def _user_optimizer(config: OptimizerConfig, rate: Any) -> keras.optimizers.Optimizer:
    created = resolve(config.kind, "train.optimizer")(learning_rate=rate, **config.arguments)
    if not isinstance(created, keras.optimizers.Optimizer):
        raise TrainingError(
            f"train.optimizer: {config.kind} returned {type(created).__name__}, not a keras.optimizers.Optimizer. Name"
            " a subclass, or a function that returns one"
        )
    return created


def learning_rate(config: float | LearningRateSchedule, accumulation: int, batches: int | None) -> float | LearningRate:
    """Return the learning rate: a number, or a schedule over optimizer steps with its warm-up.

    Raises TrainingError if a schedule is to last for the rest of a training whose length is not known.

    Args:
        config: `train.learning_rate`.
        accumulation: Batches per optimizer step.
        batches: Number of batches in the whole training, None if that is not known.
    """
    if isinstance(config, float | int):
        return float(config)
    steps = None if batches is None else batches // accumulation
    return LearningRate(_decay(config, steps), config.warmup_steps, config.warmup_from, accumulation)


@keras.saving.register_keras_serializable("headrace")
class LearningRate(schedules.LearningRateSchedule):
    """A linear warm-up from `warmup_from` to the start of `decay` in `warmup_steps` steps, followed by `decay`.

    Keras passes the number of batches; the schedule counts optimizer steps of `accumulation` batches each.
    """

    def __init__(self, decay: Decay, warmup_steps: int, warmup_from: float, accumulation: int) -> None:
        super().__init__()
        self.decay, self.warmup_steps = decay, warmup_steps
        self.warmup_from, self.accumulation = warmup_from, accumulation

    def __call__(self, step: Any) -> Any:
        """The rate for batch `step`, from 0."""
        step = keras.ops.cast(keras.ops.floor_divide(step, self.accumulation), "float32")
        after = self.decay(keras.ops.maximum(step - self.warmup_steps, 0.0))
        if not self.warmup_steps:
            return after
        first = self.decay(keras.ops.zeros(()))
        warming = self.warmup_from + (first - self.warmup_from) * step / self.warmup_steps
        return keras.ops.where(step < self.warmup_steps, warming, after)

    def get_config(self) -> dict[str, Any]:
        decay = schedules.serialize(self.decay)
        return {"decay": decay, "warmup_steps": self.warmup_steps, "warmup_from": self.warmup_from,
                "accumulation": self.accumulation}  # fmt: skip

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRate:
        return cls(**{**config, "decay": schedules.deserialize(config["decay"])})


def _decay(config: LearningRateSchedule, steps: int | None) -> Decay:
    match config:
        case ConstantSchedule(initial=rate):
            return cast("Decay", schedules.PiecewiseConstantDecay([0.0], [rate, rate]))
        case CosineSchedule(initial=rate, end=end):
            return cast("Decay", schedules.CosineDecay(rate, _decay_steps(config, steps), alpha=end / rate))
        case PolynomialSchedule(initial=rate, end=end, power=power, cycle=cycle):
            return cast("Decay", schedules.PolynomialDecay(rate, _decay_steps(config, steps), end, power, cycle))
        case ExponentialSchedule(initial=rate):
            decay = schedules.ExponentialDecay(rate, config.decay_steps, config.decay_rate, config.staircase)
            return cast("Decay", decay)
        case InverseTimeSchedule(initial=rate):
            inverse = schedules.InverseTimeDecay(rate, config.decay_steps, config.decay_rate, config.staircase)
            return cast("Decay", inverse)
        case PiecewiseSchedule():
            boundaries = [float(boundary) for boundary in config.boundaries]
            return cast("Decay", schedules.PiecewiseConstantDecay(boundaries, list(map(float, config.values))))


def _decay_steps(config: CosineSchedule | PolynomialSchedule, steps: int | None) -> int:
    """`decay_steps`, or if it is null the steps of the training after the warm-up."""
    if config.decay_steps is not None:
        return config.decay_steps
    if steps is None:
        raise TrainingError(
            "train.learning_rate: `decay_steps` is not set, and the number of optimizer steps is unknown before the end"
            " of the first epoch, because the examples are not cached. Set `decay_steps` or `train.steps_per_epoch`"
        )
    if steps <= config.warmup_steps:
        raise TrainingError(
            f"train.learning_rate.warmup_steps: the training has {steps:,} optimizer steps, and the warm-up takes"
            f" {config.warmup_steps:,} of them, which leaves none for the schedule. Lower it, or train longer"
        )
    return steps - config.warmup_steps
