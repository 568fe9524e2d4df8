"""`tuner_fn`, which TFX's Tuner calls: trainings with different settings, each as the Trainer would do it.

The best hyperparameters' file carries all trials beside KerasTuner's own: `Tuned.read` finds both in it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import keras_tuner
from keras_tuner.engine import base_tuner
from keras_tuner.errors import FailedTrialError, FatalError

from headrace.configs.errors import TrainingError, TrainingStoppedError
from headrace.configs.tracebacks import write_traceback
from headrace.configs.tune import HIGHER_IS_BETTER, TuneConfig
from headrace.configs.tune_rules import ONE_MACHINE
from headrace.trainer.checkpointing.work import checkpoints
from headrace.trainer.devices.launch import launch
from headrace.trainer.devices.out_of_memory import out_of_memory_told
from headrace.trainer.devices.strategy import Choice, choose, look
from headrace.trainer.history import FILE
from headrace.trainer.job import Job
from headrace.trainer.run import train
from headrace.trainer.tuning.finished import Finished
from headrace.trainer.tuning.retracing import retracing_untold
from headrace.trainer.tuning.search_space import space, values
from headrace.trainer.tuning.trials import Search, Trial, in_words

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs
    from tfx.components.tuner.component import TunerFnResult

TRIALS = 10
"""Of a search that does not say."""


def tuner_fn(fn_args: FnArgs) -> TunerFnResult:
    """The search that `fn_args.custom_config["tune"]` (TuneConfig as JSON) describes."""
    from tfx.components.tuner.component import TunerFnResult

    fn_args.transform_output = fn_args.transform_graph_path  # as TFX's Trainer calls the same
    job = Job.of(fn_args)
    tune = TuneConfig.model_validate_json(fn_args.custom_config["tune"])
    # TFX's own folder for temporary files, which whoever runs the component removes, however it ends
    return TunerFnResult(tuner=Tuner(job, tune, Path(fn_args.working_dir)), fit_kwargs={})


class Best(keras_tuner.HyperParameters):
    """The best hyperparameters, in whose file the trials are written too."""

    def __init__(self, found: keras_tuner.HyperParameters, tuned: dict[str, Any]) -> None:
        super().__init__()
        self._found, self._tuned = found, tuned

    def get_config(self) -> dict[str, Any]:
        """KerasTuner's own keys, and `headrace`."""
        return {**self._found.get_config(), "headrace": self._tuned}


class Tuner(base_tuner.BaseTuner):
    """Runs the trials, one after the other, in this process."""

    def __init__(self, job: Job, tune: TuneConfig, directory: Path) -> None:
        self.job, self.tune, self.choice = job, tune, choose(job.sections.train, look())
        if self.choice.strategy == "multi_worker":  # the others would wait for the end of the first trial
            raise TrainingError(f"train.strategy: {ONE_MACHINE}")
        self.epochs = tune.epochs or job.sections.train.epochs
        self.metric = "loss" if tune.objective == "auto" else tune.objective
        self.better_is_higher = HIGHER_IS_BETTER[job.sections.label.kind][self.metric]
        self.done: list[Trial] = []
        self.finished = Finished.of(job)
        super().__init__(self._oracle(), directory=str(directory), project_name="search", overwrite=True)
        self.oracle.verbose = 0

    @property
    def found(self) -> Search:
        """The trials until now."""
        return Search(self.tune.algorithm, self.metric, self.better_is_higher, tuple(self.done))

    def run_trial(self, trial: Any, *_: Any, **__: Any) -> dict[str, float]:
        """Train with the trial's values. Raises FailedTrialError where the training fails or ends without a number, and
        FatalError where it was asked to end.
        """
        hyperparameters = trial.hyperparameters.values
        chosen = values(hyperparameters)
        epochs = int(hyperparameters.get("tuner/epochs", self.epochs))
        if (known := self.finished.take(chosen, epochs)) and known.score is not None:
            self.done.append(dataclasses.replace(known, number=len(self.done) + 1))
            self._tell(self.done[-1], "; trained before the search was interrupted")
            return {self.oracle.objective.name: known.score}
        began, score, failure = time.perf_counter(), None, ""
        try:
            score = self._train(chosen, epochs, Path(self.get_trial_dir(trial.trial_id)) / "run")
        except TrainingStoppedError as error:
            raise FatalError(str(error)) from error  # all else KerasTuner takes for a failed trial
        except TrainingError as error:
            failure = str(error)
        except Exception as error:  # these values do not go, or the user's own code has a mistake
            write_traceback(error)
            failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - began
        self.done.append(Trial(len(self.done) + 1, chosen, epochs, seconds, score, failure))
        self._tell(self.done[-1])
        self.finished.add(self.done[-1])
        if score is None:
            raise FailedTrialError(failure)
        return {self.oracle.objective.name: score}

    def on_search_end(self) -> None:
        """Tell the table. Raises TrainingError if no trial succeeded."""
        self.oracle.max_trials = len(self.done)  # TFX asks for so many of the best; None would end in an error there
        search = self.found
        print(f"\n{search.table()}\n", flush=True)
        if search.best is None:
            raise TrainingError(f"tune: every trial failed; the first: {self.done[0].failure if self.done else 'none'}")
        self.finished.clear()

    def get_best_hyperparameters(self, num_trials: int = 1) -> list[keras_tuner.HyperParameters]:
        """What TFX writes for the Trainer: those of the best trial."""
        search = self.found
        assert search.best is not None  # noqa: S101 - the search has ended
        told = {"values": search.best.values, "search": search.to_plain()}
        return [Best(found, told) for found in super().get_best_hyperparameters(num_trials)]

    def results_summary(self, num_trials: int = 10) -> None:
        """The table was told when the search ended."""

    def search_space_summary(self, extended: bool = False) -> None:  # noqa: ARG002
        """What is searched, in a line for each parameter."""
        for name, parameter in self.tune.parameters.items():
            print(f"tune: {name}: {parameter.model_dump_json(exclude_defaults=True)}")

    def _train(self, chosen: dict[str, Any], epochs: int, directory: Path) -> float:
        """The objective in the best epoch."""
        sections = self.job.sections.tuned({**chosen, "train.epochs": epochs})
        config = {**self.job.custom_config, "config": sections.to_json()}
        job = dataclasses.replace(self.job, custom_config=config, model_run_dir=str(directory), base_model=None)
        keras.backend.clear_session()
        try:
            _run(job, self.choice)
        except TrainingStoppedError:
            raise
        except Exception:
            _forget(job)
            raise
        _forget(job)
        history = json.loads((directory / FILE).read_text(encoding="utf-8"))
        scores = [epoch["metrics"][f"val_{self.metric}"] for epoch in history["epochs"]]
        finite = [score for score in scores if math.isfinite(score)]
        if len(finite) < len(scores) or not scores:
            raise TrainingError(f"val_{self.metric} is not a number")
        return max(finite) if self.better_is_higher else min(finite)

    def _tell(self, trial: Trial, more: str = "") -> None:
        told = ", ".join(f"{name}: {in_words(value)}" for name, value in trial.values.items())
        result = f"failed: {trial.failure}" if trial.score is None else f"{self.metric} {trial.score:.5f}"
        print(f"trial {trial.number} ({trial.seconds:.1f} s): {result} with {told}{more}", flush=True)

    def _oracle(self) -> keras_tuner.Oracle:
        """What chooses the values."""
        oracles = keras_tuner.oracles
        direction = "max" if self.better_is_higher else "min"
        common: dict[str, Any] = {
            "objective": keras_tuner.Objective(f"val_{self.metric}", direction),
            "hyperparameters": space(self.tune.parameters, self.job.sections),
            "seed": self.tune.seed + 1,  # KerasTuner takes 0 for none
            "max_consecutive_failed_trials": 1_000_000,  # all of them failing is told by us
        }
        if self.tune.algorithm == "hyperband":
            oracle = oracles.HyperbandOracle(max_epochs=self.epochs, **common)
            oracle.max_trials = self.tune.max_trials
            return oracle
        kind = oracles.RandomSearchOracle if self.tune.algorithm == "random" else oracles.BayesianOptimizationOracle
        return kind(max_trials=self.tune.max_trials or TRIALS, **common)


def _forget(job: Job) -> None:
    """Remove the checkpoints of a trial that is done."""
    if kept := checkpoints(job):
        kept.clear()


def _run(job: Job, choice: Choice) -> None:
    if choice.distributed:
        launch(job)
        return
    with out_of_memory_told(job.sections.train), retracing_untold():
        train(job, choice)
