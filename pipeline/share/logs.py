"""Copies of TensorBoard's logs and profiles beside a shared page."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.share.events import log_files
from headrace.pipeline.share.runs import SharedRun

LOGS = "logs"
"""The folder of the copies."""
_PROFILE = ".xplane.pb"


@dataclass(frozen=True)
class LogFile:
    """One copied log file: its path relative to the page, and its bytes."""

    path: str
    size: int


def copy_logs(run: SharedRun, target: Path, name: str | None = None) -> list[LogFile]:
    """Copy a run's TensorBoard logs and profiles to `target/logs/<name>`; the name is the run's anchor by default."""
    directory = run.logs_at
    profiles = sorted(path for path in directory.rglob(f"*{_PROFILE}") if path.is_file())
    copied = []
    for file in [*log_files(directory), *profiles]:
        inside = Path(LOGS, name or run.anchor, file.relative_to(directory))
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / inside)
        copied.append(LogFile(inside.as_posix(), file.stat().st_size))
    return copied
