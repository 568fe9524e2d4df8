"""`train.profile:` a look at where the time of some steps goes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from headrace.configs.section import Section

PositiveInt = Annotated[int, Field(gt=0)]


class ProfileConfig(Section):
    """A profile of some steps of the training, judged by the component ProfileVerdict and shown by TensorBoard."""

    batches: Annotated[tuple[PositiveInt, ...], Field(min_length=2, max_length=2)] = (50, 60)
    """First and last step to profile, counted from 1 over all epochs. Steps that run as one graph
    (`train.steps_per_execution`) are profiled together, so the range grows to whole executions; it ends with the epoch
    in which it begins."""
    fail_if_input_bound_above: Annotated[float, Field(ge=0, le=1)] | None = None
    """Stop the run before anything is pushed where the steps wait for input for a larger share of the time than this, 0
    to 1; null: only say it."""

    @model_validator(mode="after")
    def _in_order(self) -> ProfileConfig:
        first, last = self.batches
        if first > last:
            raise ValueError(f"batches: the first step, {first}, comes after the last, {last}")
        return self
