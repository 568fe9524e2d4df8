"""Which epoch a stream of batches is in, and where in it: what a resumed training needs to see the batches to come."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from headrace.trainer.input.packing import plain


class Start(NamedTuple):
    """Where a stream begins: so many examples into an epoch, the first being 0."""

    epoch: int = 0
    examples: int = 0

    @classmethod
    def after(cls, batches: int, batch_size: int, size: int, endless: bool) -> Start:
        """So many batches on, in a split of that size."""
        if endless:  # batches run over the ends of epochs
            return cls(*divmod(batches * batch_size, size))
        epoch, within = divmod(batches, -(-size // batch_size))
        return cls(epoch, within * batch_size)

    def passed(self, epoch: tf.Tensor) -> tf.Tensor:
        """int64: how many examples of that epoch were seen before."""
        return tf.where(tf.equal(epoch, self.epoch), tf.constant(self.examples, tf.int64), tf.constant(0, tf.int64))


def epochs(start: Start, endless: bool) -> tf.data.Dataset:
    """The numbers of the epochs, int64: all from the start's on; or one alone, the next each time it is iterated."""
    if endless:
        return tf.data.Dataset.counter(start.epoch)
    with tf.device("CPU"):
        number = tf.Variable(start.epoch - 1, dtype=tf.int64, trainable=False)
    return tf.data.Dataset.from_tensors(0).map(plain(lambda _: number.assign_add(1)))
