"""What the image leaves out is not missed: nothing of ours imports it, and components run without it.

`tests/integration/test_verify.py` runs every component of an example in processes from which it has been taken.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from headrace.pipeline.image.size import listed

ROOT = Path(__file__).parents[3]
AS_IN_IMAGE = ROOT / "tests" / "integration" / "as_in_image"
TRIED = """
import importlib, json, sys
found = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
        found[name] = True
    except ModuleNotFoundError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


def tried(module: str, *names: str) -> dict[str, bool | str]:
    environment = {**os.environ, "PYTHONPATH": str(AS_IN_IMAGE)}
    command = [sys.executable, "-P", "-c", TRIED, module, *names]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def test_components_process_finds_nothing_of_what_the_image_leaves_out() -> None:
    names = ("clang", "google.cloud.kms", "numpy.fft.tests", "numpy", "json")
    found = tried("headrace.pipeline.kubeflow.entrypoint", *names)
    assert found == {
        "clang": "clang is not in the image",
        "google.cloud.kms": "google.cloud.kms is not in the image",
        "numpy.fft.tests": "numpy.fft.tests is not in the image",
        "numpy": True,
        "json": True,
    }


def test_other_processes_find_it() -> None:
    assert tried("headrace", "clang", "numpy.fft.tests") == {"clang": True, "numpy.fft.tests": True}


@pytest.mark.slow
def test_only_what_runs_on_the_users_machine_imports_it() -> None:
    left_out = {module for name in listed(ROOT / "image" / "left-out-packages.txt") for module in modules(name)}
    assert "google.cloud.aiplatform" in left_out
    importing = {
        str(file.relative_to(ROOT))
        for folder in ("common", "configs", "trainer", "components", "pipeline")
        for file in (ROOT / folder).rglob("*.py")
        if left_out & set(imports(file))
    }
    assert importing == {"pipeline/share/upload.py"}


def modules(name: str) -> Iterator[str]:
    for file in metadata.distribution(name).files or ():
        if file.name == "__init__.py":
            yield ".".join(file.parent.parts)


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module
