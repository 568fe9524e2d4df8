"""Shuffling a dataset of files by a seed that is a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf

from headrace.trainer.input.shuffle import shuffle_by_seed


@pytest.fixture
def global_seed() -> Iterator[None]:
    yield
    tf.random.set_seed(7)


@pytest.mark.parametrize("seed", [0, 5])
def test_the_order_follows_the_seed_whatever_the_global_one_is(seed: int, global_seed: None) -> None:
    """TensorFlow's own `shuffle` fails with a tensor for a seed where the global one is 0, as `train.seed` is."""
    tf.random.set_seed(seed)
    seeds = tf.data.Dataset.from_tensor_slices(tf.constant([3, 3, 4], tf.int64))
    orders = seeds.flat_map(lambda one: shuffle_by_seed(tf.data.Dataset.range(20), 20, one)).batch(20)
    first, again, other = (order.tolist() for order in orders.as_numpy_iterator())
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other) == list(range(20))
