"""The chief's lines in the log of the Trainer's task, as they are written."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from headrace.pipeline.kubeflow.distributed.cluster import JobSets
from headrace.pipeline.kubeflow.distributed.jobset import pod_prefix

SECONDS = 2.0
"""Between two looks for the chief's pod."""
LAST_SECONDS = 10.0
"""For the last lines, once the workers have ended; after SIGTERM Kubernetes leaves a pod 30 seconds."""


@contextlib.contextmanager
def followed(jobsets: JobSets, name: str) -> Iterator[None]:
    """Print the lines of worker 0 of a JobSet, of each pod that it has one after the other, until the block ends."""
    follower = _Follower(jobsets, name)
    thread = threading.Thread(target=follower.run, name="chief-log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        follower.ended.set()
        thread.join(LAST_SECONDS)  # the last lines; a connection that hangs must not hold up the task


class _Follower:
    def __init__(self, jobsets: JobSets, name: str) -> None:
        self.ended = threading.Event()
        self._jobsets, self._name = jobsets, name
        self._seen: dict[str, int] = {}
        """Pod to the lines of it that are printed."""
        self._done: set[str] = set()
        """Pods that had ended, and whose lines are all printed."""
        self._failed = False

    def run(self) -> None:
        while True:
            last = self.ended.is_set()  # then once more, for the lines between
            for pod, phase in self._pods().items():
                chief = pod.startswith(f"{pod_prefix(self._name, 0)}-")
                if chief and phase != "Pending" and pod not in self._done:
                    self._print(pod, ended=phase in ("Succeeded", "Failed"))
            if last or self._failed:
                return
            self.ended.wait(SECONDS)

    def _pods(self) -> dict[str, str]:
        try:
            return self._jobsets.pods(self._name)
        except Exception as error:
            self._tell(error)
            return {}

    def _print(self, pod: str, *, ended: bool) -> None:
        done = self._seen.get(pod, 0)
        try:
            for number, line in enumerate(self._jobsets.log(pod)):
                if number >= done:
                    print(line, flush=True)
                    self._seen[pod] = number + 1
            if ended:
                self._done.add(pod)
        except Exception as error:
            if getattr(error, "status", None) == 403:
                self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Logs are worth less than the training."""
        self._failed = True
        way = f"kubectl logs -n {self._jobsets.namespace} -l jobset.sigs.k8s.io/jobset-name={self._name}"
        print(f"the workers' log cannot be read here ({str(error).splitlines()[0]}); use: {way}", flush=True)
