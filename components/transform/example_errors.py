"""Explains examples that do not fit the graph, across Beam's workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.components.failed_checks import check_of_feature


@contextmanager
def shorten_analysis_error() -> Iterator[None]:
    """Raise a TrainingError for an example that the analysis cannot transform; TFT's error shows the whole batch."""
    try:
        yield
    except ValueError as error:
        match = re.search(r'trying to apply the transformation: "(.*?)"\.\s+Batch instances', str(error), re.DOTALL)
        if match is None:
            raise
        raise TrainingError(short_message(ValueError(match[1]))) from error


@contextmanager
def training_error_from(file: Path) -> Iterator[None]:
    """Raise a TrainingError with the message in a file, if there is one: Beam's threads change an error's type."""
    try:
        yield
    except Exception:
        if file.exists():
            message = file.read_text(encoding="utf-8")
            file.unlink()
            raise TrainingError(message) from None
        raise


@contextmanager
def errors_written_to(file: Path) -> Iterator[None]:
    """Write what is wrong with an example to a file, for `training_error_from`."""
    try:
        yield
    except (TrainingError, tf.errors.InvalidArgumentError) as error:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(short_message(error), encoding="utf-8")
        raise


def short_message(error: Exception) -> str:
    """What is wrong with an example: the message of a feature's own check, or TensorFlow's without its stack."""
    if isinstance(error, TrainingError):
        return str(error)
    text = str(error)
    if own := check_of_feature(text):
        return own
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and line.strip() != "<stack traces unavailable>"
    ]
    # what TensorFlow's operations report follows the locations of the call stack
    reports = [
        line for line in lines if not re.match(r"Graph execution|Detected at|File |\[\[|\(\d+\)|def |\d+ ", line)
    ]
    return f"an example cannot be transformed: {reports[0] if reports else error}"
