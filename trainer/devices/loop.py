"""A training loop for several devices: what Keras' `fit` does, under a tf.distribute.Strategy.

    loop = DistributedLoop(model, strategy, steps_per_execution=64)   # model built and compiled in the strategy's scope
    loop.fit(train, validation_data=evaluation, epochs=5, callbacks=[...])

Keras' own `fit` fails under MultiWorkerMirroredStrategy, and clips, accumulates and checks each replica's gradients
before they are summed. Here every replica takes its part of the same global batch, the gradients are summed first, and
the optimizer sees what it would see on a single device. So the weights are the same, except for rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer.checkpointing.checkpoints import TrainingPosition
from headrace.trainer.devices.parts import split_batches
from headrace.trainer.input.packing import no_autograph
from headrace.trainer.private_api import disable_gradient_reduction

Targets = tuple[tf.Tensor, ...]
"""The label, and the weights of the examples if they have some."""
Logs = dict[str, float]


class DistributedLoop:
    """The equivalent of `keras.Model.fit`, with the same callbacks, metrics, early stopping and logs of epochs. The
    logs of a batch have the loss alone, and those of a batch of the eval split nothing.
    """

    def __init__(
        self,
        model: keras.Model,
        strategy: tf.distribute.Strategy,
        steps_per_execution: int = 1,
        begin: TrainingPosition | None = None,
        fixed_batch: int | None = None,
        *,
        own_batches: bool = False,
    ) -> None:
        """
        Args:
            model: Compiled in the strategy's scope.
            strategy: The devices.
            steps_per_execution: Steps that run as one graph.
            begin: Where an interrupted training resumes.
            fixed_batch: Examples in a batch if shapes must not change; smaller batches are then left out.
            own_batches: Whether the train batches of each worker of a cluster are its own part of the global batches.
        """
        self.model, self.strategy, self.steps_per_execution = model, strategy, steps_per_execution
        self.begin = begin or TrainingPosition()
        self.fixed_batch, self.own_batches = fixed_batch, own_batches
        self._replica = threading.local()
        has_own_step = type(model).train_step is not keras.Model.train_step
        _sum_gradients_first(model.optimizer)
        if has_own_step:
            scale = model.optimizer.scale_loss
            model.optimizer.scale_loss = lambda loss: scale(loss * self._replica.share)
        self._train = self._as_graph(self._own_step if has_own_step else self._train_step)
        self._evaluate = self._as_graph(self._eval_step)

    def fit(
        self,
        dataset: tf.data.Dataset,
        *,
        validation_data: tf.data.Dataset,
        epochs: int,
        callbacks: Iterable[keras.callbacks.Callback],
        steps_per_epoch: int | None = None,
        initial_epoch: int = 0,
    ) -> None:
        """Train until the last epoch, or until a callback sets `model.stop_training`.

        dataset: global batches (features, label), perhaps with weights as a third element: one epoch per iteration,
        or endless with `steps_per_epoch`.
        """
        model, evaluation = self.model, split_batches(validation_data, self.strategy, self.fixed_batch)
        parts = split_batches(dataset, self.strategy, self.fixed_batch, own=self.own_batches)
        steps = steps_per_epoch or _steps(dataset)
        callback = keras.callbacks.CallbackList(
            list(callbacks), add_history=True, model=model, epochs=epochs, steps=steps
        )
        endless = iter(parts) if steps_per_epoch is not None else None
        logs: Logs = {}
        model.stop_training = False
        callback.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            model.reset_metrics()
            callback.on_epoch_begin(epoch)
            done = self.begin.step if epoch == self.begin.epoch else 0
            steps = done if done and self.begin.evaluating else steps_per_epoch or self._known_steps(dataset)
            logs = self._epoch(endless or iter(parts), steps, callback, done)
            logs |= self._evaluation(iter(evaluation), self._known_steps(validation_data), callback)
            callback.on_epoch_end(epoch, logs)
            if model.stop_training:
                break
        model.optimizer.finalize_variable_values(model.trainable_variables)
        callback.on_train_end(logs)

    def _epoch(self, batches: Any, steps: int | None, callback: keras.callbacks.CallbackList, done: int) -> Logs:
        """Run the remaining executions of an epoch, and return the metrics at its end.

        steps: None if the end of the data ends the epoch.
        """
        while not self.model.stop_training and (steps is None or done < steps):
            callback.on_train_batch_begin(done)
            made = self._execution(self._train, batches, steps, done)
            if not made:
                break
            # As in Keras, a shorter execution reports the step at which a full one would have ended.
            callback.on_train_batch_end(done + self.steps_per_execution - 1, {"loss": float(self._loss.result())})
            done += made
        return self._metrics() if done else {}

    def _evaluation(self, batches: Any, steps: int | None, callback: keras.callbacks.CallbackList) -> Logs:
        self.model.reset_metrics()
        callback.on_test_begin()
        done = 0
        while steps is None or done < steps:
            callback.on_test_batch_begin(done)
            made = self._execution(self._evaluate, batches, steps, done)
            if not made:
                break
            callback.on_test_batch_end(done + self.steps_per_execution - 1)
            done += made
        if not done:
            raise TrainingError(
                f"the eval split has no batch of {self.fixed_batch} examples, which a TPU needs. Lower"
                " `train.batch_size`"
            )
        logs = self._metrics()
        callback.on_test_end(logs)
        return {f"val_{name}": value for name, value in logs.items()}

    def _known_steps(self, dataset: tf.data.Dataset) -> int | None:
        return None if self.fixed_batch is not None else _steps(dataset)

    def _execution(self, execute: Callable[..., tf.Tensor], batches: Any, steps: int | None, done: int) -> int:
        """Run one execution, and return its number of steps."""
        wanted = self.steps_per_execution if steps is None else min(self.steps_per_execution, steps - done)
        return int(execute(batches, tf.constant(wanted)))

    @property
    def _loss(self) -> keras.metrics.Metric:
        """The mean loss so far. Callbacks get it after each execution; the other metrics, whose states the workers have
        to exchange for their results, at the end of an epoch.
        """
        return next(metric for metric in self.model.metrics if metric.name == "loss")

    def _metrics(self) -> Logs:
        return {name: float(value) for name, value in self.model.get_metrics_result().items()}

    def _as_graph(self, step: Callable[..., None]) -> Callable[..., tf.Tensor]:
        """Return a graph that runs up to a number of steps, fewer at the data's end, and returns how many it ran."""

        def execute(batches: Any, limit: tf.Tensor) -> tf.Tensor:
            made = tf.constant(0)
            for _ in tf.range(limit):
                parts = batches.get_next_as_optional()
                if not parts.has_value():
                    break
                self.strategy.run(step, args=parts.get_value())
                made += 1
            return made

        return tf.function(execute, reduce_retracing=True)

    @no_autograph
    def _train_step(self, features: Any, targets: Targets, share: tf.Tensor, count: tf.Tensor) -> None:
        """In each replica: compute the part's gradients, sum them over all replicas, and update the weights."""
        model, replicas = self.model, self.strategy.num_replicas_in_sync
        with tf.GradientTape() as tape:
            predictions = model(features, training=True)
            loss = _loss(model, features, targets, predictions, training=True)  # 1 / replicas of the mean
            scaled = model.optimizer.scale_loss(loss * share)
        gradients = tape.gradient(scaled, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        self._count(features, targets, predictions, loss * replicas, count)

    @no_autograph
    def _own_step(self, features: Any, targets: Targets, share: tf.Tensor, count: tf.Tensor) -> None:  # noqa: ARG002 - all steps have them
        """Run the model's own step. Its loss is multiplied by the part's share when the optimizer scales it."""
        self._replica.share = share  # thread-local, because each replica is traced in a thread of its own
        self.model.train_step((features, *targets))

    @no_autograph
    def _eval_step(self, features: Any, targets: Targets, share: tf.Tensor, count: tf.Tensor) -> None:  # noqa: ARG002 - all steps have them
        model = self.model
        if type(model).test_step is not keras.Model.test_step:
            tf.cond(count > 0, lambda: _none(model.test_step((features, *targets))), _none)
            return
        predictions = model(features, training=False)
        loss = _loss(model, features, targets, predictions, training=False)
        self._count(features, targets, predictions, loss * self.strategy.num_replicas_in_sync, count)

    def _count(self, features: Any, targets: Targets, predictions: Any, loss: tf.Tensor, count: tf.Tensor) -> None:
        """Update the metrics, but not for a part that only stands in for an empty one."""
        label, weight = _label_and_weight(targets)
        self._loss.update_state(loss, sample_weight=count)
        tf.cond(count > 0, lambda: _none(self.model.compute_metrics(features, label, predictions, weight)), _none)


def _loss(model: keras.Model, features: Any, targets: Targets, predictions: Any, *, training: bool) -> tf.Tensor:
    """The mean of the examples' weighted losses, divided by the number of replicas."""
    label, weight = _label_and_weight(targets)
    return model.compute_loss(features, label, predictions, weight, training=training)


def _label_and_weight(targets: Targets) -> tuple[tf.Tensor, tf.Tensor | None]:
    return (*targets, None)[:2]


def _sum_gradients_first(optimizer: keras.optimizers.Optimizer) -> None:
    """Make an optimizer sum the gradients of the replicas before it does anything else with them."""
    apply, inner = optimizer.apply, getattr(optimizer, "inner_optimizer", optimizer)

    def apply_sums(gradients: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        # Dense, because an all-reduce in a loop needs fixed shapes, and those of sparse gradients change at each step.
        known = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
        sums = iter(tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, known))
        apply([None if gradient is None else next(sums) for gradient in gradients], trainable_variables)

    optimizer.apply = apply_sums
    disable_gradient_reduction(inner)


def _steps(dataset: tf.data.Dataset) -> int | None:
    """Number of batches in an epoch; None if that is not known."""
    steps = int(dataset.cardinality())
    return steps if steps >= 0 else None


def _none(_: Mapping[str, Any] | None = None) -> None:
    """A branch of tf.cond that returns nothing."""
