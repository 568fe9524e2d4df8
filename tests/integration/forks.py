"""Python programs that start at once: forked from a process that has imported TensorFlow, TFX and Beam.

    process = Forked([str(HEADRACE), "run", "taxi.yaml"], cwd=folder, stdout=subprocess.PIPE)

The imports take six seconds of a core for each program, and few tests are about them. A program starts here in its own
session, folder, environment and files as it does otherwise, but with everything imported; so do the programs that it
starts in sessions of their own (the fork server of `headrace run`). They come from a process that does nothing else
and has no thread of its own, so that forking is safe.

A copy of the project (installed.py) has such a process too, started with its own Python. It has imported libraries
alone: what a test edits, adds or takes away is imported by each program, as it is then.

What forking hides, such as a module that only another one imports, is left to tests that start the installed script
or a task of Kubeflow's themselves: test_taxi.py, test_verify.py, test_one_folder.py, test_locales.py and others.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).parents[2]
HEADRACE = Path(sys.executable).parent / "headrace"
"""The script that installing the project made."""
POPEN: Any = subprocess.Popen
"""A test may put Forked in its place. What Forked overrides is private, and has no types."""
ADDRESS = "HEADRACE_TEST_FORKS"
"""Environment variable of forked programs: where to ask for others."""
SHARED = "HEADRACE_TEST_FORKS_SHARED"
"""Environment variable of the processes of pytest-xdist: the process that started them, and a folder for the socket of
the one that forks for all of them.
"""
FIRST = "HEADRACE_TEST_FIRST"
"""Environment variable: a Python file that forked programs run before anything else."""
ALL = "HEADRACE_TEST_FORK_ALL"
"""Environment variable: fork also what a forked program starts in its own session, and Beam's workers. A signal to that
session would miss it, so this is for programs that run undisturbed.
"""
LIBRARIES = (
    "tensorflow_model_analysis", "tfx.v1", "google_crc32c", "isal.igzip", "jinja2", "kfp.compiler", "kfp.kubernetes",
    "pyarrow.csv", "pyarrow.parquet", "pydantic.dataclasses", "rich.console", "rich.live", "rich.table", "setuptools",
    "zlib_ng.gzip_ng",
)  # fmt: skip
"""What commands and components import. The first two, which import most of the rest, come first."""
BEAM_WORKER = ["-m", "apache_beam.runners.worker.sdk_worker_main"]
LONGEST = 1 << 17
"""Bytes of a request, which is a single packet."""
HUGE, MADV_COLLAPSE = 1 << 21, 25
"""Bytes of a large page, and the kernel's number for making one of small ones."""


class Forked(POPEN):
    """A `Popen` whose Python programs are forked; any other command is started as always."""

    _line: socket.socket | None = None

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        pass_fds, cwd, env, *_, new_session, _ = rest
        pipes = rest[6:12]
        nested = ADDRESS in os.environ
        program = _program(args)
        leaves = nested and not new_session and ALL not in os.environ  # the session of the one above it
        if program is None or leaves or (nested and program.python != sys.executable):
            super()._execute_child(args, executable, preexec_fn, close_fds, *rest)
            return
        files = [own if own != -1 else inherited for inherited, own in enumerate((pipes[0], pipes[3], pipes[5]))]
        asked = {
            "program": program[1:],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(env or os.environ),
            "targets": [0, 1, 2, *pass_fds],
            "session": new_session,
        }
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.connect(os.environ.get(ADDRESS) or address(program.python))
        socket.send_fds(self._line, [json.dumps(asked).encode()], [*files, *pass_fds])
        self.pid = int(self._line.recv(LONGEST))
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._line is None:
            return super()._try_wait(wait_flags)
        if wait_flags & os.WNOHANG and not select.select([self._line], [], [], 0)[0]:
            return 0, 0
        reported = self._line.recv(LONGEST)
        assert reported, "the process that forks others has ended"
        return self.pid, int(reported)

    def _internal_poll(self, *arguments: Any, **named: Any) -> int | None:
        if self._line is None:
            return super()._internal_poll(*arguments, **named)
        if not self._waitpid_lock.acquire(False):  # another thread waits: the status can be received only once
            return None
        try:
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            return self.returncode
        finally:
            self._waitpid_lock.release()


class ForkedWorker(Forked):
    """A worker that Beam starts by a line for the shell: a process of its own, forked with the imports done."""

    program = BEAM_WORKER

    def __init__(self, args: Any, *rest: Any, shell: bool = False, **settings: Any) -> None:
        words = shlex.split(args) if shell else args
        if shell and words[1:] == BEAM_WORKER:
            words, shell = [words[0], *self.program], False
        super().__init__(args if shell else words, *rest, shell=shell, **settings)


def run(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with what it prints captured as text."""
    with Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


class Program(NamedTuple):
    """A command that runs Python. name: its module or file; is_safe: whether `-P` stands before that."""

    python: str
    name: str
    arguments: list[str]
    is_safe: bool


def _program(args: Any) -> Program | None:
    """The program of a command, in this environment or in a copy's; None if it is not known to run Python."""
    if not isinstance(args, list | tuple):
        return None
    first, *words = map(str, args)
    beside = Path(first).with_name("headrace")
    if first == str(HEADRACE):
        return Program(sys.executable, first, words, False)
    if first == str(beside) and beside.with_name("python").exists():
        return Program(str(beside.with_name("python")), first, words, False)
    if first != sys.executable and not (Path(first).name == "python" and beside.exists()):
        return None
    safe = words[:1] == ["-P"]
    words = words[safe:]
    if words[:1] == ["-m"]:
        return Program(first, words[1], words[2:], safe)
    return Program(first, words[0], words[1:], safe) if words and words[0].endswith(".py") else None


_SERVERS: list[Any] = []
"""Their standard inputs stay open as long as they are here."""


_STARTING = threading.Lock()


def address(python: str = sys.executable) -> str:
    """Where to ask for programs of this Python."""
    with _STARTING:
        return _address(python)


def in_program() -> str:
    """Python code for a program that is itself not forked: what it starts in a session of its own after that, is."""
    return f"""
import os, subprocess, sys
sys.path.append({str(Path(__file__).parent)!r})
import forks
sys.path.pop()
os.environ[forks.ADDRESS] = {address()!r}
subprocess.Popen = forks.Forked
"""


@functools.cache
def _address(python: str) -> str:
    """Of the process that forks, which is started when the first program is. It ends with this one; that of this
    environment is shared by all processes of the tests (see `shared`), and ends with the one that started them.

    Only that of this environment imports the project, which does not change while tests run.
    """
    if python != sys.executable:
        return _serve(Path(tempfile.mkdtemp(prefix="forks"), "socket"), python, "own", "libraries")
    if SHARED not in os.environ:
        return _serve(Path(tempfile.mkdtemp(prefix="forks"), "socket"), python, "own", "all")
    from headrace.common.locks import wait_and_hold

    head, _, folder = os.environ[SHARED].partition(" ")
    place = Path(folder, "socket")
    with wait_and_hold(Path(folder, "lock")):
        return str(place) if place.exists() else _serve(place, python, head, "all")


def _serve(place: Path, python: str, head: str, imports: str) -> str:
    """Start a process that forks at this address. head: the process that it ends with, or `own` for this one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(place))
    listener.listen(64)
    process = POPEN(
        [python, "-P", __file__, str(listener.fileno()), head, imports],
        stdin=subprocess.PIPE,  # closes when this process ends, however it does
        pass_fds=[listener.fileno()],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    listener.close()
    _SERVERS.append(process)
    return str(place)


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Let the processes that this one starts, the workers of pytest-xdist, share the process that forks: its imports
    cost as much as two runs of a small pipeline. `pytest --cpu` does without, as a file's share would count elsewhere.
    """
    with tempfile.TemporaryDirectory(prefix="forks") as folder:
        os.environ[SHARED] = f"{os.getpid()} {folder}"
        try:
            yield
        finally:
            del os.environ[SHARED]


class Server:
    """Forks as asked, and tells whoever asked how each ended."""

    def __init__(self, listener: socket.socket, end: int, path: list[str]) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._fork)
        self._selector.register(end, selectors.EVENT_READ, self._end)
        self._children: dict[int, tuple[int, socket.socket]] = {}
        self._path, self._until = path, end

    def serve(self) -> dict[str, Any]:
        """Go on until the tests end. Comes back in each child, with what was asked for."""
        while True:
            for key, _ in self._selector.select():
                asked = key.data(key.fileobj)
                if asked is not None:
                    return asked

    def _fork(self, listener: socket.socket) -> dict[str, Any] | None:
        line, _ = listener.accept()
        packet, files, _, _ = socket.recv_fds(line, LONGEST, 16)
        if not packet:  # who wanted to ask was killed
            line.close()
            return None
        asked = json.loads(packet)
        pid = os.fork()
        if pid == 0:
            self._leave([listener, line])
            _take(files, asked["targets"])
            return {**asked, "path": self._path}
        for file in files:
            os.close(file)
        with contextlib.suppress(OSError):  # who asked was killed meanwhile
            line.send(str(pid).encode())
        ended = os.pidfd_open(pid)
        self._children[ended] = pid, line
        self._selector.register(ended, selectors.EVENT_READ, self._reap)
        return None

    def _reap(self, ended: int) -> None:
        self._selector.unregister(ended)
        os.close(ended)
        pid, line = self._children.pop(ended)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):  # who asked may be gone
            line.send(str(status).encode())
        line.close()

    def _end(self, _: int) -> None:
        sys.exit()

    def _leave(self, others: list[socket.socket]) -> None:
        """In a child: let go of what is the server's."""
        self._selector.close()
        for line in (*others, *(line for _, line in self._children.values())):
            line.close()
        for ended in (self._until, *self._children):
            os.close(ended)


def _take(files: list[int], targets: list[int]) -> None:
    """Give the files the numbers that they have at the other end."""
    above = max(*targets, *files) + 1
    moved = []
    for number, file in enumerate(files):
        os.dup2(file, above + number)
        os.close(file)
        moved.append(above + number)
    for file, target in zip(moved, targets, strict=True):
        os.dup2(file, target)
        os.close(file)


def _become(asked: dict[str, Any]) -> None:
    """Run the program as if Python had just been started for it."""
    name, arguments, safe = asked["program"]
    if asked["session"]:
        os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    os.environ[ADDRESS] = asked["address"]
    tempfile.tempdir = None  # TMPDIR may be another
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_file = name.endswith(".py") or os.sep in name
    first = [] if safe else [str(Path(name).parent if is_file else Path.cwd())]
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [*first, *given, *asked["path"]]
    sys.argv = [name, *arguments]
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    if FIRST in os.environ:
        runpy.run_path(os.environ[FIRST], run_name="__main__")
    subprocess.Popen = ForkedWorker if ALL in os.environ else Forked  # type: ignore[misc]
    importlib.invalidate_caches()  # files may be newer than what the server looked through
    if is_file:
        runpy.run_path(name, run_name="__main__")
    else:
        sys.modules.pop(name, None)  # so that Python does not warn of it
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def main(descriptor: int, head: str, *, only_libraries: bool) -> None:
    """Import what programs need, and serve. Programs get `sys.path` as it is before: setuptools adds to it."""
    path = list(sys.path)
    try:
        end = 0 if head == "own" else os.pidfd_open(int(head))
    except ProcessLookupError:
        return
    from headrace.common.environment import collect_rarely, prepare

    prepare()
    collect_rarely()
    gc.disable()
    for name in LIBRARIES:
        importlib.import_module(name)
    if only_libraries:
        for name in [name for name in sys.modules if name.partition(".")[0] == "headrace"]:
            del sys.modules[name]
    else:
        for module in pkgutil.walk_packages(importlib.import_module("headrace").__path__, "headrace."):
            importlib.import_module(module.name)
        _build_config_models()
    gc.freeze()
    gc.enable()
    collapse()
    serve(socket.socket(fileno=descriptor), end, path)


def serve(listener: socket.socket, end: int, path: list[str]) -> NoReturn:
    """Fork programs that are asked for, until `end` is closed at its other end. path: their `sys.path`."""
    place = listener.getsockname()
    asked = Server(listener, end, path).serve()
    _end_as(lambda: _become({**asked, "address": place}))


def _build_config_models() -> None:
    """Build the validators of all config sections, which a process otherwise does when it first needs one."""
    from headrace.configs.schema.section import Section

    waiting = [Section]
    for section in waiting:
        section.model_rebuild()
        waiting += section.__subclasses__()


def collapse() -> None:
    """Put this process's own memory into pages of 2 MB, as far as the kernel does that (Linux 6.1).

    A fork copies the table of all pages, and its end goes through it again: half as long for fewer pages. With the
    libraries imported, this takes 0.7 seconds, and a fork with its end 0.02 in place of 0.05.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        place, rights, _, _, _, *name = line.split()
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(number, 16) for number in place.split("-"))
            for page in range(-(-start // HUGE) * HUGE, end // HUGE * HUGE, HUGE):
                madvise(page, HUGE, MADV_COLLAPSE)


def _end_as(program: Callable[[], None]) -> NoReturn:
    """Run a program and end as Python does after it, but free nothing.

    To free all that was imported takes half a CPU second: it writes to each page that the child shares with the
    server, and so copies it first. What runs at exit does run, and a program that fails ends slowly.
    """
    code: object = None
    try:
        program()
    except SystemExit as ended:
        code = ended.code
    if code is None or isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined] # waits for threads
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):  # a closed pipe, which Python reports and has a status for
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((code or 0) & 0xFF)
    sys.exit(code)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], only_libraries=sys.argv[3] == "libraries")
