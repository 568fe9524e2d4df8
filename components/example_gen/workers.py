"""Forked processes that share tasks with this one; threads would wait for each other's Python.

with ForkedWorkers(2) as workers:      # this process and one more
    workers(function, tasks)           # the results, in the order of the tasks

The processes are forked at the first call and stay. A fork inherits only the thread that forked, so whatever reads or
computes in this process must not leave threads or connections that the function needs.
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

from headrace.common.errors import RunError
from headrace.common.tracebacks import traceback_of, write_traceback
from headrace.components.sources.base import Result, Task

_NUMBER = 4
"""Bytes of a task's number."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG (linux/prctl.h)."""


def can_fork() -> bool:
    """Whether this process can be forked safely: on Linux, if it has a single thread."""
    return sys.platform == "linux" and threading.active_count() == 1


class ForkedWorkers:
    """A number of processes, including this one; the others are forked when there is work."""

    def __init__(self, number: int) -> None:
        """`number`: of processes in all."""
        self._number = number
        self._others: list[_Child] = []
        self._queue = _TaskQueue()

    def __enter__(self) -> ForkedWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(at_once=kind is not None)

    def start(self) -> None:
        """Fork now, ahead of something that must not happen before a fork, such as starting threads."""
        if can_fork():
            self._fork()

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The results in the order of the tasks. The function, the tasks and the results are pickled.

        After the first error no new task is started. Raises the error of the first task, in order, that failed.
        """
        tasks = list(tasks)
        try:
            results = self._run(function, tasks)
        except BaseException:  # not a task's: no process may keep writing where the caller now cleans up
            self._end(at_once=True)
            raise
        failed = min((number for number, result in results.items() if isinstance(result, _TaskError)), default=None)
        if failed is not None:
            raise results[failed].error
        return [results[number] for number in range(len(tasks))]

    def _run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> dict[int, Any]:
        self._fork()
        self._queue.fill(len(tasks))
        others = self._others[: max(0, len(tasks) - 1)]
        work = pickle.dumps((function, tasks))
        for other in others:
            other.start(work)
        results = _work(function, tasks, self._queue)
        for other in others:
            results |= other.results()
        return results

    def _end(self, *, at_once: bool) -> None:
        for other in self._others:
            other.end(at_once=at_once)
        self._others = []

    def _fork(self) -> None:
        while len(self._others) < self._number - 1:
            self._others.append(_Child.forked(self._queue, self._others))


@dataclass(frozen=True)
class _TaskError:
    error: BaseException


class _TaskQueue:
    """The numbers of the tasks, in a file opened before the fork: all processes share its read position, so each number
    is taken once, without a lock.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as the workers

    def fill(self, count: int) -> None:
        """Offer the numbers from 0 to `count` - 1."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(np.arange(count, dtype="<u4").tobytes())
        self._file.seek(0)

    def take(self) -> int | None:
        """The next number; None after the last."""
        text = self._file.read(_NUMBER)
        return int.from_bytes(text, "little") if text else None

    def close(self) -> None:
        """Offer no more numbers."""
        self._file.seek(0, os.SEEK_END)


@dataclass(frozen=True)
class _Child:
    """A forked process, and the connection to it."""

    pid: int
    connection: Connection[Any, Any]

    @classmethod
    def forked(cls, queue: _TaskQueue, siblings: Sequence[_Child]) -> _Child:
        """Fork a process. It closes the connections to its `siblings`, which it would otherwise keep alive."""
        here, there = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for connection in (here, *(sibling.connection for sibling in siblings)):
                connection.close()
            _serve(there, queue)
        there.close()
        return cls(pid, here)

    def start(self, work: bytes) -> None:
        """Let it take tasks."""
        with self._alive():
            self.connection.send_bytes(work)

    def results(self) -> dict[int, Any]:
        """The results of the tasks that it took, by number."""
        with self._alive():
            found: dict[int, Any] = pickle.loads(self.connection.recv_bytes())  # noqa: S301 - from our own fork
        return found

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError):
            raise RunError(_exit_message(self.pid)) from None

    def end(self, *, at_once: bool) -> None:
        """Wait until it exits, which it does when its connection is closed; `at_once`: kill it first."""
        self.connection.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if at_once:
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _serve(connection: Connection[Any, Any], queue: _TaskQueue) -> NoReturn:
    """Work until the other end is closed, and never return to what the parent was doing."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        gc.freeze()  # a collection would touch the parent's objects, and so copy the memory that holds them
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                function, tasks = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the process that forked us
                results = {number: _picklable(result) for number, result in _work(function, tasks, queue).items()}
                connection.send_bytes(pickle.dumps(results))
                sys.stdout.flush()
        code = 0
    except BaseException as error:
        write_traceback(error)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without the parent's clean-up handlers


def _work(function: Callable[[Task], Result], tasks: Sequence[Task], queue: _TaskQueue) -> dict[int, Any]:
    """The results, by number, of the tasks that this process takes; the last may be a _TaskError."""
    results: dict[int, Any] = {}
    while (number := queue.take()) is not None:
        try:
            results[number] = function(tasks[number])
        except Exception as error:
            queue.close()
            results[number] = _TaskError(error)
    return results


def _picklable(result: Any) -> Any:
    """A result that can be sent to another process. An error loses its traceback on the way, so that becomes a note."""
    if not isinstance(result, _TaskError):
        return result
    where = traceback_of(result.error)
    result.error.add_note(f"In a worker process:\n{where}")
    try:
        pickle.loads(pickle.dumps(result))  # noqa: S301 - our own
    except Exception:
        return _TaskError(RuntimeError(where))
    return result


def _exit_message(pid: int) -> str:
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    killed = ended is not None and ended.si_code != os.CLD_EXITED
    how = signal.Signals(ended.si_status).name if ended and killed else f"exit code {ended and ended.si_status}"
    return (
        f"a worker process of ExampleGen ended with {how}"
        "\n  If memory ran out, lower `beam.workers`; otherwise see the log"
    )
