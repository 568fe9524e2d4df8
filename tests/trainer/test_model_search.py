"""`model.kind: auto`: the search against trainings of its candidates alone, its time, and what survives a kill."""

from __future__ import annotations

import gzip
import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given
from hypothesis import strategies as st
from trainings import train_alone

from headrace.common.errors import TrainingError
from headrace.configs.rules.trees import why_no_trees
from headrace.configs.schema.auto_model import AutoModel
from headrace.configs.schema.trees_model import TreesModel
from headrace.trainer.description import ModelDescription
from headrace.trainer.devices.strategy import StrategyChoice, choose_strategy, detect_hardware, set_up
from headrace.trainer.job import Job
from headrace.trainer.model_search import search
from headrace.trainer.model_search.choice import Candidate, ModelChoice, choose
from headrace.trainer.run import run_fn
from headrace.trainer.sections import TrainerSections
from headrace.trainer.training import plan
from headrace.trainer.trees import examples

Prepare = Callable[[str], Any]
pytestmark = pytest.mark.usefixtures("as_they_are")
TRAIN = {"epochs": 3, "jit": "off", "checkpoint": {"every_steps": 8}, "steps_per_execution": 8}
CANDIDATES = ["linear", "wide_and_deep", "tabm"]


def arguments(
    data: Any, folder: Path, candidates: list[str], train: dict[str, Any] | None = None, **auto: Any
) -> SimpleNamespace:
    """Those of `run_fn` for a search, with checkpoints next to the folder."""
    model = {"kind": "auto", "candidates": candidates, **auto}
    fn_args: SimpleNamespace = data.fn_args(folder, model, **TRAIN, **(train or {}))
    fn_args.custom_config["checkpoints"] = str(folder / "checkpoints")
    return fn_args


def weights(folder: Path) -> list[np.ndarray]:
    """The best weights of a training, in the order of their names."""
    import h5py

    found: list[np.ndarray] = []
    with h5py.File(folder / "run" / "best.weights.h5") as file:
        file.visititems(lambda _, item: found.append(item[...]) if isinstance(item, h5py.Dataset) else None)
    return found


def best_loss(record: dict[str, Any]) -> float:
    return min(epoch["metrics"]["val_loss"] for epoch in record["epochs"])


@pytest.mark.slow
def test_search_exports_what_a_config_with_the_chosen_kind_trains(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")
    fn_args = arguments(data, tmp_path / "auto", CANDIDATES)
    run_fn(fn_args)
    choice = ModelChoice.read(tmp_path / "auto" / "run")
    alone = {}
    for name in CANDIDATES:
        of_kind = {"kind": name}
        alone[name] = best_loss(train_alone(data.fn_args(tmp_path / name, of_kind, **TRAIN)))
    scores = {trial.values["model.kind"]: trial.score for trial in choice.search.trials}
    assert scores == pytest.approx(alone, abs=1e-6)
    best = choice.model["kind"]
    assert best == CANDIDATES[0] or alone[best] == min(alone.values())
    assert choice.model == {"kind": best, "hidden": [16, 8]}
    for ours, theirs in zip(weights(tmp_path / "auto"), weights(tmp_path / best), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    record = json.loads((tmp_path / "auto" / "run" / "training.json").read_text())
    assert record["chosen"]["model"].startswith(f"{best}, hidden: [16, 8], of 3 candidates, in ")
    assert len(record["epochs"]) == 3
    assert ModelDescription.read(Path(fn_args.serving_model_dir)).model == choice.model
    assert not list((tmp_path / "auto" / "checkpoints").iterdir())


class Died(BaseException):
    """What a process that is killed leaves behind: nothing but its checkpoints."""


class Clock:
    """A second passes whenever it is asked; at some second the process dies."""

    def __init__(self, dies: int | None = None) -> None:
        self.now, self.dies = 0, dies

    def __call__(self) -> float:
        self.now += 1
        if self.now == self.dies:
            raise Died
        return self.now


def of(fn_args: SimpleNamespace, clock: Clock | None = None) -> search.ModelSearch:
    job = Job.of(fn_args)
    assert isinstance(job.sections.model, AutoModel)
    choice = choose_strategy(job.sections.train, detect_hardware())
    inputs = plan(job, choice).reading_once()
    return search.ModelSearch(job, job.sections.model, choice, set_up(choice), inputs, clock or Clock())


@pytest.mark.slow
def test_the_better_half_goes_on_when_time_is_short(
    prepared: Prepare, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    """An epoch has 4 executions, at the end of each of which the clock is asked. So 2 seconds are half an epoch."""
    fn_args = arguments(prepared("binary"), tmp_path, ["linear", "dnn", "wide_and_deep", "dcn"], seconds=16)
    made = of(fn_args)
    found = made.run()
    trials = {trial.values["model.kind"]: trial for trial in found.search.trials}
    rounds = [message for message in log.messages if "has an eval loss of" in message]
    halves = {message.split()[1]: float(message.split()[7].rstrip(",")) for message in rounds[:4]}
    assert all("and 0 epochs so far" in message for message in rounds[:4])
    goes_on = sorted(halves, key=lambda name: halves[name])[:2]
    assert [message.split()[1] for message in rounds[4:]] == goes_on
    assert found.model["kind"] in goes_on
    for name in halves.keys() - goes_on:
        assert trials[name].score == pytest.approx(halves[name], abs=1e-4)
    log.clear()
    keras.utils.set_random_seed(5)  # whatever happened in between
    made.train_chosen(found)
    assert "checkpoint: resuming from " in log.text
    train_alone(prepared("binary").fn_args(tmp_path / "alone", {"kind": found.model["kind"]}, **TRAIN))
    for ours, theirs in zip(weights(tmp_path), weights(tmp_path / "alone"), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.slow
def test_killed_search_continues_with_the_candidate_that_it_was_at(
    prepared: Prepare, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    data, candidates = prepared("regression"), ["linear", "dnn"]
    undisturbed = of(arguments(data, tmp_path / "a", candidates, seconds=1000)).run()
    with pytest.raises(Died):
        of(arguments(data, tmp_path / "b", candidates, seconds=1000), Clock(dies=21)).run()
    log.clear()
    again = of(arguments(data, tmp_path / "b", candidates, seconds=1000))
    found = again.run()
    assert "interrupted continues with dnn" in log.text
    assert "epoch 2, 16 of its batches done" in log.text
    assert log.text.count("has an eval loss of") == 1
    assert found.model == undisturbed.model
    scores = [[trial.score for trial in one.search.trials] for one in (found, undisturbed)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    log.clear()
    assert again.run() == found
    assert "a search that was interrupted is over" in log.text
    assert "epoch" not in log.text
    again.train_chosen(found)  # which had been trained to its end
    record = json.loads((tmp_path / "b" / "run" / "training.json").read_text())
    assert record["chosen"]["model"] == found.words
    assert found.search.best is not None
    assert best_loss(record) == found.search.best.score


@pytest.mark.slow
def test_candidate_that_cannot_be_trained_is_left_out(prepared: Prepare, tmp_path: Path) -> None:
    found = of(arguments(prepared("regression"), tmp_path, ["tabm", "linear"], activation="no_such")).run()
    assert "no_such" in found.search.trials[1].failure
    assert found.search.trials[1].score is None
    assert found.model["kind"] == "linear"


STEADY = {"checkpoint": {"every_steps": 8}}
"""Settings of `train:` with which trees may be grown too."""


def searched(data: Any, folder: Path, candidates: list[str], **auto: Any) -> SimpleNamespace:
    """Like `arguments`, where the config allows trees."""
    model = {"kind": "auto", "candidates": candidates, **auto}
    fn_args: SimpleNamespace = data.fn_args(folder, model)
    plain = json.loads(fn_args.custom_config["config"])
    fn_args.custom_config["config"] = json.dumps({**plain, "train": STEADY})
    fn_args.custom_config["checkpoints"] = str(folder / "checkpoints")
    return fn_args


def grown_alone(data: Any, folder: Path) -> dict[str, Any]:
    """The record of trees that a config with their kind grows."""
    fn_args = searched(data, folder, CANDIDATES)
    plain = json.loads(fn_args.custom_config["config"])
    fn_args.custom_config["config"] = json.dumps({**plain, "model": {"kind": "trees"}, "train": {}})
    return train_alone(fn_args)


@pytest.mark.slow
def test_trees_in_parts_are_those_of_a_config_with_trees(
    prepared: Prepare, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    """Each iteration takes a second. So half of 60 seconds are 30 iterations; the other candidate cannot be built."""
    data = prepared("regression")
    fn_args = searched(data, tmp_path / "auto", ["dnn", "trees"], seconds=60, activation="no_such")
    made = of(fn_args)
    found = made.run()
    assert log.messages[0] == "model: searching among trees, dnn for 60 s"
    trials = {trial.values["model.kind"]: trial for trial in found.search.trials}
    assert 0 < trials["trees"].epochs < 60
    assert found.model == {"kind": "trees"}
    log.clear()
    made.train_chosen(found)
    assert f"resuming from {tmp_path}" in log.text
    alone = grown_alone(data, tmp_path / "alone")
    record = json.loads((tmp_path / "auto" / "run" / "training.json").read_text())
    losses = [[epoch["metrics"] for epoch in each["epochs"]] for each in (record, alone)]
    assert losses[0] == losses[1]
    assert trials["trees"].score == min(each["val_loss"] for each in losses[1][: trials["trees"].epochs])
    assert record["chosen"]["model"] == found.words
    for ours, theirs in zip(weights(tmp_path / "auto"), weights(tmp_path / "alone"), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_search_killed_while_trees_grow_continues_with_them(
    prepared: Prepare, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    data, candidates = prepared("binary"), ["trees", "linear"]
    undisturbed = of(searched(data, tmp_path / "a", candidates, seconds=5000)).run()
    linear = next(trial for trial in undisturbed.search.trials if trial.values["model.kind"] == "linear")
    with pytest.raises(Died):
        of(searched(data, tmp_path / "b", candidates, seconds=5000), Clock(dies=int(linear.seconds) + 20)).run()
    log.clear()
    found = of(searched(data, tmp_path / "b", candidates, seconds=5000)).run()
    assert "interrupted continues with trees" in log.text
    assert found.model == undisturbed.model
    assert [trial.score for trial in found.search.trials] == [trial.score for trial in undisturbed.search.trials]


def test_trees_are_left_out_with_the_reason_where_a_config_with_them_is_refused(
    prepared: Prepare, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    made = of(arguments(prepared("regression"), tmp_path, ["trees", "linear"]))
    race, _ = made._begin()  # what is tried
    assert [race.candidates[number].name for number in race.waiting] == ["linear"]
    (left_out,) = [one for one in race.candidates.values() if one.left_out]
    assert left_out.name == "trees"
    for setting in ("train.epochs", "train.steps_per_execution", "train.jit"):
        assert f"would ignore `{setting}`" in left_out.failure
    assert "checkpoint" not in left_out.failure
    assert f"model: trees is left out: {left_out.failure}" in log.messages
    found = made.run()
    assert found.model["kind"] == "linear"
    assert found.search.failed == 0
    assert found.search.tried == 1
    assert "left out" in found.search.table()
    assert ", of 1 candidate, in " in found.words


@pytest.mark.parametrize(
    ("features", "label", "train", "reasons"),
    [
        ({"a": {"column": "numeric"}, "b": {"column": "vocabulary"}}, {"kind": "binary"}, {}, []),
        ({"a": {"column": "text"}}, {"kind": "binary"}, {}, ["features.a.column: "]),
        ({"a": {"column": "vocabulary", "multivalued": True}}, {"kind": "binary"}, {}, ["features.a.multivalued: "]),
        ({"a": {"column": "numeric"}}, {"kind": "multilabel", "classes": ["x", "y"]}, {}, ["is multilabel"]),
        ({"a": {"column": "numeric"}}, {"kind": "binary"}, {"strategy": "one_gpu"}, ["not with `one_gpu`"]),
        (
            {"a": {"column": "text"}},
            {"kind": "binary"},
            {"batch_size": 8, "input": {"cache": "disk"}, "seed": 3},
            ["features.a.column: ", "`train.batch_size`", "`train.input.cache`"],
        ),
    ],
)
def test_reasons_against_trees_name_their_settings(
    features: dict[str, Any], label: dict[str, Any], train: dict[str, Any], reasons: list[str]
) -> None:
    content = {"label": {"key": "y", **label}, "features": features, "train": train}
    sections = TrainerSections.from_json(json.dumps(content))
    found = why_no_trees(sections.label, sections.features, sections.train)
    assert bool(found) == bool(reasons)
    assert found.count("; ") == max(len(reasons) - 1, 0)
    assert [reason for reason in reasons if reason not in found] == []


def test_trees_among_the_candidates_count_for_the_digest_and_do_not_take_layers() -> None:
    auto = AutoModel(kind="auto", hidden=(7,), candidates=("tabm", "trees", "linear"))
    assert auto.model("trees") == TreesModel(kind="trees")
    assert auto.model("tabm").hidden == (7,)
    assert auto.cheapest_first == ["linear", "trees", "tabm"]
    assert auto.libraries() == ["lightgbm"]
    assert AutoModel(kind="auto", candidates=("tabm", "linear")).libraries() == []


def test_trees_are_left_out_of_a_training_over_several_devices(prepared: Prepare, tmp_path: Path) -> None:
    made = of(searched(prepared("binary"), tmp_path, ["linear", "trees"]))
    made.choice = StrategyChoice("mirrored", "two GPUs")
    assert "not with `mirrored`" in made._candidate("trees").failure
    assert made._candidate("linear").open


def test_trees_that_do_not_fit_in_memory_do_not_stop_the_search(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples, "free_memory", lambda: 1000)
    made = of(searched(prepared("binary"), tmp_path, ["trees", "linear"], seconds=4))
    found = made.run()
    (trees,) = [trial for trial in found.search.trials if trial.values["model.kind"] == "trees"]
    assert "1.0 kB are free" in trees.failure
    assert found.model["kind"] == "linear"


@given(
    losses=st.lists(st.lists(st.floats(0, 1, width=32), min_size=30, max_size=30), min_size=2, max_size=4),
    order=st.permutations(["linear", "trees", "dnn", "tabm"]),
)
def test_the_first_within_a_standard_error_of_the_lowest_loss_is_chosen(
    losses: list[list[float]], order: list[str]
) -> None:
    names = ["linear", "trees", "dnn", "tabm"][: len(losses)]
    candidates = {
        number: Candidate(name, loss=statistics.fmean(each))
        for number, (name, each) in enumerate(zip(names, losses, strict=True), 1)
    }
    chosen = choose(candidates, {n: np.array(each, np.float32) for n, each in enumerate(losses, 1)}, order)
    assert losses[chosen.lowest - 1] in [
        each for each in losses if statistics.fmean(each) == min(map(statistics.fmean, losses))
    ]
    lowest = losses[chosen.lowest - 1]
    within = []
    for name in order:
        if name in names:
            paired = [a - b for a, b in zip(losses[names.index(name)], lowest, strict=True)]
            error = statistics.stdev(paired) / len(paired) ** 0.5
            margin = statistics.fmean(paired) - error
            assume(not paired or abs(margin) > 1e-6 or not any(paired))
            within += [name] if margin <= 0 else []
    assert candidates[chosen.number].name == within[0]


def test_a_choice_from_one_example_is_the_first() -> None:
    candidates = {1: Candidate("linear", loss=1.0), 2: Candidate("tabm", loss=0.0)}
    losses = {1: np.array([1], np.float32), 2: np.array([0], np.float32)}
    assert choose(candidates, losses, ["linear", "tabm"]).number == 1
    assert choose(candidates, losses, ["tabm", "linear"]).number == 2


def in_the_way(made: search.ModelSearch) -> None:
    """Let no checkpoint of the second candidate be written."""
    file = made.folder.part(2).folder
    file.parent.mkdir()
    file.write_text("a file")


def damaged(made: search.ModelSearch) -> None:
    """Cut a file off, within the last of its records, that each epoch reads."""
    file = min(Path(made.job.train_files[0]).parent.iterdir())
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes())[:-1]))


@pytest.mark.parametrize(
    ("spoil", "hidden", "reason"),
    [
        (in_the_way, [4], r"^the checkpoint in \S+ .*written: .*Free disk space"),
        (damaged, [4], r"^\S+ is damaged after [\d,]+ intact records"),
        (
            lambda _: None,
            [1 << 20, 1 << 28],
            r"^the memory .*not sufficient.*leave dnn out of `model\.candidates`$",
        ),
    ],
    ids=["disk", "data", "memory"],
)
def test_what_is_no_fault_of_a_candidate_stops_the_search_with_its_reason(
    prepared: Prepare, tmp_path: Path, spoil: Callable[[search.ModelSearch], object], hidden: list[int], reason: str
) -> None:
    data = prepared("binary")
    fn_args = arguments(data, tmp_path, ["linear", "dnn"], {"input": {"cache": "none"}}, hidden=hidden)
    copy = shutil.copytree(Path(data.patterns["train"]).parent, tmp_path / "train")
    fn_args.train_files = [str(copy / "*")]
    made = of(fn_args)
    spoil(made)
    with pytest.raises(TrainingError, match=reason):
        made.run()


def test_search_without_a_candidate_says_why(prepared: Prepare, tmp_path: Path) -> None:
    fn_args = arguments(prepared("binary"), tmp_path, ["dnn", "dcn"], activation="no_such")
    with pytest.raises(TrainingError, match=r"no candidate .*; the first: .*no_such"):
        train_alone(fn_args)


def test_search_over_the_workers_of_a_cluster_is_refused(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fn_args = arguments(prepared("binary"), tmp_path, CANDIDATES)
    workers = StrategyChoice("multi_worker", "two workers")
    auto = Job.of(fn_args).sections.model
    assert isinstance(auto, AutoModel)
    with pytest.raises(TrainingError, match=r"`kind: auto` .*`train\.strategy: multi_worker`"):
        search.train_best(Job.of(fn_args), auto, workers, tf.distribute.get_strategy())
