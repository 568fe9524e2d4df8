"""Copies of the project that are installed beside the one under test, so that a test can edit the project's own code.

    copy = install(folder, editable=True)
    (copy.sources / "trainer" / "models" / "dnn.py").write_text(...)
    done = copy.headrace("compile", "config.yaml", cwd=folder)

Each is a virtual environment of links to the packages of this one, which takes a moment, with a `headrace` of its own:
as `pip install -e` leaves it, or as a wheel does, with the packages in its site-packages. Its commands start with the
libraries imported, and nothing of the project (see forks.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import forks

ROOT = Path(__file__).parents[2]
PACKAGES = ("common", "configs", "trainer", "components", "pipeline")
FACE = Path("src", "headrace")
"""The package itself, in which links lead to the folders of the others."""
SITE = Path(sysconfig.get_path("purelib"))


@dataclass(frozen=True)
class Installed:
    """`environment`: the virtual environment; `sources`: the folder that holds the project's packages."""

    environment: Path
    sources: Path

    def headrace(self, *arguments: str, cwd: Path, **own: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command, without PYTHONPATH. own: environment variables."""
        return self._run(self.environment / "bin" / "headrace", *arguments, cwd=cwd, **own)

    def python(self, program: str, *arguments: str, cwd: Path, **own: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the environment's Python, with no folder of its own in the search path."""
        return self._run(self.environment / "bin" / "python", "-P", "-c", program, *arguments, cwd=cwd, **own)

    def _run(self, *command: str | Path, cwd: Path, **own: str) -> subprocess.CompletedProcess[str]:
        environment = {**without_pythonpath(), **own}
        done = forks.run(list(map(str, command)), cwd=cwd, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done


def without_pythonpath() -> dict[str, str]:
    """The environment of a user's shell."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def install(folder: Path, *, editable: bool) -> Installed:
    """A copy of the project, installed below `folder`, which is made."""
    environment = folder / "venv"
    site = environment / SITE.relative_to(sys.prefix)
    site.mkdir(parents=True)
    for entry in SITE.iterdir():
        if not entry.name.startswith("__editable__") and entry.name != "headrace":
            (site / entry.name).symlink_to(entry)
    sources = folder / "project" if editable else site / "headrace"
    (sources / FACE if editable else sources).mkdir(parents=True)
    for entry in (ROOT / FACE).iterdir():
        if entry.is_file():
            shutil.copy(entry, sources / FACE if editable else sources)
        elif editable and entry.is_symlink():
            (sources / FACE / entry.name).symlink_to(entry.readlink())
    for package in PACKAGES:
        shutil.copytree(ROOT / package, sources / package)  # with the bytecode, which goes by the times of the files
    if editable:
        for entry in SITE.glob("__editable__*"):
            if entry.is_file():
                text = entry.read_text(encoding="utf-8").replace(str(ROOT), str(sources))
                (site / entry.name).write_text(text, encoding="utf-8")
    _add_programs(environment)
    return Installed(environment, sources)


def _add_programs(environment: Path) -> None:
    """Python, and the script that an installer writes."""
    programs = environment / "bin"
    programs.mkdir()
    shutil.copy(Path(sys.prefix, "pyvenv.cfg"), environment / "pyvenv.cfg")
    (programs / "python").symlink_to(Path(sys.executable).resolve())
    script = (Path(sys.executable).parent / "headrace").read_text(encoding="utf-8")
    (programs / "headrace").write_text(script.replace(sys.executable, str(programs / "python")), encoding="utf-8")
    (programs / "headrace").chmod(0o755)
