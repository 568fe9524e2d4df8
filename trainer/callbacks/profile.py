"""Profiles some steps of the training, with markers that xprof understands.

Keras 3 marks no steps, so a profile of its own callback says "No step time measured". Here every execution of
`steps_per_execution` steps gets a marker, so that the pipeline that is profiled is the one that runs otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from headrace.trainer.checkpointing.checkpoints import Position
from headrace.trainer.checkpointing.state import Tree
from headrace.trainer.profiling.facts import LOGS, MARKER, SESSIONS, Execution, ProfileFacts
from headrace.trainer.profiling.markers import keep_markers

PAUSE = 1.0
"""Seconds between two executions in which more was done than belongs to training, such as trying XLA."""
MOST_BYTES = 64 << 20
"""A profile that is larger is not kept in checkpoints."""


@dataclass(frozen=True)
class Window:
    """Steps to profile, first and last, counted from 1; and why they are others than those asked for."""

    first: int
    last: int
    note: str = ""


def window(asked: tuple[int, int], together: int, epoch: int | None, epochs: int, done: int = 0) -> Window:
    """Which steps to profile.

    Keras traces the graph in the first execution, which takes seconds, so that one is left out where another follows.
    Where training is known to end before the range begins, steps of its last epoch are taken. Where it goes on from a
    checkpoint behind which the range began, those are taken that lie as far behind the checkpoint.

    together: steps in the first execution; epoch: in an epoch, as far as it is known; done: before the checkpoint.
    """
    first, last = asked
    together = together if epoch is None else min(together, epoch)
    length, total, built = last - first, None if epoch is None else epoch * epochs, done + together
    note = ""
    if first <= done:
        note = f"training went on behind step {done:,}, so later ones were profiled and not {first:,} to {last:,}"
        first, last = first + done, last + done
    if epoch is not None and total is not None and first > total:
        note = note or f"training has only {total:,} steps, so late ones were profiled and not {first:,} to {last:,}"
        return Window(max(total - length, total - epoch + 1, min(built + 1, total)), total, note)
    if first <= built and (total is None or total > built):
        note = note or "the first execution was left out: in it Keras builds the graph"
        return Window(built + 1, built + 1 + length, note)
    if first <= built:
        note = "in the only execution Keras also builds the graph: the verdict leaves that out, xprof does not"
        return Window(first, last, note)
    return Window(first, last, note)


@dataclass(frozen=True)
class Asked:
    """Steps to profile, as the config has them, and what is known of the training before it begins."""

    steps: tuple[int, int]
    """First and last, counted from 1."""
    together: int
    """Steps in one execution, at most."""
    epoch: int | None
    """Steps in an epoch, where that is known."""
    epochs: int
    begin: Position = field(default_factory=Position)
    """Where training goes on."""

    def window(self, first: int | None = None, epoch: int | None = None) -> Window:
        """Which to profile, with what training shows: the steps of its first execution, and of its first epoch."""
        return window(self.steps, first or self.together, epoch or self.epoch, self.epochs, self.begin.batches)


class Profile(keras.callbacks.Callback):
    """Profiles the executions that hold any of the asked steps, and hands the facts over when training ends.

    Steps are counted from the beginning of the training, also where it goes on from a checkpoint. A profile that was
    taken before is part of the checkpoint.

    directory: of TensorBoard's logs; the profile lies in `train/plugins/profile`. It comes first in the list of
    callbacks, so that a marker holds the execution and little else. done: gets the facts and the number of epochs.
    """

    def __init__(self, asked: Asked, directory: Path, done: Callable[[ProfileFacts, int], None]) -> None:
        super().__init__()
        self._asked, self._window, self._together = asked, asked.window(), asked.together
        self._directory, self._done = directory, done
        self._executions: list[Execution] = []
        self._marker: Any = None
        self._active = self._over = False
        self._building = False  # whether the profile begins with the execution in which Keras builds the graph
        self._before = asked.begin.batches - asked.begin.step  # steps in earlier epochs
        self._reached = asked.begin.step  # steps in this epoch
        self._passing = False  # an execution of steps that were made before the checkpoint
        self._first = 0  # steps in the first execution
        self._epochs = 0
        self._begun = self._ended = 0.0
        self._pause = ""
        self._iterations = 0  # of the optimizer before any step

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Remember where the optimizer's count begins: what a checkpoint holds is not restored yet."""
        self._iterations = self._made()

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Start the profiler where the range begins; open the marker."""
        self._passing = not self._epochs and batch < self._asked.begin.step
        if self._passing:
            return
        first = self._before + self._reached + 1
        if self._over or first + self._coming(batch) <= self._window.first:
            return
        if self._active and self._executions and time.perf_counter() - self._ended > PAUSE:
            self._stop()
            self._pause = f"after step {first - 1:,} training paused, so the profile ends there"
            return
        if not self._active:
            self._building = not self._first
            tf.profiler.experimental.start(str(self._directory / LOGS))
            self._active = True
        self._marker = tf.profiler.experimental.Trace(MARKER, step_num=first, _r=1)
        self._begun = time.perf_counter()
        self._marker.__enter__()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Close the marker; stop the profiler where the range ends."""
        if self._passing:
            return
        self._close()
        self._ended = time.perf_counter()
        seconds = self._ended - self._begun
        begun, self._reached = self._reached, self._steps(batch)
        if not self._first:
            self._first = self._reached - begun
            self._window = self._window if self._active or self._over else self._asked.window(self._first)
        if not self._active:
            return
        self._executions.append(Execution(step=self._before + begun + 1, steps=self._reached - begun, seconds=seconds))
        if self._before + self._reached >= self._window.last:
            float((logs or {}).get("loss", 0.0))  # waits until an accelerator has done the steps
            self._stop()

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """The evaluation after an epoch is no part of it."""
        self._stop()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Count the epoch's steps. Where nobody knew before how many it has, that may show that training ends early."""
        self._stop()
        steps, self._before, self._reached = self._reached, self._before + self._reached, 0
        if not self._epochs and not self._over and self._asked.epochs > 1:
            self._window = self._asked.window(self._first, steps)
        self._epochs += 1

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Hand over what is known."""
        self._stop()
        if not self._executions:
            went_on = f"went on behind step {done:,} and " if (done := self._asked.begin.batches) else ""
            ended = f"training {went_on}ended after {self._before:,} steps, before step {self._window.first:,}"
            self._window, self._pause = Window(self._window.first, self._window.last, ended), ""
        self._done(self._facts(), self._epochs)

    def state(self) -> Tree | None:
        """The profile, for a checkpoint; None until there is one, and of one that is very large."""
        files = [file for file in sorted((self._directory / SESSIONS).glob("*/*")) if self._over]
        if not files or sum(file.stat().st_size for file in files) > MOST_BYTES:
            return None
        names = [str(file.relative_to(self._directory)) for file in files]
        contents = [np.frombuffer(file.read_bytes(), np.uint8) for file in files]
        return {"facts": self._facts().model_dump_json(), "names": names, "contents": contents}

    def restore(self, state: Tree) -> None:
        """Have the profile that was taken before, if it is of the steps that are asked for now."""
        facts = ProfileFacts.model_validate_json(state["facts"])
        if facts.asked != self._asked.steps:
            return
        for name, content in zip(state["names"], state["contents"], strict=True):
            file = self._directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.tobytes())
        self._executions, self._over = list(facts.executions), True
        self._window, self._building = Window(*facts.asked, facts.note), facts.building

    def _facts(self) -> ProfileFacts:
        return ProfileFacts(
            asked=self._asked.steps,
            executions=tuple(self._executions),
            steps_per_execution=self._together,
            note="; ".join(filter(None, (self._window.note, self._pause))),
            building=self._building and len(self._executions) == 1,
        )

    def _coming(self, batch: int) -> int:
        """Steps of the execution that begins at this batch, at most: the epoch's last one may be short."""
        known = (self.params or {}).get("steps")
        return self._together if known is None else int(min(self._together, known - batch))

    def _steps(self, batch: int) -> int:
        """Steps of this epoch until now. An epoch's last execution may be short, and Keras does not say how short."""
        known = (self.params or {}).get("steps")
        if known is not None:
            return int(min(batch + 1, known))
        made = self._made() - self._iterations - self._before
        return made if self._reached < made <= batch + 1 else batch + 1

    def _made(self) -> int:
        """Batches that the optimizer has seen: `iterations` counts those of which it has made a step. With a scaled
        loss it is inside another, and its count the last of that name.
        """
        count = [variable for variable in self.model.optimizer.variables if variable.name == "iteration"][-1]
        return int(tf.convert_to_tensor(count.value))

    def _close(self) -> None:
        if self._marker is not None:
            self._marker.__exit__(None, None, None)
        self._marker = None

    def _stop(self) -> None:
        self._close()  # open where the data ended in the middle of an execution
        if self._active:
            self._active = False
            if self._executions and self._reached + self._before < self._window.first:
                self._executions.clear()  # the epoch ended before the range, in an execution that was short
            self._over = bool(self._executions)
            tf.profiler.experimental.stop(save=self._over)
            keep_markers(self._directory, {execution.step for execution in self._executions})
