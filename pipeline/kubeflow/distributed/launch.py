"""The Trainer's task of a training in several pods: make the JobSet, watch it, bring home what it trained, remove it.

    with distributed(environ, exchange, places, store):
        run_fn(fn_args)         # trains by the JobSet, then exports here

The JobSet is named after the run and the task, so a further try of the task finds what the one before left, removes it,
and the workers go on from the last checkpoint. It goes when the task ends in whatever way: by the task itself, also at
SIGTERM, or by Kubernetes, as it is owned by the task's pod.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.configs.checkpoint import KEPT_IN
from headrace.configs.errors import RunError, TrainingError, TrainingStoppedError
from headrace.pipeline.kubeflow.distributed import jobset
from headrace.pipeline.kubeflow.distributed.chief_log import followed
from headrace.pipeline.kubeflow.distributed.cluster import JobSets
from headrace.pipeline.kubeflow.distributed.handover import ERROR, JOB, Handover, packed
from headrace.pipeline.kubeflow.places import Places
from headrace.pipeline.kubeflow.store import Store

if TYPE_CHECKING:
    from headrace.trainer.job import Job

POD = "KFP_POD_NAME"
"""Environment variable that Kubeflow sets: the name of the pod."""
POLL_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Task:
    """The task that trains."""

    user: str
    """`<run>/<task>`."""
    home: str
    """The URI of the pipeline's folder."""
    pod: str
    """Its pod's name."""
    files: Path
    """The folder of the files that came along with the pipeline."""
    places: Places
    store: Store
    store_options: Mapping[str, str]

    @property
    def name(self) -> str:
        """Of its JobSet: the same for each try of the task, and a label of DNS with what Kubernetes adds to it."""
        return f"headrace-{hashlib.sha256(f'{self.home} {self.user}'.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def distributed(environ: Mapping[str, str], task: Task) -> Iterator[None]:
    """Have `run_fn` train by a JobSet, if the task was compiled so."""
    if jobset.MANIFEST not in environ:
        yield
        return
    from headrace.trainer.devices.elsewhere import trained_by

    told = json.loads(environ[jobset.MANIFEST])
    if not task.pod:
        raise RunError(f"distributed training: {POD} is not set, so this is no pod of Kubeflow Pipelines")
    works: list[str] = []
    with trained_by(lambda job: works.append(_train(job, told, task))):
        yield
    for work in works:  # when the model is exported
        Handover(work, task.places, task.store).remove()


def _train(job: Job, told: Mapping[str, Any], task: Task) -> str:
    """Train by a JobSet, and have in the job's run directory what the chief wrote; the URI of its checkpoints.

    Raises TrainingError as the chief does.
    """
    from headrace.trainer.checkpointing.work import name_of

    job = dataclasses.replace(job, training=uuid.uuid4().hex, checkpoint_name=name_of(job))
    handover = Handover(f"{task.home}/training/{task.name}", task.places, task.store)
    jobsets = JobSets(told["namespace"])
    owner = jobsets.owner(task.pod)
    of_workers = {
        "hosts": jobset.hosts(told["jobset"], task.name),
        "mount": task.places.mount,
        "store": dict(task.store_options),
        "uri": handover.uri,
    }
    try:
        handover.write(JOB, packed(handover, job, task.files))
        print(f"distributed training: JobSet {task.name} of {len(of_workers['hosts'])} workers", flush=True)
        jobsets.create(jobset.completed(told["jobset"], task.name, owner, of_workers))
        with followed(jobsets, task.name), _deleted_at_once(jobsets, task.name):
            _watch(jobsets, task.name, handover)
        handover.fetch(job.model_run_dir)
    finally:
        _clean(jobsets, task.name, handover)
    return f"{task.places.remote(job.custom_config[KEPT_IN])}/{job.checkpoint_name}"


@contextlib.contextmanager
def _deleted_at_once(jobsets: JobSets, name: str) -> Iterator[None]:
    """Delete the JobSet when SIGTERM or an error ends the block, so that the log still shows how the chief ends."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(RunError):  # `_clean` tries again, and tells
            jobsets.request_deletion(name)
        raise


def _clean(jobsets: JobSets, name: str, handover: Handover) -> None:
    """Remove the JobSet and what was handed over. What fails is told, and hides no other error."""
    removals: list[Callable[[], None]] = [lambda: jobsets.request_deletion(name), handover.remove]
    for remove in removals:
        try:
            remove()
        except (RunError, OSError) as error:
            print(f"distributed training: could not clean up: {error}", flush=True)


def _watch(jobsets: JobSets, name: str, handover: Handover) -> None:
    """Until the JobSet is done. Raises RunError or TrainingError if it fails."""
    shown, restarts = "", 0
    while True:
        found = jobsets.get(name)
        if found is None:
            raise RunError(f"distributed training: the JobSet {name} was deleted while it trained; run again")
        status = found.get("status", {})
        ended = {one["type"]: one for one in status.get("conditions", []) if one["status"] == "True"}
        if "Completed" in ended:
            return
        if "Failed" in ended:
            _fail(handover, ended["Failed"].get("message", ""), status.get("restarts", 0))
        if (again := status.get("restarts", 0)) > restarts:
            restarts = again
            print(f"distributed training: a worker was lost; all begin again (restart {again})", flush=True)
            _raise_told(handover)
        shown = _shown(status, shown)
        time.sleep(POLL_SECONDS)


def _shown(status: Mapping[str, Any], before: str) -> str:
    """Tell how many workers are ready, where that has changed."""
    now = ", ".join(f"{one.get('ready', 0)} ready" for one in status.get("replicatedJobsStatus", []))
    if now and now != before:
        print(f"distributed training: jobs: {now}", flush=True)
    return now


def _fail(handover: Handover, message: str, restarts: int) -> None:
    _raise_told(handover)
    times = f" after {restarts} restarts" if restarts else ""
    raise TrainingError(
        f"distributed training failed{times}: {message or 'a worker ended with an error'}. The log above has the"
        " chief's lines; `kubeflow.workers.restarts` says how often the workers may begin again"
    )


def _raise_told(handover: Handover) -> None:
    """Raise the error that a worker told of, if another try would meet it again."""
    text = handover.read(ERROR)
    if text is None:
        return
    told = json.loads(text)
    kind = TrainingStoppedError if told["kind"] == TrainingStoppedError.__name__ else TrainingError
    raise kind(told["message"])
