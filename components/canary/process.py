"""The program of the fresh process: loads a SavedModel by TensorFlow's C++ loader, and answers requests.

    python -P -m headrace.components.canary.process LIBRARY MODEL

Requests come from standard input, and answers go to standard output, as messages (messages.py):

    {"feeds": [tensors], "fetches": [tensors]} and the arrays that are fed, in this order
    → {"seconds": its time, "peak": bytes of memory} and the arrays that were fetched; or {"error": TensorFlow's text}

With "rows", each of so many rows of the arrays is fed by itself. The answers, of one message for each until there is an
error, have no arrays, and the last one has the peak.

The first answer, without arrays, is about loading the model. Whatever TensorFlow prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

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
        for row in range(header.get("rows", 0)):
            one = [array[row : row + 1] if array.ndim else array for array in arrays]
            said, _ = answer(session, header, one)
            write(answers, {**said, "peak": peak_memory()} if row + 1 == header["rows"] else said)
            if "error" in said:
                break
        if "rows" not in header:
            said, found = answer(session, header, arrays)
            write(answers, {**said, "peak": peak_memory()}, found)


def answer(session: TfSession, header: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> tuple[dict[str, Any], Any]:
    """The seconds that a request took, and the arrays that it fetched; or the error and no arrays."""
    start = time.perf_counter()
    try:
        found = session.run(dict(zip(header["feeds"], arrays, strict=True)), header["fetches"])
    except RefusedError as error:
        return {"error": str(error)}, []
    return {"seconds": time.perf_counter() - start}, found


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
