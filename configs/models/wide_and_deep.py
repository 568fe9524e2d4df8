"""A linear model beside dense layers."""

from __future__ import annotations

from typing import Literal

from headrace.configs.models.base import ModelBase


class WideAndDeepModel(ModelBase):
    """Dense layers over numbers and embeddings, beside a linear model over the categorical features (Cheng et al. 2016,
    arXiv:1606.07792). It is the model where `kind` is not given.
    """

    kind: Literal["wide_and_deep"] = "wide_and_deep"
    """`wide_and_deep`."""
