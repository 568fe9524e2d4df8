"""The meaningful end of a component's log, and what is said of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from headrace.pipeline.local.record import NodeRecord

_TAIL_BYTES = 256 * 1024
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line \d+')
_MARKS = re.compile(r"^\s+[~^]+\s*$")  # Python 3.11 underlines the failing expression
_CHATTER = re.compile(
    r"^(WARNING|INFO|DEBUG)[:\s]|^[IW]\d{4} |^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] |^[IW]0000 00:00:"
    r"|^WARNING: All log messages before absl|^To enable the following instructions|^\s*warnings\.warn\("
    r"|\b(Deprecation|Future|User)Warning: |^The above exception was the direct cause|^During handling of the above"
)
_TRACEBACK = "Traceback (most recent call last):"
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ", "/lib64/python3")


def last_lines(log: Path, n: int = 12) -> list[str]:
    """The last `n` lines that tell something; empty if there is no such file.

    Left out: the messages of TensorFlow, absl and Beam below an error, warnings, and those parts of a traceback that
    lie in installed packages, so that only the user's and the project's own code is named.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return list(_meaningful(_ESCAPES.sub("", text).split("\n")))[-n:]


def failure_text(node: NodeRecord, log: Path | None = None, n: int = 12) -> str:
    """Which component failed, why, the last lines of its log that say more than that, and where the log lies.

    An error that the user can mend says all by itself, so there the log's lines are left out.
    `log`: default, the one that the record names.
    """
    if log is None and node.log:
        log = Path(node.log)
    cause = (node.error or "it ended without a message").rstrip()
    parts = [f"{node.id} failed: {cause}"]
    told = {line.strip() for line in cause.splitlines()}
    lines = last_lines(log, n + len(told)) if log is not None and not node.expected else []
    lines = [line for line in lines if line.strip() not in told][-n:]
    if lines:
        parts += ["", "last lines of its log:", *(f"  {line}" for line in lines)]
    if log is not None:
        parts += ["", f"whole log: {log}"]
    return "\n".join(parts)


def _meaningful(lines: Iterable[str]) -> Iterable[str]:
    in_traceback = in_library_frame = False
    for raw in lines:
        line = raw.rstrip().rsplit("\r")[-1]  # a progress bar rewrites its line
        if line.strip() == _TRACEBACK:
            in_traceback, in_library_frame = True, False
            continue
        frame = _FRAME.match(line)
        if frame:
            in_library_frame = _in_a_library(frame["file"])
        elif in_traceback and line[:1].strip():  # not indented: the exception itself
            in_traceback = in_library_frame = False
        hidden = in_library_frame or (in_traceback and _MARKS.match(line)) or _CHATTER.search(line)
        if line.strip() and not hidden:
            yield line


def _in_a_library(file: str) -> bool:
    return any(part in file for part in _LIBRARIES)
