"""Profiles some steps of the training for `train.profile`, with markers that xprof understands.

Keras 3 does not mark steps, so a profile of its own callback says "No step time measured". Here every execution of
`steps_per_execution` steps gets a marker, so that the pipeline is profiled as it runs otherwise.
"""

from __future__ import annotations

import logging
import re
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from headrace.configs.schema.train import TrainConfig
from headrace.trainer.checkpointing.checkpoints import StateTree, TrainingPosition
from headrace.trainer.input.inputs import Inputs
from headrace.trainer.input.memory import FreeSpace
from headrace.trainer.input.reading import CORES
from headrace.trainer.profiling.facts import LOGS, MARKER, SESSIONS, ProfiledExecution, ProfileFacts
from headrace.trainer.profiling.steps import ProfileRequest, ProfileWindow, keep_markers

logger = logging.getLogger(__name__)

MAX_PAUSE = 1.0
"""Seconds between two executions above which something else than training happened, such as trying XLA."""
MAX_BYTES = 64 << 20
"""Larger profiles are not saved in checkpoints."""
BEGINNING = TrainingPosition()


def profiling(
    train: TrainConfig,
    inputs: Inputs,
    steps_per_execution: int,
    directory: Path,
    begin: TrainingPosition = BEGINNING,
    *,
    found: Callable[[], Mapping[str, object]] = dict,
) -> list[keras.callbacks.Callback]:
    """Return the callback that profiles, which must come before all others; none without `train.profile`.

    Args:
        train: The `train:` section.
        inputs: Both splits.
        steps_per_execution: Steps that run as one graph.
        directory: The model's run, which gets `profile.json`.
        begin: Where training resumes.
        found: Fields of ProfileFacts that are only known when training ends.
    """
    if train.profile is None:
        return []
    split = inputs.train

    def done(facts: ProfileFacts, epochs: int) -> None:
        examples = split.size
        if examples is None:
            examples = (begin.examples + split.seen()) // max(begin.epoch + epochs, 1)
        known = {**_known(train, inputs, examples), **found()}
        (facts := facts.model_copy(update=known)).write(directory)
        logger.info(f"profile: {_describe(facts)}")

    first, last = train.profile.batches
    steps = train.steps_per_epoch or split.steps
    if steps is None and begin.epoch:
        steps = (begin.batches - begin.step) // begin.epoch
    request = ProfileRequest((first, last), steps_per_execution, steps, train.max_epochs, begin)
    return [Profile(request, directory, done)]


def _known(train: TrainConfig, inputs: Inputs, examples: int) -> dict[str, object]:
    """Fields of ProfileFacts about the training as a whole. examples: in the train split; 0 if unknown."""
    space = FreeSpace.here(inputs.bytes_each)
    return {
        "train": train,
        "cache": inputs.cache,
        "columns": inputs.columns,
        "examples": examples or None,
        "parsed_bytes": examples * space.each or None,
        "free_bytes": space.memory,
        "free_disk_bytes": space.disk,
        "peak_bytes": peak_memory(),
        "checkpoint_steps": train.checkpoint.every_steps,
        "cores": CORES,
    }


def _describe(facts: ProfileFacts) -> str:
    """Describe in one line what was profiled."""
    if not facts.executions:
        return f"none: {facts.note}"
    first, last = facts.executions[0].step, facts.executions[-1].step + facts.executions[-1].steps - 1
    return f"steps {first:,} to {last:,}" + (f" ({facts.note})" if facts.note else "")


def peak_memory() -> int:
    """Peak memory of this process in bytes."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) << 10 if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class Profile(keras.callbacks.Callback):
    """Profiles the executions that contain any of the requested steps, and reports the facts when training ends.

    Steps are counted from the beginning of the training, even if it resumes from a checkpoint. A profile that was taken
    before is part of the checkpoint. The callback comes first in the list of callbacks, so that a marker contains the
    execution and little else.
    """

    def __init__(self, request: ProfileRequest, directory: Path, done: Callable[[ProfileFacts, int], None]) -> None:
        """
        Args:
            request: The steps.
            directory: Folder of TensorBoard's logs; the profile is written to `train/plugins/profile`.
            done: Receives the facts and the number of epochs.
        """
        super().__init__()
        self._request, self._window = request, request.window()
        self._directory, self._done = directory, done
        self._executions: list[ProfiledExecution] = []
        self._marker: Any = None
        self._active = self._over = False
        self._building = False  # whether the profile starts with the execution in which Keras builds the graph
        self._before = request.begin.batches - request.begin.step  # steps in earlier epochs
        self._reached = request.begin.step  # steps in this epoch
        self._skipping = False  # whether this execution is one before the checkpoint
        self._first = 0  # steps in the first execution
        self._epochs = 0
        self._begun = self._ended = 0.0
        self._pause = ""
        self._iterations = 0  # of the optimizer before any step

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Save the optimizer's count before it is restored from a checkpoint."""
        self._iterations = self._optimizer_iterations()

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Start the profiler where the range starts; open the marker."""
        self._skipping = not self._epochs and batch < self._request.begin.step
        if self._skipping:
            return
        first = self._before + self._reached + 1
        if self._over or first + self._max_steps(batch) <= self._window.first:
            return
        if self._active and self._executions and time.perf_counter() - self._ended > MAX_PAUSE:
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
        if self._skipping:
            return
        self._close()
        self._ended = time.perf_counter()
        seconds = self._ended - self._begun
        begun, self._reached = self._reached, self._steps(batch)
        if not self._first:
            self._first = self._reached - begun
            self._window = self._window if self._active or self._over else self._request.window(self._first)
        if not self._active:
            return
        self._executions.append(
            ProfiledExecution(step=self._before + begun + 1, steps=self._reached - begun, seconds=seconds)
        )
        if self._before + self._reached >= self._window.last:
            float((logs or {}).get("loss", 0.0))  # waits until an accelerator has finished the steps
            self._stop()

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Stop: the evaluation after an epoch does not belong to the profile."""
        self._stop()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Count the epoch's steps. If their number was not known, it may show that training ends early."""
        self._stop()
        steps, self._before, self._reached = self._reached, self._before + self._reached, 0
        if not self._epochs and not self._over and self._request.epochs > 1:
            self._window = self._request.window(self._first, steps)
        self._epochs += 1

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Report the facts."""
        self._stop()
        if not self._executions:
            resumed = f"resumed after step {done:,} and " if (done := self._request.begin.batches) else ""
            ended = f"training {resumed}ended after {self._before:,} steps, before step {self._window.first:,}"
            self._window, self._pause = ProfileWindow(self._window.first, self._window.last, ended), ""
        self._done(self._facts(), self._epochs)

    def state(self) -> StateTree | None:
        """The profile, for a checkpoint; None if there is none yet, or it is very large."""
        files = [file for file in sorted((self._directory / SESSIONS).glob("*/*")) if self._over]
        if not files or sum(file.stat().st_size for file in files) > MAX_BYTES:
            return None
        names = [str(file.relative_to(self._directory)) for file in files]
        contents = [np.frombuffer(file.read_bytes(), np.uint8) for file in files]
        return {"facts": self._facts().model_dump_json(), "names": names, "contents": contents}

    def restore(self, state: StateTree) -> None:
        """Restore the profile from a checkpoint, if it is of the steps that are requested now."""
        facts = ProfileFacts.model_validate_json(state["facts"])
        if facts.asked != self._request.steps:
            return
        for name, content in zip(state["names"], state["contents"], strict=True):
            file = self._directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.tobytes())
        self._executions, self._over = list(facts.executions), True
        self._window, self._building = ProfileWindow(*facts.asked, facts.note), facts.building

    def _facts(self) -> ProfileFacts:
        return ProfileFacts(
            asked=self._request.steps,
            executions=tuple(self._executions),
            steps_per_execution=self._request.execution,
            note="; ".join(filter(None, (self._window.note, self._pause))),
            building=self._building and len(self._executions) == 1,
        )

    def _max_steps(self, batch: int) -> int:
        """Maximum number of steps in the execution that starts at this batch: an epoch's last one may be shorter."""
        known = (self.params or {}).get("steps")
        return self._request.execution if known is None else int(min(self._request.execution, known - batch))

    def _steps(self, batch: int) -> int:
        """Steps of this epoch so far. Keras does not report how short an epoch's last execution is."""
        known = (self.params or {}).get("steps")
        if known is not None:
            return int(min(batch + 1, known))
        made = self._optimizer_iterations() - self._iterations - self._before
        return made if self._reached < made <= batch + 1 else batch + 1

    def _optimizer_iterations(self) -> int:
        """Batches that the optimizer has seen: `iterations` only counts those with an optimizer step.

        An optimizer that scales the loss wraps another one, whose count is the last of that name.
        """
        count = [variable for variable in self.model.optimizer.variables if variable.name == "iteration"][-1]
        return int(tf.convert_to_tensor(count.value))

    def _close(self) -> None:
        if self._marker is not None:
            self._marker.__exit__(None, None, None)
        self._marker = None

    def _stop(self) -> None:
        self._close()  # it is open if the data ended during an execution
        if self._active:
            self._active = False
            if self._executions and self._reached + self._before < self._window.first:
                self._executions.clear()  # the epoch ended before the range, with a shorter execution
            self._over = bool(self._executions)
            tf.profiler.experimental.stop(save=self._over)
            keep_markers(self._directory, {execution.step for execution in self._executions})
