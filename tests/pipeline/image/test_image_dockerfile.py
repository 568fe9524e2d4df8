"""The Dockerfile: what linters say of it, and what must hold for the pods that run from it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def linter(name: str) -> str:
    path = str(Path(sys.executable).parent)
    found = shutil.which(name, path=path) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run([linter("hadolint"), ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_shellcheck_finds_nothing() -> None:
    script = ROOT / "image" / "install.sh"
    done = subprocess.run([linter("shellcheck"), script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_builder_understands_it() -> None:
    assert "--mount" not in DOCKERFILE  # of BuildKit alone
    assert "<<" not in DOCKERFILE


def test_last_stage_is_not_root_and_what_changes_most_comes_last() -> None:
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert re.findall(r"^USER (.*)$", last, re.M) == ["1000:1000"]
    assert re.findall(r"^COPY --from=(\w+)", last, re.M) == ["packages", "project", "code"]
    assert last.index("COPY --from=code") < last.index("ARG CONTENT")  # or each change would build all layers again
    assert "COPY --chown" not in last
    assert "HOME=/tmp" in last


def test_packages_are_installed_by_lock_and_hash() -> None:
    assert "--require-hashes" in DOCKERFILE
    assert "uv sync --no-cache --frozen" in (ROOT / "image" / "install.sh").read_text()
    program = [sys.executable, ROOT / "image" / "uv_requirement.py", ROOT / "uv.lock"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"uv==[\d.]+( --hash=sha256:[0-9a-f]{64})+\n", done.stdout)
