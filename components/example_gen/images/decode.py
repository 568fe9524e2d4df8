"""Pixels, by the decoder that serves training as well."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from typing import Any

from headrace.components.example_gen.images.header import Header, UnfitError


def pixels(data: bytes, header: Header) -> bytes:
    """Height x width x channel uint8, as tf.io.decode_image gives them. Raises UnfitError where it gives none."""
    tf = _tensorflow()
    try:
        decoded = tf.io.decode_image(data, expand_animations=False).numpy()
    except tf.errors.OpError as error:
        told = re.sub(r"^\{\{.*?\}\} ", "", str(error)).splitlines()[0].partition(". ")[0]
        raise UnfitError(f"cannot be decoded: {told}") from None
    expected = (header.height, header.width, header.channel)
    if decoded.shape != expected:
        raise UnfitError(f"is decoded to {decoded.shape}, where its header says {expected}")
    return decoded.tobytes()


@cache
def _tensorflow() -> Any:
    """TensorFlow, which leaves a GPU alone: others need its memory."""
    import tensorflow as tf

    with suppress(RuntimeError):  # somebody uses it already
        tf.config.set_visible_devices([], "GPU")
    return tf
