"""Keeps a training that is not done: every so many batches, and when SIGTERM comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Any, Self

import keras
import numpy as np

from headrace.configs.errors import TrainingError, TrainingStoppedError
from headrace.configs.train import TrainConfig
from headrace.trainer.checkpointing.checkpoints import Checkpoints, Position, Saved
from headrace.trainer.checkpointing.finite import finite
from headrace.trainer.checkpointing.resuming import build_metrics, go_on, pass_over
from headrace.trainer.checkpointing.state import (
    Tree,
    assign,
    captured,
    copies,
    of_callbacks,
    restore_callbacks,
    restored,
)
from headrace.trainer.input.pipeline import Split

Agreed = Callable[[tuple[bool, ...]], tuple[bool, ...]]


class Checkpoint(keras.callbacks.Callback):
    """Writes checkpoints while training goes on, and begins where the last one left off.

    with Checkpoint(checkpoints, train, split, others) as checkpoint:
        model.fit(..., callbacks=[*others, checkpoint])

    Values are copied between two steps, and written by a thread of its own; if the one before is not written yet, it is
    waited for. One with a number that is not finite is not written: the last is always one to go on from. SIGTERM makes
    one at the end of the execution that is going on, and raises TrainingStoppedError.

    checkpoints: None keeps nothing. others: the callbacks whose knowledge is kept too; this one comes after them.
    writes: False for a worker that leaves writing to the chief; agreed: of each thing, whether it is so in any of the
    workers of a cluster, who all ask at the same places.
    """

    def __init__(  # noqa: PLR0913
        self,
        checkpoints: Checkpoints | None,
        train: TrainConfig,
        split: Split,
        others: Sequence[keras.callbacks.Callback] = (),
        saved: Saved | None = None,
        *,
        writes: bool = True,
        agreed: Agreed = tuple,
    ) -> None:
        super().__init__()
        self._every, self._batch_size = train.checkpoint.every_steps, train.batch_size
        self._split, self._others, self._saved, self._writes = split, others, saved, writes
        self._agreed = agreed
        self._endless = train.steps_per_epoch is not None
        self._steps = train.steps_per_epoch or split.steps
        self.begin = saved.position if saved else Position()
        self._position, self._at_begin, self._kept = self.begin, self.begin, self.begin.batches
        self._metrics: list[np.ndarray] = []
        self._stopped = False
        self._before: Any = None
        self._writer = Writer(checkpoints, saved.file if saved and writes else None) if checkpoints else None

    def __enter__(self) -> Self:
        """Listen for SIGTERM."""
        if self._writer and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until what was begun is written."""
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        if self._writer:
            self._writer.close()

    @property
    def last(self) -> Path | None:
        """The latest checkpoint to go on from."""
        return self._writer.last() if self._writer else None

    def last_saved(self) -> Saved | None:
        """The same, read; None if there is none of this training."""
        return self._writer.last_saved() if self._writer and self._writer.last() else None

    @property
    def batches(self) -> int:
        """Batches that are trained on."""
        return self._position.batches

    @property
    def batches_before(self) -> int:
        """Those of the epochs before."""
        return self._at_begin.batches

    @property
    def was_stopped(self) -> bool:
        """Whether training had stopped early before."""
        return self._saved is not None and bool(self._saved.tree["stopped"])

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Put everything where it was."""
        if self._saved is None:
            return
        restored(self.model, self._saved.tree)
        restore_callbacks(self._others, self._saved.tree["callbacks"])
        if self.begin.step:
            build_metrics(self.model, self._split.peek)
            pass_over(self.model, self.begin)
        place = f"epoch {self.begin.epoch + 1}, {self.begin.step:,} of its batches done"
        print(f"checkpoint: going on from {self._saved.file}: {place}", flush=True)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Begin to count; the first epoch may be half done."""
        if self._saved is None or epoch != self.begin.epoch:
            self._at_begin = replace(self._position, epoch=epoch, step=0, evaluating=False)
        elif self.begin.step:
            assign(self.model.metrics_variables, self._saved.tree["metrics"])
            batches = self.begin.batches - self.begin.step
            self._at_begin = replace(self.begin, step=0, batches=batches, examples=self.begin.earlier, evaluating=False)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Keep this place if it is time to; not what may be an epoch's end, which only the epoch's end tells."""
        step = batch + 1
        if self._at_begin.epoch == self.begin.epoch and step <= self.begin.step:
            return  # done before
        self._position = self._after(step)
        stopped, last = self._agreed((self._stopped, self._may_be_last(step)))
        if last:
            return
        if stopped:
            self._save_and_end()
        elif self._is_time():
            self._save()

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """The metrics of the train split are about to be reset."""
        go_on(self.model)
        self._metrics = copies(self.model.metrics_variables)
        self._position = replace(self._after(self._steps_of_epoch()), evaluating=True)

    def on_test_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Evaluation may be long."""
        if self._is_stopped():
            self._save_and_end(self._metrics)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Keep this place if it is time to."""
        done = self._after(self._steps_of_epoch())
        self._position = replace(done, epoch=epoch + 1, step=0, earlier=done.examples)
        if self._is_stopped():
            self._save_and_end()
        elif self._is_time():
            self._save()

    def _is_stopped(self) -> bool:
        return self._agreed((self._stopped, False))[0]

    def _is_time(self) -> bool:
        return self._every is not None and self._position.batches - self._kept >= self._every

    def _after(self, step: int) -> Position:
        """The place after so many batches of this epoch."""
        begin = self._at_begin
        most = begin.earlier + step * self._batch_size
        if not self._endless:  # the last batch may be smaller
            most = min(most, begin.earlier + self._split.size if self._split.size is not None else self._seen())
        return replace(begin, step=step, batches=begin.batches + step, examples=most)

    def _may_be_last(self, step: int) -> bool:
        """Whether the epoch may be over: an execution at its end is shorter than it is said to be."""
        if self._steps is not None:
            return step >= self._steps
        return self._seen() <= self._at_begin.earlier + step * self._batch_size

    def _steps_of_epoch(self) -> int:
        """Batches of the epoch that has just ended."""
        if self._steps is not None:
            return self._steps
        return -(-(self._seen() - self._at_begin.earlier) // self._batch_size)

    def _seen(self) -> int:
        """Examples that went through, in all epochs."""
        return self.begin.examples + self._split.seen()

    def _save(self, metrics: list[np.ndarray] | None = None) -> None:
        self._kept = self._position.batches
        if self._writer is None:
            return
        tree = captured(self.model)  # of a cluster's workers all read, since reading metrics adds them up over all
        if not self._writes:
            return
        tree["metrics"] = tree["metrics"] if metrics is None else metrics
        tree |= {
            "callbacks": of_callbacks(self._others),
            "stopped": bool(self.model.stop_training),
            "together": int(self.model.steps_per_execution),
        }
        self._writer.write(self._position, tree)

    def _save_and_end(self, metrics: list[np.ndarray] | None = None) -> None:
        self._save(metrics)
        place = f"batch {self._position.batches:,}, in epoch {self._at_begin.epoch + 1}"
        kept, then = "The chief keeps it", "goes on there"
        if self._writes:
            kept = f"It is kept in {self.last}"
            if self.last is None or self.last.name != self._position.file:
                kept = "It is not kept, since weights, or what the optimizer keeps of them, are not finite"
                then = f"goes on from {self.last}" if self.last else "begins anew"
        raise TrainingStoppedError(
            f"training was stopped by SIGTERM after {place}. {kept}; the next run of the same config, data and code"
            f" {then}"
        )

    def _stop(self, *_: object) -> None:
        self._stopped = True


class Writer:
    """A thread that writes one checkpoint at a time."""

    def __init__(self, checkpoints: Checkpoints, last: Path | None = None) -> None:
        """last: the one that training goes on from."""
        self._checkpoints, self._last = checkpoints, last
        self._queue: Queue[tuple[Position, Tree] | None] = Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def write(self, position: Position, tree: Tree) -> None:
        """Begin to write, once the one before is written. Raises TrainingError if that could not be."""
        self.wait()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
            self._thread.start()
        self._queue.put((position, tree))

    def wait(self) -> None:
        """Until all is written."""
        self._queue.join()
        error, self._error = self._error, None
        if isinstance(error, OSError):
            raise TrainingError(
                f"the checkpoint in {self._checkpoints.folder} could not be written: {error}. Make room or give access"
                " there, or set `train.checkpoint.every_steps: null`"
            ) from error
        if error is not None:
            raise error

    def last(self) -> Path | None:
        """The latest that was written, or gone on from."""
        self.wait()
        return self._last

    def last_saved(self) -> Saved | None:
        """The same, read."""
        self.wait()
        return self._checkpoints.latest()

    def close(self) -> None:
        """Until all is written, and the thread has ended."""
        if self._thread is not None:
            self._queue.join()
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                position, tree = work
                if finite(tree):
                    self._last = self._checkpoints.write(position, tree)
            except Exception as error:
                self._error = error
            finally:
                self._queue.task_done()
        self._queue.task_done()
