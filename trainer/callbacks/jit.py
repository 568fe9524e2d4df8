"""`train.jit: auto`: measures during training whether XLA makes this model's steps faster."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from headrace.common.heap import trim_heap
from headrace.trainer.checkpointing.checkpoints import TrainingPosition
from headrace.trainer.devices.errors import xla_failure

logger = logging.getLogger(__name__)

ESTIMATE_AFTER = 5.0
"""Seconds of training before its length is estimated."""
WORTHWHILE_FROM = 60.0
"""Minimum number of seconds left in the training: compiling takes some, and gains only a fraction of the rest."""
MEASURE = 1.0
"""Maximum number of seconds of steps to measure with and without XLA; at least one execution."""
EXECUTIONS = 5
"""Maximum number of executions to measure with and without XLA."""


class JitChoice(keras.callbacks.Callback):
    """Measures a few steps with XLA and without, and continues with the faster; `words` describes the result.

    `measured` says whether there was a measurement, or an attempt that XLA could not compile.

    Training starts without XLA. A short training is never measured, so it costs nothing. The measured steps use the
    same batch repeatedly; afterwards weights, optimizer, metrics and random states are restored, so that training
    continues as if nothing had happened.
    """

    def __init__(
        self,
        batches: Callable[[], tf.data.Dataset],
        steps_per_execution: int,
        steps: int | None,
        epochs: int,
        clock: Callable[[], float] = time.perf_counter,
        *,
        begin: TrainingPosition | None = None,
    ) -> None:
        """
        Args:
            batches: Creates training batches, the first of which is used to measure.
            steps_per_execution: Steps that run as one graph.
            steps: Steps in the whole training, None if that is not known before the second epoch.
            epochs: Epochs of the training.
            clock: Seconds.
            begin: Where training resumes: Keras also counts the executions that are skipped there.
        """
        super().__init__()
        self.words, self.measured = "", False
        self._batches, self._execution, self._clock = batches, steps_per_execution, clock
        self._steps, self._epochs = steps, epochs
        self._started: float | None = None
        self._begin = begin or TrainingPosition()
        self._done, self._before, self._epoch = self._begin.batches, 0, 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Count the steps of earlier epochs."""
        self._epoch = epoch
        self._before = self._begin.batches - self._begin.step if epoch == self._begin.epoch else self._done
        if self._steps is None and epoch:
            self._steps = self._before * self._epochs // epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Check the time, and measure if it is worthwhile."""
        if self._epoch == self._begin.epoch and batch + 1 - self._execution < self._begin.step:
            return  # a skipped execution
        self._done = self._before + batch + 1
        if self.words:
            return
        if self._started is None:  # the first execution traced the graph
            self._started, self._first = self._clock(), self._done
            return
        seconds = self._clock() - self._started
        if seconds < ESTIMATE_AFTER or self._steps is None:
            return
        rest = max(self._steps - self._done, 0) * seconds / (self._done - self._first)
        if rest < WORTHWHILE_FROM:
            self.words = (
                f"off: the rest of the training takes about {rest:.0f} s, and measuring is worthwhile from"
                f" {WORTHWHILE_FROM:.0f} s"
            )
        else:
            self._choose()
        logger.info(f"jit: {self.words}")

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Explain why nothing was measured."""
        short = f"off: the training is short, and measuring is worthwhile from {WORTHWHILE_FROM:.0f} s"
        self.words = self.words or short

    def _choose(self) -> None:
        began, model, self.measured = self._clock(), self.model, True
        plain = model.train_function
        with unchanged(model):
            without = self._measured(plain)
            try:
                model.jit_compile = True
                model.make_train_function(force=True)
                compiled = self._measured(model.train_function)
            except (tf.errors.OpError, ValueError, TypeError, NotImplementedError) as error:
                compiled, why = None, xla_failure(error)
        if compiled is None or compiled >= without or not model.jit_compile:
            model.jit_compile, model.train_function = False, plain
        trim_heap()  # compiling took a hundred megabytes
        took = f"measured in {self._clock() - began:.1f} s"
        if compiled is None:
            self.words = f"off: XLA cannot compile this model's steps ({why}); {took}"
        else:
            faster = "on" if compiled < without else "off"
            self.words = f"{faster}: a step takes {compiled:.2g} ms with XLA and {without:.2g} ms without; {took}"

    def _measured(self, function: Callable[[Any], Any]) -> float:
        """Milliseconds per step, without the first execution."""
        batches = iter(self._batches().take(1).cache().repeat())
        _wait(function(batches))
        began, made = self._clock(), 0
        while made < EXECUTIONS and (not made or self._clock() - began < MEASURE):
            _wait(function(batches))
            made += 1
        return 1000 * (self._clock() - began) / (made * self._execution)


@contextmanager
def unchanged(model: keras.Model) -> Iterator[None]:
    """Restore everything that steps change: weights, random states, metrics and the optimizer's variables."""
    variables = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
    values = [keras.ops.convert_to_numpy(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def _wait(logs: Mapping[str, Any]) -> None:
    """Wait until the device has finished."""
    for value in logs.values():
        float(value)
