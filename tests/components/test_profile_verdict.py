"""The verdict on profiles of real trainings, starved and healthy, with one step in a graph or several; and the gate."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from tfx.types import standard_artifacts

from headrace.common.checksums import checksum
from headrace.common.errors import GateError
from headrace.components.profile.component import ProfileGate, ProfileVerdict, diagnose
from headrace.components.profile.result import ProfileDiagnosis
from headrace.components.profile.trace import read_trace
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.checkpointing.checkpoints import TrainingPosition
from headrace.trainer.input.inputs import Inputs
from headrace.trainer.profiling.callback import Profile, profiling
from headrace.trainer.profiling.facts import ProfileFacts
from headrace.trainer.profiling.steps import ProfileRequest

BATCH, WIDTH, STEPS = 512, 64, 48
FEATURES = np.random.default_rng(0).normal(size=(BATCH * STEPS, WIDTH)).astype(np.float32)
LABEL = FEATURES[:, :1] * 2
SLEEP = 0.03
"""Seconds that the slow map takes for a batch."""


class Profiled(NamedTuple):
    """A training with a profile."""

    model_run: Path
    verdict: ProfileDiagnosis


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(({"x": FEATURES}, LABEL)).batch(BATCH)


def healthy() -> tf.data.Dataset:
    return batches().cache().prefetch(tf.data.AUTOTUNE)


def starved() -> tf.data.Dataset:
    """A map that takes longer than a step, one batch after the other, and nothing in advance."""

    def wait() -> np.float32:
        time.sleep(SLEEP)
        return np.float32(0)

    def slow(features: dict[str, tf.Tensor], label: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        waited = tf.ensure_shape(tf.numpy_function(wait, [], tf.float32), [])
        return {"x": features["x"] + waited}, label

    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.threading.private_threadpool_size = 1
    return batches().map(slow).with_options(options)


def network() -> keras.Model:
    x = keras.Input((WIDTH,), name="x")
    hidden = keras.layers.Dense(512, activation="relu")(keras.layers.Dense(512, activation="relu")(x))
    return keras.Model({"x": x}, keras.layers.Dense(1)(hidden))


def train_with_profile(
    dataset: tf.data.Dataset, folder: Path, together: int, size: int | None, **config: Any
) -> Profiled:
    """Two epochs, of which steps in the second are profiled."""
    settings = {"epochs": 2, "batch_size": BATCH, "profile": {"batches": [STEPS + 10, STEPS + 30]}, **config}
    train = TrainConfig.model_validate_json(json.dumps(settings))
    split: Any = SimpleNamespace(
        dataset=dataset, size=size, steps=STEPS if size else None, seen=lambda: 2 * BATCH * STEPS
    )
    model = network()
    model.compile("adam", "mse", steps_per_execution=together, jit_compile=False)
    folder.mkdir(exist_ok=True)
    inputs = Inputs(split, split, "", cache="memory" if size else "none", bytes_each=4 * (WIDTH + 1))
    callbacks = profiling(train, inputs, together, folder, TrainingPosition())
    model.fit(dataset, epochs=2, callbacks=callbacks, verbose=0, shuffle=False)
    assert ProfileFacts.read(folder).train == train
    return Profiled(folder, diagnose(folder))


@pytest.fixture(scope="module")
def starving(tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    config = {"input": {"cache": "none", "threads": 1}}
    return train_with_profile(starved(), tmp_path_factory.mktemp("starved"), 1, None, **config)


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    return train_with_profile(healthy(), tmp_path_factory.mktemp("healthy"), 1, BATCH * STEPS)


def profiled_by_the_clock(dataset: tf.data.Dataset, folder: Path) -> tuple[float, float]:
    """The share of the time in `next(iterator)`: by Python's clock, and as the trace has it, of the same steps.

    A plain loop, which fetches a batch and then trains on it, under the markers of the callback.
    """
    model = network()
    model.compile("adam", "mse", jit_compile=False)
    step = tf.function(lambda features, label: model.train_step((features, label)), autograph=False)
    model.optimizer.build(model.trainable_variables)
    profile = Profile(ProfileRequest((3, STEPS), 1, STEPS, 1), folder, lambda *_: None)
    profile.set_model(model)
    profile.set_params({"steps": STEPS})
    profile.on_train_begin()
    waits, begun = 0.0, 0.0
    for number, iterator in enumerate([iter(dataset)] * STEPS):
        begun = begun or (time.perf_counter() if number == 2 else 0.0)
        profile.on_train_batch_begin(number)
        before = time.perf_counter()
        features, label = next(iterator)
        waits += time.perf_counter() - before if begun else 0.0
        logs = step(features, label)
        ended = time.perf_counter()
        profile.on_train_batch_end(number, {"loss": float(logs["loss"])})
    (file,) = folder.rglob("*.xplane.pb")
    trace = read_trace(file)
    assert trace is not None
    return waits / (ended - begun), trace.shares.input


def test_a_starved_training_is_distinguished_from_a_healthy_one(starving: Profiled, fed: Profiled) -> None:
    assert starving.verdict.words == "input-bound"
    assert fed.verdict.words == "not input-bound"
    assert fed.verdict.cause == ""
    for verdict in (starving.verdict, fed.verdict):
        assert verdict.split is not None
        parts = (verdict.split.input, verdict.split.host, verdict.split.compute, verdict.split.idle)
        assert all(0 <= part <= 1 for part in parts)
        assert sum(parts) == pytest.approx(1)
        assert verdict.steps == 21  # one execution for each step, from 58 to 78


def test_the_starved_one_names_the_slow_map_and_the_settings_to_change(starving: Profiled) -> None:
    verdict = starving.verdict
    assert "the operation PyFunc in a map" in verdict.cause
    assert "parsed again in every epoch" in verdict.cause
    assert next(iter(verdict.stages)) == "the operation PyFunc in a map"
    first = verdict.changes[0]
    assert (first.setting, first.to) == ("train.input.cache", "memory")
    assert "parsed data is 6.4 MB of" in first.why  # 24,576 examples of 65 float32
    if ProfileFacts.read(starving.model_run).cores > 1:
        assert "train.input.threads" in [change.setting for change in verdict.changes]
    assert all(change.setting != "train.input.cache" for change in verdict.changes[1:])


def test_the_share_agrees_with_a_clock_around_next(tmp_path: Path) -> None:
    by_the_clock, by_the_trace = profiled_by_the_clock(starved(), tmp_path)
    assert by_the_trace == pytest.approx(by_the_clock, abs=0.08)
    assert by_the_trace > 0.4


def test_what_the_clock_has_more_is_the_call_of_next(tmp_path: Path) -> None:
    """A healthy input has its batch ready. Python's call for it is the host's time, which a clock cannot tell apart."""
    by_the_clock, by_the_trace = profiled_by_the_clock(healthy(), tmp_path)
    assert by_the_trace <= by_the_clock + 0.02
    assert by_the_trace < 0.3


def test_xprof_agrees_with_us_where_the_steps_run_one_by_one(starving: Profiled, fed: Profiled) -> None:
    for verdict in (starving.verdict, fed.verdict):
        assert verdict.xprof_input is not None
        assert verdict.input_bound == pytest.approx(verdict.xprof_input, abs=0.05)


def test_the_step_takes_as_long_as_the_clock_says(starving: Profiled) -> None:
    facts = ProfileFacts.read(starving.model_run)
    seconds = sum(execution.seconds for execution in facts.executions)
    assert starving.verdict.step_seconds is not None
    assert starving.verdict.step_seconds * facts.steps == pytest.approx(seconds, rel=0.1)
    assert starving.verdict.step_seconds > SLEEP


def test_the_expensive_operations_are_those_of_the_model(fed: Profiled) -> None:
    first = fed.verdict.operations[0]
    assert "MatMul" in first.kind
    assert first.place == "host"
    assert first.count >= fed.verdict.steps
    assert fed.verdict.peak_bytes is not None
    assert fed.verdict.peak_bytes > FEATURES.nbytes


@pytest.mark.slow
def test_several_steps_in_one_graph_have_markers_that_xprof_finds(tmp_path: Path) -> None:
    together = train_with_profile(starved(), tmp_path / "starved", 16, None, input={"cache": "none"})
    assert [(one.step, one.steps) for one in ProfileFacts.read(together.model_run).executions] == [(49, 16), (65, 16)]
    assert together.verdict.executions == 2
    assert together.verdict.xprof_input is not None  # else it says "No step time measured"
    assert together.verdict.words == "input-bound"
    assert together.verdict.input_bound is not None
    # xprof counts waits too during which the step before computes.
    assert together.verdict.xprof_input >= together.verdict.input_bound - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_an_epochs_short_last_execution_before_the_range_is_not_a_part_of_it(tmp_path: Path, known: bool) -> None:
    """It has steps 41 to 48; a whole one from there would reach step 58, where the range begins."""
    dataset = healthy() if known else healthy().filter(lambda *_: True)
    profiled = train_with_profile(dataset, tmp_path / "run", 20, BATCH * STEPS if known else None)
    assert [(one.step, one.steps) for one in ProfileFacts.read(profiled.model_run).executions] == [(49, 20), (69, 20)]
    assert profiled.verdict.steps == 40
    assert len(list(profiled.model_run.rglob("*.xplane.pb"))) == 1


def test_judging_leaves_the_files_of_the_artifact_as_they_are(fed: Profiled) -> None:
    before = checksum(fed.model_run)
    diagnose(fed.model_run)
    assert checksum(fed.model_run) == before


def execute(profiled: Profiled, folder: Path) -> standard_artifacts.String:
    """The verdict that the component's executor leaves, as a runner calls it."""
    run, verdict = standard_artifacts.ModelRun(), standard_artifacts.String()
    run.uri, verdict.uri = str(profiled.model_run), str(folder / "value")
    executor = ProfileVerdict.EXECUTOR_SPEC.executor_class(None)
    executor.Do({"model_run": [run]}, {"verdict": [verdict]}, {})
    return verdict


def passed(verdict: standard_artifacts.String, limit: float, folder: Path) -> str:
    """What the gate says of it."""
    text = standard_artifacts.String()
    text.uri = str(folder / "passed")
    ProfileGate.EXECUTOR_SPEC.executor_class(None).Do({"verdict": [verdict]}, {"passed": [text]}, {"limit": limit})
    return str(text.value)


def test_the_gate_stops_the_starved_one_with_cause_and_first_change(starving: Profiled, tmp_path: Path) -> None:
    verdict = execute(starving, tmp_path)
    with pytest.raises(GateError) as refused:
        passed(verdict, 0.2, tmp_path)
    said = str(refused.value)
    assert "train.profile.fail_if_input_bound_above allows 20.0%" in said
    assert "cause: examples are read and parsed again" in said
    assert "first change: set train.input.cache to memory: parsed data is 6.4 MB" in said
    assert "Nothing was pushed" in said
    assert ProfileDiagnosis.model_validate_json(verdict.value) == diagnose(starving.model_run)  # it is written anyway


def test_the_gate_lets_both_pass_where_they_may(starving: Profiled, fed: Profiled, tmp_path: Path) -> None:
    assert re.fullmatch(
        r"the steps wait for input \d\d\.\d% of the time, .*100\.0%.*",
        passed(execute(starving, tmp_path), 1.0, tmp_path),
    )
    assert passed(execute(fed, tmp_path), 0.2, tmp_path).endswith("20.0%")


def test_a_limit_without_a_profile_stops_too(tmp_path: Path) -> None:
    ProfileFacts(asked=(50, 60), note="training ended after 12 steps, before step 50").write(tmp_path)
    nothing = Profiled(tmp_path, ProfileDiagnosis(steps=0))
    verdict = execute(nothing, tmp_path)
    assert json.loads(verdict.value)["note"] == "training ended after 12 steps, before step 50"
    with pytest.raises(GateError, match=r"cannot be judged: training ended after 12 steps.*\n.*train.profile.batches"):
        passed(verdict, 0.2, tmp_path)
