"""`tune:` the search for hyperparameters before the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from headrace.configs.schema.metrics import task_metric
from headrace.configs.schema.section import PositiveInt, Section


class TunedParameter(Section):
    """The search space of one setting: a range (`min`, `max`) or `choices`."""

    min: float | None = None
    """Smallest value; an integer if the setting takes integers."""
    max: float | None = None
    """Largest value, inclusive."""
    scale: Literal["linear", "log"] = "linear"
    """log: equal ratios are equally likely, which suits a learning rate."""
    step: Annotated[float, Field(gt=0)] | None = None
    """Distance between values, starting at `min`; with `scale: log`, the ratio between them. null: any value."""
    choices: tuple[JsonValue, ...] | None = None
    """The values, each as it would be written in the config."""


class TuneConfig(Section):
    """Trials with different settings; the best ones go to the Trainer (component Tuner, using KerasTuner)."""

    algorithm: Literal["random", "hyperband", "bayesian"] = "random"
    """random: random values; bayesian: values that a Gaussian process expects to be best; hyperband: many short trials,
    of which the better ones train for longer (Li et al. 2018, arXiv:1603.06560)."""
    max_trials: PositiveInt | None = None
    """Maximum number of trials. null: 10; for hyperband, as many as `epochs` implies."""
    epochs: PositiveInt | None = None
    """Maximum number of epochs per trial; with hyperband, of the longest trials. null: `train.epochs`."""
    objective: str = "auto"
    """What to optimize, on the eval split in the best epoch of each trial: auto (the loss), or a metric that training
    reports, such as `auc`."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the random values. The training in each trial uses `train.seed`."""
    parameters: Annotated[dict[str, TunedParameter], Field(min_length=1)]
    """Settings of `model` and `train` by dotted name, such as `train.learning_rate`, each with its search space."""


HIGHER_IS_BETTER = {
    "binary": {"loss": False, "auc": True, "binary_accuracy": True},
    "multiclass": {"loss": False, "accuracy": True},
    "multilabel": {"loss": False, "micro_auc": True},
    "regression": {"loss": False, "mean_absolute_error": False},
    "next_word": {"loss": False, "accuracy": True, "top_5_accuracy": True, "perplexity": False},
    "text": {"loss": False, "accuracy": True, "top_5_accuracy": True, "perplexity": False},
}
"""By kind of label, the metrics that training reports, and whether higher is better."""


def reported_metrics(kinds: Mapping[str, str]) -> dict[str, bool]:
    """The metrics that training reports, and whether higher is better. kinds: of label, by the name of the task, which
    is "" for a label without tasks. The loss is that of all tasks.
    """
    each = ((task, name, higher) for task, kind in kinds.items() for name, higher in HIGHER_IS_BETTER[kind].items())
    return {name if name == "loss" else task_metric(task, name): higher for task, name, higher in each}


def with_values(sections: Mapping[str, Any], values: Mapping[str, JsonValue]) -> dict[str, Any]:
    """A copy of the sections, as plain values, in which the settings with these dotted names are changed.

    Raises KeyError with the part of a name that is not a group of settings.
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
