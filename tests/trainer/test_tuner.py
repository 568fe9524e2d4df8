"""The stock Tuner executor over real trainings: trials, failures, the best values, and how they reach the Trainer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from keras_tuner.errors import FatalError
from tfx.components.tuner import executor
from tfx.dsl.components.base import base_executor
from tfx.types import standard_artifacts

from configs.errors import TrainingError, TrainingStoppedError
from configs.tune import TuneConfig
from trainer import run
from trainer.job import Job
from trainer.tuning.trials import Search

Prepare = Callable[[str], Any]
RATES = {"train.learning_rate": {"choices": [0.00001, 0.02]}, "model.hidden": {"choices": [[4], [16, 8]]}}


def artifact(kind: Any, folder: Path) -> Any:
    made = kind()
    made.uri = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return made


def search(data: Any, folder: Path, **tune: Any) -> dict[str, Any]:
    """Run TFX's executor; the hyperparameters that it writes for the Trainer."""
    settings = TuneConfig.model_validate_json(json.dumps({"epochs": 2, "parameters": RATES, **tune}))
    config = {"config": data.sections(epochs=2).to_json(), "tune": settings.model_dump_json()}
    config["checkpoints"] = str(folder.parent / "checkpoints")
    examples = artifact(standard_artifacts.Examples, Path(data.patterns["train"]).parents[1])
    examples.split_names = '["train", "eval"]'
    graph = artifact(standard_artifacts.TransformGraph, Path(data.output.transform_savedmodel_dir).parent)
    outputs = {
        "best_hyperparameters": [artifact(standard_artifacts.HyperParameters, folder / "best")],
        "tuner_results": [artifact(standard_artifacts.TunerResults, folder / "results")],
    }
    properties = {"tuner_fn": "trainer.tuning.tuner.tuner_fn", "custom_config": json.dumps(config)}
    properties |= {"train_args": "{}", "eval_args": "{}"}
    context = base_executor.BaseExecutor.Context(tmp_dir=str(folder), unique_id="1")
    executor.Executor(context).Do({"examples": [examples], "transform_graph": [graph]}, outputs, properties)
    assert json.loads((folder / "results" / "tuner_results.json").read_text())
    return dict(json.loads((folder / "best" / "best_hyperparameters.txt").read_text()))


def trials(found: dict[str, Any]) -> Search:
    return Search.from_plain(found["headrace"]["search"])


@pytest.mark.slow
def test_search_finds_the_better_values_the_same_ones_with_the_same_seed(
    prepared: Prepare, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = search(prepared("binary"), tmp_path / "a", max_trials=4)
    log = capfd.readouterr().out
    told = trials(first)
    assert [trial.number for trial in told.trials] == [1, 2, 3, 4]
    assert len({json.dumps(trial.values) for trial in told.trials}) == 4
    assert told.best is not None
    assert told.best.score == min(trial.score or 9 for trial in told.trials)
    assert first["headrace"]["values"] == told.best.values
    assert told.best.values["train.learning_rate"] == 0.02
    assert "trial     loss  seconds  epochs  train.learning_rate  model.hidden" in log
    second = trials(search(prepared("binary"), tmp_path / "b", max_trials=4))
    assert [trial.values for trial in second.trials] == [trial.values for trial in told.trials]
    assert [trial.score for trial in second.trials] == pytest.approx([trial.score for trial in told.trials], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["bayesian", "hyperband"])
def test_other_algorithms_run_to_their_end(prepared: Prepare, tmp_path: Path, algorithm: str) -> None:
    many = {"max_trials": 3} if algorithm == "bayesian" else {"epochs": 3}
    parameters = {
        "train.learning_rate": {"min": 0.001, "max": 0.1, "scale": "log"},
        "model.dropout": {"min": 0, "max": 0.4},
    }
    found = trials(
        search(prepared("binary"), tmp_path, algorithm=algorithm, objective="auc", parameters=parameters, **many)
    )
    assert found.higher_is_better
    assert found.best is not None
    assert found.best.score == max(trial.score or 0 for trial in found.trials)
    assert found.best.score > 0.6
    if algorithm == "hyperband":
        assert {trial.epochs for trial in found.trials} == {1, 3}


@pytest.mark.slow
def test_trial_without_a_number_fails_and_the_others_count(prepared: Prepare, tmp_path: Path) -> None:
    parameters = {"train.learning_rate": {"choices": [1e30, 0.02]}, "train.optimizer": {"choices": ["sgd", "adam"]}}
    found = trials(search(prepared("regression"), tmp_path, max_trials=4, parameters=parameters))
    failed = [trial for trial in found.trials if trial.score is None]
    assert {trial.values["train.learning_rate"] for trial in failed} == {1e30}
    assert all("nan" in trial.failure.lower() or "not a number" in trial.failure for trial in failed)
    assert found.best is not None
    assert found.best.values["train.learning_rate"] == 0.02


def test_search_over_the_workers_of_a_cluster_is_refused(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    with pytest.raises(TrainingError, match="multi_worker trains once, and `tune` trains many times"):
        search(prepared("binary"), tmp_path)


def test_search_of_failures_alone_says_why(prepared: Prepare, tmp_path: Path) -> None:
    parameters = {"train.learning_rate": {"choices": [1e30, 1e31]}, "train.optimizer": {"choices": ["sgd"]}}
    with pytest.raises(TrainingError, match="tune: every trial failed; the first: "):
        search(prepared("regression"), tmp_path, max_trials=2, parameters=parameters)


def test_trial_that_fails_in_another_way_counts_as_failed_with_its_reason(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "OOM when allocating tensor with shape[4,16] and type float on /device:GPU:0 by allocator"
    reasons = [tf.errors.ResourceExhaustedError(None, None, full), ValueError("no such thing")]
    real = run.train

    def train(*args: Any) -> Any:
        if reasons:
            raise reasons.pop(0)
        return real(*args)

    monkeypatch.setattr(run, "train", train)  # TFX imports the tuner anew
    found = trials(search(prepared("binary"), tmp_path, max_trials=3))
    assert "[4,16]" in found.trials[0].failure
    assert "train.batch_size" in found.trials[0].failure
    assert found.trials[1].failure == "ValueError: no such thing"
    assert found.best == found.trials[2]


def test_search_ends_with_the_trial_that_is_asked_to(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def train(*_: Any) -> None:
        made.append(1)
        raise TrainingStoppedError("training was stopped by SIGTERM")

    monkeypatch.setattr(run, "train", train)  # TFX imports the tuner anew
    with pytest.raises(FatalError, match="stopped by SIGTERM") as told:
        search(prepared("binary"), tmp_path, max_trials=3)
    assert isinstance(told.value.__cause__, TrainingStoppedError)
    assert len(made) == 1


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["random", "bayesian"])
def test_interrupted_search_goes_on_with_the_trials_that_it_had_finished(
    prepared: Prepare,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    algorithm: str,
) -> None:
    real, made = run.train, []

    def train(job: Job, choice: Any) -> Any:
        made.append(job.sections.train.learning_rate)
        if len(made) == 4:
            raise TrainingStoppedError("training was stopped by SIGTERM")
        return real(job, choice)

    monkeypatch.setattr(run, "train", train)  # TFX imports the tuner anew
    rates = {"train.learning_rate": {"min": 0.001, "max": 0.05, "scale": "log"}}
    settings = {"max_trials": 5, "algorithm": algorithm, "parameters": rates, "epochs": 1}
    with pytest.raises(FatalError):
        search(prepared("binary"), tmp_path / "first", **settings)
    capfd.readouterr()
    found = trials(search(prepared("binary"), tmp_path / "second", **settings))
    assert made[4:] == [made[3], made[5]]  # the one that was interrupted, and the last
    assert [trial.values["train.learning_rate"] for trial in found.trials] == [*made[:3], *made[4:]]
    assert capfd.readouterr().out.count("; trained before the search was interrupted") == 3
    assert not list((tmp_path / "checkpoints").glob("*"))


@pytest.mark.slow
def test_trainer_takes_the_best_values_and_records_where_they_came_from(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")
    best = {"number": 1, "values": {"train.learning_rate": 0.02, "model.hidden": [5]}, "epochs": 2, "seconds": 1.5}
    told = Search.from_plain(
        {"algorithm": "random", "objective": "loss", "higher_is_better": False, "trials": [{**best, "score": 0.25}]}
    )
    fn_args = data.fn_args(tmp_path, epochs=1)
    fn_args.hyperparameters = {"values": {}, "headrace": {"values": best["values"], "search": told.to_plain()}}
    assert Job.of(fn_args).sections.model.hidden == (5,)
    run.run_fn(fn_args)
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    words = "train.learning_rate: 0.02, model.hidden: [5] (trial 1 of 1, random: val_loss 0.25000)"
    assert record["chosen"]["tuned"] == words
