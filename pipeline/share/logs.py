"""The raw logs beside the page."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.share.events import log_files
from headrace.pipeline.share.runs import SharedRun

FOLDER = "logs"
_PROFILE = ".xplane.pb"


@dataclass(frozen=True)
class LogFile:
    """One copied file: its path from the page, and its bytes."""

    path: str
    octets: int


def copy_logs(run: SharedRun, target: Path, name: str | None = None) -> list[LogFile]:
    """Copy a run's TensorBoard logs and profiles below `target/logs/<name>`, by default its anchor on the page."""
    directory = run.logs_at
    profiles = sorted(path for path in directory.rglob(f"*{_PROFILE}") if path.is_file())
    copied = []
    for file in [*log_files(directory), *profiles]:
        inside = Path(FOLDER, name or run.anchor, file.relative_to(directory))
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / inside)
        copied.append(LogFile(inside.as_posix(), file.stat().st_size))
    return copied
