"""Training over several devices and over several processes, against training on one device."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forks
import h5py
import numpy as np
import pytest
from command import PATIENCE, alive, processes_in, wait_until

from headrace.common.errors import TrainingError, TrainingStoppedError
from headrace.trainer import launch
from headrace.trainer.devices.machine import VIRTUAL
from headrace.trainer.fitting import WEIGHTS
from headrace.trainer.job import Job
from headrace.trainer.launch import SHARED
from headrace.trainer.run import run_fn
from headrace.trainer.service.ports import free_ports

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
"""Largest difference of a weight, of sums in another order: weights move by up to 1 in these trainings.

Most are within 5e-7. But in Adam's first steps a gradient near its epsilon (1e-7) moves a weight by up to the learning
rate (0.02), and the rounding of that gradient (1e-9) is then one of 1e-5.
"""
TRAIN = {"epochs": 3, "batch_size": 96, "input": {"cache": "memory"}, "jit": "off"}

Prepare = Callable[[str], Any]


def weights(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file of weights, by their names in it."""
    found: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def compare(one: Path, many: Path) -> None:
    """The same weights, epochs and metrics, in the folders of two runs."""
    expected, found = weights(one / "run" / WEIGHTS), weights(many / "run" / WEIGHTS)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=TOLERANCE, err_msg=name)
    records = [json.loads((folder / "run" / "training.json").read_text()) for folder in (one, many)]
    for before, after in zip(*(record["epochs"] for record in records), strict=True):
        assert after["metrics"] == pytest.approx(before["metrics"], abs=1e-4)
    assert records[0]["best_epoch"] == records[1]["best_epoch"]
    assert records[0]["examples"] == records[1]["examples"]


def exported(folder: Path) -> set[str]:
    """What the export consists of."""
    return {path.name for path in (folder / "Format-Serving").iterdir()}


@pytest.fixture(scope="module")
def alone(prepared: Prepare, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on one device."""
    folder = tmp_path_factory.mktemp("alone")
    run_fn(prepared("binary").fn_args(folder, strategy="cpu", **TRAIN))
    return folder


@pytest.mark.usefixtures("at_once")
def test_mirrored_training_gives_the_weights_of_one_device(
    prepared: Prepare, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VIRTUAL, "3")
    run_fn(prepared("binary").fn_args(tmp_path, strategy="mirrored", **TRAIN))
    compare(alone, tmp_path)
    assert exported(tmp_path) == exported(alone)
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert record["chosen"]["strategy"] == "mirrored over 3 CPU devices: `train.strategy: mirrored` says so"
    assert "epoch 3/3: loss" in capfd.readouterr().out


@pytest.mark.usefixtures("at_once")
def test_workers_of_a_cluster_give_the_weights_of_one_device_and_the_chief_alone_writes(
    prepared: Prepare, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = free_ports(2)
    shared = tmp_path / "shared" / "job.json"
    monkeypatch.setenv(SHARED, str(shared))
    monkeypatch.setenv("TF_CONFIG", cluster(ports, 0))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    worker = subprocess.Popen(
        [sys.executable, "-m", "headrace.trainer.worker"],
        cwd=PROJECT,
        env={**os.environ, "TF_CONFIG": cluster(ports, 1), "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        run_fn(prepared("binary").fn_args(tmp_path, strategy="auto", **TRAIN))
        said, _ = worker.communicate(timeout=PATIENCE)
    finally:
        worker.kill()
    assert worker.returncode == 0, said
    compare(alone, tmp_path)
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert record["chosen"]["strategy"].startswith("multi_worker over 2 workers of 1 CPU device each")
    assert "epoch 3/3: loss" in said
    assert not list(scratch.rglob(WEIGHTS))
    assert not shared.exists()


@pytest.mark.usefixtures("at_once")
def test_the_processes_own_error_reaches_the_trainer_as_it_is(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VIRTUAL, "2")
    message = r"^the loss became (nan|inf) in step.* of epoch 1\. Step \d+ of that epoch is the first bad one: "
    with pytest.raises(TrainingError, match=message):
        run_fn(prepared("binary").fn_args(tmp_path, strategy="mirrored", **{**TRAIN, "learning_rate": 1e38}))


def test_training_that_sigterm_ends_before_it_could_keep_anything_counts_as_stopped(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: list[str]) -> int:
        return subprocess.run(["sh", "-c", "kill -TERM $$"], check=False).returncode

    monkeypatch.setattr(launch, "_run", killed)
    with pytest.raises(TrainingStoppedError, match="stopped by SIGTERM"):
        launch.launch(Job.of(prepared("binary").fn_args(tmp_path)))


def test_killing_the_trainer_ends_the_process_of_its_training(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VIRTUAL, "2")
    job = Job.of(
        prepared("binary").fn_args(
            tmp_path, strategy="mirrored", **{**TRAIN, "epochs": 100_000, "early_stopping": None}
        )
    )
    (tmp_path / "job.json").write_text(job.to_json())
    program = tmp_path / "launched.py"
    program.write_text(
        "import sys; from pathlib import Path; from headrace.trainer.job import Job;"
        "from headrace.trainer.launch import launch;"
        " launch(Job.from_json(Path(sys.argv[1]).read_text()))"
    )
    log = tmp_path / "log"
    command, environment = [sys.executable, str(program), str(tmp_path / "job.json")], {**os.environ, forks.ALL: "1"}
    with log.open("w") as stream:
        trainer = forks.Forked(command, cwd=tmp_path, env=environment, stdout=stream, stderr=stream)
    try:
        assert wait_until(lambda: "epoch 2/" in log.read_text()), log.read_text()
        (child,) = {*processes_in(tmp_path)} - {trainer.pid}
    finally:
        trainer.send_signal(signal.SIGKILL)
        trainer.wait()
    assert wait_until(lambda: not alive(child))


def test_clipping_ragged_features_loss_scaling_empty_parts_weights_own_steps_and_ensembles_are_as_on_one_device() -> (
    None
):
    settings = [
        {"precision": "mixed_float16", "steps": 10, "together": 5},
        {"whole": True, "weighted": True, "together": 3},
        {"own": True, "weighted": True, "together": 7, "adam": {"clipnorm": 0.05}},
        {"weighted": True, "ensemble": True, "together": 4, "adam": {"clipnorm": 0.05}},
    ]
    program = str(Path(__file__).with_name("distributed_program.py"))
    command = [sys.executable, program, "mirrored", "2", json.dumps(settings)]
    done = forks.run(command)
    assert done.returncode == 0, done.stderr
    half, whole, own, ensemble = json.loads(done.stdout.splitlines()[-1])
    for run in (whole, own, ensemble):
        assert run["moved"] > 0.1
        assert run["difference"] < TOLERANCE
    assert half["difference"] < 2e-3  # sums of parts are rounded to float16 elsewhere than those of the whole
    for run, tolerance in ((whole, 1e-5), (ensemble, 1e-5), (half, 2e-2)):
        assert run["batches"][0] == run["batches"][1]
        assert run["losses"][0] == pytest.approx(run["losses"][1], abs=tolerance)
        for alone, over_several in zip(*run["epochs"], strict=True):
            assert over_several == pytest.approx(alone, abs=tolerance)


def cluster(ports: list[int], index: int) -> str:
    """TF_CONFIG of one of the workers."""
    return json.dumps(
        {"cluster": {"worker": [f"127.0.0.1:{port}" for port in ports]}, "task": {"type": "worker", "index": index}}
    )
