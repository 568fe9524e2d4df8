"""The Git commit of the folder that a run's config is in, as recorded with the run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

SECONDS = 10.0
"""Time limit: without the commit, a run is the same."""
_COMMIT = "# branch.oid "
_NO_COMMIT_YET = "(initial)"


class Commit(NamedTuple):
    """hash: in hexadecimal; dirty: whether a tracked file differs from it.

    Untracked files do not count, as the runs themselves are among them.
    """

    hash: str
    dirty: bool


def commit_of(folder: Path) -> Commit | None:
    """The commit checked out in a folder; None outside of a repository, and where there is no Git."""
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # leaves the index to whoever works there
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    lines = done.stdout.splitlines()
    found = next((line.removeprefix(_COMMIT) for line in lines if line.startswith(_COMMIT)), _NO_COMMIT_YET)
    if found == _NO_COMMIT_YET:
        return None
    return Commit(found, any(not line.startswith("#") for line in lines))
