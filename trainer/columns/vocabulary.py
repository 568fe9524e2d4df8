"""`column: vocabulary`: the place of a string or integer in a vocabulary."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import tensorflow as tf
import tensorflow_transform as tft

from configs.errors import TrainingError
from configs.features import VocabularyFeature
from trainer.columns.base import CategoryColumn, VocabularySize
from trainer.columns.batch import Batch, Categories, Wish
from trainer.columns.learned import EMPTY, Learned


class VocabularyColumn(CategoryColumn[VocabularyFeature]):
    """Known values are 0..n-1, then come the out-of-vocabulary buckets (FarmHash fingerprint64 of the text, modulo
    their number), then the missing value's category. A learned vocabulary is ordered by falling frequency, then by
    falling text, and is written as an asset under the feature's name.
    """

    def num_categories(self, vocabulary_size: VocabularySize) -> int:
        """Vocabulary, out-of-vocabulary buckets, and one for the missing value if nothing stands in for it.

        Raises TrainingError if nothing was learned.
        """
        given = self._given()
        size = vocabulary_size(self.name) if given is None else len(given)
        if size == 0:
            raise TrainingError(
                f"features.{self.name}: the vocabulary learned from the train split is empty: the data column"
                f" {self.key!r} has no value that is seen {self.feature.min_frequency} times."
                " Lower `min_frequency`, give the vocabulary as `values`, or remove the feature"
            )
        return size + self.feature.oov_buckets + (self.feature.missing is None)

    @property
    def key(self) -> str:
        """The data column."""
        return self.feature.key or self.name

    def wishes(self) -> list[Wish]:
        """The vocabulary, where none is given."""
        if self._given() is not None:
            return []
        return [Learned(self.name, self.key, self.feature.missing, self.feature.top_k, self.feature.min_frequency)]

    def categories(self, batch: Batch) -> Categories:
        """The places in the vocabulary."""
        text, known = batch.raw(self.key).filled_text(self.feature.missing)
        given = self._given()
        ids, size = self._look_up_given(text, given) if given else self._look_up_learned(text, batch)
        return Categories(ids, known, size)

    def _look_up_given(self, text: tf.Tensor, values: tuple[str, ...]) -> tuple[tf.Tensor, int]:
        def table() -> tf.lookup.StaticVocabularyTable:
            initializer = tf.lookup.KeyValueTensorInitializer(values, range(len(values)), tf.string, tf.int64)
            return tf.lookup.StaticVocabularyTable(initializer, self.feature.oov_buckets)

        ids = tft.make_and_track_object(table, f"{self.name}_vocabulary").lookup(text)
        return ids, len(values) + self.feature.oov_buckets

    def _look_up_learned(self, text: tf.Tensor, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        size: list[tf.Tensor] = []

        def look_up(x: tf.Tensor, asset: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # outside of the traced function, or the table would be filled from the file at each call
            with nullcontext() if tf.is_symbolic_tensor(asset) else tf.init_scope():
                lines, numbers = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
                initializer = tf.lookup.TextFileInitializer(asset, tf.string, lines, tf.int64, numbers)
                table = tf.lookup.StaticVocabularyTable(initializer, self.feature.oov_buckets)
                size.append(table.size())
            return table.lookup(x), size[0]

        return tft.apply_vocabulary(text, batch.answer(*self.wishes()), lookup_fn=look_up), size[0]

    def _given(self) -> tuple[str, ...] | None:
        """The vocabulary that the config gives; None if it is learned."""
        if self.feature.values is not None:
            return tuple(map(str, self.feature.values))
        return read_vocabulary(self.feature.file, self.name) if self.feature.file is not None else None


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
