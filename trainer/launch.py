"""Training in other processes: a process for distributed training, or wherever a runner trains.

    launch(job)     # in the Trainer: start `headrace.trainer.worker`, wait, raise what it raised

A process of its own is needed because strategies must be set up before any TensorFlow operation. Its output goes where
the Trainer's goes. It stays in the Trainer's process group, and exits when the Trainer is gone, however that ended: its
standard input is a pipe that closes then.

    with training_by(remote):       # remote(job) trains, and leaves in the job's run directory what training leaves
        run_fn(fn_args)             # then builds the model here, with the best weights, and exports it
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.durable import write_text
from headrace.common.errors import TrainingError, TrainingStoppedError
from headrace.common.locks import adopted_descriptors

if TYPE_CHECKING:
    from headrace.trainer.job import Job

SHARED = "HEADRACE_JOB"
"""Environment variable: a file on storage that all workers of a cluster share. The chief writes the job there."""
SETTINGS = {"TF_USE_LEGACY_KERAS": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}
"""The TensorFlow settings of this project's commands, for a worker that is started without them."""

RemoteTraining = Callable[["Job"], None]
_REMOTE: ContextVar[RemoteTraining | None] = ContextVar("launch", default=None)


@contextlib.contextmanager
def training_by(remote: RemoteTraining) -> Iterator[None]:
    """Make `run_fn` train by calling `remote`, in this context."""
    token = _REMOTE.set(remote)
    try:
        yield
    finally:
        _REMOTE.reset(token)


def remote_training() -> RemoteTraining | None:
    """Return the function that trains in place of this process; None if this process trains."""
    return _REMOTE.get()


def launch(job: Job) -> None:
    """Train in a process of its own. Raises TrainingError as that process does, and if it ends in any other way."""
    with tempfile.TemporaryDirectory() as folder:
        request, result = Path(folder, "job.json"), Path(folder, "result.json")
        job = dataclasses.replace(job, training=uuid.uuid4().hex)
        request.write_text(job.to_json(), encoding="utf-8")
        with _published(job):
            code = _run([str(request), str(result)])
        if result.is_file():
            failure = json.loads(result.read_text(encoding="utf-8"))
            stopped = failure["kind"] == TrainingStoppedError.__name__
            raise (TrainingStoppedError if stopped else TrainingError)(failure["message"])
    if code == -signal.SIGTERM:  # before the process could handle it, or without a folder for checkpoints
        raise TrainingStoppedError("training was stopped by SIGTERM, and no new checkpoint was saved")
    if code:
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
        memory = ". The machine may have run out of memory: lower `train.batch_size`" if code == -signal.SIGKILL else ""
        raise TrainingError(f"the process of the distributed training ended {how}{memory}; see the Trainer's log")


def _run(arguments: list[str]) -> int:
    """Run the program with the arguments, forward SIGTERM to it, and return its exit status."""
    sys.stdout.flush()
    process = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", "headrace.trainer.worker", *arguments],
        stdin=subprocess.PIPE,
        pass_fds=adopted_descriptors(),  # may still write a checkpoint after the Trainer is killed
        env={**SETTINGS, **os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        with _forwarding_sigterm(process):
            return process.wait()
    finally:
        process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()


@contextlib.contextmanager
def _forwarding_sigterm(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward SIGTERM to the training, which saves a checkpoint first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _published(job: Job) -> Iterator[None]:
    """Share the job with the other workers of a cluster while this one trains."""
    file = os.environ.get(SHARED)
    if not file:
        yield
        return
    write_text(Path(file), job.to_json())
    try:
        yield
    finally:
        Path(file).unlink(missing_ok=True)
