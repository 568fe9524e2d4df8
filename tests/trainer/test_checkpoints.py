"""A training that is killed or stopped goes on as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.run import build_model

Prepare = Callable[[str], Any]
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "checkpoint_program.py"
SETTINGS: dict[str, Any] = {
    "epochs": 4, "early_stopping": {"patience": 3}, "steps_per_execution": 2, "checkpoint": {"every_steps": 4},
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
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(file), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "0", "TF_ENABLE_ONEDNN_OPTS": "0"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


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
    done = start(job(prepared("binary"), folder, "whole"))
    assert done.returncode == 0, done.stderr
    return outcome(prepared("binary"), folder, "whole")


def assert_same(
    found: tuple[list[np.ndarray], dict[str, Any]], expected: tuple[list[np.ndarray], dict[str, Any]]
) -> None:
    for one, two in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-5)
    assert [epoch["epoch"] for epoch in found[1]["epochs"]] == [1, 2, 3, 4]
    for one, two in zip(found[1]["epochs"], expected[1]["epochs"], strict=True):
        assert one["metrics"] == pytest.approx(two["metrics"], abs=1e-5)
    assert (found[1]["best_epoch"], found[1]["examples"]) == (expected[1]["best_epoch"], expected[1]["examples"])


@pytest.mark.slow
def test_training_killed_at_random_batches_comes_to_the_same_weights(
    prepared: Prepare, tmp_path: Path, whole: tuple[list[np.ndarray], dict[str, Any]]
) -> None:
    data, batches = prepared("binary"), sorted(random.sample(range(6, 4 * STEPS - 2), 2))
    print("killed after batches", batches)
    for number, batch in enumerate(batches):
        killed = start(job(data, tmp_path, f"killed-{number}"), str(batch))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    last = start(job(data, tmp_path, "last"))
    assert last.returncode == 0, last.stderr
    assert "checkpoint: going on from" in last.stdout
    assert_same(outcome(data, tmp_path, "last"), whole)
    assert not list((tmp_path / "checkpoints").glob("*/*"))  # it is done
