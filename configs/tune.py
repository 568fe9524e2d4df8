"""`tune:` which settings are tried out before the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from headrace.configs.section import Section

PositiveInt = Annotated[int, Field(gt=0)]


class Parameter(Section):
    """The values of one setting: a range (`min`, `max`) or `choices`."""

    min: float | None = None
    """Of a number, the least value; a whole number where the setting is one."""
    max: float | None = None
    """The greatest value; it is tried too."""
    scale: Literal["linear", "log"] = "linear"
    """log: equal ratios are equally likely, as fits a learning rate."""
    step: Annotated[float, Field(gt=0)] | None = None
    """Only values at such a distance, from `min` on; with `scale: log`, such a ratio."""
    choices: tuple[JsonValue, ...] | None = None
    """Values, each as it would stand in the config."""


class TuneConfig(Section):
    """Trainings with different settings, of which the best goes on to the Trainer (component Tuner, by KerasTuner)."""

    algorithm: Literal["random", "hyperband", "bayesian"] = "random"
    """random: values drawn at random; bayesian: drawn where a Gaussian process expects the best; hyperband: many short
    trials, of which the better ones are trained for longer (Li et al. 2018, arXiv:1603.06560)."""
    max_trials: PositiveInt | None = None
    """Trainings, at most. null: 10; for hyperband as many as follow from `epochs`."""
    epochs: PositiveInt | None = None
    """Of each trial, at most; with hyperband of the longest. null: as many as `train.epochs`."""
    objective: str = "auto"
    """What is judged, on the eval split in each trial's best epoch: auto (the loss), or a metric that the training
    reports, such as `auc`."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the values that are drawn. Each trial's training has `train.seed`."""
    parameters: Annotated[dict[str, Parameter], Field(min_length=1)]
    """Settings of `model` and `train` by their dotted names, such as `train.learning_rate`, each with its values."""


HIGHER_IS_BETTER = {
    "binary": {"loss": False, "auc": True, "binary_accuracy": True},
    "multiclass": {"loss": False, "accuracy": True},
    "regression": {"loss": False, "mean_absolute_error": False},
    "next_word": {"loss": False, "accuracy": True, "top_5_accuracy": True, "perplexity": False},
}
"""What a training reports, by the kind of label, and whether more of it is better."""


def with_values(sections: Mapping[str, Any], values: Mapping[str, JsonValue]) -> dict[str, Any]:
    """The sections, as plain values, with the settings of these dotted names changed.

    Raises KeyError, with the part of the name that is none, where there is no group of settings to set one in.
    """
    changed = dict(sections)
    for name, value in values.items():
        *groups, last = name.split(".")
        inside = changed
        for group in groups:
            if not isinstance(inside.get(group), Mapping):
                raise KeyError(group)
            inside[group] = dict(inside[group])
            inside = inside[group]
        inside[last] = value
    return changed
