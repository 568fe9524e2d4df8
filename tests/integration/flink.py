"""Beam on Flink, on this machine: Beam's job server with a Flink in it, and a pool of Python workers.

with job_server(jars(folder), folder) as jobs, workers(folder, hidden) as pool:
    BeamPipelines(beam_section(jobs, pool), folder)

The workers are in a mount namespace of their own, with an empty `/tmp` and without the `/tmp` of a `PodApart`: as in a
cluster, where a component's pod and theirs share volumes alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import yaml
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc
from command import wait_until

from headrace.configs.schema.beam import BeamConfig, OptionValue
from headrace.pipeline.kubeflow.verify.driver import Json
from headrace.pipeline.kubeflow.verify.launcher import Pod
from headrace.trainer.service.ports import free_port

POM = Path(__file__).parent / "flink_job_server" / "pom.xml"
SECONDS = 120
"""In which the jars must have come: 90 MB."""
HIDDEN = "tmp-of-pods"
SETTINGS = {
    "taskmanager.network.sort-shuffle.min-buffers": 64,
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
}
"""Flink's own do not do for Transform's jobs (see kubernetes/components/flink)."""
STARTED = re.compile(r"JobService started on localhost:(\d+)")
FINISHED = re.compile(r"Job BeamApp\S* \(\w+\) switched from state RUNNING to FINISHED")
APART = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")
SCRIPT = 'mount -t tmpfs tmpfs "$TMPDIR"; mount -t tmpfs tmpfs "$0"; exec "$@"'
OPENED = ("java.lang", "java.util", "java.nio", "java.net", "java.time")
"""Packages that Flink looks into, and Java 17 has closed."""


class MissingError(Exception):
    """Something that Flink needs is not to be had here."""


def jars(folder: Path) -> Path:
    """A folder with what the job server consists of. Raises MissingError."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise MissingError(f"{program} is not installed")
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as slow:
        raise MissingError(f"mvn did not get Flink's jars in {SECONDS} s") from slow
    if done.returncode:
        raise MissingError(f"mvn could not get Flink's jars: {(done.stdout + done.stderr).strip()[:300]}")
    return folder


@dataclass(frozen=True)
class JobServer:
    """A job server. `address`: where it takes jobs; `log`: its own and Flink's."""

    address: str
    log: Path

    @property
    def finished(self) -> int:
        """The jobs that Flink has brought to their end."""
        return len(FINISHED.findall(self.log.read_text(errors="replace")))


@contextlib.contextmanager
def job_server(jars: Path, folder: Path) -> Iterator[JobServer]:
    """`folder`: an existing one, for what it writes."""
    log = folder / "job-server.log"
    (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    command = ["java", "-Xmx768m", f"-Djava.io.tmpdir={folder}", "-cp", f"{jars}/*"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    command += ["org.apache.beam.runners.flink.FlinkJobServerDriver", "--flink-master=[local]", "--job-host=localhost"]
    command += [f"--flink-conf-dir={folder}"]
    command += ["--job-port=0", "--artifact-port=0", "--expansion-port=0", f"--artifacts-dir={folder / 'artifacts'}"]
    with _running(command, log):
        assert wait_until(lambda: STARTED.search(log.read_text()) is not None), log.read_text()
        (port,) = STARTED.findall(log.read_text())
        yield JobServer(f"localhost:{port}", log)


@contextlib.contextmanager
def workers(folder: Path, hidden: Path) -> Iterator[str]:
    """Python workers as in a task manager's pod; their address. `folder`: an existing one; `hidden`: another, which is
    empty for them.
    """
    port = free_port()
    (folder / "tmp").mkdir()
    program = [sys.executable, "-P", "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # it starts `python`, as in the image
    environment = {"PATH": path, "TMPDIR": str(folder / "tmp")}
    log = folder / "workers.log"
    with _running([*APART, SCRIPT, str(hidden), *program], log, **environment) as process:
        assert wait_until(lambda: _listens(port) or process.poll() is not None), log.read_text()
        assert process.poll() is None, log.read_text()
        yield f"localhost:{port}"


def beam_section(jobs: JobServer, pool: str) -> BeamConfig:
    """What docs/beam.md lets a config say; and that workers are kept within a job, for they take long to start."""
    options: dict[str, OptionValue] = {
        "job_endpoint": jobs.address,
        "environment_type": "EXTERNAL",
        "environment_config": pool,
        "environment_cache_millis": 10000,
    }
    return BeamConfig(runner="flink", workers=2, options=options)


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


@contextlib.contextmanager
def _running(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, which is ended with all that it started."""
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            cwd=log.parent,
            env={**os.environ, **environment},
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
