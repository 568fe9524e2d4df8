"""Processes that work on tasks beside this one, because threads would wait for each other's Python.

with Workers(2) as workers:            # this process, and one more
    workers(function, tasks)           # the results, in the order of the tasks

They are forked at the first call and stay. A fork has only the thread that forked, so nothing that reads or computes
here may have left threads or connections behind that the function needs.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from headrace.components.example_gen.sources.base import Result, Task
from headrace.configs.errors import RunError
from headrace.configs.tracebacks import traceback_of, write_traceback

_NUMBER = 4
"""Bytes of a task's number."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG (linux/prctl.h)."""


def can_fork() -> bool:
    """Whether this process can be forked without harm: on Linux, by its only thread."""
    return sys.platform == "linux" and threading.active_count() == 1


class Workers:
    """The processes, this one among them; the others are forked when there is something to do."""

    def __init__(self, number: int) -> None:
        """`number`: of processes in all."""
        self._number = number
        self._others: list[_Other] = []
        self._turns = _Turns()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(at_once=kind is not None)

    def start(self) -> None:
        """Fork now, and not at the first call: for what is to be used in between and must not be used before a fork."""
        if can_fork():
            self._fork()

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The results in the order of the tasks; the function, the tasks and the results are pickled. After the first
        error no new task is begun. Raises the error of the first task, in order, that failed.
        """
        tasks = list(tasks)
        try:
            done = self._done(function, tasks)
        except BaseException:  # not of a task: nobody may go on to write where the caller now cleans up
            self._end(at_once=True)
            raise
        failed = min((number for number, result in done.items() if isinstance(result, _Failure)), default=None)
        if failed is not None:
            raise done[failed].error
        return [done[number] for number in range(len(tasks))]

    def _done(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> dict[int, Any]:
        self._fork()
        self._turns.begin(len(tasks))
        others = self._others[: max(0, len(tasks) - 1)]
        work = pickle.dumps((function, tasks))
        for other in others:
            other.begin(work)
        done = _work(function, tasks, self._turns)
        for other in others:
            done |= other.results()
        return done

    def _end(self, *, at_once: bool) -> None:
        for other in self._others:
            other.end(at_once=at_once)
        self._others = []

    def _fork(self) -> None:
        while len(self._others) < self._number - 1:
            self._others.append(_Other.forked(self._turns, self._others))


@dataclass(frozen=True)
class _Failure:
    error: BaseException


class _Turns:
    """Numbers that processes take in turn: of a file opened before they parted they share the place of reading."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - as long as the workers

    def begin(self, count: int) -> None:
        """From 0 to `count` - 1."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(np.arange(count, dtype="<u4").tobytes())
        self._file.seek(0)

    def take(self) -> int | None:
        """The next number; None after the last."""
        text = self._file.read(_NUMBER)
        return int.from_bytes(text, "little") if text else None

    def stop(self) -> None:
        """Let nobody take another."""
        self._file.seek(0, os.SEEK_END)


@dataclass(frozen=True)
class _Other:
    """A process that was forked, and the line to it."""

    pid: int
    line: Connection[Any, Any]

    @classmethod
    def forked(cls, turns: _Turns, before: Sequence[_Other]) -> _Other:
        """`before`: those that the new one must not keep alive by holding their lines."""
        here, there = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for line in (here, *(other.line for other in before)):
                line.close()
            _serve(there, turns)
        there.close()
        return cls(pid, here)

    def begin(self, work: bytes) -> None:
        """Let it take tasks."""
        with self._alive():
            self.line.send_bytes(work)

    def results(self) -> dict[int, Any]:
        """Those of the tasks that it took."""
        with self._alive():
            found: dict[int, Any] = pickle.loads(self.line.recv_bytes())  # noqa: S301 - from our own fork
        return found

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError):
            raise RunError(_ending(self.pid)) from None

    def end(self, *, at_once: bool) -> None:
        """Wait until it has; it does when the line is closed."""
        self.line.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if at_once:
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _serve(line: Connection[Any, Any], turns: _Turns) -> NoReturn:
    """Work until nobody is at the other end, and never return to what the parent was doing."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        gc.freeze()  # to look through the parent's objects would copy the memory that holds them
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                function, tasks = pickle.loads(line.recv_bytes())  # noqa: S301 - from the process we were forked from
                done = {number: _crossing(result) for number, result in _work(function, tasks, turns).items()}
                line.send_bytes(pickle.dumps(done))
                sys.stdout.flush()
        code = 0
    except BaseException as error:
        write_traceback(error)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no clean-up of what belongs to the parent


def _work(function: Callable[[Task], Result], tasks: Sequence[Task], turns: _Turns) -> dict[int, Any]:
    """The results of the tasks taken here, by number; instead of the last one perhaps a failure."""
    done: dict[int, Any] = {}
    while (number := turns.take()) is not None:
        try:
            done[number] = function(tasks[number])
        except Exception as error:
            turns.stop()
            done[number] = _Failure(error)
    return done


def _crossing(result: Any) -> Any:
    """What can be sent to another process: of an error, which leaves its traceback here, also where it was raised."""
    if not isinstance(result, _Failure):
        return result
    where = traceback_of(result.error)
    result.error.add_note(f"In a worker process:\n{where}")
    try:
        pickle.loads(pickle.dumps(result))  # noqa: S301 - our own
    except Exception:
        return _Failure(RuntimeError(where))
    return result


def _ending(pid: int) -> str:
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    killed = ended is not None and ended.si_code != os.CLD_EXITED
    how = signal.Signals(ended.si_status).name if ended and killed else f"exit code {ended and ended.si_status}"
    return (
        f"a worker process of ExampleGen ended by {how}"
        "\n  Where memory ran out, a lower `beam.workers` takes less; else the log has more"
    )
