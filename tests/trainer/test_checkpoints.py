"""A training that is killed or stopped continues as if nothing had happened."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forks
import keras
import numpy as np
import pytest

from headrace.trainer.callbacks.weights import Averages
from headrace.trainer.checkpointing.checkpoints import OTHERS, Checkpoints, CheckpointWriter, TrainingPosition
from headrace.trainer.fitting import epoch_dataset
from headrace.trainer.input.inputs import plan_inputs
from headrace.trainer.job import Job, checkpoints
from headrace.trainer.model import build_model

Prepare = Callable[[str], Any]
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "checkpoint_program.py"
SETTINGS: dict[str, Any] = {
    "epochs": 4, "early_stopping": {"patience": 3}, "steps_per_execution": 2, "checkpoint": {"every_steps": 4},
    "jit": "off",  # auto tries XLA where a busy machine makes them last long, and XLA draws other masks of dropout
}  # fmt: skip
AUTO = {
    "epochs": "auto", "batch_size": "auto", "early_stopping": {"patience": "auto"}, "learning_rate": 0.05,
    "checkpoint": {"every_steps": 250},  # thousands of steps are trained, and a checkpoint takes longer than a step
}  # fmt: skip
MODEL = {"dropout": 0.3}
STEPS = 32
"""Batches in an epoch: 2,000 examples in batches of 64."""


def job(data: Any, folder: Path, run: str, model: dict[str, Any] = MODEL, **train: Any) -> dict[str, Any]:
    """The arguments of `run_fn`; all runs in the folder share their checkpoints."""
    arguments: dict[str, Any] = vars(data.fn_args(folder / run, model, **{**SETTINGS, **train}))
    arguments["custom_config"]["checkpoints"] = str(folder / "checkpoints")
    return arguments


def start(arguments: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, however it comes."""
    file = Path(arguments["model_run_dir"]).with_suffix(".json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(arguments))
    return forks.run([sys.executable, str(PROGRAM), str(file), *words])


def outcome(data: Any, folder: Path, run: str) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The weights that were exported, and training.json without what clocks say."""
    model = build_model(data.sections(MODEL), data.output)
    model.load_weights(folder / run / "run" / "best.weights.h5")
    record = json.loads((folder / run / "run" / "training.json").read_text())
    for epoch in record["epochs"]:
        epoch["seconds"] = epoch["examples_per_second"] = 0
    return model.get_weights(), record


@pytest.fixture(scope="session")
def whole(prepared: Prepare, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[np.ndarray], dict[str, Any]]:
    """What a training that nobody disturbs comes to."""
    folder = tmp_path_factory.mktemp("whole")
    done = start(job(prepared("binary"), folder, "whole"), "alone")
    assert done.returncode == 0, done.stderr
    return outcome(prepared("binary"), folder, "whole")


def assert_same(
    found: tuple[list[np.ndarray], dict[str, Any]], expected: tuple[list[np.ndarray], dict[str, Any]]
) -> None:
    for one, two in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-5)
    assert [epoch["epoch"] for epoch in found[1]["epochs"]] == [epoch["epoch"] for epoch in expected[1]["epochs"]]
    for one, two in zip(found[1]["epochs"], expected[1]["epochs"], strict=True):
        assert one["metrics"] == pytest.approx(two["metrics"], abs=1e-5)
    assert (found[1]["best_epoch"], found[1]["examples"]) == (expected[1]["best_epoch"], expected[1]["examples"])


@pytest.mark.slow
def test_training_killed_at_random_batches_comes_to_the_same_weights(
    prepared: Prepare, tmp_path: Path, whole: tuple[list[np.ndarray], dict[str, Any]]
) -> None:
    seed = int(os.environ.get("KILL_SEED", "0"))  # the same every time, unless other ones are asked for
    # From 8 on there is a checkpoint for sure: that of batch 4 is waited for before the next is begun.
    batches = sorted(random.Random(seed).sample(range(8, 4 * STEPS - 2), 2))
    data = prepared("binary")
    for number, batch in enumerate(batches):
        killed = start(job(data, tmp_path, f"killed-{number}"), str(batch))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    last = start(job(data, tmp_path, "last"))
    assert last.returncode == 0, last.stderr
    assert "checkpoint: resuming from" in last.stdout
    assert_same(outcome(data, tmp_path, "last"), whole)
    assert not list((tmp_path / "checkpoints").glob("*/*"))  # it is done


@pytest.mark.slow
def test_the_default_model_continues_as_the_kind_that_it_became(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")

    def run(name: str, *words: str, shared: str = "shared", **model: Any) -> subprocess.CompletedProcess[str]:
        arguments: dict[str, Any] = vars(data.table_args(tmp_path / name, model, **{**SETTINGS, "epochs": 2}))
        arguments["custom_config"]["checkpoints"] = str(tmp_path / shared)
        return start(arguments, *words)

    assert run("killed", "40").returncode == -signal.SIGKILL
    last, named = run("last", "alone"), run("named", "alone", shared="undisturbed", kind="tabm")
    assert (last.returncode, named.returncode) == (0, 0), last.stderr + named.stderr
    assert "checkpoint: resuming from" in last.stdout
    resumed, whole = (json.loads((tmp_path / name / "run" / "training.json").read_text()) for name in ("last", "named"))
    assert resumed["chosen"]["model"] == "tabm: auto, for 2,000 examples"
    for one, two in zip(resumed["epochs"], whole["epochs"], strict=True):
        assert one["metrics"] == pytest.approx(two["metrics"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "settings", "said"),
    [
        ("t41", {"checkpoint": {"every_steps": None}}, "after batch 44, in epoch 2"),
        ("e64", {"input": {"cache": "none"}}, "after batch 64, in epoch 2"),
        ("t301", AUTO, "after batch 304, in epoch 5"),  # an epoch has 63 batches of 32
    ],
)
def test_training_stopped_by_sigterm_resumes_where_it_stopped(
    prepared: Prepare,
    tmp_path: Path,
    whole: tuple[list[np.ndarray], dict[str, Any]],
    where: str,
    settings: dict[str, Any],
    said: str,
) -> None:
    data, expected = prepared("binary"), whole
    if settings.keys() != {"checkpoint"}:  # which weights do not depend on
        done = start(job(data, tmp_path / "undisturbed", "whole", **settings), "alone")
        assert done.returncode == 0, done.stderr
        expected = outcome(data, tmp_path / "undisturbed", "whole")
    stopped = start(job(data, tmp_path, "stopped", **settings), where)
    assert stopped.returncode == 1
    assert "TrainingStoppedError: training was stopped by SIGTERM " + said in stopped.stderr
    assert not (tmp_path / "stopped" / "Format-Serving").exists()
    last = start(job(data, tmp_path, "last", **settings), "alone")
    assert "checkpoint: resuming from" in last.stdout, last.stderr
    assert_same(outcome(data, tmp_path, "last"), expected)
    if settings is AUTO:
        record = outcome(data, tmp_path, "last")[1]
        assert record["chosen"]["batch_size"] == "32: auto, for 2,000 examples"
        assert record["stopped_early"]
        assert 12 < len(record["epochs"]) == record["best_epoch"] + 12


@pytest.mark.parametrize("step", [0, 40])
def test_training_that_continues_has_one_iterator_for_all_epochs_too(prepared: Prepare, step: int) -> None:
    data = prepared("binary")
    sections = data.sections(epochs=4, input={"cache": "memory"})
    patterns = [data.patterns["train"]], [data.patterns["eval"]]
    split = plan_inputs(*patterns, data.output, sections).open(sections.train, STEPS + step).train
    dataset, steps = epoch_dataset(split, sections.train, steps_per_execution=2)
    assert steps == STEPS
    labels = [label.numpy().tolist() for _, label in dataset.take(2 * STEPS)]
    undisturbed = epoch_dataset(
        plan_inputs(*patterns, data.output, sections).open_train(), sections.train, steps_per_execution=2
    )[0]
    assert labels == [label.numpy().tolist() for _, label in undisturbed.skip(STEPS + step).take(2 * STEPS)]


def test_checkpoint_holds_what_was_put_in_and_only_the_latest_stay(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "work", keep=2)
    assert kept.latest() is None
    for number in range(1, 5):
        arrays = [np.full((2, 3), number, np.float32), np.array(number, np.int64)]
        half = np.arange(3).astype("bfloat16")
        tree = {"weights": arrays, "half": half, "lowest": float("inf"), "deep": {"a": [1, "x"]}}
        kept.write(TrainingPosition(epoch=number, step=2, batches=10 * number), tree)
    assert len(kept.files()) == 2
    saved = kept.latest()
    assert saved is not None
    assert saved.position == TrainingPosition(epoch=4, step=2, batches=40)
    np.testing.assert_array_equal(saved.tree["weights"][0], np.full((2, 3), 4, np.float32))
    assert (saved.tree["weights"][1], saved.tree["lowest"], saved.tree["deep"]) == (4, float("inf"), {"a": [1, "x"]})
    np.testing.assert_array_equal(saved.tree["half"].astype(np.float32), [0, 1, 2])


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "work")
    kept.write(TrainingPosition(), {"place": np.int64(7), "rest": [np.float32(0.5), None]})
    saved = kept.latest()
    assert saved is not None
    assert saved.tree == {"place": 7, "rest": [0.5, None]}


def test_what_ends_the_writing_is_raised_by_the_next_write(tmp_path: Path) -> None:
    writer = CheckpointWriter(Checkpoints(tmp_path))
    writer.write(TrainingPosition(), {"model": [], "what": object()})
    with pytest.raises(TypeError, match="object"):
        writer.write(TrainingPosition(), {"model": []})
    writer.write(TrainingPosition(), {"model": []})
    writer.close()
    assert writer.last() is not None


def test_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    kept = Checkpoints(tmp_path)
    for number in (1, 2):
        kept.write(TrainingPosition(batches=number), {"weights": [np.zeros(1000)]})
    newest = kept.files()[0]
    newest.write_bytes(newest.read_bytes()[:-500])
    saved = kept.latest()
    assert saved is not None
    assert saved.position.batches == 1
    assert f"{newest} cannot be read" in log.text
    (tmp_path / "batch-000000000009-1000000.partial").write_bytes(b"half")  # left by a kill
    assert len(kept.files()) == 2


@pytest.mark.parametrize("keep", [1, 2])
def test_checkpoint_with_a_spoilt_optimizer_gives_way_to_good_ones(tmp_path: Path, keep: int) -> None:
    """Nothing good follows from it. Training then starts from the beginning, and its first one stays."""
    kept, good = Checkpoints(tmp_path, keep), {"model": [np.zeros(3)], "optimizer": [np.array(np.inf), np.ones(3)]}
    kept.write(TrainingPosition(batches=8), good | {"optimizer": [np.array([1, np.inf])]})
    kept.write(TrainingPosition(batches=9), good | {"optimizer": [np.array([1, np.nan]).astype("bfloat16")]})
    assert kept.latest() is None
    kept.write(TrainingPosition(batches=3), good)
    saved = kept.latest()
    assert saved is not None
    assert (saved.position.batches, kept.files()) == (3, [saved.file])


def test_spoilt_state_is_not_written(tmp_path: Path) -> None:
    writer = CheckpointWriter(Checkpoints(tmp_path))
    for number, value in enumerate([1, np.inf], 1):
        writer.write(TrainingPosition(batches=number), {"model": [], "optimizer": [np.array([value])]})
    writer.close()
    assert [file.name for file in Checkpoints(tmp_path).files()] == [TrainingPosition(batches=1).file]
    assert writer.last() == tmp_path / TrainingPosition(batches=1).file


def test_other_work_finds_no_checkpoint(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")

    def folder(**changed: Any) -> Path:
        given = job(data, tmp_path, "x", **changed.pop("train", {}))
        given["custom_config"] |= changed.pop("custom", {})
        found = checkpoints(Job.of(SimpleNamespace(**{**given, **changed})))
        assert found is not None
        return found.folder

    same = folder()
    assert folder() == same
    assert folder(train={"checkpoint": {"every_steps": 9, "keep": 5}}) == same
    copied = tmp_path / "copied"
    shutil.copytree(Path(data.patterns["train"]).parent, copied)
    assert folder(train_files=[str(copied / "*")]) == same  # the same content
    first = sorted(copied.iterdir())[0]
    with gzip.open(first) as stream:
        content = stream.read()
    first.write_bytes(gzip.compress(content[: len(content) // 2]))
    others = [
        folder(train_files=[str(copied / "*")]),
        folder(train={"learning_rate": 0.5}),
        folder(train={"seed": 4}),
        folder(custom={"sources": "of another version"}),
        folder(eval_files=[data.patterns["train"]]),
    ]
    assert len({same, *others}) == 1 + len(others)


def test_orphaned_work_is_removed_except_the_last_ones_used(tmp_path: Path) -> None:
    folders = [tmp_path / f"work-{number}" for number in range(5)]
    for number, folder in enumerate(folders):
        folder.mkdir()
        os.utime(folder, (number, number))
    Checkpoints(folders[0]).clear_others()
    assert sorted(path for path in folders if path.exists()) == [folders[0], *folders[-OTHERS:]]


def test_parts_of_a_training_are_kept_with_it_and_removed_with_it(tmp_path: Path) -> None:
    ours, *others = [Checkpoints(tmp_path / f"{number}") for number in range(OTHERS + 2)]
    for age, work in enumerate([ours, *others]):
        for number in (1, 2):
            work.part(number).write(TrainingPosition(batches=number), {})
            os.utime(work.part(number).folder, (age, age))
    ours.clear_others()
    gone = others[0]
    kept = [path for work in (ours, *others[1:]) for path in (work.part(1).folder, work.part(2).folder)]
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    assert not gone.part(1).folder.exists()
    ours.clear_parts()
    assert sorted(tmp_path.iterdir()) == sorted(kept[2:])


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_moving_averages_are_evaluated_and_training_continues_with_its_weights(kind: str) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.get({"class_name": kind, "config": {"use_ema": True, "ema_momentum": 0.5}}), "mse")
    model.optimizer.build(model.trainable_variables)
    weight, average = model.trainable_variables[0], model.optimizer._model_variables_moving_average[0]
    weight.assign([[1.0], [2.0]])
    average.assign([[3.0], [4.0]])
    callback = Averages()
    callback.set_model(model)
    callback.on_test_begin()
    assert np.ravel(weight).tolist() == [3, 4]
    again = Averages()
    again.set_model(model)
    again.restore(callback.state())  # a checkpoint in the evaluation
    assert np.ravel(weight).tolist() == [1, 2]
    again.on_test_begin()
    again.on_epoch_end(0)
    assert (np.ravel(weight).tolist(), np.ravel(average).tolist()) == ([1, 2], [3, 4])
