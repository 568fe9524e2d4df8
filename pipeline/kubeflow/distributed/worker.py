"""What runs in each pod of a distributed training: `python -m headrace.pipeline.kubeflow.distributed.worker`.

The number of the worker is that of its pod (JOB_COMPLETION_INDEX); with the host names of all it makes TF_CONFIG. It
fetches what it reads, trains with the others as `train.strategy: multi_worker` does on any machines, and worker 0, the
chief, leaves what it trained where the Trainer's task finds it.

Ends with 0; with 3 where another try would meet the same error, which is then told to the task; with 143 at SIGTERM;
else with 1, such as when another worker is lost: then all begin again, from the last checkpoint.
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

from headrace.configs.checkpoint import KEPT_IN
from headrace.configs.credentials import without
from headrace.configs.errors import ConfigError, HeadraceError, TrainingError, TrainingStoppedError
from headrace.configs.tracebacks import write_traceback
from headrace.pipeline.environment import prepare
from headrace.pipeline.kubeflow.distributed.handover import ERROR, JOB, Handover, folders, unpacked
from headrace.pipeline.kubeflow.distributed.jobset import FINAL, INDEX, TOLD
from headrace.pipeline.kubeflow.places import Places
from headrace.pipeline.kubeflow.store import open_store
from headrace.pipeline.utf8 import use_utf8

if TYPE_CHECKING:
    from headrace.trainer.job import Job

ROOT = "HEADRACE_POD"
"""Environment variable: a folder to take for the pod's root. For tests."""
TERMINATED = 128 + signal.SIGTERM
CHIEF_SECONDS = 60
"""That another worker leaves the chief to tell of an error."""
OF_OTHERS = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError")
"""What TensorFlow raises where another worker is gone."""


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Train as this worker; the exit status."""
    prepare()
    signal.signal(signal.SIGTERM, _end)  # until training listens
    told, number = json.loads(environ[TOLD]), int(environ[INDEX])
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": told["hosts"]}, "task": {"type": "worker", "index": number}}
    )
    places = Places(environ.get(ROOT, ""), told["mount"])
    handover = Handover(told["uri"], places, open_store(told["store"], of_pod=True))
    print(f"worker {number} of {len(told['hosts'])}", flush=True)
    try:
        _train(handover, number, len(told["hosts"]))
    except TrainingStoppedError as error:
        print(error, flush=True)
        return TERMINATED
    except Exception as error:
        return _failed(error, handover, chief=number == 0)
    return 0


def _train(handover: Handover, number: int, count: int) -> None:
    from headrace.trainer.devices.out_of_memory import out_of_memory_told
    from headrace.trainer.devices.strategy import choose, look
    from headrace.trainer.run import train

    text = handover.read(JOB)
    if text is None:
        raise TrainingError(f"{handover.uri}/{JOB} is gone: the Trainer's task has ended")
    job = _fetched(unpacked(handover, text, Path(tempfile.mkdtemp())), handover, number, count)
    with _checkpoints(job, handover, chief=number == 0), out_of_memory_told(job.sections.train):
        train(job, choose(job.sections.train, look()))
    if number == 0:
        handover.give(job.model_run_dir)


def _fetched(job: Job, handover: Handover, number: int, count: int) -> Job:
    """Bring what the job reads into the pod: of the train split, where the workers share it, this one's files."""
    from headrace.trainer.input.worker import Worker

    share = _share(Worker(number, count)) if job.sections.train.input.own_shards else None
    for folder in folders(job.train_files):
        handover.fetch(folder, share)
    for path in (*folders(job.eval_files), job.transform_output, *([job.base_model] if job.base_model else [])):
        handover.fetch(path)
    return dataclasses.replace(job, has_share=share is not None and not handover.places.mount)


def _share(worker: Any) -> Callable[[Sequence[str]], Sequence[str]]:
    return lambda names: worker.share(sorted(names))


@contextlib.contextmanager
def _checkpoints(job: Job, handover: Handover, *, chief: bool) -> Iterator[None]:
    """Have the last checkpoint in the pod; what the chief writes is copied to the store while training goes on."""
    from headrace.pipeline.kubeflow.checkpoints import mirrored

    folder = job.custom_config.get(KEPT_IN)
    uri = folder and handover.places.remote(folder)
    if not folder or not uri or handover.places.mount:
        yield
    elif chief:
        with mirrored(Path(folder), uri, handover.store):
            yield
    else:
        handover.fetch(Path(folder, job.checkpoint_name), lambda names: sorted(names)[-1:])
        yield


def _failed(error: Exception, handover: Handover, *, chief: bool) -> int:
    """Tell of it, to the task too where another try would meet it again; the exit status.

    The chief can say the most of an error that all have met, such as which feature spoilt the loss, so the others wait.
    """
    told = str(error) if isinstance(error, HeadraceError) else without(f"{type(error).__name__}: {error}")
    if not isinstance(error, HeadraceError):
        write_traceback(error)
    print(f"failed: {told}", file=sys.stderr, flush=True)
    if not isinstance(error, TrainingError | ConfigError) or type(error.__cause__).__name__ in OF_OTHERS:
        return 1
    with contextlib.suppress(HeadraceError, OSError):
        deadline = time.monotonic() + (0 if chief else CHIEF_SECONDS)
        while not (there := handover.read(ERROR)) and time.monotonic() < deadline:
            time.sleep(1)
        if chief or not there:
            handover.write(ERROR, json.dumps({"kind": type(error).__name__, "message": told}))
    return FINAL


def _end(_number: int, _frame: object) -> NoReturn:
    print("ended by SIGTERM before training began", flush=True)
    sys.stdout.flush()
    os._exit(TERMINATED)


if __name__ == "__main__":
    use_utf8()
    sys.exit(main())
