"""TensorBoard's logs, read without TensorFlow.

logs = read_logs(model_run)
logs.scalars[0].tag, logs.scalars[0].points      # "epoch_loss", [(step, wall time, value), ...]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headrace.components.example_gen.sources.tfrecord.frames import frames
from headrace.configs.errors import DataError

EVENTS = "events.out.tfevents"
MOST_STEPS = 40
"""Histograms of one weight that are taken, at equal distances, with the last."""

_SCALARS, _HISTOGRAMS = "scalars", "histograms"
_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8"}
"""Of TensorFlow's numbers for types, those that summaries have."""


@dataclass(frozen=True)
class Scalar:
    """A curve of one log: `split` is the log's folder, such as `train`. Values that are not finite are None."""

    split: str
    tag: str
    points: list[tuple[int, float, float | None]] = field(default_factory=list)
    """Step, Unix seconds, value."""


@dataclass(frozen=True)
class Histogram:
    """The distributions of one tag of one log."""

    split: str
    tag: str
    steps: list[tuple[int, list[tuple[float, float, float]]]] = field(default_factory=list)
    """Step; left edge, right edge and count of each bucket."""


@dataclass(frozen=True)
class Logs:
    """All of a training, in the order of the files."""

    scalars: list[Scalar] = field(default_factory=list)
    histograms: list[Histogram] = field(default_factory=list)


def log_files(directory: Path) -> list[Path]:
    """The event files below a folder."""
    return sorted(path for path in directory.rglob("*") if EVENTS in path.name and path.is_file())


def read_logs(directory: Path) -> Logs:
    """The scalars and histograms of all logs below a folder. What cannot be read of a file that was cut off is not
    there.
    """
    scalars: dict[tuple[str, str], Scalar] = {}
    histograms: dict[tuple[str, str], Histogram] = {}
    plugins: dict[tuple[str, str], str] = {}
    for file in log_files(directory):
        split = file.parent.relative_to(directory).as_posix()
        for event in _events(file):
            for value in event.summary.value:
                key = (split, value.tag)
                kind = plugins.setdefault(key, _kind(value))
                if kind == _SCALARS:
                    points = scalars.setdefault(key, Scalar(*key)).points
                    points.append((event.step, event.wall_time, _finite(_scalar(value))))
                elif kind == _HISTOGRAMS:
                    steps = histograms.setdefault(key, Histogram(*key)).steps
                    steps.append((event.step, [(float(a), float(b), float(n)) for a, b, n in _array(value.tensor)]))
    return Logs(
        [Scalar(one.split, one.tag, sorted(one.points, key=lambda point: point[:2])) for one in scalars.values()],
        [Histogram(one.split, one.tag, _thinned(one.steps)) for one in histograms.values()],
    )


def _events(file: Path) -> Iterator[Any]:
    from tensorboard.compat.proto.event_pb2 import Event

    try:
        for part in frames(str(file)):
            yield from map(Event.FromString, part.records())
    except DataError:  # a training that was killed, or goes on
        return


def _kind(value: Any) -> str:
    if value.WhichOneof("value") == "simple_value":
        return _SCALARS
    return str(value.metadata.plugin_data.plugin_name)


def _scalar(value: Any) -> float:
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    found = _array(value.tensor)
    return float(found.reshape(-1)[0]) if found.size else math.nan


def _array(tensor: Any) -> np.ndarray:
    """A TensorProto's values: as bytes, as TensorFlow writes arrays, or as one field for each type."""
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    dtype = np.dtype(_DTYPES.get(tensor.dtype, "<f4"))
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)
    fields = (tensor.float_val, tensor.double_val, tensor.int_val, tensor.int64_val)
    values: list[float] = list(next((given for given in fields if given), ()))
    size = math.prod(shape)
    filled = [*values, *[values[-1] if values else 0] * (size - len(values))]  # the last stands for those after it
    return np.array(filled[:size], dtype).reshape(shape)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _thinned(steps: list[Any]) -> list[Any]:
    ordered = sorted(steps, key=lambda step: step[0])
    if len(ordered) <= MOST_STEPS:
        return ordered
    return [ordered[round(at)] for at in np.linspace(0, len(ordered) - 1, MOST_STEPS)]
