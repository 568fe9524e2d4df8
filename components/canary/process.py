"""The program of the fresh process: loads a SavedModel by TensorFlow's C++ loader, and answers requests.

    python -P -m headrace.components.canary.process LIBRARY MODEL

Requests come from standard input, and answers go to standard output, as messages (messages.py):

    {"feeds": [tensors], "fetches": [tensors]} and the arrays that are fed, in this order
    → {"seconds": its time, "peak": bytes of memory} and the arrays that were fetched; or {"error": TensorFlow's text}

The first answer, without arrays, is about loading the model. Whatever TensorFlow prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from headrace.components.canary.c_api import RefusedError, TfSession
from headrace.components.canary.messages import read, write


def main(library: str, model: str) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    start = time.perf_counter()
    try:
        session = TfSession(library, model)
    except RefusedError as error:
        write(answers, {"error": str(error)})
        return
    write(answers, {"seconds": time.perf_counter() - start, "peak": peak_memory()})
    while (request := read(sys.stdin.buffer)) is not None:
        header, arrays = request
        start = time.perf_counter()
        try:
            found: list[Any] = session.run(dict(zip(header["feeds"], arrays, strict=True)), header["fetches"])
        except RefusedError as error:
            write(answers, {"error": str(error)})
        else:
            write(answers, {"seconds": time.perf_counter() - start, "peak": peak_memory()}, found)


def peak_memory() -> int:
    """The most memory that this process has held, in bytes; 0 where the system does not say.

    Not `getrusage`, which after an exec still counts the process that started this one.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
