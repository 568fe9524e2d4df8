"""A model over running text."""

from __future__ import annotations

from typing import Literal

from headrace.configs.models.base import ModelBase, Units
from headrace.configs.section import Name


class TextModel(ModelBase):
    """An encoder over the words of a text, joined with the other features of the deep part, and dense layers. It learns
    labels of any kind; with `label.kind: next_word` it generates text too.
    """

    kind: Literal["text"]
    """`text`."""
    text: Name | None = None
    """The feature with `column: text` that it reads; null: the only one, or the one that a next_word label follows.
    Other texts count as other features do, with their pooled embeddings."""
    word_embedding: Units = 64
    """Width of the vectors of the words."""
    encoder: Literal["pooling", "recurrent", "attention"] = "recurrent"
    """pooling: the mean of the words' vectors, in whatever order; recurrent: a GRU (Cho et al. 2014, arXiv:1406.1078)
    over them; attention: such a GRU, and what its last state finds by scaled dot-product attention among all of its
    states."""
    units: Units = 128
    """Width of the GRU's state."""
