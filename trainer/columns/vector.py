"""`column: vector`: a list of numbers of a fixed length."""

from __future__ import annotations

import keras
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import VectorFeature
from headrace.trainer.columns.analyzers.numbers import VectorMoments
from headrace.trainer.columns.base import Analyzer, Batch, NumberColumn
from headrace.trainer.columns.numeric import scaled
from headrace.trainer.columns.raw import MISSING_INTEGER, RawTensor, as_ragged

BRACKETS = r"^\s*[\[({]\s*|\s*[\])}]\s*$"
NUMBER = r"\s*[-+]?(\d+([.]\d*)?|[.]\d+)([eE][-+]?\d+)?\s*"
"""What a number looks like in a text."""
NO_NUMBER = r"\s*|(?i:\s*[-+]?nan\s*)"
"""What a missing one looks like."""


class VectorColumn(NumberColumn[VectorFeature]):
    """The numbers with missing ones filled, each position scaled by its own moments in float64."""

    def analyzers(self) -> list[Analyzer]:
        """The moments of all positions, if the scaling or the substitute for missing values needs them."""
        needed = self.feature.missing == "mean" or self.feature.normalize in ("z_score", "min_max")
        return [self._moments] if needed else []

    def analyzed_numbers(self, batch: Batch, key: str) -> tf.Tensor:  # it has one list
        """float64 [batch, size], NaN where missing. Fails for a list of another length, which it names."""
        tensor = batch.tensor(self.key)
        numbers = self._of_texts(batch) if tensor.dtype == tf.string else self._of_lists(tensor)
        return tf.ensure_shape(numbers, [None, self.feature.size])

    def transform(self, batch: Batch) -> tf.Tensor:
        """float32 [batch, size]: as a numeric feature, by position."""
        size = self.feature.size
        moments = tf.zeros([size, 4], tf.float64)
        if self.analyzers():
            moments = tf.reshape(batch.result(self._moments), [size, 4])
        numbers = self.analyzed_numbers(batch, "")
        return scaled(numbers, moments, self.feature.normalize, self.feature.missing)

    def keras_input(self) -> keras.KerasTensor:
        """[batch, size] of float32."""
        return keras.Input(shape=(self.feature.size,), name=self.input_name, dtype=self.dtype)

    @property
    def _moments(self) -> VectorMoments:
        split = "" if self.feature.separator is None else f" split at {self.feature.separator!r}"
        return VectorMoments(f"{self.key} [{self.feature.size}]{split}", self.feature.size)

    def _of_lists(self, tensor: RawTensor) -> tf.Tensor:
        ragged = as_ragged(tensor)
        flat = tf.cast(ragged.flat_values, tf.float64)
        nan = tf.constant(float("nan"), tf.float64)
        if ragged.dtype.is_integer:
            flat = tf.where(tf.equal(ragged.flat_values, tf.constant(MISSING_INTEGER, ragged.dtype)), nan, flat)
        with tf.control_dependencies([self._right_length(ragged.row_lengths())]):
            return tf.identity(ragged.with_flat_values(flat).to_tensor(nan, shape=[None, self.feature.size]))

    def _of_texts(self, batch: Batch) -> tf.Tensor:
        separator = self.feature.separator
        if separator is None:
            raise TrainingError(
                f"data column {self.key!r} holds text, and a vector is a list of numbers. If the text is a list, set"
                ' `separator`, such as `separator: ","`'
            )
        texts = tf.strings.regex_replace(tf.strings.strip(batch.raw(self.key).text), BRACKETS, "")
        items = tf.strings.split(texts, None if separator.isspace() else separator)
        lengths = tf.where(tf.equal(texts, ""), tf.zeros_like(items.row_lengths()), items.row_lengths())
        padded = tf.strings.strip(items.to_tensor("", shape=[None, self.feature.size]))
        number = tf.strings.regex_full_match(padded, NUMBER)
        wrong = tf.boolean_mask(padded, ~number & ~tf.strings.regex_full_match(padded, NO_NUMBER))
        what = f"features.{self.name}: column {self.key!r} has a list with a text that is not a number: "
        checks = [self._right_length(lengths), _assert_none(tf.size(wrong), what, wrong)]
        with tf.control_dependencies(checks):
            return tf.strings.to_number(tf.where(number, padded, "nan"), tf.float64)

    def _right_length(self, lengths: tf.Tensor) -> tf.Operation:
        wrong = tf.boolean_mask(lengths, (lengths > 0) & (lengths != self.feature.size))
        what = f"features.{self.name}: column {self.key!r} has a list of length "
        size = f", and `size` is {self.feature.size}; correct the list, or leave it empty"
        return _assert_none(tf.size(wrong), what, tf.strings.as_string(wrong), size)


def _assert_none(count: tf.Tensor, what: str, wrong: tf.Tensor, rest: str = "") -> tf.Operation:
    """Fail with the first of the strings `wrong`, between `what` and `rest`, if there are any."""
    message = tf.strings.join([what, tf.strings.reduce_join(wrong[:1]), rest])
    return tf.debugging.Assert(tf.equal(count, 0), [message])
