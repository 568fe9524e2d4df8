"""TensorFlow's errors about devices, explained: insufficient memory, and steps that XLA cannot compile."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

import tensorflow as tf

from headrace.common.errors import ModelError, TrainingError
from headrace.configs.schema.train import DISTRIBUTED, TrainConfig

_LOCATIONS = re.compile(
    r"(Graph execution error|Detected at node|<stack traces|The op is created at|File \"|\[\[\{\{node)"
)
"""Starts of lines that say where something failed, and not what."""
MAX_LENGTH = 200
"""Maximum length of a line that is quoted."""


@contextlib.contextmanager
def explain_out_of_memory(train: TrainConfig, way_out: str = "") -> Iterator[None]:
    """Turn TensorFlow's ResourceExhaustedError, also that of a full disk, into a TrainingError that explains what to
    change.

    way_out: what may be done besides.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        if os.strerror(errno.ENOSPC) in str(error):
            raise TrainingError(f"a disk is full: {str(error).strip().splitlines()[0]}. Free some space") from error
        raise TrainingError(_memory_message(str(error), train) + way_out) from error


def _memory_message(message: str, train: TrainConfig) -> str:
    tensor = re.search(r"allocating tensor with shape\[([\d,]*)\] and type (\w+) on \S*?([A-Z]+:\d+)", message)
    device = f" of {tensor[3]}" if tensor else ""
    wanted = f" for a {tensor[2]} tensor of shape [{tensor[1]}]" if tensor else f" ({message.strip().splitlines()[0]})"
    start = f"the memory{device} is not sufficient{wanted}."
    smaller = "the model smaller (its layers, the embeddings of features with many categories)"
    batch = _smaller_batch(train)
    if tensor and not _may_be_a_batch(tensor[1], train):
        return f"{start} Make {smaller}; or, if the tensor is not one of its weights: {batch}"
    return f"{start} {batch[0].upper()}{batch[1:]}; or make {smaller}"


def _may_be_a_batch(shape: str, train: TrainConfig) -> bool:
    """Whether a tensor may hold something for each example, and not the model's weights, judging by its shape."""
    first = int(shape.partition(",")[0] or 0)
    return first <= train.global_batch_size


def _smaller_batch(train: TrainConfig) -> str:
    """Explain how a batch needs less memory."""
    batch = f"`train.batch_size` {train.global_batch_size:,}"
    if train.global_batch_size > 1:
        batch = f"lower {batch}, for example to {train.global_batch_size // 2:,}"
        if train.gradient_accumulation == 1 and train.strategy not in DISTRIBUTED:
            batch += ", with `train.gradient_accumulation: 2` for the same steps of the optimizer"
    else:
        batch = f"{batch} cannot be lower"
    precision = "" if train.precision != "float32" else "; `train.precision: mixed_bfloat16` halves the size of layers"
    return batch + precision


@contextlib.contextmanager
def explain_xla_errors(train: TrainConfig) -> Iterator[None]:
    """Turn XLA's errors into a ModelError with the way out, if the config demands that steps are compiled."""
    try:
        yield
    except tf.errors.OpError as error:
        if train.jit != "on" or not re.search("XLA|tf2xla", str(error)):
            raise
        raise ModelError(
            f"train.jit: on: XLA cannot compile this model's steps ({xla_failure(error)}). Set it to `auto`; or, if a"
            " text has any number of words, set `padded: true` and `max_tokens` for it"
        ) from error


def xla_failure(error: Exception) -> str:
    """Extract from TensorFlow's message why XLA cannot compile something."""
    message = str(error)
    if missing := sorted(set(re.findall(r"No registered '(\w+)' OpKernel", message))):
        return f"it has no {', '.join(missing)}"
    lines = [line.strip() for line in message.splitlines()]
    relevant = [line for line in lines if line and not _LOCATIONS.match(line)]
    unsupported = [line for line in relevant if "unsupported operations" in line]
    return (unsupported or relevant or [type(error).__name__])[-1][:MAX_LENGTH]
