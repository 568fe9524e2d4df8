"""A cross network beside or below dense layers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.models.base import ModelBase

AtLeastOne = Annotated[int, Field(ge=1)]


class DcnModel(ModelBase):
    """A cross network, which multiplies features with each other, with dense layers (DCN-V2: Wang et al. 2021,
    arXiv:2008.13535). It sees what the deep part sees: numbers and embeddings.

    Cross layer l gives x0 * (W x + b) + x, where x is what layer l - 1 gives and x0 what the first is given, so l of
    them hold products of up to l + 1 features.
    """

    kind: Literal["dcn"]
    """`dcn`."""
    structure: Literal["parallel", "stacked"] = "parallel"
    """parallel: cross network and dense layers both see the features, and what they give is put side by side; stacked:
    the dense layers see what the cross network gives."""
    cross_layers: AtLeastOne = 2
    """How many cross layers there are."""
    rank: AtLeastOne | None = None
    """W as a product of two matrices of this inner size, which has fewer weights and takes less time where the features
    are wide (the paper uses a quarter of their width and less); null: W is full."""
