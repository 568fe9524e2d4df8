"""The program of each pod of a distributed training: `python -m headrace.pipeline.kubeflow.distributed.worker`.

The number of the worker is that of its pod (JOB_COMPLETION_INDEX). From it and the host names of all workers it makes
TF_CONFIG. It fetches the files that it reads and trains with the others as `train.strategy: multi_worker` does on any
machines; worker 0, the chief, writes the result where the Trainer's task finds it.

Exits with 0 when done; with 3 if the same error would recur in another try, after reporting it to the task; with 143 on
SIGTERM; and otherwise with 1, such as when another worker is lost: then all restart from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.common.credentials import redact
from headrace.common.environment import prepare
from headrace.common.errors import ConfigError, HeadraceError, TrainingError, TrainingStoppedError
from headrace.common.logs import log_to_stdout
from headrace.common.tracebacks import own_traceback, write_traceback
from headrace.common.utf8 import use_utf8
from headrace.configs.schema.train import CHECKPOINT_FOLDER
from headrace.pipeline.kubeflow.distributed.handover import ERROR, JOB, Handover, folders, unpacked
from headrace.pipeline.kubeflow.distributed.jobset import FINAL, INDEX, TRAINING
from headrace.pipeline.kubeflow.pod.paths import ROOT, PodPaths
from headrace.pipeline.kubeflow.store import open_store

if TYPE_CHECKING:
    from headrace.trainer.job import Job

TERMINATED = 128 + signal.SIGTERM
CHIEF_SECONDS = 60
"""How long another worker waits for the chief to report an error."""
LOST_WORKER_ERRORS = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError")
"""Errors that TensorFlow raises when another worker is gone."""


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Train as this worker; returns the exit status."""
    prepare()
    log_to_stdout()
    signal.signal(signal.SIGTERM, _end)  # until training handles it
    training, number = json.loads(environ[TRAINING]), int(environ[INDEX])
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": training["hosts"]}, "task": {"type": "worker", "index": number}}
    )
    paths = PodPaths(environ.get(ROOT, ""), training["mount"])
    handover = Handover(training["uri"], paths, open_store(training["store"], of_pod=True))
    print(f"worker {number} of {len(training['hosts'])}", flush=True)
    try:
        _train(handover, number, len(training["hosts"]))
    except TrainingStoppedError as error:
        print(error, flush=True)
        return TERMINATED
    except Exception as error:
        return _failed(error, handover, chief=number == 0)
    return 0


def _train(handover: Handover, number: int, count: int) -> None:
    from headrace.trainer.devices.errors import explain_out_of_memory
    from headrace.trainer.devices.strategy import choose_strategy, detect_hardware
    from headrace.trainer.run import train

    text = handover.read(JOB)
    if text is None:
        raise TrainingError(f"{handover.uri}/{JOB} no longer exists: the Trainer's task has ended")
    job = _fetched(unpacked(handover, text, Path(tempfile.mkdtemp())), handover, number, count)
    with _checkpoints(job, handover, chief=number == 0), explain_out_of_memory(job.sections.train):
        train(job, choose_strategy(job.sections.train, detect_hardware()))
    if number == 0:
        handover.upload(job.model_run_dir)


def _fetched(job: Job, handover: Handover, number: int, count: int) -> Job:
    """Fetch the files that the job reads. If the workers share the train split, those of this worker's share."""
    from headrace.trainer.input.reading import ClusterWorker

    share = _share(ClusterWorker(number, count)) if job.sections.train.input.own_shards else None
    for folder in folders(job.train_files):
        handover.fetch(folder, share)
    for path in (*folders(job.eval_files), job.transform_output, *([job.base_model] if job.base_model else [])):
        handover.fetch(path)
    return dataclasses.replace(job, has_share=share is not None and not handover.paths.mount)


def _share(worker: Any) -> Callable[[Sequence[str]], Sequence[str]]:
    return lambda names: worker.share(sorted(names))


@contextlib.contextmanager
def _checkpoints(job: Job, handover: Handover, *, chief: bool) -> Iterator[None]:
    """Fetch the last checkpoint; upload what the chief writes while training runs."""
    from headrace.pipeline.kubeflow.pod.checkpoints import mirrored

    folder = job.custom_config.get(CHECKPOINT_FOLDER)
    uri = folder and handover.paths.remote(folder)
    if not folder or not uri or handover.paths.mount:
        yield
    elif chief:
        with mirrored(Path(folder), uri, handover.store):
            yield
    else:
        handover.fetch(Path(folder, job.checkpoint_name), lambda names: sorted(names)[-1:])
        yield


def _failed(error: Exception, handover: Handover, *, chief: bool) -> int:
    """Report an error, to the task too if it would recur in another try; returns the exit status.

    The chief knows most about an error that all workers have, such as which feature caused the NaN, so the others wait.
    """
    message = str(error) if isinstance(error, HeadraceError) else redact(f"{type(error).__name__}: {error}")
    if own_traceback(error) or not isinstance(error, HeadraceError):
        write_traceback(error)
    print(f"failed: {message}", file=sys.stderr, flush=True)
    if not isinstance(error, TrainingError | ConfigError) or type(error.__cause__).__name__ in LOST_WORKER_ERRORS:
        return 1
    with contextlib.suppress(HeadraceError, OSError):
        deadline = time.monotonic() + (0 if chief else CHIEF_SECONDS)
        while not (there := handover.read(ERROR)) and time.monotonic() < deadline:
            time.sleep(1)
        if chief or not there:
            handover.write(ERROR, json.dumps({"kind": type(error).__name__, "message": message}))
    return FINAL


def _end(_number: int, _frame: object) -> NoReturn:
    print("ended by SIGTERM before training started", flush=True)
    sys.stdout.flush()
    os._exit(TERMINATED)


if __name__ == "__main__":
    use_utf8()
    sys.exit(main())
