"""`train.learning_rate` as a schedule: one class for each; `schedule:` chooses it. Steps are optimizer steps."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.section import Section

Rate = Annotated[float, Field(gt=0)]
Steps = Annotated[int, Field(gt=0)]


class _Schedule(Section):
    """What every schedule has."""

    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Steps in which the rate first rises, in a straight line, to where the schedule begins; it begins after them."""
    warmup_from: Annotated[float, Field(ge=0)] = 0.0
    """The rate at the first step of the warm-up."""


class ConstantSchedule(_Schedule):
    """The same rate throughout, after the warm-up."""

    schedule: Literal["constant"]
    """`constant`."""
    initial: Rate
    """The rate."""


class CosineSchedule(_Schedule):
    """Falls along half a cosine: end + (initial - end) (1 + cos(pi step / decay_steps)) / 2."""

    schedule: Literal["cosine"]
    """`cosine`."""
    initial: Rate
    """The rate at its beginning."""
    decay_steps: Steps | None = None
    """Steps until the end of the fall; null: the rest of the training."""
    end: Annotated[float, Field(ge=0)] = 0.0
    """The rate at the end of the fall and from then on."""


class ExponentialSchedule(_Schedule):
    """Falls by the same share again and again: initial * decay_rate ^ (step / decay_steps)."""

    schedule: Literal["exponential"]
    """`exponential`."""
    initial: Rate
    """The rate at its beginning."""
    decay_steps: Steps
    """Steps in which it is multiplied by `decay_rate` once."""
    decay_rate: Rate
    """The factor."""
    staircase: bool = False
    """Multiply at once, after every `decay_steps` steps, not little by little."""


class PolynomialSchedule(_Schedule):
    """Falls along a polynomial: end + (initial - end) (1 - step / decay_steps) ^ power."""

    schedule: Literal["polynomial"]
    """`polynomial`."""
    initial: Rate
    """The rate at its beginning."""
    decay_steps: Steps | None = None
    """Steps until the end of the fall; null: the rest of the training."""
    end: Annotated[float, Field(ge=0)] = 0.0
    """The rate at the end of the fall and from then on."""
    power: Rate = 1.0
    """1: a straight line."""
    cycle: bool = False
    """At the end of the fall begin again, with as many steps more each time, in place of staying at `end`."""


class PiecewiseSchedule(_Schedule):
    """A rate for each stretch of steps."""

    schedule: Literal["piecewise"]
    """`piecewise`."""
    boundaries: Annotated[tuple[Steps, ...], Field(min_length=1)]
    """The last step of each stretch but the last one, counted from 0 and rising."""
    values: Annotated[tuple[Rate, ...], Field(min_length=2)]
    """The rate of each stretch: one more than there are boundaries."""

    @model_validator(mode="after")
    def _fit_together(self) -> PiecewiseSchedule:
        if len(self.values) != len(self.boundaries) + 1:
            counts = f"{len(self.boundaries)} boundaries make {len(self.boundaries) + 1} stretches"
            raise ValueError(f"{counts}, and `values` has {len(self.values)} rates; give one for each stretch")
        if any(later <= earlier for earlier, later in itertools.pairwise(self.boundaries)):
            raise ValueError(f"`boundaries` must rise; got {list(self.boundaries)}")
        return self


class InverseTimeSchedule(_Schedule):
    """Falls as one over the time: initial / (1 + decay_rate * step / decay_steps)."""

    schedule: Literal["inverse_time"]
    """`inverse_time`."""
    initial: Rate
    """The rate at its beginning."""
    decay_steps: Steps
    """Steps that count as one unit of time."""
    decay_rate: Rate
    """How much is added to the divisor in each unit of time."""
    staircase: bool = False
    """Let the time go on by whole units."""


Schedule = Annotated[
    ConstantSchedule
    | CosineSchedule
    | ExponentialSchedule
    | PolynomialSchedule
    | PiecewiseSchedule
    | InverseTimeSchedule,
    Field(discriminator="schedule"),
]
