"""The stock Tuner executor over real trainings: trials, failures, the best values, and how they reach the Trainer."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forks
import pytest
import tensorflow as tf
from keras_tuner.errors import FatalError
from trainings import train_alone
from tuner_program import do

from headrace.common.errors import TrainingError, TrainingStoppedError
from headrace.configs.schema.tune import TuneConfig
from headrace.trainer import run
from headrace.trainer.job import Job
from headrace.trainer.profiling.facts import ProfileFacts
from headrace.trainer.training import without_retracing_warnings
from headrace.trainer.trials import Search

Prepare = Callable[[str], Any]
pytestmark = pytest.mark.usefixtures("as_they_are")
RATES = {"train.learning_rate": {"choices": [0.00001, 0.02]}, "model.hidden": {"choices": [[4], [16, 8]]}}
RATES_OF_ONE_MODEL = {**RATES, "model.hidden": {"choices": [[4]]}}


def executor_properties(data: Any, folder: Path, batch_size: int | str = 64, **tune: Any) -> dict[str, Any]:
    """The executor's properties for a search; its checkpoints are next to the folder."""
    settings = TuneConfig.model_validate_json(json.dumps({"epochs": 2, "parameters": RATES, **tune}))
    # `jit: auto` tries XLA where a busy machine makes steps last long, and XLA draws other masks of dropout.
    train = {"epochs": 2, "steps_per_execution": 4, "checkpoint": {"every_steps": 8}, "jit": "off"}
    config = {"config": data.sections(batch_size=batch_size, **train).to_json(), "tune": settings.model_dump_json()}
    return {
        "examples": str(Path(data.patterns["train"]).parents[1]),
        "graph": str(Path(data.output.transform_savedmodel_dir).parent),
        "folder": str(folder),
        "config": {**config, "checkpoints": str(folder.parent / "checkpoints")},
    }


def search(data: Any, folder: Path, **tune: Any) -> dict[str, Any]:
    """Run TFX's executor; the hyperparameters that it writes for the Trainer."""
    do(**executor_properties(data, folder, **tune))
    assert json.loads((folder / "results" / "tuner_results.json").read_text())
    return dict(json.loads((folder / "best" / "best_hyperparameters.txt").read_text()))


def killed(data: Any, folder: Path, where: tuple[int, int, str], **tune: Any) -> str:
    """Run it in a process of its own that is ended there (trial, batch, signal); what it said."""
    folder.mkdir(parents=True)
    (folder / "search.json").write_text(json.dumps(executor_properties(data, folder, **tune)))
    program = str(Path(__file__).with_name("tuner_program.py"))
    command = [sys.executable, program, str(folder / "search.json"), *map(str, where)]
    done = forks.run(
        command, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    )  # where the data's module is
    assert done.returncode != 0
    return done.stdout + done.stderr


def trials(found: dict[str, Any]) -> Search:
    return Search.from_plain(found["headrace"]["search"])


@pytest.mark.slow
def test_search_finds_the_better_values(prepared: Prepare, tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    first = search(prepared("binary"), tmp_path / "a", batch_size="auto", max_trials=2, parameters=RATES_OF_ONE_MODEL)
    found = trials(first)
    assert [trial.number for trial in found.trials] == [1, 2]
    assert len({json.dumps(trial.values) for trial in found.trials}) == 2
    assert found.best is not None
    assert found.best.score == min(trial.score or 9 for trial in found.trials)
    assert first["headrace"]["values"] == found.best.values
    assert found.best.values["train.learning_rate"] == 0.02
    assert "trial     loss  seconds  epochs  train.learning_rate  model.hidden" in log.text
    assert "tune: batch_size: 32: auto, for 2,000 examples" in log.messages


@pytest.mark.slow
def test_a_search_of_the_default_model_tries_the_kind_that_the_trainer_trains(
    prepared: Prepare, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    data = prepared("binary")
    properties = executor_properties(data, tmp_path / "a", max_trials=2, epochs=1)
    fn_args = data.table_args(tmp_path / "b", epochs=1)
    properties["config"]["config"] = fn_args.custom_config["config"]
    do(**properties)
    assert "tune: model: tabm: auto, for 2,000 examples" in log.messages
    found = json.loads((tmp_path / "a" / "best" / "best_hyperparameters.txt").read_text())
    fn_args.hyperparameters = found
    record = train_alone(fn_args)
    assert record["chosen"]["model"] == "tabm: auto, for 2,000 examples"
    best = trials(found).best
    assert best is not None
    assert record["epochs"][0]["metrics"]["val_loss"] == pytest.approx(best.score, rel=1e-4)


def test_a_search_is_not_advised_against_tracing_each_trials_graph(caplog: pytest.LogCaptureFixture) -> None:
    def trace() -> None:
        for _ in range(6):  # TensorFlow speaks up from the fifth on
            tf.function(lambda x: x + 1)(tf.constant(1))

    def trace_too() -> None:
        for _ in range(6):
            tf.function(lambda x: x + 2)(tf.constant(1))

    with caplog.at_level(logging.WARNING, "tensorflow"):
        with without_retracing_warnings():
            trace()
        assert "retracing" not in caplog.text
        trace_too()
        assert "retracing" in caplog.text


PARAMETERS = {
    "train.learning_rate": {"min": 0.001, "max": 0.1, "scale": "log"},
    "model.dropout": {"min": 0, "max": 0.4},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "many", "where", "place"),
    [
        ("random", {"max_trials": 3, "epochs": 1}, (2, 12, "SIGTERM"), "epoch 1, 16"),
        (
            "bayesian",
            {"max_trials": 4, "epochs": 1},
            (4, 8, "SIGKILL"),
            "epoch 1, 8",
        ),  # the first that the others decide
        (
            "hyperband",
            {"max_trials": 5, "epochs": 3},
            (4, 40, "SIGKILL"),
            "epoch 2, 8",
        ),  # the first that continues, in its second epoch
    ],
)
def test_killed_search_resumes_within_the_trial_and_finds_what_it_would_have(
    prepared: Prepare,
    tmp_path: Path,
    log: pytest.LogCaptureFixture,
    algorithm: str,
    many: dict[str, int],
    where: tuple[int, int, str],
    place: str,
) -> None:
    data, settings = prepared("binary"), {"algorithm": algorithm, "objective": "auc", "parameters": PARAMETERS, **many}
    alone = trials(search(data, tmp_path / "alone" / "search", **settings))
    assert alone.higher_is_better
    assert alone.best is not None
    assert alone.best.score == max(trial.score or 0 for trial in alone.trials)
    assert alone.best.score > 0.6
    if algorithm == "hyperband":
        assert {trial.epochs for trial in alone.trials} == {1, 3}
        assert alone.trials[where[0] - 1].epochs == 3

    said = killed(data, tmp_path / "killed", where, **settings)
    assert said.count("\ntrial ") == where[0] - 1
    log.clear()
    found = trials(search(data, tmp_path / "again", **settings))
    said = log.text
    assert said.count("; trained before the search was interrupted") == where[0] - 1
    assert said.count("checkpoint: resuming from ") == 1
    assert f"{place} of its batches done" in said
    assert [(trial.values, trial.epochs) for trial in found.trials] == [
        (trial.values, trial.epochs) for trial in alone.trials
    ]
    assert [trial.score for trial in found.trials] == pytest.approx([trial.score for trial in alone.trials], abs=1e-5)
    assert found.best is not None
    assert found.best.values == alone.best.values
    assert not list((tmp_path / "checkpoints").glob("*"))


@pytest.mark.slow
def test_trial_without_a_number_fails_and_the_others_count(prepared: Prepare, tmp_path: Path) -> None:
    parameters = {"train.learning_rate": {"choices": [1e30, 0.02]}, "train.optimizer": {"choices": ["adam"]}}
    found = trials(search(prepared("regression"), tmp_path, max_trials=2, parameters=parameters))
    (failed,) = (trial for trial in found.trials if trial.score is None)
    assert failed.values["train.learning_rate"] == 1e30
    assert "nan" in failed.failure.lower() or "not finite" in failed.failure
    assert found.best is not None
    assert found.best.values["train.learning_rate"] == 0.02


def test_search_over_the_workers_of_a_cluster_is_refused(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    with pytest.raises(TrainingError, match="multi_worker trains once"):
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

    monkeypatch.setattr(run, "train", train)  # TFX imports the tuner again
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

    monkeypatch.setattr(run, "train", train)  # TFX imports the tuner again
    with pytest.raises(FatalError, match="stopped by SIGTERM") as error:
        search(prepared("binary"), tmp_path, max_trials=3)
    assert isinstance(error.value.__cause__, TrainingStoppedError)
    assert len(made) == 1


@pytest.mark.slow
def test_trainer_takes_the_best_values_and_records_where_they_came_from(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")
    best = {"number": 1, "values": {"train.learning_rate": 0.02, "model.hidden": [5]}, "epochs": 2, "seconds": 1.5}
    made = Search.from_plain(
        {"algorithm": "random", "objective": "loss", "higher_is_better": False, "trials": [{**best, "score": 0.25}]}
    )
    fn_args = data.fn_args(tmp_path, epochs=1, profile={"batches": [1, 2]})
    fn_args.hyperparameters = {"values": {}, "headrace": {"values": best["values"], "search": made.to_plain()}}
    assert Job.of(fn_args).sections.model.hidden == (5,)
    record = train_alone(fn_args)
    words = "train.learning_rate: 0.02, model.hidden: [5] (trial 1 of 1, random: val_loss 0.25000)"
    assert record["chosen"]["tuned"] == words
    facts = ProfileFacts.read(tmp_path / "run")
    assert facts.train == Job.of(fn_args).sections.train  # what the profile is judged by
    assert facts.train.learning_rate == 0.02
