"""The project as it is built: one name in site-packages, beside which a user's own folders work."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("common", "configs", "trainer", "components", "pipeline")
BUILT_FROM = (
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "src",
    *FOLDERS,
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Made as `pip install .` does, from a copy, as a build leaves folders behind; here one of an earlier version."""
    copy = tmp_path_factory.mktemp("project")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy)
    earlier = copy / "build" / "lib" / "headrace" / "common" / "removed_since.py"
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    made = subprocess.run(
        [sys.executable, "setup.py", "-q", "bdist_wheel"], cwd=copy, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    (path,) = (copy / "dist").glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.slow
def test_a_wheel_puts_one_name_into_site_packages(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"headrace", "headrace-0.1.0.dist-info"}


@pytest.mark.slow
def test_a_wheel_has_every_file_that_the_project_reads(wheel: zipfile.ZipFile) -> None:
    files = {file.relative_to(ROOT) for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.is_file()}
    wanted = {f"headrace/{file}" for file in files if file.suffix not in {".pyc", ".md"}}
    assert wanted <= {*wheel.namelist()}


@pytest.mark.slow
def test_a_wheel_has_no_module_of_an_earlier_build(wheel: zipfile.ZipFile) -> None:
    assert not [name for name in wheel.namelist() if "removed_since" in name]


def test_a_users_own_trainer_stands_beside_ours(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").write_text("MINE = True\n")
    program = "import sys; sys.path[:0] = ['site', '.']; import trainer, headrace.trainer.sections as sections;"
    program += "print(trainer.MINE, sections.__file__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    mine, ours = done.stdout.split()
    assert mine == "True"
    assert (tmp_path / ours).samefile(tmp_path / "site" / "headrace" / "trainer" / "sections.py")


def test_no_class_name_has_two_meanings() -> None:
    homes = defaultdict(list)
    for file in (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    del homes["Executor"]  # TFX's word for the class that runs a component: each component may have one
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
