"""What models have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.features import Embedding
from headrace.configs.section import Section

Share = Annotated[float, Field(ge=0, lt=1)]
Units = Annotated[int, Field(gt=0)]


class ModelBase(Section):
    """The dense layers and the embeddings that every model has."""

    hidden: tuple[Units, ...] = (128, 64)
    """Units of the dense layers of the deep part, first to last."""
    activation: str = "relu"
    """Activation of those layers, by its Keras name."""
    dropout: Share = 0.0
    """Share of units dropped after each dense layer while training."""
    embedding: Embedding = "auto"
    """Width of the embeddings where the feature does not say: a number, `auto` (number of categories to the power 0.25,
    rounded up), or `one_hot`."""
