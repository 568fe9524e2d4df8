"""TensorBoard's logs, read without TensorFlow, and the time of each value.

logs = read_logs(model_run)
logs.scalars[0].tag, logs.scalars[0].points      # "epoch_loss", [(step, wall time, value), ...]
TrainingClock.of(logs, training).elapsed(logs.scalars[0])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.errors import DataError
from headrace.pipeline.report.training import TrainingHistory

if TYPE_CHECKING:
    import numpy as np

EVENTS = "events.out.tfevents"
MOST_STEPS = 40
"""How many histograms of one weight are read, evenly spaced, including the last."""
EPOCHS = "epoch_"
"""Prefix of the Trainer's own curves, which have a value for each epoch, counted from 0."""

_SCALARS, _HISTOGRAMS = "scalars", "histograms"
_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8"}
"""NumPy's types for TensorFlow's type numbers, as far as summaries use them."""


@dataclass(frozen=True)
class ScalarSeries:
    """One curve of one log. `split` is the log's folder, such as `train`; non-finite values are None."""

    split: str
    tag: str
    points: list[tuple[int, float, float | None]] = field(default_factory=list)
    """Step, Unix seconds, value."""


@dataclass(frozen=True)
class HistogramSeries:
    """The distributions of one tag of one log."""

    split: str
    tag: str
    steps: list[tuple[int, list[tuple[float, float, float]]]] = field(default_factory=list)
    """Step; left edge, right edge and count of each bucket."""


@dataclass(frozen=True)
class TrainingLogs:
    """All logs of a training, in the order of the files."""

    scalars: list[ScalarSeries] = field(default_factory=list)
    histograms: list[HistogramSeries] = field(default_factory=list)


@dataclass(frozen=True)
class TrainingClock:
    """How long a training had run when a value was logged.

    The logs alone do not say: they begin at the end of the first epoch, and a training that resumes from a checkpoint
    logs the earlier epochs again at that moment. The Trainer's own record has the seconds of each epoch.
    """

    begun: float
    """Unix seconds; if `ends` is None, those of the first value."""
    ends: tuple[float, ...] | None
    """Seconds from the start of the training to the end of each epoch; None if they were not recorded."""

    @classmethod
    def of(cls, logs: TrainingLogs, training: TrainingHistory | None) -> TrainingClock:
        """The clock of a training, from its logs and its record."""
        seconds = [epoch.seconds for epoch in training.epochs] if training else []
        known = [each for each in seconds if each is not None]
        first = min((one.points[0][1] for one in logs.scalars), default=0.0)
        if not known or len(known) < len(seconds):
            return cls(first, None)
        ends = tuple(itertools.accumulate(known))
        last = [one.points[-1] for one in logs.scalars if _by_epoch(one)]
        begun = (time - ends[step] for step, time, _ in last if step < len(ends))
        return cls(min(begun, default=first), ends)

    def elapsed(self, curve: ScalarSeries) -> list[float]:
        """Seconds from the start of the training to each value, not counting interruptions."""
        return [round(self._elapsed(curve, step, time), 3) for step, time, _ in curve.points]

    def _elapsed(self, curve: ScalarSeries, step: int, time: float) -> float:
        if self.ends is not None and _by_epoch(curve) and step < len(self.ends):
            return self.ends[step]
        return time - self.begun


def log_files(directory: Path) -> list[Path]:
    """The event files below a folder."""
    return sorted(path for path in directory.rglob("*") if EVENTS in path.name and path.is_file())


def read_logs(directory: Path) -> TrainingLogs:
    """The scalars and histograms of all logs below a folder. A file that was cut off is read as far as it goes."""
    scalars: dict[tuple[str, str], ScalarSeries] = {}
    histograms: dict[tuple[str, str], HistogramSeries] = {}
    plugins: dict[tuple[str, str], str] = {}
    for file in log_files(directory):
        split = file.parent.relative_to(directory).as_posix()
        for event in _events(file):
            for value in event.summary.value:
                key = (split, value.tag)
                kind = plugins.setdefault(key, _kind(value))
                if kind == _SCALARS:
                    points = scalars.setdefault(key, ScalarSeries(*key)).points
                    points.append((event.step, event.wall_time, _finite(_scalar(value))))
                elif kind == _HISTOGRAMS:
                    steps = histograms.setdefault(key, HistogramSeries(*key)).steps
                    steps.append((event.step, [(float(a), float(b), float(n)) for a, b, n in _array(value.tensor)]))
    return TrainingLogs(
        [ScalarSeries(one.split, one.tag, sorted(one.points, key=lambda point: point[:2])) for one in scalars.values()],
        [HistogramSeries(one.split, one.tag, _thinned(one.steps)) for one in histograms.values()],
    )


def _events(file: Path) -> Iterator[Any]:
    from tensorboard.compat.proto.event_pb2 import Event

    from headrace.components.sources.tfrecord.frames import frames

    try:
        for part in frames(str(file)):
            yield from map(Event.FromString, part.records())
    except DataError:  # a training that was killed or is still running
        return


def _kind(value: Any) -> str:
    if value.WhichOneof("value") == "simple_value":
        return _SCALARS
    return str(value.metadata.plugin_data.plugin_name)


def _scalar(value: Any) -> float:
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    array = _array(value.tensor)
    return float(array.reshape(-1)[0]) if array.size else math.nan


def _array(tensor: Any) -> np.ndarray:
    """The values of a TensorProto: raw bytes, as TensorFlow writes arrays, or one repeated field per type."""
    import numpy as np

    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    dtype = np.dtype(_DTYPES.get(tensor.dtype, "<f4"))
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)
    fields = (tensor.float_val, tensor.double_val, tensor.int_val, tensor.int64_val)
    values: list[float] = list(next((given for given in fields if given), ()))
    size = math.prod(shape)
    # a TensorProto may leave out repetitions of its last value
    filled = [*values, *[values[-1] if values else 0] * (size - len(values))]
    return np.array(filled[:size], dtype).reshape(shape)


def _by_epoch(curve: ScalarSeries) -> bool:
    return curve.tag.startswith(EPOCHS)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _thinned(steps: list[Any]) -> list[Any]:
    ordered = sorted(steps, key=lambda step: step[0])
    if len(ordered) <= MOST_STEPS:
        return ordered
    import numpy as np

    return [ordered[round(at)] for at in np.linspace(0, len(ordered) - 1, MOST_STEPS)]
