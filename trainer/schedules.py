"""`train.learning_rate` as Keras takes it: a number, or a schedule over optimizer steps with its warm-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import keras
from keras.optimizers import schedules

from headrace.configs.errors import TrainingError
from headrace.configs.schedules import (
    ConstantSchedule,
    CosineSchedule,
    ExponentialSchedule,
    InverseTimeSchedule,
    PiecewiseSchedule,
    PolynomialSchedule,
    Schedule,
)

Decay = Callable[[Any], Any]
"""From the optimizer step since the end of the warm-up, float32, to the rate."""


def learning_rate(config: float | Schedule, accumulation: int, batches: int | None) -> float | LearningRate:
    """The rate that an optimizer is made with.

    accumulation: batches for one optimizer step; batches: in the whole training, None where that is not known. Raises
    TrainingError where a schedule is to last for the rest of a training whose length is not known.
    """
    if isinstance(config, float | int):
        return float(config)
    steps = None if batches is None else batches // accumulation
    return LearningRate(_decay(config, steps), config.warmup_steps, config.warmup_from, accumulation)


@keras.saving.register_keras_serializable("headrace")
class LearningRate(schedules.LearningRateSchedule):
    """A straight line from `warmup_from` to the beginning of `decay` in `warmup_steps` steps, and then `decay`.

    Keras calls a schedule with the number of batches; this counts optimizer steps, of `accumulation` batches each.
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
        """What it is rebuilt from."""
        decay = schedules.serialize(self.decay)
        return {"decay": decay, "warmup_steps": self.warmup_steps, "warmup_from": self.warmup_from,
                "accumulation": self.accumulation}  # fmt: skip

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRate:
        """The opposite."""
        return cls(**{**config, "decay": schedules.deserialize(config["decay"])})


def _decay(config: Schedule, steps: int | None) -> Decay:
    match config:
        case ConstantSchedule(initial=rate):
            return cast("Decay", schedules.PiecewiseConstantDecay([0.0], [rate, rate]))
        case CosineSchedule(initial=rate, end=end):
            return cast("Decay", schedules.CosineDecay(rate, _rest(config, steps), alpha=end / rate))
        case PolynomialSchedule(initial=rate, end=end, power=power, cycle=cycle):
            return cast("Decay", schedules.PolynomialDecay(rate, _rest(config, steps), end, power, cycle))
        case ExponentialSchedule(initial=rate):
            decay = schedules.ExponentialDecay(rate, config.decay_steps, config.decay_rate, config.staircase)
            return cast("Decay", decay)
        case InverseTimeSchedule(initial=rate):
            inverse = schedules.InverseTimeDecay(rate, config.decay_steps, config.decay_rate, config.staircase)
            return cast("Decay", inverse)
        case PiecewiseSchedule():
            boundaries = [float(boundary) for boundary in config.boundaries]
            return cast("Decay", schedules.PiecewiseConstantDecay(boundaries, list(map(float, config.values))))


def _rest(config: CosineSchedule | PolynomialSchedule, steps: int | None) -> int:
    """`decay_steps`; where it is null, the steps of the training after the warm-up."""
    if config.decay_steps is not None:
        return config.decay_steps
    if steps is None:
        raise TrainingError(
            "train.learning_rate: `decay_steps` is not given, and how many steps the training has is not known before"
            " its first epoch is over, as the examples are not kept in memory. Give `decay_steps`, or"
            " `train.steps_per_epoch`"
        )
    if steps <= config.warmup_steps:
        raise TrainingError(
            f"train.learning_rate.warmup_steps: the training has {steps:,} optimizer steps, and the warm-up takes"
            f" {config.warmup_steps:,} of them, which leaves none for the schedule. Lower it, or train longer"
        )
    return steps - config.warmup_steps
