"""`train.jit: auto`: whether XLA makes this model's steps faster, found out on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from headrace.trainer.checkpointing.checkpoints import Position
from headrace.trainer.devices.xla import reason

LOOK_AFTER = 5.0
"""Seconds of training before its length is estimated."""
PAYS_FROM = 60.0
"""Seconds that the rest of the training has to take: compiling takes some, and gains at most a part of the rest."""
MEASURE = 1.0
"""Seconds of steps that are measured of each way, at most; at least one execution."""
EXECUTIONS = 5
"""Executions that are measured of each way, at most."""


class JitChoice(keras.callbacks.Callback):
    """Measures a few steps with XLA and without, and goes on with the faster; `words` says what came of it.

    Training begins without XLA. A training that is over soon is never measured, so it pays nothing. What is measured
    are steps on one batch, again and again; afterwards weights, optimizer, metrics and random states are what they were
    before, so that training goes on as if nothing had happened.

    batches: an iterator's worth of training batches, whose first is measured with; steps: in the whole training, None
    where that is not known before the second epoch; clock: seconds; begin: where training goes on: Keras counts the
    executions that are passed over there too.
    """

    def __init__(  # noqa: PLR0913
        self,
        batches: tf.data.Dataset,
        together: int,
        steps: int | None,
        epochs: int,
        clock: Callable[[], float] = time.perf_counter,
        *,
        begin: Position | None = None,
    ) -> None:
        super().__init__()
        self.words = ""
        self._batches, self._together, self._steps, self._epochs, self._clock = batches, together, steps, epochs, clock
        self._started: float | None = None
        self._begin = begin or Position()
        self._done, self._before, self._epoch = self._begin.batches, 0, 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Any but the first knows how long those before were."""
        self._epoch = epoch
        self._before = self._begin.batches - self._begin.step if epoch == self._begin.epoch else self._done
        if self._steps is None and epoch:
            self._steps = self._before * self._epochs // epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Look at the clock, and measure if it is time for it."""
        if self._epoch == self._begin.epoch and batch + 1 - self._together < self._begin.step:
            return  # made before
        self._done = self._before + batch + 1
        if self.words:
            return
        if self._started is None:  # the first execution traced the graph
            self._started, self._first = self._clock(), self._done
            return
        seconds = self._clock() - self._started
        if seconds < LOOK_AFTER or self._steps is None:
            return
        rest = max(self._steps - self._done, 0) * seconds / (self._done - self._first)
        if rest < PAYS_FROM:
            self.words = (
                f"off: the rest of the training takes about {rest:.0f} s, and measuring pays from {PAYS_FROM:.0f} s"
            )
        else:
            self._choose()
        print(f"jit: {self.words}", flush=True)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Say why nothing was measured, where nothing was."""
        self.words = self.words or f"off: the training is short, and measuring pays from {PAYS_FROM:.0f} s"

    def _choose(self) -> None:
        began, model = self._clock(), self.model
        plain = model.train_function
        with unchanged(model):
            without = self._measured(plain)
            try:
                model.jit_compile = True
                model.make_train_function(force=True)
                compiled = self._measured(model.train_function)
            except (tf.errors.OpError, ValueError, TypeError, NotImplementedError) as error:
                compiled, why = None, reason(error)
        if compiled is None or compiled >= without or not model.jit_compile:
            model.jit_compile, model.train_function = False, plain
        took = f"measured in {self._clock() - began:.1f} s"
        if compiled is None:
            self.words = f"off: XLA cannot compile this model's steps ({why}); {took}"
        else:
            faster = "on" if compiled < without else "off"
            self.words = f"{faster}: a step takes {compiled:.2g} ms with XLA and {without:.2g} ms without; {took}"

    def _measured(self, function: Callable[[Any], Any]) -> float:
        """Milliseconds of a step, the first execution left out."""
        batches = iter(self._batches.take(1).cache().repeat())
        _wait(function(batches))
        began, made = self._clock(), 0
        while made < EXECUTIONS and (not made or self._clock() - began < MEASURE):
            _wait(function(batches))
            made += 1
        return 1000 * (self._clock() - began) / (made * self._together)


@contextmanager
def unchanged(model: keras.Model) -> Iterator[None]:
    """Give back all that steps change: weights, random states, metrics, and what the optimizer keeps."""
    variables = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
    values = [keras.ops.convert_to_numpy(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def _wait(logs: Mapping[str, Any]) -> None:
    """Until the device has done it."""
    for value in logs.values():
        float(value)
