"""A pretrained network of texts in TensorFlow Hub's format, as `gnews-swivel` has it, and what NumPy computes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

WORDS = ["good", "bad", "fine", "poor", "film", "the"]
VECTORS = np.array([[2, 0.5], [-2, 0.25], [1, -0.5], [-1, 1.5], [0, 0.75], [0, -0.25], [0, 0]], np.float32)
"""float32 [words + 1, 2]: of each word, then of all others."""


class Network(tf.__internal__.tracking.AutoTrackable):
    """The mean of the vectors of the words between white space; zeros without any. The words are a file (an asset)."""

    def __init__(self, words: Path) -> None:
        super().__init__()
        words.write_text("\n".join(WORDS), encoding="utf-8")
        whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        entries = tf.lookup.TextFileInitializer(str(words), tf.string, whole, tf.int64, line)
        self.table = tf.lookup.StaticHashTable(entries, len(WORDS))
        self.vectors = tf.Variable(VECTORS, name="vectors")
        self.variables = self.trainable_variables = [self.vectors]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        words = tf.strings.split(texts)
        rows = words.with_flat_values(tf.gather(self.vectors, self.table.lookup(words.flat_values)))
        counts = tf.cast(words.row_lengths(), tf.float32)[:, tf.newaxis]
        return tf.math.divide_no_nan(tf.reduce_sum(rows, axis=1), counts)


def save(folder: Path, words: Path) -> None:
    """Write the SavedModel. words: a file for the words, of which it has its own copy."""
    tf.saved_model.save(Network(words), str(folder))


def means(texts: list[str | None], vectors: np.ndarray = VECTORS) -> np.ndarray:
    """The network's output, float32 [texts, 2], by NumPy."""
    found = np.zeros([len(texts), 2], np.float32)
    for number, text in enumerate(texts):
        words = [WORDS.index(word) if word in WORDS else len(WORDS) for word in (text or "").split()]
        if words:
            found[number] = vectors[words].mean(axis=0)
    return found
