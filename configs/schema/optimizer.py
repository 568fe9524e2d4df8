"""`train.optimizer`, `train.clip` and `train.learning_rate`. Steps are optimizer steps."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from headrace.configs.schema.section import Name, PositiveInt, Section

PositiveFloat = Annotated[float, Field(gt=0)]


class OptimizerConfig(Section, extra="allow"):
    """An optimizer with arguments: `{kind: adamw, weight_decay: 0.01}`."""

    __pydantic_extra__: dict[str, JsonValue]

    kind: Name
    """Name of a Keras optimizer, or dotted path of your own. All other settings are arguments of the optimizer, under
    their Keras names; learning rate, clipping and accumulation have their own settings in `train:`."""

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """All settings but `kind`."""
        return dict(self.__pydantic_extra__)

    @property
    def is_own(self) -> bool:
        """Whether `kind` is a dotted path."""
        return "." in self.kind


def optimizer_config(optimizer: str | OptimizerConfig) -> OptimizerConfig:
    """`train.optimizer` in its long form."""
    return OptimizerConfig(kind=optimizer) if isinstance(optimizer, str) else optimizer


class ClipConfig(Section):
    """How gradients are clipped; set exactly one. With gradient accumulation, the mean gradient is clipped."""

    norm: PositiveFloat | None = None
    """Maximum L2 norm of each weight's gradient."""
    global_norm: PositiveFloat | None = None
    """Maximum L2 norm of all gradients together."""
    value: PositiveFloat | None = None
    """Maximum absolute value of each element of a gradient."""

    @model_validator(mode="after")
    def _exactly_one(self) -> ClipConfig:
        given = [name for name in ("norm", "global_norm", "value") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"set exactly one of `norm`, `global_norm` and `value`; found {' and '.join(given) or 'none'}"
            )
        return self


class _Schedule(Section):
    """The settings of every schedule."""

    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Steps of linear warm-up to the schedule's first rate. The schedule starts after them."""
    warmup_from: Annotated[float, Field(ge=0)] = 0.0
    """The rate at the first step of the warm-up."""


class ConstantSchedule(_Schedule):
    """The same rate throughout, after the warm-up."""

    schedule: Literal["constant"]
    """`constant`."""
    initial: PositiveFloat
    """The rate."""


class CosineSchedule(_Schedule):
    """Decays along half a cosine: end + (initial - end) (1 + cos(pi step / decay_steps)) / 2."""

    schedule: Literal["cosine"]
    """`cosine`."""
    initial: PositiveFloat
    """The rate at the start."""
    decay_steps: PositiveInt | None = None
    """Steps of decay. null: the rest of the training."""
    end: Annotated[float, Field(ge=0)] = 0.0
    """The rate after the decay."""


class ExponentialSchedule(_Schedule):
    """Decays exponentially: initial * decay_rate ^ (step / decay_steps)."""

    schedule: Literal["exponential"]
    """`exponential`."""
    initial: PositiveFloat
    """The rate at the start."""
    decay_steps: PositiveInt
    """Steps after which the rate has been multiplied by `decay_rate` once."""
    decay_rate: PositiveFloat
    """The factor."""
    staircase: bool = False
    """Decay in discrete intervals of `decay_steps` steps, not gradually."""


class PolynomialSchedule(_Schedule):
    """Decays along a polynomial: end + (initial - end) (1 - step / decay_steps) ^ power."""

    schedule: Literal["polynomial"]
    """`polynomial`."""
    initial: PositiveFloat
    """The rate at the start."""
    decay_steps: PositiveInt | None = None
    """Steps of decay. null: the rest of the training."""
    end: Annotated[float, Field(ge=0)] = 0.0
    """The rate after the decay."""
    power: PositiveFloat = 1.0
    """Exponent of the polynomial; 1 is linear."""
    cycle: bool = False
    """Start over after the decay, each time with `decay_steps` more steps, instead of staying at `end`."""


class PiecewiseSchedule(_Schedule):
    """A constant rate for each interval of steps."""

    schedule: Literal["piecewise"]
    """`piecewise`."""
    boundaries: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """The last step of each interval but the last, counted from 0, in ascending order."""
    values: Annotated[tuple[PositiveFloat, ...], Field(min_length=2)]
    """The rate of each interval: one more than there are boundaries."""

    @model_validator(mode="after")
    def _one_rate_per_interval(self) -> PiecewiseSchedule:
        if len(self.values) != len(self.boundaries) + 1:
            counts = f"{len(self.boundaries)} boundaries make {len(self.boundaries) + 1} intervals"
            raise ValueError(f"{counts}, but `values` has {len(self.values)} rates; set one rate per interval")
        if any(later <= earlier for earlier, later in itertools.pairwise(self.boundaries)):
            raise ValueError(f"`boundaries` must be ascending; found {list(self.boundaries)}")
        return self


class InverseTimeSchedule(_Schedule):
    """Decays with the inverse of time: initial / (1 + decay_rate * step / decay_steps)."""

    schedule: Literal["inverse_time"]
    """`inverse_time`."""
    initial: PositiveFloat
    """The rate at the start."""
    decay_steps: PositiveInt
    """Steps per unit of time."""
    decay_rate: PositiveFloat
    """Increase of the divisor per unit of time."""
    staircase: bool = False
    """Decay in discrete intervals of `decay_steps` steps, not gradually."""


LearningRateSchedule = Annotated[
    ConstantSchedule
    | CosineSchedule
    | ExponentialSchedule
    | PolynomialSchedule
    | PiecewiseSchedule
    | InverseTimeSchedule,
    Field(discriminator="schedule"),
]
