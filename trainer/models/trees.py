"""`model.kind: trees`: decision trees as a Keras model, which any loader of a SavedModel can run.

    forest = Forest.of(trees, features=5, classes=1, base=[0.2])
    model = build(features, label, settings, forest)

The nodes of all trees are rows of arrays. Each level of the trees is a few gathers over [batch, trees]: the number or
category that a node asks for, and from the answer the node below. A leaf leads to itself, so all trees take as many
levels as the deepest one. No operation is custom, so that TensorFlow Serving, the C API and LiteRT can load the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.errors import ModelError
from headrace.common.exact_integers import EXACT_IN_FLOAT32
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.trees_model import TreesModel
from headrace.trainer.columns import CategoryColumn, ModelInputs, NumberColumn
from headrace.trainer.models.layers import head

MOST_CATEGORIES = EXACT_IN_FLOAT32
"""The most categories of a feature: larger integers have no exact float32."""
TREES_AT_ONCE = 256
"""Trees that are traversed at the same time: so a batch of 10,000 examples takes some hundred megabytes, not more."""
WORD = 32
"""Categories in a word of a set."""
FEATURE, LEFT, NAN_RIGHT, SET, WORDS = range(5)
"""Columns of `Forest.nodes`."""
LAYER = "forest"


def build(
    features: ModelInputs,
    label: LabelConfig,
    model: TreesModel,  # noqa: ARG001 - all models have it
    forest: Forest | None = None,
) -> keras.Model:
    """Build the model, not compiled. Raises ModelError for a feature that is not a number or a single category.

    forest: None for trees of a single leaf, before any are grown.
    """
    names = input_order(features)
    x = SideBySide(name="inputs")([features.inputs[name] for name in names])
    grown = forest or Forest.of([], label.num_classes, np.zeros(label.num_classes))
    return keras.Model(features.inputs, head(ForestLayer(grown, name=LAYER)(x), label), name="trees")


def input_order(features: ModelInputs) -> list[str]:
    """The features in the order of the columns of the trees' input: numbers, then categories.

    Raises ModelError for a feature that is neither.
    """
    categories = categorical(features)
    for name, column in features.columns.items():
        is_number = isinstance(column, NumberColumn) and column.dtype == "float32"
        if not is_number and name not in categories:
            raise ModelError(
                f"features.{name}: model.kind: trees takes numbers and single categories, and this is neither; remove"
                " the feature, or use another kind of model"
            )
        if features.num_categories.get(name, 0) > MOST_CATEGORIES:
            raise ModelError(
                f"features.{name} has {features.num_categories[name]:,} categories, and model.kind: trees takes at most"
                f" {MOST_CATEGORIES:,}; use fewer, such as by `top_k` or `hash_buckets`"
            )
    return [name for name in features.columns if name not in categories] + categories


def categorical(features: ModelInputs) -> list[str]:
    """The features that are single categories."""
    columns = features.columns.items()
    return [name for name, column in columns if isinstance(column, CategoryColumn) and not column.multivalued]


class Split(NamedTuple):
    """A node that is not a leaf. An example with a number up to `threshold`, or a category in `left_of`, goes left."""

    feature: int
    """Column of the input."""
    threshold: float
    """Of a number."""
    left_of: tuple[int, ...] | None
    """Of a category."""
    nan_right: bool
    """Where an example without a number goes."""
    left: Split | float
    """The node below; of a leaf, its value."""
    right: Split | float


@dataclass
class Forest:
    """The nodes of all trees. Tree i is for class i modulo the number of classes."""

    nodes: NDArray[np.int32]
    """[nodes, 5]: the column of the input; the left child, next to which is the right one; whether NaN goes right; and
    for a category, the first word of its set, and the number of its words."""
    thresholds: NDArray[np.float32]
    """[nodes]; infinity for a leaf."""
    values: NDArray[np.float32]
    """[nodes]; 0 but for leaves."""
    sets: NDArray[np.int32]
    """Words of the sets of categories that go left, one bit for each."""
    roots: NDArray[np.int32]
    """[chunks, trees]: the root of each tree, in chunks that are traversed one after another."""
    base: NDArray[np.float32]
    """[classes]: what is added to the sum of the trees."""
    depth: int
    """Levels of the deepest tree."""

    @classmethod
    def of(cls, trees: Sequence[Split | float], classes: int, base: NDArray[np.float64]) -> Self:
        """Lay out trees. classes: numbers that they predict."""
        layout = _Layout()
        roots = [layout.add(tree) for tree in trees]
        chunk = min(max(TREES_AT_ONCE // classes, 1) * classes, max(len(roots), classes))
        nothing = layout.add(0.0)
        roots += [nothing] * (-len(roots) % chunk or (0 if roots else chunk))
        return cls(
            np.array(layout.nodes, np.int32),
            np.array(layout.thresholds, np.float32),
            np.array(layout.values, np.float32),
            np.array(layout.sets or [0], np.uint32).view(np.int32),
            np.array(roots, np.int32).reshape(-1, chunk),
            np.asarray(base, np.float32),
            layout.depth,
        )


@dataclass
class _Layout:
    """The rows of the arrays of a forest, as trees are added."""

    nodes: list[list[int]] = field(default_factory=list)
    thresholds: list[np.float32] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    sets: list[int] = field(default_factory=list)
    depth: int = 0

    def add(self, tree: Split | float) -> int:
        """Add a tree, level by level, and return the row of its root."""
        root = self._reserve(1)
        level = [(root, tree)]
        depth = -1
        while level:
            depth += 1
            below: list[tuple[int, Split | float]] = []
            for row, node in level:
                below += self._fill(row, node)
            level = below
        self.depth = max(self.depth, depth)
        return root

    def _reserve(self, rows: int) -> int:
        first = len(self.nodes)
        self.nodes += [[0, row, 0, 0, 0] for row in range(first, first + rows)]
        self.thresholds += [np.float32(np.inf)] * rows
        self.values += [0.0] * rows
        return first

    def _fill(self, row: int, node: Split | float) -> list[tuple[int, Split | float]]:
        """Fill a row, and return the nodes below it with their rows."""
        if not isinstance(node, Split):
            self.values[row] = node
            return []
        left, words = self._reserve(2), _words(node.left_of)
        self.nodes[row] = [node.feature, left, int(node.nan_right), len(self.sets), len(words)]
        self.thresholds[row] = round_down(node.threshold)
        self.sets += words
        return [(left, node.left), (left + 1, node.right)]


def _words(categories: tuple[int, ...] | None) -> list[int]:
    """A set of categories as words; at least one, as none stands for a number."""
    if categories is None:
        return []
    words = [0] * (max(categories, default=0) // WORD + 1)
    for category in categories:
        words[category // WORD] |= 1 << category % WORD
    return words


def round_down(threshold: float) -> np.float32:
    """The largest float32 that is not above a float64: x <= both is the same for every x of float32."""
    with np.errstate(over="ignore"):
        near = np.float32(threshold)
    return near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf))


@keras.saving.register_keras_serializable("headrace")
class SideBySide(keras.layers.Layer):
    """Numbers, vectors and categories side by side: [batch] or [batch, size] each → float32 [batch, all of them]."""

    def call(self, columns: list[keras.KerasTensor]) -> keras.KerasTensor:
        """columns: one tensor per feature."""
        parts = [tf.cast(one, tf.float32) for one in columns]
        return tf.concat([part if len(part.shape) == 2 else part[:, tf.newaxis] for part in parts], axis=1)

    def compute_output_shape(self, input_shape: list[tuple[int | None, ...]]) -> tuple[int | None, int]:
        """[batch, all of them]."""
        return input_shape[0][0], sum(int(shape[1] or 0) if len(shape) == 2 else 1 for shape in input_shape)

    def compute_output_spec(self, columns: list[keras.KerasTensor]) -> keras.KerasTensor:
        """float32, although categories are integers."""
        return keras.KerasTensor(self.compute_output_shape([one.shape for one in columns]), "float32")


@keras.saving.register_keras_serializable("headrace")
class ForestLayer(keras.layers.Layer):
    """The sum of trees: float32 [batch, inputs] → [batch, classes]. Its arrays are weights that are not trained."""

    def __init__(self, forest: Forest, **settings: Any) -> None:
        super().__init__(trainable=False, dtype="float32", **settings)
        self.depth = forest.depth
        self.asks_categories = bool((forest.nodes[:, WORDS] > 0).any())
        self.nodes = self._constant("nodes", forest.nodes)
        self.thresholds = self._constant("thresholds", forest.thresholds)
        self.values = self._constant("values", forest.values)
        self.sets = self._constant("sets", forest.sets)
        self.roots = self._constant("roots", forest.roots)
        self.base = self._constant("base", forest.base)

    def _constant(self, name: str, array: NDArray[Any]) -> Any:
        weight = self.add_weight(array.shape, "zeros", str(array.dtype), trainable=False, autocast=False, name=name)
        weight.assign(array)
        return weight

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, int]:
        """[batch, classes]."""
        return input_shape[0], int(self.base.shape[0])

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Without tracing the trees."""
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), "float32")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        chunks, batch = self.roots.shape[0], tf.shape(inputs)[0]
        base = tf.convert_to_tensor(self.base)
        if chunks == 1:
            return base + self._sums(inputs, tf.convert_to_tensor(self.roots)[0])
        roots = tf.convert_to_tensor(self.roots)
        _, total = tf.while_loop(
            lambda chunk, _: chunk < chunks,
            lambda chunk, total: (chunk + 1, total + self._sums(inputs, roots[chunk])),
            (tf.constant(0), tf.zeros(tf.stack([batch, base.shape[0]]))),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, base.shape[0]])),
            parallel_iterations=1,
        )
        return base + total

    def _sums(self, inputs: tf.Tensor, roots: tf.Tensor) -> tf.Tensor:
        """[batch, classes]: the sums of the trees with these roots."""
        trees, classes = int(self.roots.shape[1]), int(self.base.shape[0])
        node = tf.broadcast_to(roots, tf.stack([tf.shape(inputs)[0], trees]))
        for _ in range(self.depth):
            node = self._below(inputs, node)
        values = tf.gather(self.values.value, node)
        return tf.reduce_sum(tf.reshape(values, [-1, trees // classes, classes]), axis=1)

    def _below(self, inputs: tf.Tensor, node: tf.Tensor) -> tf.Tensor:
        """int32 [batch, trees]: the nodes below those where examples are, or the same if they are leaves."""
        row = tf.gather(self.nodes.value, node)
        x = tf.gather(inputs, row[..., FEATURE], batch_dims=1)
        above = x > tf.gather(self.thresholds.value, node)
        right = tf.logical_or(above, tf.logical_and(tf.math.is_nan(x), row[..., NAN_RIGHT] > 0))
        if self.asks_categories:
            right = tf.where(row[..., WORDS] > 0, tf.logical_not(self._is_in_set(x, row)), right)
        return row[..., LEFT] + tf.cast(right, tf.int32)

    def _is_in_set(self, x: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        """Bool [batch, trees]: whether a category is in its node's set; for nodes of numbers, anything."""
        category = tf.cast(tf.where(x >= 0, tf.minimum(x, float(MOST_CATEGORIES)), -1.0), tf.int32)  # NaN is not >= 0
        word = tf.math.floordiv(category, WORD)
        known = tf.logical_and(category >= 0, word < row[..., WORDS])
        bits = tf.gather(self.sets.value, tf.where(known, row[..., SET] + word, 0))
        bit = tf.bitwise.right_shift(bits, tf.math.floormod(category, WORD))
        return tf.logical_and(known, tf.math.floormod(bit, 2) > 0)
