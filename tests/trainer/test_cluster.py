"""Workers of a cluster that end, that share a tf.data service, and that meet a bad feature: two processes on loopback.

Each pair of processes carries out several trainings, as TensorFlow takes long to import and sets up one cluster alone.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import forks
import pytest
from command import PATIENCE
from test_distributed import TRAIN, cluster, compare
from test_training_errors import changed, put
from trainings import train_alone

from headrace.trainer.job import Job
from headrace.trainer.service.local import LocalService
from headrace.trainer.service.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("as_they_are")]

Prepare = Callable[[str], Any]
SETTINGS = {**TRAIN, "steps_per_execution": 4, "checkpoint": {"every_steps": 8}}
SHARED = {**SETTINGS, "epochs": 2, "steps_per_epoch": 50, "steps_per_execution": 10, "checkpoint": {"every_steps": 20}}
"""40 steps learn nothing in some orders of the examples."""
BATCHES = 21
"""In an epoch."""


class Ended(NamedTuple):
    """What the two workers said of each job, and how they ended."""

    reported: list[list[dict[str, Any]]]
    codes: list[int]
    logs: list[str]


def together(folder: Path, jobs: list[tuple[Job, tuple[str, int, int] | None]]) -> Ended:
    """Carry out the jobs in two processes; at a batch of one, a worker may get a signal."""
    file, ports = folder / "jobs.json", free_ports(2)
    file.write_text(json.dumps([{"job": dataclasses.asdict(job), "end": end} for job, end in jobs]))
    workers = [
        forks.Forked(
            [sys.executable, str(Path(__file__).with_name("cluster_program.py")), str(file)],
            env={**os.environ, "TF_CONFIG": cluster(ports, number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in (0, 1)
    ]
    try:
        logs = [worker.communicate(timeout=PATIENCE)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    reported = [[json.loads(line) for line in log.splitlines() if line.startswith('{"')] for log in logs]
    return Ended(reported, [worker.returncode for worker in workers], logs)


class Cluster(NamedTuple):
    """A training whose workers were stopped, then killed; and what those that followed came to."""

    folder: Path
    before: Ended
    after: Ended


@pytest.fixture(scope="module")
def trained(prepared: Prepare, running: LocalService, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    folder = tmp_path_factory.mktemp("cluster")
    data = prepared("binary")

    def job(name: str, **train: Any) -> Job:
        arguments = data.fn_args(folder / name, strategy="multi_worker", **train)
        arguments.custom_config["checkpoints"] = str(folder / "checkpoints")
        return dataclasses.replace(Job.of(arguments), training=name)

    def through(**service: Any) -> dict[str, Any]:
        return {"input": {"service": {"address": running.address, **service}}}

    (folder / "changed").mkdir()
    bad = changed(data.patterns["train"], folder / "changed", put("amount", float("inf"), at=96 * 9 + 5))
    spoilt = job("spoilt", **{**SETTINGS, "epochs": 1, "input": {"cache": "memory", "shuffle": 0}})
    resumed = job("resumed", **SETTINGS)
    before = together(folder, [(resumed, ("SIGTERM", 1, 12)), (resumed, ("SIGKILL", 0, BATCHES + 17))])
    after = together(
        folder,
        [
            (resumed, None),
            (job("dynamic", **{**SETTINGS, **through()}), None),
            (job("shared", **{**SHARED, **through()}), None),
            (job("coordinated", **{**SHARED, **through(sharding="off", coordinated=True)}), None),
            (dataclasses.replace(spoilt, train_files=[bad]), None),
        ],
    )
    return Cluster(folder, before, after)


@pytest.fixture(scope="module")
def alone(prepared: Prepare, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on one device that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train_alone(prepared("binary").fn_args(folder, strategy="cpu", **SETTINGS))
    return folder


def test_sigterm_to_any_worker_keeps_the_training_and_ends_all(trained: Cluster) -> None:
    chief, other = (reported[0] for reported in trained.before.reported)
    assert chief["kind"] == other["kind"] == "TrainingStoppedError"
    assert "stopped by SIGTERM after batch 12, in epoch 1. It is saved in " in chief["error"]
    assert "after batch 12, in epoch 1. The chief saves it" in other["error"]
    assert all("batch-000000000012" in log for log in trained.before.logs)  # the next went on from there


def test_kill_of_a_worker_ends_the_others_with_an_error(trained: Cluster) -> None:
    assert trained.before.codes == [-signal.SIGKILL, 1]
    assert len(trained.before.reported[0]) == 1
    assert trained.before.reported[1][1]["kind"] in {"UnavailableError", "AbortedError", "InternalError"}


def test_cluster_that_was_killed_comes_to_the_weights_of_one_device(trained: Cluster, alone: Path) -> None:
    assert trained.after.codes == [0, 0], trained.after.logs[0]
    assert all(one["reached"] == [] for reported in trained.after.reported for one in reported if "done" in one)
    assert all("checkpoint: resuming from" in log for log in trained.after.logs)
    compare(alone, trained.folder / "resumed")


def test_workers_read_through_a_service_and_come_to_the_weights_of_one_device(trained: Cluster, alone: Path) -> None:
    compare(alone, trained.folder / "dynamic")


@pytest.mark.parametrize(("name", "words"), [("shared", "(sharding dynamic)"), ("coordinated", "(coordinated reads)")])
def test_workers_make_their_own_part_of_each_batch(trained: Cluster, name: str, words: str) -> None:
    record = json.loads((trained.folder / name / "run" / "training.json").read_text())
    assert f"by 2 workers {words}; each of 2 workers makes 48 examples of a batch" in record["input"]
    assert record["examples"] == {"train": 50 * 96, "eval": 500}
    assert record["epochs"][-1]["metrics"]["val_auc"] > 0.75  # by chance 0.5


def test_bad_feature_is_named_with_its_step_over_several_workers_too(trained: Cluster) -> None:
    chief = trained.after.reported[0][-1]["error"]
    assert "nan in steps 9 to 12 of epoch 1. Step 10 " in chief
    assert "feature 'amount' holds inf in 1 of 96 values" in chief
    assert "nan in steps 9 to 12 of epoch 1. Lower" in trained.after.reported[1][-1]["error"]
