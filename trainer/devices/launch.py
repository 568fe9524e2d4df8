"""Distributed training in a process of its own, where strategies are set up before any TensorFlow operation.

    launch(job)                                    # in the Trainer: start it, wait, raise what it raised
    python -m headrace.trainer.devices.launch JOB RESULT    # that process: the job as JSON; what went wrong, at its end
    HEADRACE_JOB=FILE python -m headrace.trainer.devices.launch    # a further worker of a cluster: waits for the job

What the process prints goes where the Trainer's own words go. It stays in the Trainer's process group, and ends itself
when the Trainer is gone, however that ended: its standard input is a pipe that closes then.
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
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.configs.credentials import without
from headrace.configs.durable import write_text
from headrace.configs.errors import HeadraceError, TrainingError, TrainingStoppedError
from headrace.configs.lock import kept
from headrace.configs.tracebacks import write_traceback

if TYPE_CHECKING:
    from headrace.trainer.job import Job

SHARED = "HEADRACE_JOB"
"""Environment variable: a file on storage that all workers of a cluster share, through which the chief tells the others
what to train."""
SETTINGS = {"TF_USE_LEGACY_KERAS": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}
"""What this project's commands set for TensorFlow, for a worker that is started without them."""
POLL_SECONDS = 0.2


def launch(job: Job) -> None:
    """Train in a process of its own. Raises TrainingError as that process does, and where it ends in another way."""
    with tempfile.TemporaryDirectory() as folder:
        request, result = Path(folder, "job.json"), Path(folder, "result.json")
        job = dataclasses.replace(job, training=uuid.uuid4().hex)
        request.write_text(job.to_json(), encoding="utf-8")
        with _published(job):
            code = _run([str(request), str(result)])
        if result.is_file():
            told = json.loads(result.read_text(encoding="utf-8"))
            stopped = told["kind"] == TrainingStoppedError.__name__
            raise (TrainingStoppedError if stopped else TrainingError)(told["message"])
    if code == -signal.SIGTERM:  # before it could heed that, or without a place for checkpoints
        raise TrainingStoppedError("training was stopped by SIGTERM, and nothing new is kept of it")
    if code:
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
        memory = ". The machine may have run out of memory: lower `train.batch_size`" if code == -signal.SIGKILL else ""
        raise TrainingError(f"the process of the distributed training ended {how}{memory}; see the Trainer's log")


def _run(arguments: list[str]) -> int:
    """Run this module with the arguments, and hand SIGTERM on to it; its exit status."""
    sys.stdout.flush()
    process = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", "headrace.trainer.devices.launch", *arguments],
        stdin=subprocess.PIPE,
        pass_fds=kept(),  # it outlives a Trainer that is killed by a moment, in which it may write a checkpoint
        env={**SETTINGS, **os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        with _handing_on_sigterm(process):
            return process.wait()
    finally:
        process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()


@contextlib.contextmanager
def _handing_on_sigterm(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A process that is asked to end asks the training first, which saves what it has."""
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
    """Tell the other workers of a cluster, while this one trains."""
    place = os.environ.get(SHARED)
    if not place:
        yield
        return
    write_text(Path(place), job.to_json())
    try:
        yield
    finally:
        Path(place).unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    """Train as the job says; the exit status."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if arguments:
        _end_with_parent()
        text = Path(arguments[0]).read_text(encoding="utf-8")
    else:
        text = _waited_for()
    try:
        _train(text)
    except Exception as error:  # told to the Trainer
        told = str(error) if isinstance(error, HeadraceError) else _unexpected(error)
        if not isinstance(error, HeadraceError):
            write_traceback(error)
        elif not arguments:
            print(told, file=sys.stderr, flush=True)
        if arguments:
            Path(arguments[1]).write_text(json.dumps({"kind": type(error).__name__, "message": told}), encoding="utf-8")
        return 1
    return 0


def _train(text: str) -> None:
    from headrace.trainer.devices.out_of_memory import out_of_memory_told
    from headrace.trainer.devices.strategy import choose, look
    from headrace.trainer.job import Job
    from headrace.trainer.run import train

    job = Job.from_json(text)
    choice = choose(job.sections.train, look())
    with out_of_memory_told(job.sections.train):
        train(job, choice)


def _unexpected(error: Exception) -> str:
    said = without(f"{type(error).__name__}: {error}".strip())
    gone = " Is one of the workers gone?" if type(error).__name__ in ("UnavailableError", "AbortedError") else ""
    return f"distributed training failed: {said}.{gone} The Trainer's log has the traceback"


def _end_with_parent() -> None:
    """End at once when the process that started this one is gone."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _waited_for() -> str:
    """The job, as soon as the chief has published it."""
    place = os.environ.get(SHARED)
    if not place:
        sys.exit(f"set the environment variable {SHARED} to the file that the chief writes its job into")
    print(f"waiting for the chief's job at {place}", flush=True)
    while True:
        with contextlib.suppress(FileNotFoundError):
            return Path(place).read_text(encoding="utf-8")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
