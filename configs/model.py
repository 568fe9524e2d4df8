"""`model:` what is trained."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from configs.features import DottedPath, Embedding
from configs.section import Section

ModelKind = Literal["dnn", "wide_and_deep"]


class ModelConfig(Section):
    """What is trained."""

    kind: ModelKind | DottedPath = "wide_and_deep"
    """dnn: dense layers over numbers and embeddings; wide_and_deep: the same beside a linear model over the categorical
    features (Cheng et al. 2016, arXiv:1606.07792); or the dotted path of your own builder (see docs/extending.md)."""
    hidden: tuple[Annotated[int, Field(gt=0)], ...] = (128, 64)
    """Units of the dense layers of the deep part, first to last."""
    activation: str = "relu"
    """Activation of those layers, by its Keras name."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of units dropped after each dense layer while training."""
    embedding: Embedding = "auto"
    """Width of the embeddings where the feature does not say: a number, `auto` (number of categories to the power 0.25,
    rounded up), or `one_hot`."""
    options: dict[str, JsonValue] = {}
    """Passed to your own builder as it is."""
