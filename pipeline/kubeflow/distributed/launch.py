"""The Trainer's task of a training in several pods: it creates the JobSet, watches it, fetches the result, removes it.

    with distributed(environ, task):
        run_fn(fn_args)         # trains in the JobSet, then exports here

The JobSet is named after the run and the task, so a further try of the task finds and removes what the one before left,
and the workers continue from the last checkpoint. It is removed however the task ends: by the task itself, also on
SIGTERM, or by Kubernetes, because the task's pod owns it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.errors import RunError, TrainingError, TrainingStoppedError
from headrace.configs.schema.train import CHECKPOINT_FOLDER
from headrace.pipeline.kubeflow.distributed import jobset
from headrace.pipeline.kubeflow.distributed.cluster import JobSetClient
from headrace.pipeline.kubeflow.distributed.handover import ERROR, JOB, Handover, packed
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.store import Store

if TYPE_CHECKING:
    from headrace.trainer.job import Job

logger = logging.getLogger(__name__)

POD_NAME = "KFP_POD_NAME"
"""Environment variable that Kubeflow sets: the name of the pod."""
POLL_SECONDS = 2.0
LAST_SECONDS = 10.0
"""How long to wait for the last lines of the chief's log once the workers have ended. After SIGTERM, Kubernetes gives a
pod 30 seconds."""


@dataclasses.dataclass(frozen=True)
class TrainerTask:
    """The task that trains in several pods."""

    user: str
    """`<run>/<task>`."""
    home: str
    """The URI of the pipeline's folder."""
    pod: str
    """The name of its pod."""
    files: Path
    """The folder of the files that were compiled in."""
    paths: PodPaths
    store: Store
    store_options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of its JobSet: the same for each try of the task, and short enough for a DNS label with the suffixes
        of Kubernetes.
        """
        return f"headrace-{hashlib.sha256(f'{self.home} {self.user}'.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def distributed(environ: Mapping[str, str], task: TrainerTask) -> Iterator[None]:
    """Let `run_fn` train in a JobSet, if the task was compiled for that."""
    if jobset.MANIFEST not in environ:
        yield
        return
    from headrace.trainer.launch import training_by

    manifest = json.loads(environ[jobset.MANIFEST])
    if not task.pod:
        raise RunError(f"distributed training: {POD_NAME} is not set, so this is not a pod of Kubeflow Pipelines")
    checkpoints: list[str] = []
    with training_by(lambda job: checkpoints.append(_train(job, manifest, task))):
        yield
    for uri in checkpoints:  # once the model is exported
        Handover(uri, task.paths, task.store).remove()


def _train(job: Job, manifest: Mapping[str, Any], task: TrainerTask) -> str:
    """Train in a JobSet, and fetch what the chief wrote to the job's run directory. Returns the URI of its checkpoints.

    Raises the TrainingError of the chief.
    """
    from headrace.trainer.job import checkpoint_name

    job = dataclasses.replace(job, training=uuid.uuid4().hex, checkpoint_name=checkpoint_name(job))
    handover = Handover(f"{task.home}/training/{task.name}", task.paths, task.store)
    jobsets = JobSetClient(manifest["namespace"])
    owner = jobsets.owner(task.pod)
    training = {
        "hosts": jobset.hosts(manifest["jobset"], task.name),
        "mount": task.paths.mount,
        "store": dict(task.store_options),
        "uri": handover.uri,
    }
    try:
        handover.write(JOB, packed(handover, job, task.files))
        logger.info(f"distributed training: JobSet {task.name} of {len(training['hosts'])} workers")
        jobsets.create(jobset.complete(manifest["jobset"], task.name, owner, training))
        with _chief_log(jobsets, task.name), _deleted_at_once(jobsets, task.name):
            _watch(jobsets, task.name, handover)
        handover.fetch(job.model_run_dir)
    finally:
        _clean(jobsets, task.name, handover)
    return f"{task.paths.remote(job.custom_config[CHECKPOINT_FOLDER])}/{job.checkpoint_name}"


@contextlib.contextmanager
def _deleted_at_once(jobsets: JobSetClient, name: str) -> Iterator[None]:
    """Delete the JobSet once SIGTERM or an error ends the block, so that the log still shows how the chief ends."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(RunError):  # `_clean` tries again, and reports
            jobsets.request_deletion(name)
        raise


def _clean(jobsets: JobSetClient, name: str, handover: Handover) -> None:
    """Remove the JobSet and the handover. A failure is logged, and hides no other error."""
    removals: list[Callable[[], None]] = [lambda: jobsets.request_deletion(name), handover.remove]
    for remove in removals:
        try:
            remove()
        except (RunError, OSError) as error:
            logger.warning(f"distributed training: could not clean up: {error}")


def _watch(jobsets: JobSetClient, name: str, handover: Handover) -> None:
    """Wait until the JobSet is done. Raises RunError or TrainingError if it fails."""
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
            logger.warning(f"distributed training: a worker was lost; all workers restart (restart {again})")
            _raise_reported(handover)
        shown = _log_ready(status, shown)
        time.sleep(POLL_SECONDS)


def _log_ready(status: Mapping[str, Any], before: str) -> str:
    """Log how many workers are ready, if that has changed."""
    now = ", ".join(f"{one.get('ready', 0)} ready" for one in status.get("replicatedJobsStatus", []))
    if now and now != before:
        logger.info(f"distributed training: jobs: {now}")
    return now


def _fail(handover: Handover, message: str, restarts: int) -> None:
    _raise_reported(handover)
    times = f" after {restarts} restarts" if restarts else ""
    raise TrainingError(
        f"distributed training failed{times}: {message or 'a worker ended with an error'}. The log above has the"
        " chief's lines; `kubeflow.workers.restarts` limits how often the workers restart"
    )


def _raise_reported(handover: Handover) -> None:
    """Raise the error that a worker has reported because it would recur in another try, if there is one."""
    text = handover.read(ERROR)
    if text is None:
        return
    error = json.loads(text)
    kind = TrainingStoppedError if error["kind"] == TrainingStoppedError.__name__ else TrainingError
    raise kind(error["message"])


@contextlib.contextmanager
def _chief_log(jobsets: JobSetClient, name: str) -> Iterator[None]:
    """Log the lines of worker 0 of a JobSet, of each of its pods one after the other, until the block ends."""
    follower = _ChiefLog(jobsets, name)
    thread = threading.Thread(target=follower.run, name="chief-log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        follower.ended.set()
        thread.join(LAST_SECONDS)  # for the last lines; a connection that hangs must not block the task


class _ChiefLog:
    def __init__(self, jobsets: JobSetClient, name: str) -> None:
        self.ended = threading.Event()
        self._jobsets, self._name = jobsets, name
        self._logged: dict[str, int] = {}
        """Pod to the number of its lines that are logged."""
        self._done: set[str] = set()
        """Pods that had ended, and whose lines are all logged."""
        self._failed = False

    def run(self) -> None:
        while True:
            last = self.ended.is_set()  # then once more, for the lines in between
            for pod, phase in self._pods().items():
                is_chief = pod.startswith(f"{jobset.pod_prefix(self._name, 0)}-")
                if is_chief and phase != "Pending" and pod not in self._done:
                    self._log(pod, ended=phase in ("Succeeded", "Failed"))
            if last or self._failed:
                return
            self.ended.wait(POLL_SECONDS)

    def _pods(self) -> dict[str, str]:
        try:
            return self._jobsets.pods(self._name)
        except Exception as error:
            self._give_up(error)
            return {}

    def _log(self, pod: str, *, ended: bool) -> None:
        logged = self._logged.get(pod, 0)
        try:
            for number, line in enumerate(self._jobsets.log(pod)):
                if number >= logged:
                    logger.info(line)
                    self._logged[pod] = number + 1
            if ended:
                self._done.add(pod)
        except Exception as error:
            if getattr(error, "status", None) == 403:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Say why the log is not shown; the training is worth more than its log."""
        self._failed = True
        command = f"kubectl logs -n {self._jobsets.namespace} -l jobset.sigs.k8s.io/jobset-name={self._name}"
        logger.warning(f"the workers' log cannot be read here ({str(error).splitlines()[0]}); use: {command}")
