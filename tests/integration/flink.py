"""Beam on Flink as in a cluster, where a component's pod and the workers share volumes alone.

with job_server(jars(folder), folder) as jobs, workers(folder, hidden) as pool:
    BeamPipelines(beam_section(jobs, pool, workers=2), folder)

The workers are in a mount namespace of their own, with an empty `/tmp` and without the `/tmp` of a `PodApart`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import grpc
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from benchmarks.flink import JobServer, WorkerPool, worker_pool
from headrace.pipeline.kubeflow.verify.driver import Json
from headrace.pipeline.kubeflow.verify.launcher import Pod

HIDDEN = "tmp-of-pods"
APART = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")
SCRIPT = 'mount -t tmpfs tmpfs "$TMPDIR"; mount -t tmpfs tmpfs "$0"; exec "$@"'


@contextlib.contextmanager
def workers(folder: Path, hidden: Path) -> Iterator[WorkerPool]:
    """Python workers as in a task manager's pod. `folder`: an existing one; `hidden`: another, which is empty for
    them.
    """
    own = folder / "tmp"
    own.mkdir()
    with worker_pool(folder, (*APART, SCRIPT, str(hidden)), TMPDIR=str(own)) as pool:
        yield pool


def described(jobs: JobServer) -> set[str]:
    """The names of the options that the job server knows."""
    with grpc.insecure_channel(jobs.address) as channel:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
        return {
            one.name for one in stub.DescribePipelineOptions(beam_job_api_pb2.DescribePipelineOptionsRequest()).options
        }


class PodApart(Pod):
    """A pod whose `/tmp` lies in a folder HIDDEN beside the others, which workers do not see."""

    def prepare(self, executor_input: Json) -> None:
        """Have the inputs in the pod."""
        super().prepare(executor_input)
        own = self.root.parents[1] / HIDDEN / self.root.name
        own.mkdir(parents=True)
        (self.root / "tmp").rmdir()
        (self.root / "tmp").symlink_to(own)
