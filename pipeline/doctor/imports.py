"""A check that the large libraries can be imported, in another process: a broken one can crash the interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.common.environment import SETTINGS
from headrace.pipeline.doctor.result import REMAKE, CheckResult, note, ok, problem

LIBRARIES = (
    "ml_metadata.metadata_store.metadata_store",
    "tensorflow",
    "keras",
    "apache_beam",
    "tensorflow_transform",
    "tensorflow_data_validation",
    "tensorflow_model_analysis",
    "tfx.v1",
)
_SLOW_SECONDS = 60
_TIMEOUT_SECONDS = 300
_PROBE = """
import importlib, sys, time
report = open(int(sys.argv[1]), "w", buffering=1)
for name in sys.argv[2:]:
    start = time.perf_counter()
    print("begin", name, file=report)
    try:
        importlib.import_module(name)
    except BaseException as error:
        print("error", name, type(error).__name__ + ":", " ".join(str(error).split()), file=report)
    else:
        print("loaded", name, time.perf_counter() - start, file=report)
"""
_OLD_C_LIBRARY = ("undefined symbol", "symbol lookup error", "GLIBC", "CXXABI")
"""What the loader says where two wheels meet a C library older than glibc 2.39."""


def load(names: Sequence[str] = LIBRARIES) -> Iterator[CheckResult]:
    """Import each library in turn; after a crash, continue with the next one in another process."""
    left, seconds, loaded = list(names), 0.0, []
    while left:
        events, ending = _probe(left)
        for kind, name, rest in events:
            if kind == "loaded":
                seconds += float(rest)
                loaded.append(name)
            elif kind == "error":
                yield problem(f"import {name} fails: {rest}", _fix(rest))
        finished = [name for kind, name, _ in events if kind != "begin"]
        left = [name for name in left if name not in finished]
        if left:
            yield problem(f"import {left[0]} {ending}", _fix(ending))
            left = left[1:]
    if loaded:
        slow = note if seconds > _SLOW_SECONDS else ok
        yield slow(f"loaded in {seconds:.0f} s: {', '.join(loaded)}")


def _fix(message: str) -> str:
    if any(clue in message for clue in _OLD_C_LIBRARY):
        return _relabel()
    return REMAKE if "No module named" in message else "rm -r .venv && make env"


def _relabel() -> str:
    tool = Path(sys.prefix).parent / "tools" / "relabel.py"
    if tool.is_file():
        return f"{sys.executable} {tool} (it adapts two wheels to this C library; `make env` runs it)"
    return "use a system with glibc 2.39 or newer (Ubuntu 24.04, Debian 13), or a clone of Headrace and its `make env`"


def _probe(names: Sequence[str]) -> tuple[list[tuple[str, str, str]], str]:
    """Returns (kind, name, rest) of each event, and how the process ended."""
    reader, writer = os.pipe()
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", _PROBE, str(writer), *names],
        pass_fds=[writer],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **SETTINGS},
        encoding="utf-8",
    )
    os.close(writer)
    try:
        _, errors = process.communicate(timeout=_TIMEOUT_SECONDS)
        ending = _ending(process.returncode, errors)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        ending = f"takes more than {_TIMEOUT_SECONDS} s"
    with os.fdopen(reader, encoding="utf-8") as events:
        return [_event(line) for line in events], ending


def _event(line: str) -> tuple[str, str, str]:
    kind, name, *rest = line.rstrip("\n").split(" ", 2)
    return kind, name, rest[0] if rest else ""


def _ending(code: int, errors: str) -> str:
    how = (
        f"ends the interpreter with {signal.Signals(-code).name}" if code < 0 else f"ends the interpreter (exit {code})"
    )
    last = errors.strip().splitlines()[-1:]
    return ": ".join([how, *last])
