"""The program that each pod runs: one component, with its failure reported where Kubernetes and Kubeflow look for it.

    python -m headrace.pipeline.kubeflow.entrypoint --invocation JSON --executor-input JSON

Exits with 1 after a failure, with the cause on the last line of the log and in Kubernetes' termination message; with
143 on SIGTERM. Compiled pipelines and images name this module, so its path is part of their format.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from headrace.common.credentials import redact
from headrace.common.environment import prepare
from headrace.common.logs import log_to_stdout
from headrace.common.tracebacks import own_traceback, write_traceback
from headrace.common.utf8 import use_utf8
from headrace.pipeline.kubeflow.pod.invocation import Invocation, unpack
from headrace.pipeline.kubeflow.pod.paths import ROOT

MESSAGE_LENGTH = 4096
"""Bytes that Kubernetes stores of a termination message."""
TERMINATED = 128 + signal.SIGTERM


class _TerminatedError(BaseException):
    """SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the component that the arguments describe; returns the exit status."""
    prepare()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    log_to_stdout()
    parser = argparse.ArgumentParser(prog="headrace.pipeline.kubeflow.entrypoint")
    parser.add_argument("--invocation", required=True, metavar="JSON", help="The compiled component.")
    parser.add_argument("--executor-input", required=True, metavar="JSON", help="The executor input of the launcher.")
    given = parser.parse_args(arguments)
    invocation = Invocation.from_json(unpack(given.invocation))
    id_ = invocation.id
    started = time.monotonic()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        print(f"{id_}: started")
        from headrace.pipeline.kubeflow.run_component import run

        run(invocation, json.loads(given.executor_input))
    except _TerminatedError:
        return _failed(id_, "ended by SIGTERM: Kubernetes removed the pod, or the run was canceled", TERMINATED)
    except Exception as error:
        return _failed(id_, _cause(error), 1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the rest takes no time
    print(last_line(id_, time.monotonic() - started, _peak_memory(), _cpu_seconds()))
    return 0


def last_line(component: str, seconds: float, peak: int, cpu_seconds: float) -> str:
    """The last line of a pod's log, which `kubeflow.resources: auto` reads. peak: bytes."""
    cpus = cpu_seconds / max(seconds, 0.1)
    took = f"{peak >> 20:,} MiB of memory at most and {cpus:.2f} CPUs on average"
    return f"{component}: done in {seconds:.1f} s, with {took}"


def _peak_memory() -> int:
    """Bytes of the largest process, this one or one that it started."""
    used = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(used) << 10  # Linux counts in KiB


def _cpu_seconds() -> float:
    """CPU time of this process since it began, and of its child processes that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _TerminatedError


def _cause(error: Exception) -> str:
    from headrace.common.errors import HeadraceError

    if own_traceback(error) or not isinstance(error, HeadraceError):
        write_traceback(error)
    if isinstance(error, HeadraceError):
        return str(error)
    return redact(f"{type(error).__name__}: {error}")


def _failed(id_: str, cause: str, status: int) -> int:
    """Report the whole cause, then its first line as the last line of the log; and the same to Kubernetes."""
    first, *more = cause.splitlines() or [""]
    last = f"{id_} failed: {first}"
    sys.stdout.flush()
    if more:
        print(cause, file=sys.stderr)
    print(last, file=sys.stderr, flush=True)
    message = f"{cause}\n{last}" if more else last
    with contextlib.suppress(OSError):
        log = Path(os.environ.get(ROOT, "") + "/dev/termination-log")
        log.write_bytes(message.encode()[-MESSAGE_LENGTH:])
    return status


if __name__ == "__main__":
    use_utf8()
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # TensorFlow's and Beam's threads must not delay the end of the pod
