"""Saves an unfinished training at intervals, and on SIGTERM, and resumes it."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import keras
import numpy as np

from headrace.common.errors import TrainingStoppedError
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.callbacks.epoch_log import Epoch
from headrace.trainer.checkpointing.checkpoints import Checkpoints, CheckpointWriter, SavedCheckpoint, TrainingPosition
from headrace.trainer.checkpointing.state import (
    assign,
    build_metrics,
    callback_states,
    capture,
    restore,
    restore_callbacks,
    skip_executions,
    stop_skipping,
    values_of,
)
from headrace.trainer.input.batches import InputSplit

logger = logging.getLogger(__name__)

Agree = Callable[[tuple[bool, ...]], tuple[bool, ...]]


class TrainingPausedError(Exception):
    """A training was saved and interrupted because its time was up.

    epochs: those that it completed; model: with the weights of the best of them, or if there is none, as it is.
    """

    def __init__(self, epochs: Sequence[Epoch] = (), model: keras.Model | None = None) -> None:
        super().__init__("the training is paused")
        self.epochs, self.model = epochs, model


class Checkpoint(keras.callbacks.Callback):
    """Writes checkpoints during training, and resumes from the last one.

    with Checkpoint(checkpoints, train, split, others) as checkpoint:
        model.fit(..., callbacks=[*others, checkpoint])

    Values are copied between two steps and written by a separate thread; if the previous checkpoint is not written yet,
    training waits for it. A checkpoint with a non-finite number is not written, so training can always resume from the
    last one. SIGTERM writes one at the end of the current execution, and raises TrainingStoppedError.
    """

    def __init__(
        self,
        checkpoints: Checkpoints | None,
        train: TrainConfig,
        split: InputSplit,
        others: Sequence[keras.callbacks.Callback] = (),
        saved: SavedCheckpoint | None = None,
        *,
        writes: bool = True,
        agree: Agree = tuple,
        pause: Callable[[], bool] | None = None,
    ) -> None:
        """
        Args:
            checkpoints: Where to write; None: nowhere.
            train: The `train:` section.
            split: The train split.
            others: Callbacks whose state is saved as well; this one comes after them.
            saved: The checkpoint to resume from.
            writes: False for a worker that leaves writing to the chief.
            agree: Whether conditions are true for any of the workers of a cluster, who all call it at the same points.
            pause: Whether to save and to raise TrainingPausedError, at the end of an execution or an epoch. If it is
                given, the end of the training is saved as well.
        """
        super().__init__()
        self._every, self._batch_size = train.checkpoint.every_steps, train.global_batch_size
        self._split, self._others, self._saved, self._writes = split, others, saved, writes
        self._agree, self._pause, self._last_epoch = agree, pause, train.max_epochs
        self._endless = train.steps_per_epoch is not None
        self._steps = train.steps_per_epoch or split.steps
        self.begin = saved.position if saved else TrainingPosition()
        self._position, self._epoch_begin, self._last_batches = self.begin, self.begin, self.begin.batches
        self._metrics: list[np.ndarray] = []
        self._stopped = False
        self._before: Any = None
        resumed = saved.file if saved and writes else None
        self._writer = CheckpointWriter(checkpoints, resumed) if checkpoints else None

    def __enter__(self) -> Self:
        """Handle SIGTERM."""
        if self._writer and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until checkpoints are written."""
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        if self._writer:
            self._writer.close()

    @property
    def last(self) -> Path | None:
        """The latest checkpoint to resume from."""
        return self._writer.last() if self._writer else None

    def last_saved(self) -> SavedCheckpoint | None:
        """Read the latest checkpoint; None if there is none of this training."""
        return self._writer.last_saved() if self._writer and self._writer.last() else None

    @property
    def batches(self) -> int:
        """Batches that were trained on."""
        return self._position.batches

    @property
    def batches_before(self) -> int:
        """Batches of earlier epochs."""
        return self._epoch_begin.batches

    @property
    def was_stopped(self) -> bool:
        """Whether training had already stopped early."""
        return self._saved is not None and bool(self._saved.tree["stopped"])

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Restore the saved state."""
        if self._saved is None:
            return
        restore(self.model, self._saved.tree)
        restore_callbacks(self._others, self._saved.tree["callbacks"])
        if self.begin.step:
            build_metrics(self.model, self._split.peek)
            skip_executions(self.model, self.begin)
        where = f"epoch {self.begin.epoch + 1}, {self.begin.step:,} of its batches done"
        logger.info(f"checkpoint: resuming from {self._saved.file}: {where}")

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Start counting; the first epoch may be partly done."""
        if self._saved is None or epoch != self.begin.epoch:
            self._epoch_begin = replace(self._position, epoch=epoch, step=0, evaluating=False)
        elif self.begin.step:
            assign(self.model.metrics_variables, self._saved.tree["metrics"])
            begin = self.begin
            batches = begin.batches - begin.step
            self._epoch_begin = replace(begin, step=0, batches=batches, examples=begin.earlier, evaluating=False)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Save if it is due, unless this may be the end of the epoch, which only `on_epoch_end` knows."""
        step = batch + 1
        if self._epoch_begin.epoch == self.begin.epoch and step <= self.begin.step:
            return  # done before
        self._position = self._after(step)
        stopped, last = self._agree((self._stopped, self._may_be_last(step)))
        if last:
            return
        if stopped:
            self._save_and_end()
        elif self._pause is not None and self._pause():
            self._save()
            raise TrainingPausedError
        elif self._is_time():
            self._save()

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Save the metrics of the train split, which are about to be reset."""
        stop_skipping(self.model)
        self._metrics = values_of(self.model.metrics_variables)
        self._position = replace(self._after(self._steps_of_epoch()), evaluating=True)

    def on_test_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Save on SIGTERM: an evaluation may be long."""
        if self._is_stopped():
            self._save_and_end(self._metrics)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Save if it is due."""
        done = self._after(self._steps_of_epoch())
        self._position = replace(done, epoch=epoch + 1, step=0, earlier=done.examples)
        if self._is_stopped():
            self._save_and_end()
        elif self._pause is not None:
            self._save_or_pause(ended=self.model.stop_training or epoch + 1 >= self._last_epoch)
        elif self._is_time():
            self._save()

    def _save_or_pause(self, *, ended: bool) -> None:
        """Save the end of a training that can be paused, or pause it if its time is up."""
        paused = not ended and self._pause is not None and self._pause()
        if ended or paused or self._is_time():
            self._save()
        if paused:
            raise TrainingPausedError

    def _is_stopped(self) -> bool:
        return self._agree((self._stopped, False))[0]

    def _is_time(self) -> bool:
        return self._every is not None and self._position.batches - self._last_batches >= self._every

    def _after(self, step: int) -> TrainingPosition:
        """The position after `step` batches of this epoch."""
        begin = self._epoch_begin
        examples = begin.earlier + step * self._batch_size
        if not self._endless:  # the last batch may be smaller
            end = begin.earlier + self._split.size if self._split.size is not None else self._seen()
            examples = min(examples, end)
        return replace(begin, step=step, batches=begin.batches + step, examples=examples)

    def _may_be_last(self, step: int) -> bool:
        """Whether the epoch may be finished: Keras reports the full length of a shorter execution at its end."""
        if self._steps is not None:
            return step >= self._steps
        return self._seen() <= self._epoch_begin.earlier + step * self._batch_size

    def _steps_of_epoch(self) -> int:
        """Number of batches in the epoch that has just ended."""
        if self._steps is not None:
            return self._steps
        return -(-(self._seen() - self._epoch_begin.earlier) // self._batch_size)

    def _seen(self) -> int:
        """Number of examples read in all epochs."""
        return self.begin.examples + self._split.seen()

    def _save(self, metrics: list[np.ndarray] | None = None) -> None:
        self._last_batches = self._position.batches
        if self._writer is None:
            return
        tree = capture(self.model)  # by all workers of a cluster, since reading metrics sums them over all of them
        if not self._writes:
            return
        tree["metrics"] = tree["metrics"] if metrics is None else metrics
        tree |= {
            "callbacks": callback_states(self._others),
            "stopped": bool(self.model.stop_training),
            "together": int(self.model.steps_per_execution),
        }
        self._writer.write(self._position, tree)

    def _save_and_end(self, metrics: list[np.ndarray] | None = None) -> None:
        self._save(metrics)
        where = f"batch {self._position.batches:,}, in epoch {self._epoch_begin.epoch + 1}"
        saved, then = "The chief saves it", "resumes there"
        if self._writes:
            saved = f"It is saved in {self.last}"
            if self.last is None or self.last.name != self._position.file:
                saved = "It is not saved, since weights or variables of the optimizer are not finite"
                then = f"resumes from {self.last}" if self.last else "starts from scratch"
        raise TrainingStoppedError(
            f"training was stopped by SIGTERM after {where}. {saved}; the next run of the same config, data and code"
            f" {then}"
        )

    def _stop(self, *_: object) -> None:
        self._stopped = True
