"""The meaningful end of a component's log, and the message for a component that failed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

from headrace.common.tracebacks import OWN_CODE, in_a_library
from headrace.pipeline.results.record import NodeRecord

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


def last_lines(log: Path, n: int = 12) -> list[str]:
    """The last `n` meaningful lines; empty if there is no such file.

    If code of the user's failed, they are the end of its traceback. Left out are warnings, messages of TensorFlow, absl
    and Beam that are not errors, and frames of Headrace and of installed packages.
    """
    return own_code(log, n) or list(_meaningful(_lines(log)))[-n:]


def own_code(log: Path, n: int = 12) -> list[str]:
    """The end of the traceback of the user's code in a log, without frames of libraries; empty if there is none."""
    lines = _lines(log)
    starts = [number for number, line in enumerate(lines) if line.startswith(OWN_CODE)]
    own = itertools.takewhile(lambda line: line != _TRACEBACK, lines[starts[-1] + 1 :] if starts else [])
    return list(_meaningful(own, in_traceback=True))[-n:]


def _lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return _ESCAPES.sub("", text).split("\n")


def failure_text(node: NodeRecord, log: Path | None = None, n: int = 12) -> str:
    """Which component failed and why, the last lines of its log that add something, and the path of the log.

    An error that the user can fix needs no log, so only the traceback of the user's own code is shown, if there is one.
    log: None for the one that the record names.
    """
    if log is None and node.log:
        log = Path(node.log)
    cause = (node.error or "it ended without a message").rstrip()
    parts = [f"{node.id} failed: {cause}"]
    repeated = {line.strip() for line in cause.splitlines()}
    found = [] if log is None else own_code(log, n + len(repeated))
    title = OWN_CODE if found else "last lines of its log:"
    if log is not None and not found and not node.expected:
        found = last_lines(log, n + len(repeated))
    lines = [line for line in found if line.strip() not in repeated][-n:]
    if lines:
        parts += ["", title, *(f"  {line}" for line in lines)]
    if log is not None:
        parts += ["", f"whole log: {log}"]
    return "\n".join(parts)


def _meaningful(lines: Iterable[str], *, in_traceback: bool = False) -> Iterable[str]:
    in_library_frame = False
    for raw in lines:
        line = raw.rstrip().rsplit("\r")[-1]  # a progress bar rewrites its line
        if line.strip() == _TRACEBACK:
            in_traceback, in_library_frame = True, False
            continue
        frame = _FRAME.match(line)
        if frame:
            in_library_frame = in_a_library(frame["file"])
        elif in_traceback and line[:1].strip():  # not indented, so it is the exception itself
            in_traceback = in_library_frame = False
        hidden = in_library_frame or (in_traceback and _MARKS.match(line)) or _CHATTER.search(line)
        if line.strip() and not hidden:
            yield line
