"""The search of `model.kind: auto`: its candidates race on the same examples, and the training continues with the best.

    model = train_best(job, auto, choice, strategy)

Each candidate is trained as a config with its kind would train it: from the same seed, on the same batches, up to early
stopping. When its time is up, it is saved as a checkpoint, from which it continues in the next round, and after the
search if it is chosen. So the result is the model that a config with the chosen kind trains. First all candidates get
an equal part of the time, then the better half of them, and so on (Jamieson and Talwalkar 2016, arXiv:1502.07943). Time
that a candidate leaves goes to the others, so the cheapest are first.

The state of the search is a checkpoint too. A search that was killed continues with the candidate that it was at.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from headrace.common.errors import MissingDependencyError, ModelError, TrainingError
from headrace.configs.rules.model import ONE_PROCESS_ONLY
from headrace.configs.rules.trees import why_no_trees
from headrace.configs.schema.auto_model import AutoModel
from headrace.configs.schema.train import CHECKPOINT_FOLDER
from headrace.trainer.callbacks.checkpoint import TrainingPausedError
from headrace.trainer.callbacks.epoch_log import FILE
from headrace.trainer.checkpointing.checkpoints import Checkpoints, TrainingPosition
from headrace.trainer.devices.errors import explain_out_of_memory
from headrace.trainer.devices.strategy import StrategyChoice
from headrace.trainer.input.errors import explain_label_errors
from headrace.trainer.input.inputs import InputPlan
from headrace.trainer.job import Job, checkpoint_name, checkpoints
from headrace.trainer.model import losses_on
from headrace.trainer.model_search.choice import Candidate, Losses, ModelChoice, best_of, with_model
from headrace.trainer.model_search.race import Race
from headrace.trainer.sections import TrainerSections
from headrace.trainer.training import Circumstances, plan, train_model, without_retracing_warnings
from headrace.trainer.trees.training import train_trees

logger = logging.getLogger(__name__)

NO_LOSSES = np.zeros(0, np.float32)
"""Of a candidate that cannot be trained."""


def train_best(job: Job, auto: AutoModel, choice: StrategyChoice, strategy: tf.distribute.Strategy) -> keras.Model:
    """Search, and train the best candidate to its end. Writes the choice, and what any training writes.

    Raises TrainingError if no candidate can be trained.
    """
    if choice.strategy == "multi_worker":  # the workers would have to agree on when the time of a candidate is up
        raise TrainingError(f"model.kind: {ONE_PROCESS_ONLY}")
    with _with_checkpoints(job) as saved:
        inputs = plan(saved, choice).reading_once()
        search = ModelSearch(saved, auto, choice, strategy, inputs)
        found = search.run()
        logger.info(f"\n{found.search.table()}\n")
        logger.info(f"model: {found.words}")
        model = search.train_chosen(found)
    found.write(job.run_dir)
    return model


@contextlib.contextmanager
def _with_checkpoints(job: Job) -> Iterator[Job]:
    """The job with a folder for its checkpoints, a temporary one if it has none."""
    if checkpoints(job) is not None:
        yield job
        return
    with tempfile.TemporaryDirectory() as folder:
        yield dataclasses.replace(job, custom_config={**job.custom_config, CHECKPOINT_FOLDER: folder})


@dataclass
class ModelSearch:
    """One search, whose job has a folder for checkpoints."""

    job: Job
    auto: AutoModel
    choice: StrategyChoice
    strategy: tf.distribute.Strategy
    inputs: InputPlan
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    folder: Checkpoints = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = checkpoint_name(self.job)
        self.folder = Checkpoints(Path(self.job.custom_config[CHECKPOINT_FOLDER], self.name))

    def run(self) -> ModelChoice:
        """Train the candidates until the time is up, or all are trained to their end."""
        race, trainings = self._begin()
        while not race.over:
            while race.waiting:
                number, share = race.waiting[0], race.share
                seconds = max(self.auto.seconds - race.seconds, 0) * share
                race.candidates[number], race.losses[number] = self._advanced(number, race.candidates[number], seconds)
                race.waiting = race.waiting[1:]
                trainings += 1
                self._save(race, trainings)
            race.next_round(more_time=race.seconds < self.auto.seconds)
            self._save(race, trainings := trainings + 1)
        if not best_of(race.candidates):
            reason = next(iter(race.candidates.values())).failure
            raise TrainingError(f"model.kind: auto has no candidate that can be trained; the first: {reason}")
        return ModelChoice.of(self.auto, race.candidates, race.losses)

    def train_chosen(self, found: ModelChoice) -> keras.Model:
        """Continue the training of the best candidate."""
        best = found.search.best
        assert best is not None  # noqa: S101 - `run` has found one
        keras.backend.clear_session()
        around = Circumstances(self.inputs, record={"model": found.words})
        with without_retracing_warnings():
            return self._train(self._candidate_job(best.number, self.job.run_dir), around)

    def _begin(self) -> tuple[Race, int]:
        """The state that a killed search left, or that of a new one; and the number of its changes."""
        if (saved := self.folder.latest()) is not None:
            race = Race.from_tree(saved.tree)
            done = "is over" if race.over else "is between two rounds"
            if race.waiting and not race.over:
                done = f"continues with {race.candidates[race.waiting[0]].name}"
            logger.info(f"model: a search that was interrupted {done}, as {saved.file} says")
            return race, saved.position.batches
        candidates = {number: self._candidate(name) for number, name in enumerate(self.auto.cheapest_first, 1)}
        for one in candidates.values():
            if one.left_out:
                logger.info(f"model: {one.name} is left out: {one.failure}")
        numbers = [number for number, one in candidates.items() if one.open]
        names = ", ".join(candidates[number].name for number in numbers)
        logger.info(f"model: searching among {names} for {self.auto.seconds:g} s")
        return Race(candidates, numbers, numbers), 0

    def _candidate(self, name: str) -> Candidate:
        """A candidate before the search, left out if the config or the devices do not allow it."""
        if not self.auto.model(name).has_trees:
            return Candidate(name)
        declared = TrainerSections.from_json(self.job.custom_config["config"])
        reason = why_no_trees(declared.label, declared.features, declared.train)
        if not reason and self.choice.distributed:
            reason = f"it is trained on the processors of one machine, not with `{self.choice.strategy}`"
        return Candidate(name, failure=reason, left_out=bool(reason))

    def _save(self, race: Race, changes: int) -> None:
        self.folder.write(TrainingPosition(batches=changes), race.to_tree())

    def _candidate_job(self, number: int, run_dir: Path) -> Job:
        """The job of a candidate: that of a config with its kind, with checkpoints next to those of the search."""
        model = self.auto.model(self.auto.cheapest_first[number - 1])
        name = self.folder.part(number).folder.name
        return with_model(self.job, model, model_run_dir=str(run_dir), checkpoint_name=name)

    def _advanced(self, number: int, before: Candidate, seconds: float) -> tuple[Candidate, Losses]:
        """Train a candidate for some seconds, or to its end."""
        began = self.clock()
        after, losses = self._trained(number, before, lambda: self.clock() - began >= seconds)
        after = dataclasses.replace(after, seconds=before.seconds + self.clock() - began)
        if after.failure:
            logger.warning(f"model: {after.name} cannot be trained: {after.failure}")
        else:
            how = "to its end" if after.ended else "so far"
            logger.info(
                f"model: {after.name} has an eval loss of {after.loss:.5g}, in {after.seconds:.1f} s and {after.epochs}"
                f" epochs {how}"
            )
        return after, losses

    def _trained(self, number: int, before: Candidate, pause: Callable[[], bool]) -> tuple[Candidate, Losses]:
        keras.backend.clear_session()
        around = Circumstances(self.inputs, pause)
        with tempfile.TemporaryDirectory() as folder, without_retracing_warnings():
            job = self._candidate_job(number, Path(folder))
            try:
                with explain_out_of_memory(job.sections.train, f". Or leave {before.name} out of `model.candidates`"):
                    model, ended = self._train(job, around), True
                history = json.loads(Path(folder, FILE).read_text(encoding="utf-8"))
                of_epochs = [epoch["metrics"]["val_loss"] for epoch in history["epochs"]]
            except TrainingPausedError as paused:
                model, ended = paused.model, False
                of_epochs = [epoch.metrics["val_loss"] for epoch in paused.epochs]
            except (ModelError, MissingDependencyError) as error:  # those of the data or a disk are not its fault
                self.folder.part(number).clear()
                return dataclasses.replace(before, loss=None, failure=str(error)), NO_LOSSES
            losses = self._losses(model)
        after = _with_losses(before, of_epochs or [float(losses.mean())], len(of_epochs))
        return dataclasses.replace(after, ended=ended), losses

    def _train(self, job: Job, around: Circumstances) -> keras.Model:
        if not job.sections.model.has_trees:
            return train_model(job, self.choice, self.strategy, around)
        with explain_label_errors(job.sections.label):
            return train_trees(job, self.inputs, around)

    def _losses(self, model: keras.Model) -> Losses:
        """The losses of the examples of the eval split, in the order of its files."""
        train, label = self.job.sections.train, self.job.sections.label
        with self.strategy.scope(), explain_label_errors(label):
            return losses_on(model, self.inputs.open_eval(train.global_batch_size).peek, label)


def _with_losses(before: Candidate, losses: list[float], epochs: int) -> Candidate:
    finite = [loss for loss in losses if math.isfinite(loss)]
    if not finite:
        return dataclasses.replace(before, loss=None, failure="its eval loss is not finite")
    return dataclasses.replace(before, loss=min(finite), epochs=epochs)
