"""`model.kind: encoder_decoder`: a model that writes one text from another."""

from __future__ import annotations

from typing import ClassVar, Literal

from headrace.configs.schema.models import ModelBase
from headrace.configs.schema.section import Name, PositiveInt


class EncoderDecoderModel(ModelBase):
    """An encoder over the words of a text, and a decoder that writes another text word by word, with attention over the
    encoder's states. It is for labels of `kind: text`.

    The encoder is a GRU in either direction (Cho et al. 2014, arXiv:1406.1078), the decoder a GRU that starts from the
    encoder's last states and the other features of the deep part. `hidden` and `activation` do not apply.
    """

    implementation: ClassVar[str] = "headrace.trainer.models.encoder_decoder.build"
    one_device: ClassVar[bool] = True

    kind: Literal["encoder_decoder"]
    """`encoder_decoder`."""
    text: Name | None = None
    """The feature with `column: text` that is the source. null: the only one. Other texts are treated as other features
    are, by their pooled embeddings."""
    word_embedding: PositiveInt = 64
    """Width of the word vectors, of the source as of the label."""
    units: PositiveInt = 128
    """Width of the states of each GRU."""
    attention: Literal["dot", "additive"] = "dot"
    """How well a state of the encoder fits a state of the decoder. dot: their product, times a learned scale (Luong et
    al. 2015, arXiv:1508.04025); additive: a learned function of their sum (Bahdanau et al. 2015, arXiv:1409.0473)."""
