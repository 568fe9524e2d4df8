"""A device whose memory does not suffice, in words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from headrace.configs.devices import DISTRIBUTED
from headrace.configs.errors import TrainingError
from headrace.configs.train import TrainConfig


@contextlib.contextmanager
def out_of_memory_told(train: TrainConfig) -> Iterator[None]:
    """Turn TensorFlow's ResourceExhaustedError into a TrainingError that says what to change."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise TrainingError(_message(str(error), train)) from error


def _message(said: str, train: TrainConfig) -> str:
    tensor = re.search(r"allocating tensor with shape\[([\d,]*)\] and type (\w+) on \S*?([A-Z]+:\d+)", said)
    place = f" of {tensor[3]}" if tensor else ""
    wanted = f" at a {tensor[2]} tensor of shape [{tensor[1]}]" if tensor else f" ({said.strip().splitlines()[0]})"
    smaller = "the model smaller (its layers, the embeddings of features with many categories)"
    batch = _smaller_batch(train)
    if tensor and not _of_a_batch(tensor[1], train):
        return f"the memory{place} did not suffice{wanted}. Make {smaller}; or, if that is none of its weights: {batch}"
    return f"the memory{place} did not suffice{wanted}. {batch[0].upper()}{batch[1:]}; or make {smaller}"


def _of_a_batch(shape: str, train: TrainConfig) -> bool:
    """Whether the tensor holds something of each example, not the model's weights; as far as its shape tells."""
    first = int(shape.partition(",")[0] or 0)
    return first <= train.batch_size


def _smaller_batch(train: TrainConfig) -> str:
    """How a batch takes less memory."""
    halves = f"`train.batch_size` {train.batch_size:,}"
    if train.batch_size > 1:
        halves = f"lower {halves}, say to {train.batch_size // 2:,}"
        if train.gradient_accumulation == 1 and train.strategy not in DISTRIBUTED:
            halves += ", with `train.gradient_accumulation: 2` for the same steps of the optimizer"
    else:
        halves = f"{halves} cannot be lower"
    narrow = "" if train.precision != "float32" else "; `train.precision: mixed_bfloat16` halves what layers hold"
    return halves + narrow
