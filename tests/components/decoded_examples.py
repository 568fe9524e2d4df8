"""Records as a test compares them."""

from typing import Any

import tensorflow as tf


def decoded(record: bytes) -> dict[str, Any]:
    """The lists of values of a tf.Example; None for a missing one."""
    features = tf.train.Example.FromString(record).features.feature
    return {
        name: None if (kind := own.WhichOneof("kind")) is None else list(getattr(own, kind).value)
        for name, own in features.items()
    }
