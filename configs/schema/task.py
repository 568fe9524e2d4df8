"""One of the labels that a model predicts together, under `label.tasks`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.section import Name, Section


class TaskConfig(Section):
    """One of the labels of `label.kind: multitask`. Each has a head of its own on the model's shared layers, and
    metrics of its own, such as `price/mean_absolute_error`.
    """

    key: Name | None = None
    """The data column. null: the column with the task's name."""
    kind: Literal["binary", "multiclass", "multilabel", "regression"]
    """As `label.kind`."""
    classes: (
        Annotated[int, Field(ge=2, le=1_000_000)] | Annotated[tuple[str | int, ...], Field(min_length=2)] | None
    ) = None
    """As `label.classes`."""
    separator: Name | None = None
    """As `label.separator`."""
    missing: Literal["refuse", "mask", "none"] = "refuse"
    """What to do with a row that has no label for this task. refuse: it is a problem in the data, so that
    `data.on_anomaly` decides. mask: the row counts for the other tasks only, in the loss and in the metrics, where
    `unlabelled` counts it. none: only for multilabel, the row belongs to none of the classes."""
    loss_weight: Annotated[float, Field(gt=0)] = 1.0
    """How much the task counts: the loss of training, and the eval loss that early stopping watches, is the sum of the
    tasks' losses, each times this number. The squared error of a regression is divided by the variance of its labels,
    so that its unit does not matter: predicting their mean has a loss of 1."""
