"""What runs in a pod: one component, between Kubeflow's launcher and TFX's executor.

python -m headrace.pipeline.kubeflow.entrypoint --invocation JSON --executor-input JSON

Ends with 1 and the cause on the last line, which is Kubernetes' termination message too; with 143 on SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.configs.credentials import without
from headrace.configs.tracebacks import write_traceback
from headrace.pipeline.environment import prepare
from headrace.pipeline.kubeflow.argument import unpack
from headrace.pipeline.utf8 import use_utf8

if TYPE_CHECKING:
    from headrace.pipeline.kubeflow.distributed.launch import Task
    from headrace.pipeline.kubeflow.exchange import Exchange
    from headrace.pipeline.kubeflow.invocation import Invocation
    from headrace.pipeline.kubeflow.places import Places
    from headrace.pipeline.kubeflow.store import Store

ROOT = "HEADRACE_POD"
"""Environment variable: a folder to take for the pod's root. For tests."""
LOOK = "headrace.components.trigger.component:LookForNew_Executor"
"""The executor of the first task of a pipeline that trains only where there is a reason to."""
NOISE = ("Examples artifact does not have payload_format", "TF_USE_LEGACY_KERAS is set to 0")
"""What TFX and TensorFlow Transform warn of in each pod, several times, and nobody has to mend: the format is
tf.Example, and Keras 3 is wanted."""
MESSAGE_LENGTH = 4096
"""Bytes that Kubernetes keeps of a termination message."""
TERMINATED = 128 + signal.SIGTERM


class _TerminatedError(BaseException):
    """SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the component that the arguments describe; the exit status."""
    prepare()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(prog="headrace.pipeline.kubeflow.entrypoint")
    parser.add_argument("--invocation", required=True, metavar="JSON", help="The component, as compiled.")
    parser.add_argument("--executor-input", required=True, metavar="JSON", help="As the launcher tells it.")
    given = parser.parse_args(arguments)
    invocation = unpack(given.invocation)
    id_ = json.loads(invocation)["id"]
    started = time.monotonic()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        print(f"{id_}: started")
        if not _looked(json.loads(invocation), json.loads(given.executor_input)):
            _run(invocation, json.loads(given.executor_input))
    except _TerminatedError:
        return _failed(id_, "ended by SIGTERM: Kubernetes took the pod away, or the run was canceled", TERMINATED)
    except Exception as error:
        return _failed(id_, _cause(error), 1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is left to do takes no time
    print(last_line(id_, time.monotonic() - started, _peak(), _cpu_seconds()))
    return 0


def last_line(component: str, seconds: float, peak: int, cpu_seconds: float) -> str:
    """What a pod says in the end, which `kubeflow.resources: auto` reads. peak: bytes."""
    cpus = cpu_seconds / max(seconds, 0.1)
    took = f"{peak >> 20:,} MiB of memory at most and {cpus:.2f} CPUs on average"
    return f"{component}: done in {seconds:.1f} s, with {took}"


def _peak() -> int:
    """Bytes of memory that the largest process has held, this one or one that it started."""
    used = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(used) << 10  # Linux counts in KiB


def _cpu_seconds() -> float:
    """Of this process since it began, and of those that it started and that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _tells_something(record: logging.LogRecord) -> bool:
    """Whether a message of TFX's is none of those that each pod would repeat."""
    return not record.getMessage().startswith(NOISE)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _TerminatedError


def _looked(invocation: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether the component was the one that needs no TensorFlow; it is done then."""
    if invocation["executor"] != LOOK:
        return False
    from headrace.pipeline.kubeflow.look import look

    look(invocation, told, os.environ.get(ROOT, ""))
    return True


def _run(invocation_json: str, told: Mapping[str, Any]) -> None:
    importlib.import_module("absl.logging")  # which has no types; it makes the logger
    logging.getLogger("absl").addFilter(_tells_something)
    from headrace.components.beam_pipelines import BeamPipelines
    from headrace.configs.beam import BeamConfig
    from headrace.pipeline.execute import execute
    from headrace.pipeline.kubeflow.aside import put_back
    from headrace.pipeline.kubeflow.carried import with_paths
    from headrace.pipeline.kubeflow.distributed.launch import distributed
    from headrace.pipeline.kubeflow.exchange import Exchange
    from headrace.pipeline.kubeflow.invocation import Invocation
    from headrace.pipeline.kubeflow.parameters import with_parameters
    from headrace.pipeline.kubeflow.places import Places
    from headrace.pipeline.kubeflow.state import present
    from headrace.pipeline.kubeflow.store import open_store

    invocation = Invocation.from_json(invocation_json)
    places = Places(os.environ.get(ROOT, ""), invocation.mount)
    store = open_store(invocation.store, of_pod=True)
    beam = BeamConfig.model_validate_json(json.dumps(invocation.beam))
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(_scratch())
        exchange = Exchange(invocation, told, places, scratch)
        seen = stack.enter_context(_seen_by_workers(exchange)) if places.mount and beam.is_remote else scratch
        files = _files(invocation.files, seen)
        told_aside = put_back(invocation.exec_properties, os.environ)
        properties = with_parameters(invocation.id, told_aside, exchange.parameters)
        properties = with_paths(properties, exchange.home, files)
        inputs = exchange.inputs(store)
        stack.enter_context(distributed(os.environ, _task(invocation, exchange, places, store, files)))
        with present(properties, places, store, exchange.user):
            outputs = execute(invocation.node(properties), inputs, exchange.output_uris(), BeamPipelines(beam, seen))
        exchange.write(outputs)


def _task(invocation: Invocation, exchange: Exchange, places: Places, store: Store, files: Path) -> Task:
    """The task, as a training in several pods knows it."""
    from headrace.pipeline.kubeflow.distributed.launch import POD, Task

    home = places.remote(exchange.home) or ""
    return Task(exchange.user, home, os.environ.get(POD, ""), files, places, store, invocation.store)


@contextlib.contextmanager
def _scratch() -> Any:
    folder = Path(tempfile.mkdtemp(prefix="headrace-"))
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _seen_by_workers(exchange: Exchange) -> Iterator[Path]:
    """A folder on the shared volume: Beam's workers may be in pods of their own, which do not have this one's disk."""
    folder = exchange.shared_scratch
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier try
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _files(contents: Mapping[str, str], scratch: Path) -> Path:
    """The folder with the files that came along."""
    folder = scratch / "files"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def _cause(error: Exception) -> str:
    from headrace.configs.errors import HeadraceError

    if isinstance(error, HeadraceError):
        return str(error)
    write_traceback(error)
    return without(f"{type(error).__name__}: {error}")


def _failed(id_: str, cause: str, status: int) -> int:
    """Tell why: the whole of it, then its first line as the last; the same to Kubernetes."""
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
    os._exit(code)  # TensorFlow's and Beam's threads must not hold up the pod's end
