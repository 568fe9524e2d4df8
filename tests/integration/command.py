"""The installed command in a subprocess, as a user starts it, and what it leaves behind.

done = headrace(folder, "run", "config.yaml")  # forked, with its imports done (see forks.py)
done = Going(folder, "run", "config.yaml").finish()  # started as a shell would
assert done.code == 0 and done.statuses()["Trainer"] == "done"
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from forks import HEADRACE, Forked
from installed import without_pythonpath

from headrace.configs.schema.predict import ONLY_PREDICTS
from headrace.pipeline.results.record import RunRecord, Status

ROOT = Path(__file__).parents[2]
# Where the tests are a script's background job they ignore Ctrl-C, and so would all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
PATIENCE = 600.0
"""Seconds after which what is waited for will not come, however busy the machine is."""


@dataclass(frozen=True)
class Finished:
    """What a command left on the terminal, and the record of its run."""

    code: int
    out: str
    err: str
    record: RunRecord | None
    run_dir: Path | None

    @property
    def run(self) -> RunRecord:
        assert self.record is not None, self.out + self.err
        return self.record

    @property
    def folder(self) -> Path:
        assert self.run_dir is not None, self.out + self.err
        return self.run_dir

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def ending(self, word: str) -> str:
        """What the last words of the run say after `word`."""
        return next(line.removeprefix(word).strip() for line in reversed(self.lines) if line.startswith(f"{word} "))

    def statuses(self) -> dict[str, str]:
        return {node.id: str(node.status) for node in self.run.nodes}

    def ran(self) -> set[str]:
        """The components that were computed, other than those that always are."""
        always = {"Spans", "Baseline", "RecordBlessing"}
        return {node.id for node in self.run.nodes if node.status is Status.DONE} - always

    def uri(self, node: str, output: str) -> Path:
        return Path(self.run.node(node).outputs[output].uri)


class Going:
    """A command in progress, in a process group of its own, as a shell would start it."""

    _start = subprocess.Popen

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.folder = folder
        self.process = self._start(
            [str(HEADRACE), *arguments],
            cwd=folder,
            env={**without_pythonpath(), "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._seen: list[str] = []

    def wait_for(self, pattern: str) -> None:
        """Until a line with this pattern stands on the terminal."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._seen.append(line)
            if re.search(pattern, line):
                return
        raise AssertionError(f"no {pattern!r} in:\n{''.join(self._seen)}{self.process.communicate()[1]}")

    @property
    def lines(self) -> list[str]:
        """What it has printed so far, as far as `wait_for` has read."""
        return self._seen

    def signal(self, number: int) -> None:
        """To all of its process group, as a terminal does."""
        os.killpg(self.process.pid, number)

    def finish(self) -> Finished:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        late = threading.Timer(PATIENCE, self.signal, [signal.SIGKILL])
        late.daemon = True
        late.start()
        # `communicate` would leave out the lines that came with the one that `wait_for` has found.
        with ThreadPoolExecutor(1) as pool, self.process.stdout, self.process.stderr:
            errors = pool.submit(self.process.stderr.read)
            rest, err = self.process.stdout.read(), errors.result()
        self.process.wait()
        in_time = late.is_alive()
        late.cancel()
        out = "".join(self._seen) + rest
        assert in_time, f"it did not end within {PATIENCE:.0f} seconds:\n{out}{err}"
        run_dir = _run_dir(self.folder, out)
        record = RunRecord.read(run_dir) if run_dir else None
        return Finished(self.process.returncode, out, err, record, run_dir)


def _run_dir(folder: Path, out: str) -> Path | None:
    named = re.search(r"^\d\d:\d\d:\d\d (\S+)  run (\S+)", out, re.MULTILINE)
    found = folder / "runs" / named[1].removesuffix(ONLY_PREDICTS) / "runs" / named[2] if named else None
    return found if found and found.is_dir() else None  # a run on a server leaves none here


class _AtOnce(Going):
    _start = Forked


def started_at_once(folder: Path, *arguments: str, **environment: str) -> Going:
    """The command in progress, without the seconds that its imports take."""
    return _AtOnce(folder, *arguments, **environment)


def headrace(folder: Path, *arguments: str, **environment: str) -> Finished:
    """Run the command to its end, without the seconds that its imports take."""
    return started_at_once(folder, *arguments, **environment).finish()


def processes_in(folder: Path) -> list[int]:
    """Processes whose current directory is `folder`: the command there, and all that it started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder.resolve():
                found.append(int(process.name))
    return found


def alive(pid: int) -> bool:
    """Whether a process runs: one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def locks_awaited_by(pid: int) -> int:
    """How many file locks a process is waiting for; each of its threads may wait for one."""
    held_and_awaited = (line.split() for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines())
    return sum(words[1] == "->" and words[5] == str(pid) for words in held_and_awaited)


def wait_until(what: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def versions(folder: Path) -> list[str]:
    """The model versions pushed so far, and what a push that was broken off left beside them."""
    names = (path.name for path in (folder / "serving").rglob("*"))
    return sorted(name for name in names if name.isdigit() or name.startswith(".pushing"))


def outputs_on_disk(home: Path) -> set[Path]:
    """The folder of every output of every execution, `<node>/<output>/<execution id>`."""
    return {path.relative_to(home / "artifacts") for path in home.glob("artifacts/*/*/*")}
