"""The fork server: it imports TensorFlow, TFX and Beam once, and forks a child for each component.

A child has everything imported, writes to its own log, and cannot harm the others. It is forked while the component
before it runs, and waits for its request, since to copy the tables of half a gigabyte of memory takes a while.
The server runs no thread of its own, so that forking is safe. `headrace.pipeline.local.client` starts it in a process
group of its own. When the command at the other end is gone, for whatever reason, it kills the group.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import selectors
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from headrace.common.credentials import redact
from headrace.common.environment import imports_alone, prepare
from headrace.common.errors import GateError
from headrace.common.locks import adopt, hold
from headrace.common.logs import log_to_stdout
from headrace.common.reexports import postpone_reexports
from headrace.common.tracebacks import write_traceback
from headrace.pipeline.local.wire import FULL_DISK, JsonConnection, StoredArtifact, write_result

prepare()

REEXPORTING = (
    "IPython",  # imported by Keras, for an editor of weights
    "boto3",  # imported by Beam, as are Google's clients
    "google.cloud.bigquery",
    "google.cloud.dataflow",
    "google.cloud.pubsub",
    "keras.wrappers",  # imports scikit-learn
    "scipy.stats",  # imported by TFMA, for the jackknife
    "setuptools",  # imported by TFX to see whether it is there
    "tensorflow._api.v2.__internal__.*",  # TensorFlow's names under `tf.__internal__`
    "tensorflow._api.v2.compat.*",  # those of TensorFlow 1; imports its debugger
    "tensorflow.python.distribute.cluster_resolver",  # imports the client of Google's API, as does the client of TPUs
    "tensorflow.python.keras",  # Keras 2 of long ago; imports SciPy
    "tensorflow.python.keras.layers",
    "tensorflow.python.tpu.client.client",
    "tf_keras.api.*",  # of Keras 2, from which TFT derives a class; imported by TFMA, and imports SciPy's images, as do
    "tf_keras.datasets",
    "tf_keras.preprocessing",
    "tqdm.notebook",  # imported by BigQuery's client; imports IPython's widgets
)
"""Packages and modules that import what no component uses: a quarter of all imports. Not in the list are
`tensorflow_model_analysis.metrics`, which registers metrics as well; the other names of TensorFlow, whose modules
register the types of tensors that a SavedModel may have; and NLTK, whose submodules import each other in a circle.
"""
REEXPORTING_TOGETHER = (
    "tensorflow_model_analysis",
    "tensorflow_model_analysis.evaluators",
    "tensorflow_model_analysis.extractors",
    "tensorflow_model_analysis.metrics.bleu",  # with the next, imports NLTK; both register a metric of texts
    "tensorflow_model_analysis.metrics.rouge",
    "tensorflow_model_analysis.utils",
    "tensorflow_model_analysis.writers",
    "tfx.components",  # imports the client of Kubernetes
)
"""The same, for packages that patch each other. The Evaluator imports the submodules of TFMA that it needs."""


def main(descriptor: int) -> None:
    """Serve the command at the other end of the socket until it closes the connection.

    The imports come first: the command may still be checking the data, and send the pipeline later, or never.
    """
    connection = JsonConnection(socket.socket(fileno=descriptor))
    try:
        _import()
        request = next(_messages(connection))
    except EOFError:
        return
    except BaseException as error:
        _report(connection, error)
        return
    file = Path(request["processes_file"])
    with hold(file, lambda: f"{file} is held by another run") as lock:
        adopt(lock.fileno())  # of this process and its children, but not of the programs that they start
        try:
            server = Server(connection, request)
        except BaseException as error:
            _report(connection, error)
            return
        server.serve()


def _report(connection: JsonConnection, error: BaseException) -> None:
    write_traceback(error)
    connection.send(event="failed", **describe(error))


class _Child(NamedTuple):
    """A child without a component yet, and the ends of its pipes: one that closes when it ends, and the one by which it
    gets its request.
    """

    pid: int
    alive: int
    request: int

    def take(self, request: dict[str, Any]) -> bool:
        """Run the component that is requested. False if the child has died while it waited."""
        try:
            with os.fdopen(self.request, "w", encoding="utf-8") as pipe:
                json.dump(request, pipe)
        except BrokenPipeError:
            os.close(self.alive)
            os.waitpid(self.pid, 0)
            return False
        return True


class Server:
    """Holds the pipeline and the children that run its components."""

    def __init__(self, connection: JsonConnection, request: dict[str, Any]) -> None:
        from headrace.configs.config import PipelineConfig

        # Last, so that a trainer.py or queue.py of the user's cannot shadow ours or Python's own.
        sys.path += [path for path in request["path"] if path not in sys.path]
        self._connection = connection
        self._config = PipelineConfig.model_validate_json(request["config"])
        self._nodes = _plan(self._config)
        self._children: dict[int, str] = {}  # that run a component
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        nodes = [_describe(node) for node in self._nodes.values()]
        connection.send(event="ready", nodes=nodes, key=_plan_key(self._config, request["path"]))
        self._next = self._fork_ahead()

    def serve(self) -> None:
        """Start children on request and report those that ended; kill all when the command is gone."""
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is not self._connection:
                        self._end(key.fd, key.data)
                        continue
                    for request in self._connection.receive():
                        self._start(request)
        except (EOFError, ConnectionError):  # also while reporting that a child has ended
            if self._next is not None:
                os.kill(self._next.pid, signal.SIGKILL)
                os.waitpid(self._next.pid, 0)  # in some containers nobody else does, so it would never vanish
            os.killpg(0, signal.SIGKILL)

    def _start(self, request: dict[str, Any]) -> None:
        if request.get("stop"):
            for pid in self._children:
                os.kill(pid, signal.SIGTERM)
            return
        child, self._next = self._next, None
        if child is None or not child.take(request):
            child = self._fork()
            child.take(request)
        self._children[child.pid] = request["node"]
        self._selector.register(child.alive, selectors.EVENT_READ, child.pid)
        self._next = self._fork_ahead()

    def _fork_ahead(self) -> _Child | None:
        """The child of whichever component comes next; None if none can be forked now."""
        with contextlib.suppress(OSError):
            return self._fork()
        return None

    def _fork(self) -> _Child:
        alive, child_end = os.pipe()  # closes when the child ends, however it ends
        received, request = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            for end in (alive, child_end, received, request):
                os.close(end)
            raise
        if pid == 0:
            os.close(alive)
            os.close(request)
            self._selector.close()
            self._connection.close()
            _wait_and_run(received, self._nodes, self._config)
        os.close(child_end)
        os.close(received)
        return _Child(pid, alive, request)

    def _end(self, alive: int, pid: int) -> None:
        self._selector.unregister(alive)
        os.close(alive)
        _, status, used = os.wait4(pid, 0)
        code, peak = os.waitstatus_to_exitcode(status), used.ru_maxrss << 10  # Linux counts in KiB
        cpu = used.ru_utime + used.ru_stime
        self._connection.send(event="ended", node=self._children.pop(pid), code=code, peak=peak, cpu=cpu)


_FULL = re.compile("No space left on device|Disk quota exceeded|File too large")
"""The system's messages for a full disk, which TensorFlow and Arrow repeat in the text of their own errors."""


def describe(error: BaseException) -> dict[str, Any]:
    """The message of an error for the user, and whether it is expected: the user can fix it without a traceback."""
    if expected := _expected(error):
        return {"error": _plain(expected), "error_class": type(expected).__name__, "expected": True}
    if full := _full_disk(error):
        return {"error": full, "error_class": "OSError", "expected": True}
    text, name = _plain(error), type(error).__name__
    return {"error": f"{name}: {text}" if text else name, "error_class": name, "expected": False}


def _expected(error: BaseException) -> BaseException | None:
    """The HeadraceError among an error and its causes, if there is one."""
    from headrace.common.errors import HeadraceError

    current: BaseException | None = error
    while current is not None and not isinstance(current, HeadraceError):
        current = current.__cause__ or current.__context__
    return current


def _full_disk(error: BaseException) -> str:
    """The message for an error that a full disk caused, directly or not; "" for any other error.

    TensorFlow's and Beam's messages contain tracebacks and graphs, so only the line that names the file is used.
    """
    current: BaseException | None = error
    while current is not None:
        line = next((line.strip() for line in reversed(_plain(current).splitlines()) if _FULL.search(line)), "")
        if full := _FULL.search(line):
            return f"{line}\n  {full[0]}: free some space, or set another `pipeline.root`"
        current = current.__cause__ or current.__context__
    return ""


def _log_error(error: BaseException) -> None:
    """Write the traceback to the log; only the message if training was asked to stop, which is not a fault."""
    from headrace.common.errors import TrainingStoppedError

    expected = _expected(error)
    if isinstance(expected, TrainingStoppedError):
        print(_plain(expected), flush=True)
    else:
        write_traceback(error)


def _plain(error: BaseException) -> str:
    """The message without the suffix that Beam adds."""
    return redact(str(error)).strip().split(" [while running")[0]


def _messages(connection: JsonConnection) -> Iterator[dict[str, Any]]:
    while True:
        yield from connection.receive()


def _import() -> None:
    """Import everything that components need.

    Children neither scan these objects for garbage nor copy the memory that holds them.
    """
    postpone_reexports(*REEXPORTING)
    postpone_reexports(*REEXPORTING_TOGETHER, together=True)
    with imports_alone():
        import google.protobuf.wrappers_pb2  # noqa: F401 - TFMA's messages refer to its own, and do not import it

        import headrace.trainer.run  # noqa: F401 - first, as TFX sets up another Keras
        from headrace.pipeline.build import create_pipeline  # noqa: F401
        from headrace.pipeline.plan import plan  # noqa: F401


def _plan(config: Any) -> dict[str, Any]:
    """Build the pipeline, which imports its components and the user's code."""
    with imports_alone():
        from headrace.pipeline.build import create_pipeline
        from headrace.pipeline.plan import plan

        return plan(create_pipeline(config))


def _describe(node: Any) -> dict[str, Any]:
    return {
        "id": node.id,
        "kind": node.kind,
        "parameters": {
            key: value for key, value in node.exec_properties.items() if isinstance(value, str | int | float)
        },
        "digest": node.digest,
        "parts": node.parts,
        "cacheable": node.cacheable,
        "decides": node.decides,
        "inputs": node.inputs,
        "outputs": {key: _is_value(type_) for key, type_ in node.outputs.items()},
        "types": {key: _type(type_) for key, type_ in node.outputs.items()},
        "upstream": node.upstream,
        "splits": _splits(node.exec_properties.get("example_splits")),
    }


def _plan_key(config: Any, searched: list[str]) -> str | None:
    """The key of the plan just made, whose code was read before: an edit in between gives another key."""
    from headrace.pipeline.code.digest import requested_modules
    from headrace.pipeline.local.known_plan import covers, plan_key

    key = plan_key(config, searched)
    requested = {module for modules in requested_modules().values() for module in modules}
    return key if key is not None and covers(config, requested) else None


def _splits(text: Any) -> list[str] | None:
    """The splits that a component reads, if TFX's property for them says so."""
    with contextlib.suppress(TypeError, ValueError):
        splits = json.loads(text)
        return splits if isinstance(splits, list) else None
    return None


def _type(type_: Any) -> str:
    """ML Metadata's type of an artifact."""
    serialized: bytes = type_().artifact_type.SerializeToString(deterministic=True)
    return base64.b64encode(serialized).decode()


def _is_value(type_: type) -> bool:
    from tfx.types.value_artifact import ValueArtifact

    return issubclass(type_, ValueArtifact)


def _wait_and_run(received: int, nodes: Mapping[str, Any], config: Any) -> NoReturn:
    """Run the component whose request comes through the pipe; end if none comes."""
    try:
        with contextlib.suppress(Exception):  # `_execute` imports it again, and reports what fails
            import headrace.pipeline.execute  # noqa: F401 - for all that it imports

        with os.fdopen(received, encoding="utf-8") as pipe:
            request = json.loads(pipe.read() or "null")
        if request is not None:
            _run_child(nodes[request["node"]], request, config)
    finally:
        os._exit(1)


def _run_child(node: Any, request: dict[str, Any], config: Any) -> None:
    """Run one component, write its result to a file, and exit; with FULL_DISK if the file cannot be written."""
    code = 1
    try:
        _redirect(Path(request["log"]))
        log_to_stdout()
        tempfile.tempdir = os.environ["TMPDIR"] = request["scratch"]  # removed afterwards
        try:
            result = _execute(node, request, config)
            code = 0
        except BaseException as error:
            result = describe(error)
            if isinstance(error, GateError):
                result["verdicts"] = _as_stored(error.verdicts)
            with contextlib.suppress(OSError):  # the log may be on the disk that is full
                _log_error(error)
        write_result(Path(request["result"]), result)
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    except OSError as error:
        code = FULL_DISK if _FULL.search(str(error)) else 1
    finally:
        os._exit(code)  # without cleaning up what belongs to the parent


def _redirect(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _execute(node: Any, request: dict[str, Any], config: Any) -> dict[str, Any]:
    from tfx.types import artifact_utils

    from headrace.components.beam_pipelines import BeamPipelines
    from headrace.pipeline.execute import execute, uses_beam

    inputs = {
        key: [
            artifact_utils.deserialize_artifact(stored.type, stored.artifact)
            for stored in map(StoredArtifact.from_json, parts)
        ]
        for key, parts in request["inputs"].items()
    }
    pipelines = BeamPipelines(config.beam, Path(request["scratch"]))
    outputs = execute(node, inputs, request["outputs"], pipelines)
    return {"outputs": _as_stored(outputs), "beam": pipelines.summary if uses_beam(node) else ""}


def _as_stored(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Artifacts of TFX as JSON, by key."""
    return {
        key: StoredArtifact(artifact.mlmd_artifact, artifact.artifact_type).to_json()
        for key, (artifact,) in outputs.items()
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
