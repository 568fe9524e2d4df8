"""`column: vocabulary`: the id of a string or integer in a vocabulary; and the vocabularies that texts use as well.

Known values are 0..n-1, followed by the out-of-vocabulary buckets (FarmHash fingerprint64 of the text, modulo their
number) and the category for missing values. A learned vocabulary is sorted by decreasing frequency, then by decreasing
text, and is written as an asset under the feature's name.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

import tensorflow as tf
import tensorflow_transform as tft

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import TextFeature, VocabularyFeature
from headrace.trainer.columns.analyzers.texts import EMPTY, VocabularyAnalyzer
from headrace.trainer.columns.base import Analyzer, Batch, Categories, CategoryColumn, VocabularySize


class VocabularyColumn(CategoryColumn[VocabularyFeature]):
    """The id in the vocabulary; the category for missing values follows its out-of-vocabulary buckets."""

    def __init__(self, name: str, feature: VocabularyFeature) -> None:
        super().__init__(name, feature)
        self._vocabulary = Vocabulary(name, self.key, feature, feature.missing)

    def num_categories(self, vocabulary_size: VocabularySize) -> int:
        """Vocabulary, out-of-vocabulary buckets, and one category for missing values unless there is a substitute.

        Raises TrainingError if the learned vocabulary is empty.
        """
        return self._vocabulary.size(vocabulary_size) + self.feature.oov_buckets + (self.feature.missing is None)

    def analyzers(self) -> list[Analyzer]:
        """The vocabulary, unless the config gives it."""
        return [*self._vocabulary.analyzers()]

    def vocabulary_texts(self, batch: Batch) -> tf.Tensor:
        text, known = self.raw(batch).filled_text(self.feature.missing)
        return tf.where(known, text, "")

    def categories(self, batch: Batch) -> Categories:
        text, known = self.raw(batch).filled_text(self.feature.missing)
        ids, size = self._vocabulary.look_up(text, batch)
        return Categories(ids, known, size)


class AnalyzerResults(Protocol):
    """Returns the path of a learned vocabulary: a `Batch`."""

    def result(self, analyzer: VocabularyAnalyzer, /) -> tf.Tensor: ...


class Vocabulary:
    """The vocabulary of a feature, from the config or learned from the train split."""

    def __init__(
        self, name: str, key: str, feature: VocabularyFeature | TextFeature, missing: str | float | None = None
    ) -> None:
        """
        Args:
            name: The feature.
            key: Its data column.
            feature: Its config.
            missing: Substitute for missing values; None: they are not part of the vocabulary.
        """
        self.name, self.key, self.feature, self._missing = name, key, feature, missing

    def given(self) -> tuple[str, ...] | None:
        """The vocabulary that the config gives; None if it is learned."""
        if self.feature.values is not None:
            return tuple(map(str, self.feature.values))
        return read_vocabulary(self.feature.file, self.name) if self.feature.file is not None else None

    def analyzers(self) -> list[VocabularyAnalyzer]:
        """The analyzer that learns the vocabulary; none if the config gives it."""
        if self.given() is not None:
            return []
        return [VocabularyAnalyzer(self.name, self.key, self._missing, self.feature.top_k, self.feature.min_frequency)]

    def size(self, vocabulary_size: VocabularySize) -> int:
        """Number of known values. Raises TrainingError if the learned vocabulary is empty."""
        given = self.given()
        size = vocabulary_size(self.name) if given is None else len(given)
        if size == 0:
            often = self.feature.min_frequency
            seen, lower = (f" that occurs {often:,} times", "Lower `min_frequency`, set") if often > 1 else ("", "Set")
            raise TrainingError(
                f"features.{self.name}: the vocabulary learned from the train split is empty: the data column"
                f" {self.key!r} has no value{seen}. {lower} the vocabulary in `values`, or remove the feature"
            )
        return size

    def look_up(self, text: tf.Tensor, results: AnalyzerResults) -> tuple[tf.Tensor, tf.Tensor | int]:
        """Return the ids of strings, int64 of the same shape, and the number of ids including the buckets."""
        given = self.given()
        return self._look_up_given(text, given) if given else self._look_up_learned(text, results)

    def _look_up_given(self, text: tf.Tensor, values: tuple[str, ...]) -> tuple[tf.Tensor, int]:
        def table() -> tf.lookup.StaticVocabularyTable:
            initializer = tf.lookup.KeyValueTensorInitializer(values, range(len(values)), tf.string, tf.int64)
            return tf.lookup.StaticVocabularyTable(initializer, self.feature.oov_buckets)

        ids = tft.make_and_track_object(table, f"{self.name}_vocabulary").lookup(text)
        return ids, len(values) + self.feature.oov_buckets

    def _look_up_learned(self, text: tf.Tensor, results: AnalyzerResults) -> tuple[tf.Tensor, tf.Tensor]:
        size: list[tf.Tensor] = []

        def look_up(x: tf.Tensor, asset: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # Lift the table out of the traced function, or it would be filled from the file at each call.
            with nullcontext() if tf.is_symbolic_tensor(asset) else tf.init_scope():
                lines, numbers = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
                initializer = tf.lookup.TextFileInitializer(asset, tf.string, lines, tf.int64, numbers)
                table = tf.lookup.StaticVocabularyTable(initializer, self.feature.oov_buckets)
                size.append(table.size())
            return table.lookup(x), size[0]

        return tft.apply_vocabulary(text, results.result(*self.analyzers()), lookup_fn=look_up), size[0]


def vocabulary_size(transform_output: tft.TFTransformOutput) -> VocabularySize:
    """Return the sizes of the learned vocabularies that Transform wrote.

    The size of an empty one is 0, although TFT writes a file with one placeholder line.
    """

    def size(name: str) -> int:
        values = transform_output.vocabulary_by_name(name)
        return 0 if values == [EMPTY] else len(values)

    return size


def read_vocabulary(file: str, name: str) -> tuple[str, ...]:
    """Read the lines of a vocabulary file for the feature of that name. Raises TrainingError if it is unusable."""
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
            raise TrainingError(f"{file}:{number}: the value {line!r} is already in line {first_at[line]}")
    return tuple(lines)
