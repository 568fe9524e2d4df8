"""The program that trains in a process of its own.

python -m headrace.trainer.worker JOB RESULT         # started by the Trainer: the job as JSON, and its error
HEADRACE_JOB=FILE python -m headrace.trainer.worker  # another worker of a cluster: waits for the job
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from headrace.common.credentials import redact
from headrace.common.errors import HeadraceError
from headrace.common.logs import log_to_stdout
from headrace.common.tracebacks import own_traceback, write_traceback
from headrace.trainer.launch import SETTINGS, SHARED

POLL_SECONDS = 0.2


def main(arguments: list[str]) -> int:
    """Train as the job says, and return the exit status."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    log_to_stdout()
    if arguments:
        _exit_with_parent()
        text = Path(arguments[0]).read_text(encoding="utf-8")
    else:
        text = _wait_for_job()
    try:
        _train(text)
    except Exception as error:  # passed on to the Trainer
        message = str(error) if isinstance(error, HeadraceError) else _describe_unexpected(error)
        if own_traceback(error) or not isinstance(error, HeadraceError):
            write_traceback(error)
        elif not arguments:
            print(message, file=sys.stderr, flush=True)
        if arguments:
            result = {"kind": type(error).__name__, "message": message}
            Path(arguments[1]).write_text(json.dumps(result), encoding="utf-8")
        return 1
    return 0


def _train(text: str) -> None:
    from headrace.trainer.devices.errors import explain_out_of_memory
    from headrace.trainer.devices.strategy import choose_strategy, detect_hardware
    from headrace.trainer.job import Job
    from headrace.trainer.run import train

    job = Job.from_json(text)
    choice = choose_strategy(job.sections.train, detect_hardware())
    with explain_out_of_memory(job.sections.train):
        train(job, choice)


def _describe_unexpected(error: Exception) -> str:
    message = redact(f"{type(error).__name__}: {error}".strip())
    gone = " Is one of the workers gone?" if type(error).__name__ in ("UnavailableError", "AbortedError") else ""
    return f"distributed training failed: {message}.{gone} The Trainer's log has the traceback"


def _exit_with_parent() -> None:
    """Exit at once when the process that started this one is gone."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _wait_for_job() -> str:
    """Return the job as soon as the chief has written it."""
    file = os.environ.get(SHARED)
    if not file:
        sys.exit(f"set the environment variable {SHARED} to the file to which the chief writes its job")
    print(f"waiting for the chief's job at {file}", flush=True)
    while True:
        with contextlib.suppress(FileNotFoundError):
            return Path(file).read_text(encoding="utf-8")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
