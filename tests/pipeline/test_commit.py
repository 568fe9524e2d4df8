"""The commit that a run records."""

from __future__ import annotations

import subprocess
from pathlib import Path

from headrace.pipeline.code.commit import commit_of


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_commit_is_dirty_once_a_tracked_file_differs(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
    git(tmp_path, "init", "--quiet")
    assert commit_of(tmp_path) is None
    (tmp_path / "a.yaml").write_text("a")
    git(tmp_path, "add", "a.yaml")
    git(tmp_path, "commit", "--quiet", "-m", "First")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "run.json").write_text("untracked")
    assert commit_of(tmp_path / "runs") == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "a.yaml").write_text("b")
    assert commit_of(tmp_path) == (git(tmp_path, "rev-parse", "HEAD"), True)
    assert commit_of(tmp_path / "absent") is None
