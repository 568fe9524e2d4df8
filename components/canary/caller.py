"""Calls the exported model in a fresh process of its own, and starts another one when the model has killed it.

with Caller(serving_dir) as caller:
    answer = caller.ask({"serving_default_examples:0": texts}, ["StatefulPartitionedCall:0"])
    answer.outcome, answer.arrays, answer.seconds
"""

from __future__ import annotations

import logging
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from numpy.typing import NDArray

from headrace.components.canary import process
from headrace.components.canary.messages import TimedPipe, read, write
from headrace.components.canary.verdict import Outcome
from headrace.components.failed_checks import check_of_feature, columns_with_several_values
from headrace.trainer.launch import SETTINGS

logger = logging.getLogger(__name__)

PATIENCE = 120.0
"""Seconds for one answer."""
LONGEST = 240
"""Characters of an error in a verdict."""
_FATAL = re.compile(r"^F\d{4} |Check failed|^terminate called|^Fatal Python error", re.MULTILINE)
_NO_WORDS = re.compile(r" \[\[\{\{node.*|^Name: <unknown>, |(?<=^Could not parse example input), value: .*")
"""Parts of TensorFlow's errors that tell a reader nothing."""
_ON_CPU = {"CUDA_VISIBLE_DEVICES": "-1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
"""An accelerator's memory may be full of the Evaluator, and its sums are rounded otherwise."""


@dataclass(frozen=True)
class Answer:
    """The outcome of one request, or of loading the model.

    detail: the error, or how the process ended; seconds: that it took; peak: the most memory of the process so far, in
    bytes, 0 if it was not asked for.
    """

    outcome: Outcome
    detail: str = ""
    arrays: list[NDArray[Any]] = field(default_factory=list)
    seconds: float = 0.0
    peak: int = 0


class _Running(NamedTuple):
    """The process, and the pipes to and from it."""

    process: subprocess.Popen[bytes]
    requests: TimedPipe
    answers: TimedPipe


class Caller:
    """The process, started when it is first needed, and again after a crash.

    patience: seconds for one answer, once the model is loaded.
    """

    def __init__(self, model: Path, patience: float = PATIENCE) -> None:
        self._model, self.patience = model, patience
        self._running: _Running | None = None
        self._loaded: Answer | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()

    def start(self) -> None:
        """Start a fresh process, which loads the model, and do not wait for it."""
        self._end()
        self._errors.seek(0)
        self._errors.truncate()
        started = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", process.__name__, str(_library()), str(self._model)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**SETTINGS, **os.environ, **_ON_CPU},
        )
        if started.stdin is not None and started.stdout is not None:  # both are pipes
            pipes = TimedPipe(started.stdin, select.POLLOUT), TimedPipe(started.stdout, select.POLLIN)
            self._running = _Running(started, *pipes)

    def load(self) -> Answer:
        """Wait until the process, which is started if there is none, has loaded the model."""
        if self._running is None:
            self.start()
        if self._running is not None and self._loaded is None:
            self._loaded = self._receive(self._running, {}, (), max(self.patience, PATIENCE))
        return self._loaded or Answer("crashed")

    def ask(self, feeds: Mapping[str, NDArray[Any]], fetches: Sequence[str]) -> Answer:
        """Feed tensors by name, and fetch others by name. A model that cannot be loaded gives that answer."""
        loaded = self.load()
        if self._running is None or loaded.outcome != "answered":
            return loaded
        header = {"feeds": list(feeds), "fetches": list(fetches)}
        return self._receive(self._running, header, list(feeds.values()), self.patience)

    def ask_each(self, feeds: Mapping[str, NDArray[Any]], fetches: Sequence[str], rows: int) -> list[Answer]:
        """The same for each of the first rows by itself, one after the other, until one is not answered. The answers
        have no arrays. A feed of rank 0 is for all rows.
        """
        loaded = self.load()
        if self._running is None or loaded.outcome != "answered":
            return [loaded]
        running, found = self._running, list[Answer]()
        header = {"feeds": list(feeds), "fetches": list(fetches), "rows": rows}
        while len(found) < rows and all(one.outcome == "answered" for one in found[-1:]):
            arrays = [] if found else list(feeds.values())
            found.append(self._receive(running, {} if found else header, arrays, self.patience))
        return found

    def _receive(
        self, running: _Running, header: dict[str, Any], arrays: Sequence[NDArray[Any]], patience: float
    ) -> Answer:
        """Send a request, if there is one, and wait for the answer."""
        running.requests.deadline = running.answers.deadline = time.monotonic() + patience
        try:
            if header:
                write(running.requests, header, arrays)
            answer = read(running.answers)
        except BrokenPipeError:
            answer = None
        except TimeoutError:
            self._end()
            return Answer("hung", f"no answer within {patience:g} seconds")
        if answer is None:
            try:
                outcome = Answer("crashed", self._how_it_ended(running.process.wait(patience)))
            except subprocess.TimeoutExpired:
                outcome = Answer("hung", f"no end within {patience:g} seconds of closing its output")
            self._end()
            return outcome
        said, found = answer
        if "error" in said:
            return Answer("refused", first_line(said["error"]))
        return Answer("answered", "", found, said["seconds"], said.get("peak", 0))

    def _how_it_ended(self, code: int) -> str:
        """The signal, and what the process wrote last about it."""
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace")
        logger.warning(text.rstrip())
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        fatal = [line for line in text.splitlines() if _FATAL.search(line)]
        return f"{how}: {first_line(fatal[0])}" if fatal else how

    def _end(self) -> None:
        if self._running is None:
            return
        self._running.requests.close()
        self._running.answers.close()
        self._running.process.kill()
        self._running.process.wait()
        self._running = self._loaded = None


def first_line(text: str) -> str:
    """What a check of the model says in an error of TensorFlow's; else its first line, without the nodes that it came
    through and the bytes of an example that cannot be parsed.
    """
    if several := columns_with_several_values(text):
        return f"an example has several values in {several}"
    first = next((line.strip() for line in text.splitlines() if line.strip()), "an error without a message")
    line = check_of_feature(text) or _NO_WORDS.sub("", first).strip()
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def _library() -> Path:
    """The library in TensorFlow's wheel that has the C++ loader and the C API."""
    import tensorflow as tf

    (found,) = Path(tf.__file__).parent.glob("libtensorflow_cc.so.[0-9]")
    return found
