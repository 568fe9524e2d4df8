"""A training loop over several devices: what Keras' `fit` does, where a tf.distribute.Strategy is at work.

    loop = Loop(model, strategy, together=64)      # the model was built and compiled in the strategy's scope
    loop.fit(train, validation_data=evaluation, epochs=5, callbacks=[...])

Keras' own `fit` fails under MultiWorkerMirroredStrategy, and clips, accumulates and looks for infinite values in each
replica's gradients before they are added up. Here every replica takes its part of the same global batch, gradients are
added up first, and the optimizer then sees what it would see on a single device: so do the weights, but for rounding.

A part's loss counts by its number of examples, so batches need not be divisible by the number of replicas. Every worker
of a cluster has to make the same global batches, in the same order; it moves its own part of them to its devices. Or
each makes its own part of each, as large as those of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.trainer.checkpointing.checkpoints import Position
from headrace.trainer.input.packing import plain
from headrace.trainer.private_api import leave_gradients

Batch = tuple[Any, ...]
Logs = dict[str, float]


class Loop:
    """Callbacks, metrics, early stopping and logs are as in `keras.Model.fit`."""

    def __init__(  # noqa: PLR0913
        self,
        model: keras.Model,
        strategy: tf.distribute.Strategy,
        together: int = 1,
        begin: Position | None = None,
        whole: int | None = None,
        *,
        own_batches: bool = False,
    ) -> None:
        """together: steps that run as one graph; begin: where a training goes on that was interrupted; whole: examples
        of a batch where shapes must not change: smaller batches are then left out; own_batches: whether what a worker
        of a cluster is given to train on is its own part of the batches.
        """
        self.model, self.strategy, self.together, self.begin = model, strategy, together, begin or Position()
        self.whole, self.own_batches = whole, own_batches
        self._replica = threading.local()
        own = type(model).train_step is not keras.Model.train_step
        _add_up_first(model.optimizer)
        if own:
            scale = model.optimizer.scale_loss
            model.optimizer.scale_loss = lambda loss: scale(loss * self._replica.share)
        self._train = self._as_graph(self._own_step if own else self._train_step)
        self._evaluate = self._as_graph(self._eval_step)

    def fit(  # noqa: PLR0913 - the names of keras.Model.fit
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

        dataset: global batches (features, label), of one epoch each time it is iterated, or endless with
        `steps_per_epoch`.
        """
        model, evaluation = self.model, self._parts(validation_data)
        parts = self._parts(dataset, own=self.own_batches)
        called = keras.callbacks.CallbackList(
            list(callbacks), add_history=True, model=model, epochs=epochs, steps=steps_per_epoch or _steps(dataset)
        )
        endless = iter(parts) if steps_per_epoch is not None else None
        logs: Logs = {}
        model.stop_training = False
        called.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            model.reset_metrics()
            called.on_epoch_begin(epoch)
            done = self.begin.step if epoch == self.begin.epoch else 0
            steps = done if done and self.begin.evaluating else steps_per_epoch or self._known_steps(dataset)
            logs = self._epoch(endless or iter(parts), steps, called, done)
            logs |= self._evaluation(iter(evaluation), self._known_steps(validation_data), called)
            called.on_epoch_end(epoch, logs)
            if model.stop_training:
                break
        model.optimizer.finalize_variable_values(model.trainable_variables)
        called.on_train_end(logs)

    def _epoch(self, batches: Any, steps: int | None, called: keras.callbacks.CallbackList, done: int) -> Logs:
        """The executions of an epoch that are left; the metrics at its end. steps: None where the data's end tells."""
        logs = self._metrics() if done else {}
        while not self.model.stop_training and (steps is None or done < steps):
            called.on_train_batch_begin(done)
            made = self._execution(self._train, batches, steps, done)
            if not made:
                break
            logs = self._metrics()
            called.on_train_batch_end(done + self.together - 1, logs)  # where a short one would have ended, as in Keras
            done += made
        return logs

    def _evaluation(self, batches: Any, steps: int | None, called: keras.callbacks.CallbackList) -> Logs:
        self.model.reset_metrics()
        called.on_test_begin()
        done, logs = 0, {}
        while steps is None or done < steps:
            called.on_test_batch_begin(done)
            made = self._execution(self._evaluate, batches, steps, done)
            if not made:
                break
            logs = self._metrics()
            called.on_test_batch_end(done + self.together - 1, logs)
            done += made
        if not logs:
            raise TrainingError(
                f"the eval split has no batch of {self.whole} examples, as a TPU needs it. Lower `train.batch_size`"
            )
        called.on_test_end(logs)
        return {f"val_{name}": value for name, value in logs.items()}

    def _known_steps(self, dataset: tf.data.Dataset) -> int | None:
        return None if self.whole is not None else _steps(dataset)

    def _execution(self, several: Callable[..., tf.Tensor], batches: Any, steps: int | None, done: int) -> int:
        """Make one execution; the number of its steps."""
        wanted = self.together if steps is None else min(self.together, steps - done)
        return int(several(batches, tf.constant(wanted)))

    def _metrics(self) -> Logs:
        return {name: float(value) for name, value in self.model.get_metrics_result().items()}

    def _as_graph(self, step: Callable[..., None]) -> Callable[..., tf.Tensor]:
        """As one graph: up to so many steps, fewer where the data ends; how many it made."""

        def several(batches: Any, most: tf.Tensor) -> tf.Tensor:
            made = tf.constant(0)
            for _ in tf.range(most):
                parts = batches.get_next_as_optional()
                if not parts.has_value():
                    break
                self.strategy.run(step, args=parts.get_value())
                made += 1
            return made

        return tf.function(several, reduce_retracing=True)

    @plain
    def _train_step(self, features: Any, label: tf.Tensor, share: tf.Tensor, count: tf.Tensor) -> None:
        """In each replica: the part's gradients, added up over all, and one step of the optimizer."""
        model, replicas = self.model, self.strategy.num_replicas_in_sync
        with tf.GradientTape() as tape:
            predictions = model(features, training=True)
            loss = model.compute_loss(features, label, predictions, None, training=True)  # 1 / replicas of the mean
            scaled = model.optimizer.scale_loss(loss * share)
        gradients = tape.gradient(scaled, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        self._count(features, label, predictions, loss * replicas, count)

    @plain
    def _own_step(self, features: Any, label: tf.Tensor, share: tf.Tensor, count: tf.Tensor) -> None:  # noqa: ARG002
        """A model with a step of its own, whose loss gets the part's share where it asks the optimizer to scale it."""
        self._replica.share = share  # replicas are traced in a thread each
        self.model.train_step((features, label))

    @plain
    def _eval_step(self, features: Any, label: tf.Tensor, share: tf.Tensor, count: tf.Tensor) -> None:  # noqa: ARG002
        model = self.model
        if type(model).test_step is not keras.Model.test_step:
            tf.cond(count > 0, lambda: _none(model.test_step((features, label))), _none)
            return
        predictions = model(features, training=False)
        loss = model.compute_loss(features, label, predictions, None, training=False)
        self._count(features, label, predictions, loss * self.strategy.num_replicas_in_sync, count)

    def _count(self, features: Any, label: tf.Tensor, predictions: Any, loss: tf.Tensor, count: tf.Tensor) -> None:
        """Tell the metrics; a part that only stands in for an empty one tells them nothing."""
        tracker = next(metric for metric in self.model.metrics if metric.name == "loss")
        tracker.update_state(loss, sample_weight=count)
        tf.cond(count > 0, lambda: _none(self.model.compute_metrics(features, label, predictions)), _none)

    def _parts(self, dataset: tf.data.Dataset, *, own: bool = False) -> Any:
        """The batches, in a part for each replica; own: they are those of this worker's replicas alone."""
        replicas = self.strategy.num_replicas_in_sync
        if self.whole is not None:
            dataset = _of_one_shape(dataset, self.whole, replicas)
        size = None if self.whole is None else self.whole // replicas

        def of_this_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
            here = replicas // context.num_input_pipelines
            first, parts = (0, here) if own else (context.input_pipeline_id * here, replicas)

            @plain
            def split(*batch: Any) -> tf.data.Dataset:
                numbers = tf.data.Dataset.range(first, first + here)
                return numbers.map(plain(lambda number: _sized(part(batch, number, parts), size)))

            return dataset.flat_map(split).prefetch(2 * here)

        return self.strategy.distribute_datasets_from_function(of_this_worker)


def part(batch: Batch, number: tf.Tensor, parts: int) -> Batch:
    """A part of a batch (features, label), the first being 0: features, label, share, count.

    count: int32, its examples. share: what its mean loss, divided by the number of parts, is to be multiplied with for
    the sum over the parts to be the mean over the batch. A part without examples borrows one, and has a share of 0.
    """
    size = tf.shape(tf.nest.flatten(batch)[-1], out_type=tf.int64)[0]
    begin, end = number * size // parts, (number + 1) * size // parts
    count = end - begin
    begin = tf.where(count > 0, begin, 0)
    end = begin + tf.maximum(count, 1)
    features, label = tf.nest.map_structure(lambda tensor: _slice(tensor, begin, end), tuple(batch))
    share = tf.cast(count * parts, tf.float32) / tf.cast(size, tf.float32)
    return features, label, share, tf.cast(count, tf.int32)


def _of_one_shape(dataset: tf.data.Dataset, size: int, replicas: int) -> tf.data.Dataset:
    """The batches of the full size. Raises TrainingError where there can be none of one shape."""
    if size % replicas:
        raise TrainingError(f"train.batch_size: {size} is not divisible by {replicas} cores, as a TPU needs it")
    ragged = [name for name, spec in dataset.element_spec[0].items() if not isinstance(spec, tf.TensorSpec)]
    if ragged:
        raise TrainingError(
            f"train.strategy: tpu needs examples of one shape, and {', '.join(ragged)} may have several values. Use"
            " another strategy, or leave these features out"
        )
    return dataset.filter(plain(lambda _, label: tf.equal(tf.shape(label)[0], size)))


def _sized(batch: Batch, size: int | None) -> Batch:
    """The part of a batch, whose number of examples is known beforehand."""
    if size is None:
        return batch
    features, label, share, count = batch
    features, label = tf.nest.map_structure(
        lambda tensor: tf.ensure_shape(tensor, [size, *tensor.shape[1:]]), (features, label)
    )
    return features, label, share, count


def _slice(tensor: Any, begin: tf.Tensor, end: tf.Tensor) -> Any:
    if isinstance(tensor, tf.SparseTensor):
        rest = tensor.dense_shape[1:]
        return tf.sparse.slice(
            tensor, tf.concat([[begin], tf.zeros_like(rest)], 0), tf.concat([[end - begin], rest], 0)
        )
    return tensor[begin:end]


def _add_up_first(optimizer: keras.optimizers.Optimizer) -> None:
    """Make an optimizer add up the gradients of the replicas before it does anything else with them."""
    apply, inner = optimizer.apply, getattr(optimizer, "inner_optimizer", optimizer)

    def apply_sums(gradients: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        # Dense: the shape of sparse ones changes from step to step, which devices that add up in a loop do not take.
        known = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
        sums = iter(tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, known))
        apply([None if gradient is None else next(sums) for gradient in gradients], trainable_variables)

    optimizer.apply = apply_sums
    leave_gradients(inner)


def _steps(dataset: tf.data.Dataset) -> int | None:
    """Batches in an epoch; None where that is not known."""
    steps = int(dataset.cardinality())
    return steps if steps >= 0 else None


def _none(_: Mapping[str, Any] | None = None) -> None:
    """A branch that gives nothing back."""
