"""Shuffling whole tensors of examples by gather, which costs a copy for each batch and no call for each example.

All orders follow from the seed and the number of the epoch: a training that is taken up again sees what it would have.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from headrace.trainer.input.packing import Packed, Packing, plain


def draw(seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """int64 [2]: what the random order of an epoch follows from."""
    return tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])


def permutation(size: tf.Tensor | int, seed: tf.Tensor) -> tf.Tensor:
    """int64 [size]: 0 to size-1 in an order that follows from the seed, int64 [2]."""
    return tf.random.experimental.stateless_shuffle(tf.range(tf.cast(size, tf.int64)), seed=seed)


def by_seed(dataset: tf.data.Dataset, buffer: int, seed: tf.Tensor) -> tf.data.Dataset:
    """`dataset.shuffle`, in the same order for the same seed, int64 [], which may be a tensor of a graph.

    Where the global seed is 0, TensorFlow compares this one with 0 in Python, which such a tensor refuses; so the graph
    has another global seed meanwhile.
    """
    graph = tf.compat.v1.get_default_graph()
    kept, graph.seed = graph.seed, 1
    try:
        return dataset.shuffle(buffer, seed=seed, reshuffle_each_iteration=False)
    finally:
        graph.seed = kept


def mixed(  # noqa: PLR0913
    batches: tf.data.Dataset,
    packing: Packing,
    buffer: int,
    seed: tf.Tensor,
    *,
    arrange: Callable[[Packed], Packed] | None = None,
    piece: int = 1,
) -> tf.data.Dataset:
    """A stream of packed batches with its examples shuffled through a pool of `buffer` of them.

    About half as many fresh examples join the pool, the whole is mixed, and all but a pool of them go on. So an example
    waits as long as in a record-by-record shuffle of the same buffer. The batches that come out have other sizes than
    those that went in: multiples of `piece`, until the last. seed: int64 [2]; arrange: puts what goes on in another
    order.
    """
    half = max(buffer // 2, 1)
    fresh = gathered(batches, packing, half).concatenate(_nothing(packing))  # the empty one flushes

    @plain
    def mix(pool: Packed, element: tuple[tf.Tensor, Packed]) -> tuple[Packed, Packed]:
        number, arriving = element
        together = packing.joined([pool, arriving])
        size = packing.rows(together)
        together = packing.take(together, permutation(size, tf.random.experimental.stateless_fold_in(seed, number)))
        goes = tf.maximum(size - buffer, 0) // piece * piece
        hold = tf.where(tf.equal(packing.rows(arriving), 0), tf.zeros_like(size), size - goes)
        leaving = packing.cut(together, hold, size)
        return packing.cut(together, tf.zeros_like(hold), hold), arrange(leaving) if arrange else leaving

    return _some(fresh.enumerate().scan(packing.none(), mix), packing)


def exact(batches: tf.data.Dataset, packing: Packing, size: int) -> tf.data.Dataset:
    """The same examples in the same order in batches of that size; the last may be smaller."""
    if not packing.varying:
        return batches.rebatch(size)

    def whole(arriving: tf.Tensor, waiting: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.equal(arriving, 0), waiting, waiting // size * size)

    @plain
    def pieces(*chunk: tf.Tensor) -> tf.data.Dataset:
        rows = packing.rows(chunk)
        starts = tf.data.Dataset.range(0, rows, size)
        return starts.map(plain(lambda start: packing.cut(chunk, start, tf.minimum(start + size, rows))))

    return _passed_on(batches, packing, whole).flat_map(pieces)


def gathered(batches: tf.data.Dataset, packing: Packing, size: int) -> tf.data.Dataset:
    """The same examples in the same order in batches of about that size, or larger."""
    if not packing.varying:
        return batches.rebatch(size)

    def enough(arriving: tf.Tensor, waiting: tf.Tensor) -> tf.Tensor:
        goes = tf.logical_or(tf.equal(arriving, 0), waiting >= size)
        return tf.where(goes, waiting, tf.zeros_like(waiting))

    return _passed_on(batches, packing, enough)


def _passed_on(
    batches: tf.data.Dataset, packing: Packing, how_many: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
) -> tf.data.Dataset:
    """The same examples in the same order in other chunks.

    how_many: of the examples that arrive, and of those that wait with them, to those that go on. No more arrive at the
    end, and then all have to go.
    """

    @plain
    def step(waiting: Packed, arriving: Packed) -> tuple[Packed, Packed]:
        together = packing.joined([waiting, arriving])
        rows = packing.rows(together)
        border = how_many(packing.rows(arriving), rows)
        return packing.cut(together, border, rows), packing.cut(together, tf.zeros_like(border), border)

    return _some(batches.concatenate(_nothing(packing)).scan(packing.none(), step), packing)


def without_first(batches: tf.data.Dataset, packing: Packing, count: tf.Tensor) -> tf.data.Dataset:
    """The stream without its first examples, so many."""

    @plain
    def drop(left: tf.Tensor, packed: Packed) -> tuple[tf.Tensor, Packed]:
        rows = packing.rows(packed)
        dropped = tf.minimum(left, rows)
        return left - dropped, packing.cut(packed, dropped, rows)

    return _some(batches.scan(tf.cast(count, tf.int64), drop), packing)


def _nothing(packing: Packing) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(packing.none())


def _some(batches: tf.data.Dataset, packing: Packing) -> tf.data.Dataset:
    """Without the empty ones."""
    return batches.filter(plain(lambda *packed: packing.rows(packed) > 0))
