"""Flink on this machine: Beam's job server with a Flink in it, and a pool of Python workers.

with job_server(jars(folder), folder) as jobs, worker_pool(pool_folder) as pool:
    config.beam = beam_section(jobs, pool, workers=2)

The jars come from Maven Central, with Maven; Java runs them.
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
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from headrace.configs.schema.beam import BeamConfig, OptionValue
from headrace.trainer.service.ports import free_port

POM = Path(__file__).parent / "flink_job_server" / "pom.xml"
SECONDS = 120
"""In which the jars must have come (90 MB), and then a server must have started."""
SETTINGS = {
    "taskmanager.network.sort-shuffle.min-buffers": 64,
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
}
"""Flink's own do not do for Transform's jobs (see kubernetes/components/flink)."""
STARTED = re.compile(r"JobService started on localhost:(\d+)")
FINISHED = re.compile(r"Job BeamApp\S* \(\w+\) switched from state RUNNING to FINISHED")
OPENED = ("java.lang", "java.util", "java.nio", "java.net", "java.time")
"""Packages that Flink looks into, and Java 17 has closed."""


class MissingError(Exception):
    """Something that Flink needs is not to be had here."""


@dataclass(frozen=True)
class JobServer:
    """A job server. address: where it takes jobs; log: its own and Flink's; pid: of its process."""

    address: str
    log: Path
    pid: int

    @property
    def finished(self) -> int:
        """The jobs that Flink has brought to their end."""
        return len(FINISHED.findall(self.log.read_text(encoding="utf-8", errors="replace")))


@dataclass(frozen=True)
class WorkerPool:
    """A process that starts Python workers. address: where it is asked for them; pid: of its process."""

    address: str
    pid: int


def jars(folder: Path) -> Path:
    """Fetch what the job server consists of into a folder, which is returned. Raises MissingError."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise MissingError(f"{program} is not installed")
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, encoding="utf-8")
    except subprocess.TimeoutExpired as slow:
        raise MissingError(f"mvn did not get Flink's jars in {SECONDS} s") from slow
    if done.returncode:
        raise MissingError(f"mvn could not get Flink's jars: {(done.stdout + done.stderr).strip()[:300]}")
    return folder


@contextlib.contextmanager
def job_server(jars: Path, folder: Path) -> Iterator[JobServer]:
    """Run a job server with a Flink in it. folder: an existing one, for what it writes."""
    log = folder / "job-server.log"
    (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    command = ["java", "-Xmx768m", f"-Djava.io.tmpdir={folder}", "-cp", f"{jars}/*"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    command += ["org.apache.beam.runners.flink.FlinkJobServerDriver", "--flink-master=[local]", "--job-host=localhost"]
    command += [f"--flink-conf-dir={folder}"]
    command += ["--job-port=0", "--artifact-port=0", "--expansion-port=0", f"--artifacts-dir={folder / 'artifacts'}"]
    with running(command, log) as process:
        _await(process, log, lambda: STARTED.search(log.read_text(encoding="utf-8")) is not None)
        (port,) = STARTED.findall(log.read_text(encoding="utf-8"))
        yield JobServer(f"localhost:{port}", log, process.pid)


@contextlib.contextmanager
def worker_pool(folder: Path, within: Sequence[str] = (), **environment: str) -> Iterator[WorkerPool]:
    """Run what starts Python workers, as beside a task manager. folder: an existing one, for what it writes; within: a
    command that the program is appended to; environment: variables of the process.
    """
    port, log = free_port(), folder / "workers.log"
    program = [sys.executable, "-P", "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # it starts `python`, as in the image
    with running([*within, *program], log, **{"PATH": path, **environment}) as process:
        _await(process, log, lambda: _listens(port))
        yield WorkerPool(f"localhost:{port}", process.pid)


def beam_section(jobs: JobServer, pool: WorkerPool, workers: int) -> BeamConfig:
    """What docs/beam.md lets a config say; and that workers are kept within a job, for they take long to start."""
    options: dict[str, OptionValue] = {
        "job_endpoint": jobs.address,
        "environment_type": "EXTERNAL",
        "environment_config": pool.address,
        "environment_cache_millis": 10000,
    }
    return BeamConfig(runner="flink", workers=workers, options=options)


@contextlib.contextmanager
def running(command: Sequence[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a process group of its own, which is ended with all that it started."""
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


def _await(process: subprocess.Popen[bytes], log: Path, started: Callable[[], bool]) -> None:
    """Wait for a server. Raises MissingError, with the end of its log, if it ends or does not start."""
    until = time.monotonic() + SECONDS
    while not started():
        if process.poll() is not None or time.monotonic() > until:
            raise MissingError(f"no server: {log.read_text(encoding='utf-8', errors='replace')[-1000:]}")
        time.sleep(0.05)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
