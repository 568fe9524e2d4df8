"""The warm process: it imports TensorFlow, TFX and Beam once, and forks a child for each component to run.

A child starts in a fraction of a second with everything imported, writes to its own log, and cannot hurt the others.
The process runs no thread of its own, so that forking is safe. It is started by `headrace.pipeline.local.client`, in a
process group of its own; when the command at the other end goes away, for whatever reason, it takes its children with
it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import selectors
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from headrace.configs.credentials import without
from headrace.configs.durable import write_text
from headrace.configs.lock import keep
from headrace.configs.tracebacks import write_traceback
from headrace.pipeline.environment import prepare
from headrace.pipeline.local.wire import FULL_DISK, Line, Stored

prepare()


def main(descriptor: int, at_work: int) -> None:
    """Serve the command at the other end of the socket until it closes it.

    at_work: an open file that this process and its children hold, but no program that they start
    (`headrace.configs.lock`).
    """
    line = Line(socket.socket(fileno=descriptor))
    keep(at_work)
    try:
        request = next(_messages(line))
        server = Server(line, request)
    except BaseException as error:
        write_traceback(error)
        line.send(event="failed", **describe(error))
        return
    server.serve()


class Server:
    """Holds the pipeline and the children that run its components."""

    def __init__(self, line: Line, request: dict[str, Any]) -> None:
        from headrace.configs.config import PipelineConfig

        # Last, so that a trainer.py or queue.py of the user's cannot stand in for ours or Python's own.
        sys.path += [path for path in request["path"] if path not in sys.path]
        self._line = line
        self._config = PipelineConfig.model_validate_json(request["config"])
        self._nodes = _warm_up(self._config)
        self._children: dict[int, str] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(line, selectors.EVENT_READ)
        line.send(event="ready", nodes=[_describe(node) for node in self._nodes.values()])

    def serve(self) -> None:
        """Start children as asked, tell of those that ended; kill all when the command is gone."""
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is not self._line:
                        self._end(key.fd, key.data)
                        continue
                    for request in self._line.receive():
                        self._start(request)
        except (EOFError, ConnectionError):  # also where it is to be told that a child has ended
            os.killpg(0, signal.SIGKILL)

    def _start(self, request: dict[str, Any]) -> None:
        if request.get("stop"):
            for pid in self._children:
                os.kill(pid, signal.SIGTERM)
            return
        alive, child_end = os.pipe()  # its closing tells that the child has ended, however it ended
        pid = os.fork()
        if pid == 0:
            os.close(alive)
            self._selector.close()
            self._line.close()
            _run_child(self._nodes[request["node"]], request, self._config)
        os.close(child_end)
        self._children[pid] = request["node"]
        self._selector.register(alive, selectors.EVENT_READ, pid)

    def _end(self, alive: int, pid: int) -> None:
        self._selector.unregister(alive)
        os.close(alive)
        _, status, used = os.wait4(pid, 0)
        code, peak = os.waitstatus_to_exitcode(status), used.ru_maxrss << 10  # Linux counts in KiB
        cpu = used.ru_utime + used.ru_stime
        self._line.send(event="ended", node=self._children.pop(pid), code=code, peak=peak, cpu=cpu)


_FULL = re.compile("No space left on device|Disk quota exceeded|File too large")
"""What the system says of a disk that takes no more; TensorFlow and Arrow pass it on in their own errors' text."""


def describe(error: BaseException) -> dict[str, Any]:
    """What the command says of an error: the message for the user, and whether it is the user's own mistake."""
    if expected := _expected(error):
        return {"error": _plain(expected), "expected": True}
    if full := _full_disk(error):
        return {"error": full, "expected": True}
    text = _plain(error)
    return {"error": f"{type(error).__name__}: {text}" if text else type(error).__name__, "expected": False}


def _expected(error: BaseException) -> BaseException | None:
    """What the user can mend, in an error or below it."""
    from headrace.configs.errors import HeadraceError

    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, HeadraceError):
        seen = seen.__cause__ or seen.__context__
    return seen


def _full_disk(error: BaseException) -> str:
    """What the user can do about a full disk that an error, or one below it, is about; "" if none is.

    Of TensorFlow's and Beam's messages, which have tracebacks and graphs in them, the line that names the file.
    """
    seen: BaseException | None = error
    while seen is not None:
        line = next((line.strip() for line in reversed(_plain(seen).splitlines()) if _FULL.search(line)), "")
        if full := _FULL.search(line):
            return f"{line}\n  {full[0]}: make room there, or set another `pipeline.root`"
        seen = seen.__cause__ or seen.__context__
    return ""


def _write_down(error: BaseException) -> None:
    """Into the log: where it happened; of a training that was asked to end, that it was, which is no fault."""
    from headrace.configs.errors import TrainingStoppedError

    expected = _expected(error)
    if isinstance(expected, TrainingStoppedError):
        print(_plain(expected), flush=True)
    else:
        write_traceback(error)


def _plain(error: BaseException) -> str:
    """The message, without what Beam adds to it."""
    return without(str(error)).strip().split(" [while running")[0]


def _messages(line: Line) -> Any:
    while True:
        yield from line.receive()


def _warm_up(config: Any) -> dict[str, Any]:
    """Import all that components need, build the pipeline, and settle the memory before it is shared by forking.

    Imports make millions of objects that stay: collecting garbage among them takes two of five seconds and finds none.
    """
    gc.disable()
    import tensorflow_model_analysis  # noqa: F401

    import headrace.trainer.run  # noqa: F401
    from headrace.pipeline.build import create_pipeline
    from headrace.pipeline.plan import plan

    nodes = plan(create_pipeline(config))
    gc.freeze()  # children neither look through these objects nor copy the memory that holds them
    gc.enable()
    return nodes


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
        "upstream": node.upstream,
        "splits": json.loads(node.exec_properties.get("example_splits") or "null"),
    }


def _is_value(type_: type) -> bool:
    from tfx.types.value_artifact import ValueArtifact

    return issubclass(type_, ValueArtifact)


def _run_child(node: Any, request: dict[str, Any], config: Any) -> None:
    """Run one component and leave its result in a file; never returns. Exits with FULL_DISK if no file can be left."""
    code = 1
    try:
        _redirect(Path(request["log"]))
        tempfile.tempdir = os.environ["TMPDIR"] = request["scratch"]  # which is removed afterwards
        try:
            result = _execute(node, request, config)
            code = 0
        except BaseException as error:
            result = describe(error)
            with contextlib.suppress(OSError):  # the log may be on the disk that is full
                _write_down(error)
        write_text(Path(request["result"]), json.dumps(result))
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    except OSError as error:
        code = FULL_DISK if _FULL.search(str(error)) else 1
    finally:
        os._exit(code)  # no clean-up of what belongs to the parent


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
            artifact_utils.deserialize_artifact(stored.type, stored.artifact) for stored in map(Stored.from_json, parts)
        ]
        for key, parts in request["inputs"].items()
    }
    pipelines = BeamPipelines(config.beam, Path(request["scratch"]))
    outputs = execute(node, inputs, request["outputs"], pipelines)
    stored = {
        key: Stored(artifact.mlmd_artifact, artifact.artifact_type).to_json() for key, (artifact,) in outputs.items()
    }
    return {"outputs": stored, "beam": pipelines.summary if uses_beam(node) else ""}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
