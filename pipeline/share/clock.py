"""How long a training had lasted when a value was logged.

The logs alone do not say: they begin with the end of the first epoch, and where a training goes on from a checkpoint,
the earlier epochs are written again at that moment. The Trainer's own record has the seconds of each epoch.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from headrace.pipeline.report.training import Training
from headrace.pipeline.share.events import Logs, Scalar

EPOCHS = "epoch_"
"""What the names of the Trainer's own curves begin with: a value for each epoch, counted from 0."""


@dataclass(frozen=True)
class Clock:
    """Of one training. `ends`: seconds from its begin to the end of each epoch; None where nobody wrote them down."""

    begun: float
    """Unix seconds; where `ends` is None those of the first value."""
    ends: tuple[float, ...] | None

    @classmethod
    def of(cls, logs: Logs, training: Training | None) -> Clock:
        """What is known of it."""
        seconds = [epoch.seconds for epoch in training.epochs] if training else []
        known = [each for each in seconds if each is not None]
        first = min((one.points[0][1] for one in logs.scalars), default=0.0)
        if not known or len(known) < len(seconds):
            return cls(first, None)
        ends = tuple(itertools.accumulate(known))
        last = [one.points[-1] for one in logs.scalars if _of_epochs(one)]
        begun = (time - ends[step] for step, time, _ in last if step < len(ends))
        return cls(min(begun, default=first), ends)

    def elapsed(self, curve: Scalar) -> list[float]:
        """Seconds from the training's begin to each value; those in which it was interrupted do not count."""
        return [round(self._elapsed(curve, step, time), 3) for step, time, _ in curve.points]

    def _elapsed(self, curve: Scalar, step: int, time: float) -> float:
        if self.ends is not None and _of_epochs(curve) and step < len(self.ends):
            return self.ends[step]
        return time - self.begun


def _of_epochs(curve: Scalar) -> bool:
    return curve.tag.startswith(EPOCHS)
