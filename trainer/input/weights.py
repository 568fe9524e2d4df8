"""The weights of examples in the loss: of their data column (`label.weight`) and their class (`train.class_weight`).

weights = ExampleWeights.of("train", files, transformed_feature_spec, label, class_weight="balanced")
weights.take(columns, label)          # float32 [batch], and the column is gone from `columns`

A batch's loss is the sum of its weighted losses divided by its number of examples, as in Keras. So that learning rate,
clipping and regularization mean the same whatever the unit of the weights, a column is divided by its mean over the
split. The eval loss is then the weighted mean over the eval split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.train import ClassWeight
from headrace.trainer.input.errors import explain_file_errors
from headrace.trainer.input.mapped import MappedRows
from headrace.trainer.input.packing import Feature, Packing
from headrace.trainer.input.reading import DEFAULT_INPUT_OPTIONS, without_autotune
from headrace.trainer.input.transformed_columns import are_columns


@dataclass(frozen=True)
class ExampleWeights:
    """How the examples of one split are weighted."""

    column: str | None = None
    """The column of the transformed examples that holds their weights; None if they have none."""
    mean: float = 1.0
    """Its mean over the split."""
    classes: tuple[float, ...] = ()
    """The factor of each class, in the order of the class ids; empty if classes are not weighted."""
    words: str = ""
    """Description for the log and the training record."""

    @classmethod
    def of(
        cls,
        split: str,
        files: Sequence[str],
        feature_spec: Mapping[str, Feature],
        label: LabelConfig,
        class_weight: ClassWeight | None = None,
    ) -> ExampleWeights | None:
        """Read weights and labels of a split's files if the config needs them; None if all examples count the same.

        Raises TrainingError if a weight is not a finite number from 0 up, all are 0, or a file is damaged.
        """
        if label.weight is None and class_weight is None:
            return None
        totals = _Totals(0, np.zeros(max(label.num_classes, 2)))
        if label.weight is not None or class_weight == "balanced":
            totals = _measure(split, files, feature_spec, label)
        mean = totals.by_class.sum() / totals.examples if label.weight is not None else 1.0
        classes = _class_factors(label, class_weight, totals.by_class)
        words = [f"weights of {label.weight!r} divided by their mean, {mean:.4g}"] if label.weight is not None else []
        named = ", ".join(f"{value} {factor:.4g}" for value, factor in zip(label.class_values, classes, strict=False))
        words += [f"class weights: {named}"] if classes else []
        return cls(label.weight, float(mean), classes, "; ".join(words))

    def take(self, columns: dict[str, Any], label: tf.Tensor) -> tf.Tensor:
        """Remove the column of weights from the columns of a batch, and return the weights, float32 [batch]."""
        if self.column is None:
            weights = tf.ones_like(label, tf.float32)  # only with weights of classes, which one label alone has
        else:
            weights = columns.pop(self.column) / tf.constant(self.mean, tf.float32)
        if not self.classes:
            return weights
        return weights * tf.gather(tf.constant(self.classes, tf.float32), tf.cast(label, tf.int64))


@dataclass(frozen=True)
class _Totals:
    """The number of examples, and the sum of their weights by class; of other labels, all in class 0."""

    examples: int
    by_class: NDArray[np.float64]


def _measure(split: str, files: Sequence[str], feature_spec: Mapping[str, Feature], label: LabelConfig) -> _Totals:
    """Add up the weights of a split, each 1 if there is no column of weights."""
    examples, invalid, by_class = 0, 0, np.zeros(max(label.num_classes, 2))
    for labels, weights in _batches(files, feature_spec, label):
        valid = np.isfinite(weights) & (weights >= 0)
        examples, invalid = examples + len(weights), invalid + int(np.sum(~valid))
        one_class = label.kind in ("regression", "multilabel", "multitask")
        ids = np.zeros(len(labels), np.int64) if one_class else labels.astype(np.int64)
        known = valid & (ids >= 0) & (ids < len(by_class))  # other labels are reported when the split is read
        by_class += np.bincount(ids[known], weights[known], len(by_class))
    if invalid:
        raise TrainingError(
            f"label.weight: column {label.weight!r}, split {split}: {invalid:,} of {examples:,} examples have no valid"
            " weight. A weight must be a number from 0 up: correct the column, or fill it in"
        )
    if examples and not by_class.any():
        raise TrainingError(f"label.weight: column {label.weight!r}, split {split}: all {examples:,} weights are 0")
    return _Totals(max(examples, 1), by_class)


def _batches(
    files: Sequence[str], feature_spec: Mapping[str, Feature], label: LabelConfig
) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:
    """Labels and weights of the examples in these files."""
    key = label.columns[0]
    names = [key, *([label.weight] if label.weight is not None else [])]
    spec, reading = {name: feature_spec[name] for name in names}, DEFAULT_INPUT_OPTIONS
    if are_columns(files):
        for labels, *given in MappedRows(files, spec).arrays(reading):
            yield labels, (given[0] if given else np.ones(len(labels))).astype(np.float64)
        return
    packing = Packing(spec)
    gzip = all(file.endswith(".gz") for file in files)
    paths = tf.data.Dataset.from_tensor_slices(sorted(files))
    with explain_file_errors(files, packing):
        for packed in without_autotune(reading.packed(paths, packing, len(files), gzip)):
            columns = packing.unpack(packed)
            labels = columns[key].numpy()
            weights = columns[label.weight].numpy() if label.weight is not None else np.ones(len(labels))
            yield labels, weights.astype(np.float64)


def _class_factors(
    label: LabelConfig, class_weight: ClassWeight | None, by_class: NDArray[np.float64]
) -> tuple[float, ...]:
    """The factor of each class. balanced: inversely proportional to the weight of its examples, with a mean of 1 over
    all examples (King and Zeng, "Logistic regression in rare events data", 2001), as in scikit-learn.
    """
    if class_weight is None:
        return ()
    if class_weight != "balanced":
        return tuple(float(class_weight.get(str(value), 1.0)) for value in label.class_values)
    present = by_class > 0
    factors = np.divide(by_class.sum(), present.sum() * by_class, out=np.ones_like(by_class), where=present)
    return tuple(factors.tolist())
