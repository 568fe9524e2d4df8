"""`model: {kind: trees}`: gradient-boosted decision trees."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.configs.schema.models import ModelBase
from headrace.configs.schema.section import PositiveInt


class TreesModel(ModelBase):
    """Gradient-boosted decision trees over the numbers and the categories, for binary, multiclass and regression
    labels. All examples must fit in memory. `hidden`, `activation`, `dropout` and `embedding` do not apply, and of
    `train:` only `seed`, `early_stopping`, `class_weight`, `checkpoint` and the settings for reading files; others are
    refused (see docs/model_kinds.md). Of the features, `embedding`, `deep` and `wide` do not apply: trees use all of
    them.
    """

    implementation: ClassVar[str] = "headrace.trainer.models.trees.build"
    has_deep_part: ClassVar[bool] = False
    has_trees: ClassVar[bool] = True

    kind: Literal["trees"]
    """`trees`."""
    iterations: PositiveInt = 1000
    """Maximum number of trees, or for a multiclass label of trees per class; `train.early_stopping` decides the end.
    Each is an epoch of the training record."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Factor of each tree's prediction. A lower one needs more trees."""
    max_leaves: Annotated[int, Field(ge=2, le=4096)] = 31
    """Maximum number of leaves of a tree."""
    max_depth: Annotated[int, Field(ge=1, le=64)] | None = None
    """Maximum number of splits between the root and a leaf. null: limited by `max_leaves` alone."""
    min_examples_per_leaf: PositiveInt = 20
    """Minimum number of examples of the train split in a leaf."""
    l2: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """L2 penalty on the predictions of leaves."""
