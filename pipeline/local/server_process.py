"""The process of the fork server, and when it starts: as early as it is likely that a component will have to run.

with EarlyProcess(fresh=fresh) as early:
    early.start_if_new(path, settings)  # before anything else is imported
    early.start_if_needed(config)       # before the data is checked
    process = early.take()              # None if it was not started
    early.end(remember=True)            # the run has ended well
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headrace.common.digests import digest_path, digest_text
from headrace.common.durable import write_text
from headrace.common.environment import cache_folder

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig

ORPHAN_SECONDS = 0.5
"""How long to wait for processes started by components. In some containers nobody reaps them, so they never vanish."""
COMMANDS = 500
"""How many commands are remembered, of all pipelines."""


class ServerProcess:
    """The process of the fork server. It imports what components need, and writes nothing before it has a pipeline."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process runs
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", "headrace.pipeline.local.fork_server", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C reaches only the command, which then ends the group
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        theirs.close()
        try:
            from headrace.pipeline.local.wire import JsonConnection  # imports ML Metadata's messages, meanwhile

            self.connection = JsonConnection(ours)
        except BaseException:  # such as Ctrl-C
            self.kill()
            raise

    def output(self) -> bytes:
        """What it has printed."""
        descriptor = self._output.fileno()  # which the process shares, with its position
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)

    def wait(self) -> int:
        """Wait until it has ended; returns its exit code."""
        return self._process.wait()

    def end(self, seconds: float) -> None:
        """Let it end by itself, as it does once it waits for requests and none can come; or give up after so long."""
        with contextlib.suppress(OSError):
            self.connection.end()
            self.connection.wait(seconds)

    def kill(self) -> None:
        """Kill it and everything that it started, except what nobody reaps."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # it may not have come to its own group yet
        self._process.wait()
        self._wait_for_group()

    def _wait_for_group(self) -> None:
        """Wait until the process group is empty, for a limited time."""
        deadline = time.monotonic() + ORPHAN_SECONDS
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(self._process.pid, 0)
                time.sleep(0.005)

    def close(self) -> None:
        """Close the connection, after a kill."""
        self.connection.close()
        self._output.close()


class EarlyProcess:
    """Starts the fork server's process as soon as a component will probably have to run: it imports what components
    need while the command loads the config and checks the data.
    """

    def __init__(self, *, fresh: bool) -> None:
        self._fresh = fresh
        self._process: ServerProcess | None = None
        self._command: str | None = None

    def start_if_new(self, config: Path, settings: Sequence[str]) -> None:
        """Start the process unless this command has run to its end here, with these files: then most is reused.

        config: the file, which counts with its profiles; settings: what the command says beside it.
        """
        try:
            files = sorted(file for file in config.parent.iterdir() if _belongs(file, config))
            digests = [digest_path(file) for file in files]
            self._command = digest_text(str(Path.cwd()), str(config), *digests, *settings) if digests else None
        except OSError:  # as loading it will say
            return
        if self._command is None:
            return
        if self._fresh or self._command not in _commands():
            self._process = ServerProcess()

    def start_if_needed(self, config: PipelineConfig) -> None:
        """Start the process, unless it has been started or the run may end without it."""
        from headrace.pipeline.folders import Folders
        from headrace.pipeline.local.known_plan import is_outdated

        folders = Folders.of(config)
        may_end_early = config.retrain != "always" and folders.trained.exists()
        if self._process is None and (self._fresh or (not may_end_early and is_outdated(folders.plan, config))):
            self._process = ServerProcess()

    @property
    def started(self) -> bool:
        """Whether the process has been started, and nobody took it."""
        return self._process is not None

    def take(self) -> ServerProcess | None:
        """The process, which the caller then has to end."""
        process, self._process = self._process, None
        return process

    def end(self, *, remember: bool) -> None:
        """End the process if nobody took it. remember: the command of `start_if_new` has run to its end."""
        if self._process is not None:
            self._process.kill()
            self._process.close()
            self._process = None
        known = _commands()
        if not remember or self._command is None or self._command in known:
            return
        with contextlib.suppress(OSError, RuntimeError):  # of a folder that nothing depends on
            write_text(_file(), json.dumps([*known[1 - COMMANDS :], self._command]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(remember=False)


def _belongs(file: Path, config: Path) -> bool:
    """Whether a file is the config or one of its profiles."""
    return file.name.startswith(f"{config.stem}.") and file.suffix == config.suffix and file.is_file()


def _commands() -> list[str]:
    """The digests of the commands that ran to their end, the newest last."""
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, RuntimeError, ValueError):
        return []
    return found if isinstance(found, list) else []


def _file() -> Path:
    """Raises RuntimeError if the user has no home folder."""
    return cache_folder() / "commands.json"
