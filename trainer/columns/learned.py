"""Vocabularies learned from the train split: all of them in one pass, and one asset file for each.

The same values in the same order as tft.vocabulary gives, which takes a dozen Beam stages for each vocabulary.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform.beam.experimental import PTransformAnalyzer

from headrace.trainer.columns.by_span import Output, analyze
from headrace.trainer.columns.tally import CountTexts, Tally, TallyCoder

Count = tuple[int, bytes]

EMPTY = b"49d0cd50-04bb-48c0-bc6f-5b575dce351a"
"""The only line of the file of an empty vocabulary, since a lookup table cannot be empty (as in tft.vocabulary)."""


class Learned(NamedTuple):
    """A wish for the values of a data column: the most frequent first, of equally frequent ones the greater text."""

    name: str
    """Of the vocabulary, under which TFTransformOutput finds it."""
    key: str
    """The data column."""
    missing: str | int | float | None
    """What stands in for a missing value; None: missing values are left out."""
    top_k: int | None
    """Keep so many; None: all."""
    min_frequency: int
    """Leave out values seen fewer times."""


def learn(texts: Mapping[Learned, tf.Tensor], *, by_span: bool = False) -> dict[Any, tf.Tensor]:
    """Paths of the vocabularies of string tensors, [batch] or of all the values or words in a batch; "" where missing.
    Values with line breaks are left out.

    by_span: whether TFT may keep the counts of each span.
    """
    if not texts:
        return {}
    wishes = tuple(texts)
    files = file_names([wish.name for wish in wishes])
    count, write = CountTexts(len(wishes)), WriteVocabularies(dict(zip(wishes, files, strict=True)))
    tensors = list(texts.values())
    if by_span:
        outputs = [Output(tf.string, [], EMPTY)] * len(wishes)
        paths = analyze(tensors, count, TallyCoder(len(wishes)), write, outputs, "vocabularies")
    else:
        paths = tft.experimental.ptransform_analyzer(
            inputs=tensors,
            ptransform=LearnVocabularies(count, write),
            output_dtypes=[tf.string] * len(wishes),
            output_shapes=[[]] * len(wishes),
            output_asset_default_values=[EMPTY] * len(wishes),
            name="vocabularies",
        )
    for wish, file in zip(wishes, files, strict=True):
        tft.annotate_asset(wish.name, file)
    return dict(zip(wishes, paths, strict=True))


class LearnVocabularies(PTransformAnalyzer):
    """Batches of strings, an array for each column, to one file of values for each."""

    def __init__(self, count: CountTexts, write: WriteVocabularies) -> None:
        super().__init__()
        self._count, self._written = count, write

    def expand(self, batches: beam.PCollection) -> tuple[beam.PCollection, ...]:
        """Count, then write."""
        self._written.base_temp_dir = self.base_temp_dir
        return batches | "Count" >> beam.CombineGlobally(self._count).without_defaults() | "Write" >> self._written


class WriteVocabularies(PTransformAnalyzer):
    """The tallies of all columns to one file of values for each."""

    def __init__(self, files: dict[Learned, str]) -> None:
        """files: the name of the file of each column's vocabulary, in the order of the columns."""
        super().__init__()
        self._files = list(files.items())

    def expand(self, tallies: beam.PCollection) -> tuple[beam.PCollection, ...]:
        """Each path in a collection of its own."""
        columns = [str(column) for column in range(len(self._files))]
        written = tallies | "WriteFiles" >> beam.FlatMap(self._write).with_outputs(*columns)
        return tuple(written[column] for column in columns)

    def _write(self, tallies: Sequence[Tally]) -> Iterator[beam.pvalue.TaggedOutput]:
        tf.io.gfile.makedirs(self.base_temp_dir)
        for column, ((wish, name), tally) in enumerate(zip(self._files, tallies, strict=True)):
            path = os.path.join(self.base_temp_dir, name)  # noqa: PTH118 (may be remote)
            table = tally.settle()
            counts = zip(table["counts"].to_pylist(), table["values"].to_pylist(), strict=True)
            with tf.io.gfile.GFile(path, "wb") as file:
                file.write(b"".join(value + b"\n" for value in chosen(wish, counts)))
            yield beam.pvalue.TaggedOutput(str(column), np.array(path))


def chosen(wish: Learned, counts: Iterable[Count]) -> list[bytes]:
    """The vocabulary, in order."""
    kept = sorted(((count, value) for count, value in counts if count >= wish.min_frequency and value), reverse=True)
    return [value for _, value in kept[: wish.top_k]] or [EMPTY]


def file_names(vocabularies: Sequence[str]) -> list[str]:
    """A file name for each vocabulary: its own where that is one and not taken."""
    names: list[str] = []
    for place, vocabulary in enumerate(vocabularies):
        name = re.sub(r"[^\w.-]", "_", vocabulary)
        names.append(name if name.lower() not in map(str.lower, names) else f"{place}_{name}")
    return names
