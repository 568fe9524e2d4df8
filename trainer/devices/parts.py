"""Batches divided among the replicas of a strategy: the loop trains each part on its own device.

The loss of a part is weighted by its number of examples, so batches need not be divisible by the number of replicas.
Every worker of a cluster must make the same global batches in the same order, and moves its own part of them to its
devices. Or each worker makes its own part of each batch, all of the same size.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer.input.packing import no_autograph

LabeledBatch = tuple[Any, ...]


def split_batches(
    dataset: tf.data.Dataset, strategy: tf.distribute.Strategy, fixed_batch: int | None, *, own: bool = False
) -> Any:
    """Split the batches into a part per replica: features, targets, share, count, as `part` returns them.

    fixed_batch: examples in a batch if shapes must not change; own: whether the batches only belong to this worker's
    replicas. Raises TrainingError if shapes cannot be fixed.
    """
    replicas = strategy.num_replicas_in_sync
    if fixed_batch is not None:
        dataset = _of_fixed_size(dataset, fixed_batch, replicas)
    size = None if fixed_batch is None else fixed_batch // replicas

    def of_this_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        here = replicas // context.num_input_pipelines
        first, parts = (0, here) if own else (context.input_pipeline_id * here, replicas)

        @no_autograph
        def split(*batch: Any) -> tf.data.Dataset:
            numbers = tf.data.Dataset.range(first, first + here)
            return numbers.map(no_autograph(lambda number: _with_size(part(batch, number, parts), size)))

        return dataset.flat_map(split).prefetch(2 * here)

    return strategy.distribute_datasets_from_function(of_this_worker)


def part(batch: LabeledBatch, number: tf.Tensor, parts: int) -> LabeledBatch:
    """Return a part of a batch (features, label), or (features, label, weight), as features, targets, share, count.

    A part without examples borrows one, and has a share of 0.

    Args:
        batch: Features, label, and perhaps weights.
        number: The part, from 0.
        parts: Number of parts.

    Returns:
        targets is the label, and the weights if there are some. count is int32, the number of examples in the part.
        share is the factor for the part's mean loss divided by the number of parts, such that the sum over the parts is
        the mean over the batch.
    """
    size = tf.shape(tf.nest.flatten(batch)[-1], out_type=tf.int64)[0]
    begin, end = number * size // parts, (number + 1) * size // parts
    count = end - begin
    begin = tf.where(count > 0, begin, 0)
    end = begin + tf.maximum(count, 1)
    features, *targets = tf.nest.map_structure(lambda tensor: _slice(tensor, begin, end), tuple(batch))
    share = tf.cast(count * parts, tf.float32) / tf.cast(size, tf.float32)
    return features, tuple(targets), share, tf.cast(count, tf.int32)


def _of_fixed_size(dataset: tf.data.Dataset, size: int, replicas: int) -> tf.data.Dataset:
    """Keep the batches of the full size. Raises TrainingError if shapes cannot be fixed."""
    if size % replicas:
        raise TrainingError(f"train.batch_size: {size} is not divisible by {replicas} cores, which a TPU needs")
    ragged = [name for name, spec in dataset.element_spec[0].items() if not isinstance(spec, tf.TensorSpec)]
    if ragged:
        raise TrainingError(
            f"train.strategy: tpu needs examples of one shape, and {', '.join(ragged)} may have several values. Use"
            " another strategy, or remove these features"
        )
    return dataset.filter(no_autograph(lambda _, label, *_weight: tf.equal(tf.shape(label)[0], size)))


def _with_size(batch: LabeledBatch, size: int | None) -> LabeledBatch:
    """Set the static shape of a part, if its number of examples is fixed."""
    if size is None:
        return batch
    features, targets, share, count = batch
    features, targets = tf.nest.map_structure(
        lambda tensor: tf.ensure_shape(tensor, [size, *tensor.shape[1:]]), (features, targets)
    )
    return features, targets, share, count


def _slice(tensor: Any, begin: tf.Tensor, end: tf.Tensor) -> Any:
    if isinstance(tensor, tf.SparseTensor):
        rest = tensor.dense_shape[1:]
        return tf.sparse.slice(
            tensor, tf.concat([[begin], tf.zeros_like(rest)], 0), tf.concat([[end - begin], rest], 0)
        )
    return tensor[begin:end]
