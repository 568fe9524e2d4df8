"""The training of `model.kind: trees`: its iterations are the epochs, and it leaves what any training leaves.

    model = train_trees(job, plan)

Each iteration is recorded with the loss on both splits. Early stopping and the choice of the best iteration are those
of the other kinds. Every minute, on SIGTERM, and when a search for the kind of model pauses it, the trees so far become
a checkpoint, from which a later run of the same work grows the same trees as an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from headrace.common.errors import ModelError, TrainingError, TrainingStoppedError
from headrace.common.figures import figure
from headrace.configs.schema.train import EarlyStopping
from headrace.configs.schema.trees_model import TreesModel
from headrace.trainer import columns
from headrace.trainer.callbacks.checkpoint import TrainingPausedError
from headrace.trainer.callbacks.epoch_log import Epoch, History
from headrace.trainer.callbacks.tensorboard import Scalars
from headrace.trainer.checkpointing.checkpoints import Checkpoints, TrainingPosition
from headrace.trainer.fitting import WEIGHTS, still_falling
from headrace.trainer.input.inputs import InputPlan
from headrace.trainer.job import Job, checkpoints
from headrace.trainer.model import build_model
from headrace.trainer.models.layers import SCALE_LAYER
from headrace.trainer.models.trees import Forest, categorical, input_order
from headrace.trainer.training import Circumstances
from headrace.trainer.trees.boosting import Boosting, Scale
from headrace.trainer.trees.examples import Examples, Loaded, load

logger = logging.getLogger(__name__)

PATIENCE = 50
"""Iterations without a better eval loss after which growing stops, for `patience: auto`."""
LOG_SECONDS, CHECKPOINT_SECONDS = 5.0, 60.0
"""Seconds between two lines of the log, and between two checkpoints."""


def train_trees(job: Job, plan: InputPlan, circumstances: Circumstances | None = None) -> keras.Model:
    """Grow the trees that the job's sections describe, from the last checkpoint if there is one.

    Writes the record, the weights and TensorBoard's logs to the job's run directory. Raises TrainingPausedError.

    plan: how to read the examples, in place of that of `circumstances`.
    """
    around = circumstances or Circumstances()
    sections = job.sections
    settings = sections.model
    assert isinstance(settings, TreesModel)  # noqa: S101 - the caller chooses by the kind
    built = columns.build(sections.features)
    features = columns.ModelInputs(built, columns.vocabulary_size(job.transformed), settings.embedding)
    order = input_order(features)
    loaded = load(plan, order, sections.label)
    scale = label_scale(loaded.train) if sections.label.kind == "regression" else (0.0, 1.0)
    category_columns = _category_columns(loaded, categorical(features))
    growing = Growing(job, settings, loaded, category_columns, scale, checkpoints(job), around.pause)
    job.run_dir.mkdir(parents=True, exist_ok=True)
    boosting = growing.run()
    best = best_iteration(growing.epochs)
    forest = Forest.of(boosting.trees(best), sections.label.num_classes, boosting.base)
    model = build_model(sections, job.transformed, forest)
    _set_scale(model, scale)
    if growing.paused:
        raise TrainingPausedError(growing.epochs, model)
    model.save_weights(job.run_dir / WEIGHTS)
    _write_curves(model, growing.epochs, job.run_dir)
    history = growing.history(model, forest, best)
    dataclasses.replace(history, chosen={**history.chosen, **around.record}).write(job.run_dir)
    return model


@dataclass
class Growing:
    """The iterations of one training."""

    job: Job
    settings: TreesModel
    loaded: Loaded
    categories: Sequence[int]
    """Columns of the input that are categories."""
    scale: Scale
    folder: Checkpoints | None
    pause: Callable[[], bool] | None = None
    """When to save and to stop growing for now, asked after each iteration. The end is saved then, too."""
    clock: Callable[[], float] = time.perf_counter
    """Seconds."""
    epochs: list[Epoch] = field(default_factory=list)
    ended: bool = False
    """Whether no further iteration follows."""
    paused: bool = False
    """Whether further iterations follow in a later training."""
    _saved: Path | None = None
    """The latest checkpoint."""

    def run(self) -> Boosting:
        """Grow until early stopping, the last iteration or a pause. Raises TrainingStoppedError on SIGTERM."""
        boosting = self._begin()
        logger.info(f"input: {self.loaded.words}")
        logged = saved = self.clock()
        with _noticing_sigterm(self.folder) as stopped:
            while not self.ended and not self.paused:
                self._grow(boosting)
                self.paused = not self.ended and self.pause is not None and self.pause()
                now = self.clock()
                if self.ended or now - logged >= LOG_SECONDS or len(self.epochs) == 1:
                    self._log()
                    logged = now
                due = self._train.checkpoint.every_steps is not None and now - saved >= CHECKPOINT_SECONDS
                if due or stopped or self.paused or (self.ended and self.pause is not None):
                    self._save(boosting)
                    saved = now
                if stopped and not self.ended:
                    raise self._stopped()
        return boosting

    @property
    def _train(self) -> Any:
        return self.job.sections.train

    def _begin(self) -> Boosting:
        saved = self.folder.latest() if self.folder else None
        texts: list[str] = []
        if saved is not None:
            self.epochs = [Epoch(**epoch) for epoch in saved.tree["epochs"]]
            self.ended, texts = bool(saved.tree["ended"]), saved.tree["trees"]
            logger.info(f"checkpoint: resuming from {saved.file}: iteration {len(self.epochs) + 1}")
        train, evaluation = self.loaded.train, self.loaded.eval
        try:
            return Boosting(
                self.settings,
                self.job.sections.label,
                train,
                evaluation,
                self.categories,
                seed=self._train.seed,
                scale=self.scale,
                texts=texts,
            )
        except MemoryError as error:
            raise TrainingError(f"model.kind: trees ran out of memory: {error}. Learn from fewer examples") from error

    def _grow(self, boosting: Boosting) -> None:
        began = self.clock()
        metrics = boosting.grow()
        if metrics is None:
            self.ended = True
            return
        if not math.isfinite(metrics["val_loss"]):
            raise ModelError(
                f"model.kind: trees has an eval loss that is not finite in iteration {len(self.epochs) + 1}; lower"
                " `model.learning_rate`, or set `model.l2`"
            )
        seconds = self.clock() - began
        self.epochs.append(Epoch(len(self.epochs) + 1, seconds, self.loaded.train.size / max(seconds, 1e-9), metrics))
        losses = [epoch.metrics["val_loss"] for epoch in self.epochs]
        self.ended = len(losses) >= self.settings.iterations or is_over(losses, self._train.early_stopping)

    def _save(self, boosting: Boosting) -> None:
        if self.folder is None:
            return
        done, size = len(self.epochs), self.loaded.train.size
        epochs = [dataclasses.asdict(epoch) for epoch in self.epochs]
        tree = {"trees": boosting.texts, "epochs": epochs, "ended": self.ended}
        self._saved = self.folder.write(TrainingPosition(epoch=done, batches=done, examples=done * size), tree)

    def _stopped(self) -> TrainingStoppedError:
        return TrainingStoppedError(
            f"training was stopped by SIGTERM after iteration {len(self.epochs):,}. It is saved in {self._saved}; the"
            " next run of the same config, data and code resumes there"
        )

    def _log(self) -> None:
        last = self.epochs[-1]
        shown = ", ".join(f"{name} {figure(value)}" for name, value in last.metrics.items())
        logger.info(f"iteration {last.epoch:,}/{self.settings.iterations:,}: {shown}")

    def history(self, model: keras.Model, forest: Forest, best: int) -> History:
        """The training record."""
        done, planned = len(self.epochs), self.settings.iterations
        remarks = tuple(
            line.replace("`train.epochs`", "`model.iterations`").replace("epochs,", "iterations,")
            for line in still_falling(self.epochs, planned)
        )
        classes = self.job.sections.label.num_classes
        trees = f"{best * classes:,}, of {done:,} iterations, {forest.depth} levels deep at most"
        return History(
            epochs=self.epochs,
            best_epoch=best,
            stopped_early=done < planned,
            parameters=model.count_params(),
            examples={"train": self.loaded.train.size, "eval": self.loaded.eval.size},
            input=self.loaded.words,
            remarks=remarks,
            chosen={"strategy": "cpu: trees are grown on the processors of one machine", "trees": trees},
        )


def is_over(losses: Sequence[float], stopping: EarlyStopping | None) -> bool:
    """Whether early stopping ends a training after these eval losses, as Keras' callback would."""
    if stopping is None:
        return False
    patience = PATIENCE if stopping.patience == "auto" else stopping.patience
    best, waited = math.inf, 0
    for loss in losses:
        waited += 1
        if loss < best - stopping.min_delta:
            best, waited = loss, 0
    return waited >= max(patience, 1)


def best_iteration(epochs: Sequence[Epoch]) -> int:
    """The iteration with the lowest eval loss, from 1."""
    return min(epochs, key=lambda epoch: epoch.metrics["val_loss"]).epoch


def label_scale(train: Examples) -> Scale:
    """Mean and standard deviation of the labels, in float32 as the model's head has them."""
    mean = np.float32(train.labels.mean())
    deviation = np.sqrt(np.float32(np.square(train.labels - mean).mean()))
    return float(mean), float(np.maximum(deviation, np.float32(keras.config.epsilon())))


def _set_scale(model: keras.Model, scale: Scale) -> None:
    """Set the scale of a regression's head, as `adapt_scale` does for other models."""
    for layer in model.layers:
        if layer.name == SCALE_LAYER and isinstance(layer, keras.layers.Normalization):
            layer.adapt_mean.assign([scale[0]])
            layer.adapt_variance.assign([scale[1] ** 2])
            layer.finalize_state()


def _category_columns(loaded: Loaded, categories: Sequence[str]) -> list[int]:
    """The last columns of the input."""
    width = loaded.train.inputs.shape[1]
    return list(range(width - len(categories), width))


def _write_curves(model: keras.Model, epochs: Sequence[Epoch], directory: Path) -> None:
    """TensorBoard's logs."""
    scalars = Scalars(directory)
    scalars.set_model(model)
    for epoch in epochs:
        scalars.on_epoch_end(epoch.epoch - 1, epoch.metrics)
    scalars.on_train_end()


@contextmanager
def _noticing_sigterm(folder: Checkpoints | None) -> Iterator[list[bool]]:
    """A list that is empty until SIGTERM; without a folder for checkpoints, SIGTERM ends the process as ever."""
    stopped: list[bool] = []
    if folder is None or threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGTERM, before)
