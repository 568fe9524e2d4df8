"""`tuner_fn`, called by TFX's Tuner: trainings with different settings, each as the Trainer would run it.

The file of the best hyperparameters contains all trials in addition to KerasTuner's own content, under `headrace`.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import keras_tuner
from keras_tuner.engine import base_tuner
from keras_tuner.errors import FailedTrialError, FatalError

from headrace.common.errors import TrainingError, TrainingStoppedError
from headrace.common.tracebacks import own_traceback, write_traceback
from headrace.configs.rules.tune import ONE_MACHINE_ONLY
from headrace.configs.schema.tune import TuneConfig, reported_metrics
from headrace.trainer.callbacks.epoch_log import FILE
from headrace.trainer.devices.errors import explain_out_of_memory
from headrace.trainer.devices.strategy import StrategyChoice, choose_strategy, hardware_for
from headrace.trainer.job import Job, checkpoints
from headrace.trainer.launch import launch
from headrace.trainer.run import train
from headrace.trainer.training import without_retracing_warnings
from headrace.trainer.trials import Search, Trial, format_value
from headrace.trainer.tuning.search import FinishedTrials, config_values, search_space

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs
    from tfx.components.tuner.component import TunerFnResult

logger = logging.getLogger(__name__)

DEFAULT_TRIALS = 10
"""Number of trials if the config does not set it."""


def tuner_fn(fn_args: FnArgs) -> TunerFnResult:
    """Run the search that `fn_args.custom_config["tune"]` (TuneConfig as JSON) describes."""
    from tfx.components.tuner.component import TunerFnResult

    fn_args.transform_output = fn_args.transform_graph_path  # the name that TFX's Trainer uses
    job = Job.of(fn_args)
    tune = TuneConfig.model_validate_json(fn_args.custom_config["tune"])
    # TFX's own folder for temporary files, which the runner of the component removes, however it ends
    return TunerFnResult(tuner=Tuner(job, tune, Path(fn_args.working_dir)), fit_kwargs={})


class BestHyperparameters(keras_tuner.HyperParameters):
    """The best hyperparameters, whose file also contains the trials."""

    def __init__(self, best: keras_tuner.HyperParameters, tuned: dict[str, Any]) -> None:
        super().__init__()
        self._best, self._tuned = best, tuned

    def get_config(self) -> dict[str, Any]:
        """KerasTuner's own keys, and `headrace`."""
        return {**self._best.get_config(), "headrace": self._tuned}


class Tuner(base_tuner.BaseTuner):
    """Runs the trials one after the other in this process."""

    def __init__(self, job: Job, tune: TuneConfig, directory: Path) -> None:
        self.job, self.tune, self.choice = (
            job,
            tune,
            choose_strategy(job.sections.train, hardware_for(job.sections.model)),
        )
        if self.choice.strategy == "multi_worker":  # the other workers would exit after the first trial
            raise TrainingError(f"train.strategy: {ONE_MACHINE_ONLY}")
        self.epochs = tune.epochs or job.sections.train.max_epochs
        self.metric = "loss" if tune.objective == "auto" else tune.objective
        self.better_is_higher = reported_metrics(job.sections.label.kinds)[self.metric]
        self.done: list[Trial] = []
        self.finished = FinishedTrials.of(job)
        super().__init__(self._oracle(), directory=str(directory), project_name="search", overwrite=True)
        self.oracle.verbose = 0

    @property
    def found(self) -> Search:
        """The trials so far."""
        return Search(self.tune.algorithm, self.metric, self.better_is_higher, tuple(self.done))

    def run_trial(self, trial: Any, *_: Any, **__: Any) -> dict[str, float]:
        """Train with the trial's values.

        Raises FailedTrialError if the training fails or its objective is not finite, and FatalError if it was stopped.
        """
        hyperparameters = trial.hyperparameters.values
        values = config_values(hyperparameters)
        epochs = int(hyperparameters.get("tuner/epochs", self.epochs))
        if (known := self.finished.take(values, epochs)) and known.score is not None:
            self.done.append(dataclasses.replace(known, number=len(self.done) + 1))
            self._log(self.done[-1], "; trained before the search was interrupted")
            return {self.oracle.objective.name: known.score}
        began, score, failure = time.perf_counter(), None, ""
        try:
            score = self._train(values, epochs, Path(self.get_trial_dir(trial.trial_id)) / "run")
        except TrainingStoppedError as error:
            raise FatalError(str(error)) from error  # KerasTuner treats any other error as a failed trial
        except TrainingError as error:
            failure = str(error)
            if own_traceback(error):
                write_traceback(error)
        except Exception as error:  # the values are impossible, or the user's own code has a bug
            write_traceback(error)
            failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - began
        self.done.append(Trial(len(self.done) + 1, values, epochs, seconds, score, failure))
        self._log(self.done[-1])
        self.finished.add(self.done[-1])
        if score is None:
            raise FailedTrialError(failure)
        return {self.oracle.objective.name: score}

    def on_search_end(self) -> None:
        """Log the table. Raises TrainingError if no trial succeeded."""
        self.oracle.max_trials = len(self.done)  # TFX asks for this many of the best; None would be an error there
        search = self.found
        logger.info(f"\n{search.table()}\n")
        if search.best is None:
            raise TrainingError(f"tune: every trial failed; the first: {self.done[0].failure if self.done else 'none'}")
        self.finished.clear()

    def get_best_hyperparameters(self, num_trials: int = 1) -> list[keras_tuner.HyperParameters]:
        """Return the hyperparameters of the best trial, which TFX writes for the Trainer."""
        search = self.found
        assert search.best is not None  # noqa: S101 - the search has ended
        tuned = {"values": search.best.values, "search": search.to_plain()}
        return [BestHyperparameters(best, tuned) for best in super().get_best_hyperparameters(num_trials)]

    def results_summary(self, num_trials: int = 10) -> None:
        """Do nothing: the table was logged at the end of the search."""

    def search_space_summary(self, extended: bool = False) -> None:  # noqa: ARG002 - of KerasTuner
        """Log a line for each parameter, and for the numbers that all trials have in common in place of `auto`."""
        for name, words in self.job.budget.words.items():
            if f"train.{name}" not in self.tune.parameters:
                logger.info(f"tune: {name}: {words}")
        for name, parameter in self.tune.parameters.items():
            logger.info(f"tune: {name}: {parameter.model_dump_json(exclude_defaults=True)}")

    def _train(self, values: dict[str, Any], epochs: int, directory: Path) -> float:
        """Train, and return the objective in the best epoch."""
        sections = self.job.sections.tuned({**values, "train.epochs": epochs})
        config = {**self.job.custom_config, "config": sections.to_json()}
        job = dataclasses.replace(self.job, custom_config=config, model_run_dir=str(directory), base_model=None)
        keras.backend.clear_session()
        try:
            _run(job, self.choice)
        except TrainingStoppedError:
            raise
        except Exception:
            _clear_checkpoints(job)
            raise
        _clear_checkpoints(job)
        history = json.loads((directory / FILE).read_text(encoding="utf-8"))
        scores = [epoch["metrics"][f"val_{self.metric}"] for epoch in history["epochs"]]
        finite = [score for score in scores if math.isfinite(score)]
        if len(finite) < len(scores) or not scores:
            raise TrainingError(f"val_{self.metric} is not finite")
        return max(finite) if self.better_is_higher else min(finite)

    def _log(self, trial: Trial, more: str = "") -> None:
        values = ", ".join(f"{name}: {format_value(value)}" for name, value in trial.values.items())
        result = f"failed: {trial.failure}" if trial.score is None else f"{self.metric} {trial.score:.5f}"
        logger.info(f"trial {trial.number} ({trial.seconds:.1f} s): {result} with {values}{more}")

    def _oracle(self) -> keras_tuner.Oracle:
        """Create the algorithm that chooses the values."""
        oracles = keras_tuner.oracles
        direction = "max" if self.better_is_higher else "min"
        common: dict[str, Any] = {
            "objective": keras_tuner.Objective(f"val_{self.metric}", direction),
            "hyperparameters": search_space(self.tune.parameters, self.job.sections),
            "seed": self.tune.seed + 1,  # KerasTuner treats 0 as no seed
            "max_consecutive_failed_trials": 1_000_000,  # `on_search_end` reports that all of them failed
        }
        if self.tune.algorithm == "hyperband":
            oracle = oracles.HyperbandOracle(max_epochs=self.epochs, **common)
            oracle.max_trials = self.tune.max_trials
            return oracle
        kind = oracles.RandomSearchOracle if self.tune.algorithm == "random" else oracles.BayesianOptimizationOracle
        return kind(max_trials=self.tune.max_trials or DEFAULT_TRIALS, **common)


def _clear_checkpoints(job: Job) -> None:
    """Remove the checkpoints of a finished trial."""
    if saved := checkpoints(job):
        saved.clear()


def _run(job: Job, choice: StrategyChoice) -> None:
    if choice.distributed:
        launch(job)
        return
    with explain_out_of_memory(job.sections.train), without_retracing_warnings():
        train(job, choice)
