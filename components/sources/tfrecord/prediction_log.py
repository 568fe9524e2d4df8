"""The requests in TensorFlow Serving's request log, TFRecords of `PredictionLog`, as tf.Examples.

logged_examples(frames)         # the frames of the examples; a request may have had several, or none
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from headrace.common.errors import BadRecordError
from headrace.components.examples.skips import Skips
from headrace.components.sources.tfrecord.frames import Frames

LARGEST_TENSOR = 1 << 24
"""The most values of a tensor: a few bytes may stand for any number of equal values."""
_MISSING_INTEGER = np.iinfo(np.int64).min
"""What stands for a missing value in a named tensor of integers, as in the exported signatures."""


@dataclass(frozen=True)
class LoggedFrames(Frames):
    """Examples made of requests. origins: the request of each, by its place in `log`."""

    log: Frames
    origins: NDArray[np.int64]

    def filter(self, mask: NDArray[np.bool_]) -> LoggedFrames:
        """The examples for which `mask` is True."""
        starts, ends, numbers = self.starts[mask], self.ends[mask], self.numbers[mask]
        return replace(self, starts=starts, ends=ends, numbers=numbers, origins=self.origins[mask])

    def error(self, index: int, what: str, *, column: str | None = None, hint: str = "") -> BadRecordError:
        """The error for one example, with the number and the offset of its request."""
        return self.log.error(int(self.origins[index]), what, column=column, hint=hint)


def logged_examples(frames: Frames, skips: Skips | None) -> Frames:
    """The examples of all requests. skips: counts requests that cannot be read; None: they are errors."""
    examples: list[bytes] = []
    origins: list[int] = []
    for index, record in enumerate(frames.records()):
        try:
            found = _examples(PredictionLog.FromString(record))
        except (DecodeError, TypeError, ValueError) as error:
            why = "is not a PredictionLog" if isinstance(error, DecodeError) else f"cannot be read: {error}"
            problem = partial(frames.error, index, why)
            if skips is None:
                raise problem() from None
            skips.add(problem)
            continue
        examples += found
        origins += [index] * len(found)
    edges = np.cumsum([0, *map(len, examples)])
    where = np.array(origins, np.int64)
    numbers = frames.numbers[where]
    return LoggedFrames(frames.path, 0, b"".join(examples), edges[:-1], edges[1:], numbers, frames, where)


def _examples(log: Any) -> list[bytes]:
    """The examples of one request. Raises ValueError or TypeError if there can be none."""
    kind = log.WhichOneof("log_type")
    if kind is None:
        raise ValueError("the record has no request of a type that is known")
    if kind in _INPUTS:
        return list(_of_input(getattr(log, kind).request.input))
    if kind == "predict_log":
        return _of_tensors(log.predict_log.request.inputs)
    if kind == "session_run_log":
        feeds = log.session_run_log.request.feed
        return _of_tensors({feed.name.rpartition(":")[0] or feed.name: feed.tensor for feed in feeds})
    raise ValueError(f"requests of type {kind} are not supported")


_INPUTS = ("classify_log", "regress_log", "multi_inference_log")


def _of_input(given: Any) -> Iterator[bytes]:
    """The examples of a request with examples, each with the features of the context, if there is one."""
    listed = given.WhichOneof("kind")
    if listed == "example_list":
        yield from (example.SerializeToString() for example in given.example_list.examples)
    elif listed is not None:
        for example in given.example_list_with_context.examples:
            merged = tf.train.Example()
            merged.CopyFrom(given.example_list_with_context.context)
            for name, feature in example.features.feature.items():
                merged.features.feature[name].CopyFrom(feature)
            yield merged.SerializeToString()


def _of_tensors(tensors: Mapping[str, Any]) -> list[bytes]:
    """The rows of named tensors; or the examples themselves, if the only tensor has serialized ones."""
    arrays = {name: _array(name, tensor) for name, tensor in tensors.items()}
    if len(arrays) == 1:
        (only,) = arrays.values()
        if only.dtype == object and only.size and all(map(_is_example, only.ravel())):
            return [bytes(value) for value in only.ravel()]
    if len({len(array) for array in arrays.values()}) > 1:
        raise ValueError("its tensors differ in their numbers of rows")
    rows = len(next(iter(arrays.values()), ()))
    return [_example({name: array[row] for name, array in arrays.items()}) for row in range(rows)]


def _array(name: str, tensor: Any) -> NDArray[Any]:
    """[rows, values]; a tensor without dimensions is one row."""
    if math.prod(dim.size for dim in tensor.tensor_shape.dim) > LARGEST_TENSOR:
        raise ValueError(f"its tensor {name} has more than {LARGEST_TENSOR:,} values")
    array = np.asarray(tf.make_ndarray(tensor))
    return array.reshape(len(array), math.prod(array.shape[1:])) if array.ndim else array.reshape(1, 1)


def _is_example(value: bytes) -> bool:
    try:
        return bool(tf.train.Example.FromString(value).features.feature)
    except DecodeError:
        return False


def _example(row: Mapping[str, NDArray[Any]]) -> bytes:
    """A tf.Example; a missing value, which is "", NaN or the smallest int64, gives no value."""
    example = tf.train.Example()
    for name, values in row.items():
        kind, is_there = _kind(values)
        getattr(example.features.feature[name], kind).value.extend(values[is_there].tolist())
    return bytes(example.SerializeToString())


def _kind(values: NDArray[Any]) -> tuple[str, NDArray[np.bool_]]:
    """The list of a tf.Example for these values, and which of them are not missing."""
    if values.dtype == object:
        return "bytes_list", np.asarray(values != b"", bool)
    if np.issubdtype(values.dtype, np.integer) or values.dtype == bool:
        return "int64_list", np.asarray(values != _MISSING_INTEGER, bool)
    if np.issubdtype(values.dtype, np.floating):
        return "float_list", ~np.isnan(values)
    raise TypeError(f"it has a tensor of type {values.dtype}")
