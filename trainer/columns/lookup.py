"""Vocabularies, given or learned: the places of texts in them, for every kind of column that has one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

import tensorflow as tf
import tensorflow_transform as tft

from headrace.configs.errors import TrainingError
from headrace.configs.features import TextFeature, VocabularyFeature
from headrace.trainer.columns.learned import EMPTY, Learned

VocabularySize = Callable[[str], int]
"""Number of entries of the learned vocabulary of that name: `TFTransformOutput.vocabulary_size_by_name`."""


class Answers(Protocol):
    """Where the path of a learned vocabulary comes from: a `Batch`."""

    def answer(self, wish: Learned, /) -> tf.Tensor: ...


class Vocabulary:
    """The vocabulary of a feature. Known values are 0..n-1, then come the out-of-vocabulary buckets (FarmHash
    fingerprint64 of the text, modulo their number). A learned vocabulary is ordered by falling frequency, then by
    falling text, and is written as an asset under the feature's name.
    """

    def __init__(
        self, name: str, key: str, feature: VocabularyFeature | TextFeature, missing: str | float | None = None
    ) -> None:
        """key: the data column; missing: what stands in for a missing value."""
        self.name, self.key, self.feature, self._missing = name, key, feature, missing

    def given(self) -> tuple[str, ...] | None:
        """The vocabulary that the config gives; None if it is learned."""
        if self.feature.values is not None:
            return tuple(map(str, self.feature.values))
        return read_vocabulary(self.feature.file, self.name) if self.feature.file is not None else None

    def wishes(self) -> list[Learned]:
        """The vocabulary, where none is given."""
        if self.given() is not None:
            return []
        return [Learned(self.name, self.key, self._missing, self.feature.top_k, self.feature.min_frequency)]

    def size(self, vocabulary_size: VocabularySize) -> int:
        """Known values. Raises TrainingError if nothing was learned."""
        given = self.given()
        size = vocabulary_size(self.name) if given is None else len(given)
        if size == 0:
            often = self.feature.min_frequency
            seen, lower = (
                (f" that is seen {often:,} times", "Lower `min_frequency`, give") if often > 1 else ("", "Give")
            )
            raise TrainingError(
                f"features.{self.name}: the vocabulary learned from the train split is empty: the data column"
                f" {self.key!r} has no value{seen}. {lower} the vocabulary as `values`, or remove the feature"
            )
        return size

    def look_up(self, text: tf.Tensor, answers: Answers) -> tuple[tf.Tensor, tf.Tensor | int]:
        """The places of strings, int64 of the same shape; and how many places there are, with the buckets."""
        given = self.given()
        return self._look_up_given(text, given) if given else self._look_up_learned(text, answers)

    def _look_up_given(self, text: tf.Tensor, values: tuple[str, ...]) -> tuple[tf.Tensor, int]:
        def table() -> tf.lookup.StaticVocabularyTable:
            initializer = tf.lookup.KeyValueTensorInitializer(values, range(len(values)), tf.string, tf.int64)
            return tf.lookup.StaticVocabularyTable(initializer, self.feature.oov_buckets)

        ids = tft.make_and_track_object(table, f"{self.name}_vocabulary").lookup(text)
        return ids, len(values) + self.feature.oov_buckets

    def _look_up_learned(self, text: tf.Tensor, answers: Answers) -> tuple[tf.Tensor, tf.Tensor]:
        size: list[tf.Tensor] = []

        def look_up(x: tf.Tensor, asset: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # outside of the traced function, or the table would be filled from the file at each call
            with nullcontext() if tf.is_symbolic_tensor(asset) else tf.init_scope():
                lines, numbers = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
                initializer = tf.lookup.TextFileInitializer(asset, tf.string, lines, tf.int64, numbers)
                table = tf.lookup.StaticVocabularyTable(initializer, self.feature.oov_buckets)
                size.append(table.size())
            return table.lookup(x), size[0]

        return tft.apply_vocabulary(text, answers.answer(*self.wishes()), lookup_fn=look_up), size[0]


def vocabulary_size(transform_output: tft.TFTransformOutput) -> VocabularySize:
    """The sizes of the learned vocabularies that Transform wrote; 0 for an empty one, in the place of which TFT writes
    a file with one made-up line.
    """

    def size(name: str) -> int:
        values = transform_output.vocabulary_by_name(name)
        return 0 if values == [EMPTY] else len(values)

    return size


def read_vocabulary(file: str, name: str) -> tuple[str, ...]:
    """The lines of a vocabulary file, for the feature of that name."""
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingError(f"features.{name}: the vocabulary file {file!r} cannot be read: {error}") from error
    if lines == [""]:
        raise TrainingError(f"features.{name}: the vocabulary file {file!r} is empty")
    first_at: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            raise TrainingError(f"{file}:{number}: an empty line; each line is one value of features.{name}")
        if first_at.setdefault(line, number) != number:
            raise TrainingError(f"{file}:{number}: the value {line!r} stands in line {first_at[line]} already")
    return tuple(lines)
