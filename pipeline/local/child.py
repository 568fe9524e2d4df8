"""A child of the fork server: it waits for the request of one component, runs it, and says that it has ended.

    serve_once(connection, nodes, config)       # in the child; does not return

It says so before it exits, since to free the tables of half a gigabyte of memory takes hundredths of a second. If it
holds a GPU or TPU, its end says so: the next component may need the device.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from headrace.common.credentials import redact
from headrace.common.errors import GateError, HeadraceError, TrainingStoppedError
from headrace.common.logs import log_to_stdout
from headrace.common.tracebacks import write_traceback
from headrace.pipeline.local.wire import FULL_DISK, JsonConnection, StoredArtifact, write_result

_DEVICES = ("/dev/nvidia", "/dev/accel", "/dev/vfio")
"""The files of GPUs and TPUs."""


def serve_once(connection: JsonConnection, nodes: Mapping[str, Any], config: Any) -> NoReturn:
    """Run the component that is requested, and exit, without cleaning up what belongs to the parent.

    nodes: those of the plan, by their ids; config: PipelineConfig.
    """
    code = 1
    try:
        request = next(connection.messages())
        code = _run(nodes[request["node"]], request, config)
        if not _holds_device():
            connection.send(code=code, **_used())
    except EOFError:  # the server has ended
        pass
    except BaseException as error:
        write_traceback(error)
    finally:
        os._exit(code)


def _run(node: Any, request: dict[str, Any], config: Any) -> int:
    """Run one component and write its result to a file. Returns the exit code, FULL_DISK if the file cannot be
    written.
    """
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
        return FULL_DISK if _FULL.search(str(error)) else 1
    return code


def _holds_device() -> bool:
    """Whether this process has opened a GPU or TPU, which is free for others once it has ended."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the folder itself is closed
            if str(descriptor.readlink()).startswith(_DEVICES):
                return True
    return False


def _used() -> dict[str, Any]:
    """The peak of memory, in bytes, and the CPU seconds of this process and of those that it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    peak = max(each.ru_maxrss for each in used) << 10  # Linux counts in KiB
    return {"peak": peak, "cpu": sum(each.ru_utime + each.ru_stime for each in used)}


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
    expected = _expected(error)
    if isinstance(expected, TrainingStoppedError):
        print(_plain(expected), flush=True)
    else:
        write_traceback(error)


def _plain(error: BaseException) -> str:
    """The message without the suffix that Beam adds."""
    return redact(str(error)).strip().split(" [while running")[0]
