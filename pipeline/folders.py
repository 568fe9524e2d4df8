"""The folder of a pipeline: where its files are, and the lock that lets one run at a time into it.

Two files make up the lock. A command holds the first for as long as it lives. The second is held by the processes that
the command started (pipeline/local/client.py): they outlive a killed command for a moment, in which they still write.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.common.errors import RunError
from headrace.common.locks import hold, is_held, wait_until_free
from headrace.common.storage.paths import is_remote
from headrace.components.stored_models.stored_versions import copy_of
from headrace.configs.config import PipelineConfig

A_RUN = "another run"
"""What a run writes into the lock, for the message to others."""
PATIENCE_SECONDS = 60.0
"""How long to wait for the processes of a killed command. They end within milliseconds; within seconds if the machine
is very busy."""


@dataclass(frozen=True)
class Folders:
    """The files and folders of one pipeline. All paths are absolute."""

    home: Path
    """`<pipeline.root>/<pipeline.name>`."""

    @classmethod
    def of(cls, config: PipelineConfig) -> Folders:
        """The folders of the pipeline that `config` describes, relative to the current folder."""
        return cls(Path(config.pipeline.root).absolute() / config.pipeline.name)

    @property
    def artifacts(self) -> Path:
        return self.home / "artifacts"

    @property
    def metadata(self) -> Path:
        return self.home / "metadata.sqlite"

    @property
    def registry(self) -> Path:
        return self.home / "blessed.json"

    @property
    def push_record(self) -> Path:
        """Names the blessed model that was pushed last."""
        return self.home / "pushed.json"

    @property
    def registration_lock(self) -> Path:
        """Held by the command that registers versions, which may be one that no longer holds the lock of the folder."""
        return self.home / ".registration.lock"

    @property
    def serving_lock(self) -> Path:
        """Held by the command that brings the server of `deploy.serving` up."""
        return self.home / ".serving.lock"

    @property
    def trained(self) -> Path:
        """Names the data that the last models were trained on. Exists only with `schedule.retrain`."""
        return self.home / "trained.json"

    @property
    def plan(self) -> Path:
        """The plan of the last run, for the next one."""
        return self.home / "plan.json"

    @property
    def checked(self) -> Path:
        """The key of the last data check that found no mistake, and its notes."""
        return self.home / "checked.json"

    @property
    def scratch(self) -> Path:
        return self.home / "tmp"

    @property
    def spans(self) -> Path:
        """What components store of each span, for later runs."""
        return self.home / "spans"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of unfinished trainings."""
        return self.home / "checkpoints"

    def pushed(self, directory: str) -> Path:
        """The absolute path of `deploy.push`; if that is in an object store, of the folder here that stands for it."""
        return copy_of(directory, self.home) if is_remote(directory) else Path(directory).absolute()

    def predictions(self, output: str) -> Path:
        """The absolute path of `predict.output`."""
        return Path(output).absolute()

    @property
    def runs(self) -> Path:
        return self.home / "runs"


def processes_file(home: Path) -> Path:
    """The file that the processes of a run hold."""
    return home / ".at-work"


def in_progress(home: Path) -> bool:
    """Whether a run holds the lock of a pipeline's folder; not another command, such as `headrace prune`."""
    return is_held(_lock_file(home)) and _holder(_lock_file(home)) == A_RUN


def _lock_file(home: Path) -> Path:
    return home / ".lock"


@contextlib.contextmanager
def locked(home: Path, holder: str = A_RUN) -> Iterator[None]:
    """Hold the lock of a pipeline's folder, after the processes of a killed command have ended.

    holder: what holds it, for the message to others, such as A_RUN or "`headrace prune`". The lock is released
    when this process dies. Raises RunError at once if another command holds it, or after PATIENCE_SECONDS if processes
    of a killed command still run.
    """
    file = _lock_file(home)

    def refusal() -> str:
        what = f"{_holder(file)} of this pipeline is in progress in {home}."
        return f"{what}\n  Wait for it to end, or choose another `pipeline.name` or `pipeline.root`."

    with hold(file, refusal) as opened:
        opened.truncate(0)
        with contextlib.suppress(OSError):  # a full disk holds no words, and a lock all the same
            os.write(opened.fileno(), holder.encode())
        if not wait_until_free(processes_file(home), PATIENCE_SECONDS):
            raise RunError(
                f"processes of a killed run are still at work in {home}.\n"
                f"  Wait for them, or end them: `fuser {processes_file(home)}` lists them."
            )
        yield


def _holder(lock: Path) -> str:
    """What its file says of who holds a lock, if anybody does."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return lock.read_text(encoding="utf-8") or "another command"
    return "another command"
