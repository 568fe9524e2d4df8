"""The log of a search without TensorFlow's advice against it: each trial has a model and graphs of its own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def retracing_untold() -> Iterator[None]:
    """While it lasts, TensorFlow does not say that functions of one name are traced often."""
    logger = logging.getLogger("tensorflow")
    logger.addFilter(_is_told)
    try:
        yield
    finally:
        logger.removeFilter(_is_told)


def _is_told(record: logging.LogRecord) -> bool:
    return "triggered tf.function retracing" not in record.getMessage()
