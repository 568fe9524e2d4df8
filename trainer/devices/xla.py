"""What XLA cannot compile, in words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.configs.train import TrainConfig

_PLACES = re.compile(
    r"(Graph execution error|Detected at node|<stack traces|The op is created at|File \"|\[\[\{\{node)"
)
"""How lines begin that say where something went wrong, and not what."""
LONGEST = 200


@contextlib.contextmanager
def xla_told(train: TrainConfig) -> Iterator[None]:
    """Where steps are compiled because the config says so, turn XLA's errors into a TrainingError with the way out."""
    try:
        yield
    except tf.errors.OpError as error:
        if train.jit != "on" or not re.search("XLA|tf2xla", str(error)):
            raise
        raise TrainingError(
            f"train.jit: on: XLA cannot compile this model's steps ({reason(error)}). Set it to `auto`; or, where a"
            " text has any number of words, set `padded: true` and `max_tokens` there"
        ) from error


def reason(error: Exception) -> str:
    """Why XLA refuses, out of all that TensorFlow says."""
    said = str(error)
    if missing := sorted(set(re.findall(r"No registered '(\w+)' OpKernel", said))):
        return f"it has no {', '.join(missing)}"
    lines = [line.strip() for line in said.splitlines()]
    telling = [line for line in lines if line and not _PLACES.match(line)]
    unsupported = [line for line in telling if "unsupported operations" in line]
    return (unsupported or telling or [type(error).__name__])[-1][:LONGEST]
