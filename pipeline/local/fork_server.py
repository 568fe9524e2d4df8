"""The fork server: it imports TensorFlow, TFX and Beam once, and forks a child for each component.

A child (child.py) has everything imported, writes to its own log, and cannot harm the others. It is forked while the
component before it runs, and waits for its request, since copying the tables of half a gigabyte of memory takes a
while. The server runs no thread of its own, so that forking is safe. `headrace.pipeline.local.client` starts it in a
process group of its own. When the command at the other end is gone, for whatever reason, it kills the group.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NamedTuple

from headrace.common.environment import imports_alone, prepare
from headrace.common.locks import adopt, hold
from headrace.common.reexports import postpone_reexports
from headrace.common.tracebacks import write_traceback
from headrace.pipeline.local.child import describe, serve_once
from headrace.pipeline.local.wire import JsonConnection

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
        request = next(connection.messages())
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
    """A child, and the connection by which it gets its request and says that its component has ended."""

    pid: int
    connection: JsonConnection


class Server:
    """Holds the pipeline and the children that run its components."""

    def __init__(self, connection: JsonConnection, request: dict[str, Any]) -> None:
        from headrace.configs.config import PipelineConfig

        # Last, so that a trainer.py or queue.py of the user's cannot shadow ours or Python's own.
        sys.path += [path for path in request["path"] if path not in sys.path]
        self._connection = connection
        self._config = PipelineConfig.model_validate_json(request["config"])
        self._nodes = _plan(self._config)
        self._not_run = {*self._nodes}
        self._running: dict[int, str] = {}  # the components by the processes of their children
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        nodes = [_describe(node) for node in self._nodes.values()]
        connection.send(event="ready", nodes=nodes, key=_plan_key(self._config, request["path"]))
        self._waiting = self._fork_ahead()

    def serve(self) -> None:
        """Start children on request and report those that ended; kill all when the command is gone."""
        try:
            while True:
                children = {key.data for key, _ in self._selector.select()}
                for child in children - {None}:  # first, as a child that waited may have died
                    self._hear(child)
                for request in self._connection.receive() if None in children else ():
                    if request.get("stop"):
                        self._stop()
                    else:
                        self._start(request)
        except (EOFError, ConnectionError):  # also while reporting that a child has ended
            children = {key.data for key in self._selector.get_map().values()} - {None}
            for child in children:
                os.kill(child.pid, signal.SIGKILL)
            for child in children:
                os.waitpid(child.pid, 0)  # in some containers nobody else does, so it would never vanish
            os.killpg(0, signal.SIGKILL)

    def _start(self, request: dict[str, Any]) -> None:
        child, self._waiting = self._waiting or self._fork(), None
        self._running[child.pid] = request["node"]
        with contextlib.suppress(ConnectionError):  # it has just died, which comes as its end
            child.connection.send(**request)
        self._not_run.discard(request["node"])
        if self._not_run:
            self._waiting = self._fork_ahead()

    def _fork_ahead(self) -> _Child | None:
        """The child of whichever component comes next; None if none can be forked now."""
        with contextlib.suppress(OSError):
            return self._fork()
        return None

    def _fork(self) -> _Child:
        ours, theirs = map(JsonConnection, socket.socketpair())
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            for key in self._selector.get_map().values():
                os.close(key.fd)
            self._selector.close()
            ours.close()
            serve_once(theirs, self._nodes, self._config)
        theirs.close()
        child = _Child(pid, ours)
        self._selector.register(ours, selectors.EVENT_READ, child)
        return child

    def _hear(self, child: _Child) -> None:
        """Report what a child says of its component, or that it has died without a word."""
        try:
            messages = [*child.connection.receive()]
        except (EOFError, ConnectionError):
            self._selector.unregister(child.connection)
            child.connection.close()
            _, status, used = os.wait4(child.pid, 0)
            if child == self._waiting:
                self._waiting = None
            code, peak = os.waitstatus_to_exitcode(status), used.ru_maxrss << 10  # Linux counts in KiB
            messages = [{"code": code, "peak": peak, "cpu": used.ru_utime + used.ru_stime}]
        for message in messages:
            if child.pid in self._running:  # else it has said so before, or has had no component
                self._connection.send(event="ended", node=self._running.pop(child.pid), **message)
        self._say_whether_stopped()

    def _stop(self) -> None:
        """Ask all components that run to end."""
        for pid in self._running:
            os.kill(pid, signal.SIGTERM)
        self._stopping = True
        self._say_whether_stopped()

    def _say_whether_stopped(self) -> None:
        if self._stopping and not self._running:
            self._connection.send(event="stopped")


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
        from headrace.pipeline.execute import execute  # noqa: F401
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


if __name__ == "__main__":
    main(int(sys.argv[1]))
