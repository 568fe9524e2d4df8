"""The Dockerfile: what linters say of it, and what must hold for the pods that run from it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from headrace.pipeline.image.size import TARGET

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def stage(name: str) -> str:
    """The instructions of a stage."""
    return DOCKERFILE[DOCKERFILE.index(f" AS {name}\n") :].split("\nFROM ")[0]


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
    scripts = [ROOT / "image" / name for name in ("install.sh", "add.sh", "trust.sh")]
    done = subprocess.run(
        [linter("shellcheck"), "--external-sources", *scripts],
        cwd=ROOT / "image",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_every_builder_understands_it() -> None:
    assert "--mount" not in DOCKERFILE  # of BuildKit alone
    assert "<<" not in DOCKERFILE


def test_last_stage_is_not_root_and_what_changes_most_comes_last() -> None:
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert re.findall(r"^USER (.*)$", last, re.M) == ["1000:1000"]
    assert re.findall(r"^COPY --from=(\w+)", last, re.M) == ["packages", "project", "added", "code"]
    assert last.index("COPY --from=code") < last.index("ARG CONTENT")  # or each change would build all layers again
    assert "COPY --chown" not in last
    assert re.findall(r"^FROM (.*)$", DOCKERFILE, re.M)[-5:] == [
        "${BASE} AS cpu",
        "cpu AS gpu",
        "${VARIANT} AS without-ca",
        "${VARIANT} AS with-ca",
        "${CA}-ca",
    ]
    assert "HOME=/tmp" in stage("cpu")


def test_folders_of_python_are_those_of_the_base_image() -> None:
    assert set(re.findall(r"python:?(3\.\d+)", DOCKERFILE)) == {TARGET["python_version"]}
    assert "/site-packages/nvidia/cusolver/lib" in stage("gpu")  # TensorFlow takes no GPU if it does not find all


@pytest.mark.slow
def test_bill_of_materials_names_every_package_once_and_is_the_same_each_time() -> None:
    site = metadata.distribution("numpy").locate_file("")
    command = [sys.executable, str(ROOT / "image" / "sbom.py"), str(site)]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == second
    bill = json.loads(first)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    names = [component["purl"] for component in bill["components"]]
    assert len(names) == len(set(names))
    assert f"pkg:pypi/numpy@{metadata.version('numpy')}" in names


def test_packages_are_installed_by_lock_and_hash() -> None:
    assert "--require-hashes" in DOCKERFILE
    assert "uv sync --no-cache --frozen" in (ROOT / "image" / "install.sh").read_text()
    program = [sys.executable, str(ROOT / "image" / "uv_requirement.py"), str(ROOT / "uv.lock")]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"uv==[\d.]+( --hash=sha256:[0-9a-f]{64})+\n", done.stdout)
