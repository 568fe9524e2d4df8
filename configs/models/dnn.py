"""Dense layers."""

from __future__ import annotations

from typing import Literal

from headrace.configs.models.base import ModelBase


class DnnModel(ModelBase):
    """Dense layers over the numbers and the embeddings of the categories."""

    kind: Literal["dnn"]
    """`dnn`."""
