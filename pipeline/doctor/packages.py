"""What is installed, against what Headrace asks for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from packaging.requirements import Requirement

from headrace.pipeline.doctor.finding import REMAKE, Finding, note, ok, problem

PROJECT = Path(__file__).resolve().parents[2]


def versions(project: Path = PROJECT) -> Iterator[Finding]:
    """Each direct dependency against the range that Headrace declares, and against the lock where there is one."""
    locked, others = _locked(project / "uv.lock"), []
    good = []
    for requirement in _requirements(project):
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield problem(f"{requirement.name} is not installed; Headrace needs {requirement}", REMAKE)
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            yield problem(f"{requirement.name} {version} is installed; Headrace needs {requirement.specifier}", REMAKE)
            continue
        good.append(f"{requirement.name} {version}")
        if locked.get(requirement.name, version) != version:
            others.append(f"{requirement.name} {version} (locked: {locked[requirement.name]})")
    if others:
        yield note(f"not the locked versions: {', '.join(others)}", REMAKE)
    if good:
        yield ok(", ".join(good))


def _requirements(project: Path) -> list[Requirement]:
    pyproject = project / "pyproject.toml"
    if pyproject.exists():
        lines = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["dependencies"]
    else:
        lines = metadata.requires("headrace") or []
    requirements = map(Requirement, lines)
    return [requirement for requirement in requirements if not requirement.marker or requirement.marker.evaluate()]


def _locked(lock: Path) -> dict[str, str]:
    if not lock.exists():
        return {}
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["package"]
    return {package["name"]: package["version"] for package in packages if "version" in package}


def kubernetes_client(path: list[str] | None = None) -> Iterator[Finding]:
    """KFP and TFX import the `kubernetes` client: a folder of that name with an __init__.py must not hide it.

    `path`: as sys.path, which is the default.
    """
    spec = PathFinder.find_spec("kubernetes", path)
    if spec is None:
        yield problem("the kubernetes client is not installed; TFX imports it", REMAKE)
    elif spec.origin is None:
        yield problem("the kubernetes client is not installed; a folder `kubernetes` stands in its place", REMAKE)
    elif not (Path(spec.origin).parent / "client").is_dir():
        yield problem(
            f"{spec.origin} hides the kubernetes client that TFX imports",
            f"remove {spec.origin} (and {Path(spec.origin).parent / '__pycache__'})",
        )
    else:
        yield ok("the kubernetes client is not hidden")
