"""`column: text_embedding`: the text that the model gets, and networks that do not take it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import TextEmbeddingFeature
from headrace.trainer import columns
from headrace.trainer.columns.base import Batch


def texts(values: Any, dtype: tf.DType = tf.string, **settings: Any) -> list[bytes]:
    """The transformed feature of a ragged data column."""
    built = columns.build({"said": TextEmbeddingFeature(column="text_embedding", saved_model="net", **settings)})
    tensor = tf.ragged.constant(values, dtype).to_sparse()
    return [*built["said"].transform(Batch({"said": tensor}, built)).numpy()]


def test_a_missing_text_is_empty_and_further_values_are_left_out() -> None:
    assert texts([["Zürich 🚕", "b"], [], [" two  words "]]) == ["Zürich 🚕".encode(), b"", b" two  words "]


def test_pieces_of_a_text_are_joined() -> None:
    assert texts([["a", "b c"], [], ["d"]], multivalued=True) == [b"a b c", b"", b"d"]


def test_integers_are_their_digits() -> None:
    assert texts([[7, 8], [], [-12]], tf.int64) == [b"7", b"", b"-12"]


def test_a_network_of_numbers_is_refused_with_its_setting(tmp_path: Path) -> None:
    module = tf.__internal__.tracking.AutoTrackable()
    module.__call__ = tf.function(lambda x: x[:, None], input_signature=[tf.TensorSpec([None], tf.float32)])
    tf.saved_model.save(module, str(tmp_path))
    feature = TextEmbeddingFeature(column="text_embedding", saved_model=str(tmp_path))
    features = columns.ModelInputs(columns.build({"said": feature}), lambda _: 0)
    with pytest.raises(TrainingError) as refused:
        features.deep()
    message = str(refused.value)
    assert message.startswith(f"features.said.saved_model: {tmp_path} does not take texts, string [batch]; choose")
    assert message.endswith("This one takes float32 [batch]")
