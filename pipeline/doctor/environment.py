"""Checks of the environment: the interpreter, the installed packages, and programs outside Python."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from packaging.requirements import Requirement

from headrace.pipeline.doctor.result import REMAKE, CheckResult, note, ok, problem

PROJECT = Path(__file__).resolve().parents[2]
OLDEST, TOO_NEW = (3, 11), (3, 14)
_LARGE_PACKAGES = ("tensorflow", "tfx", "apache_beam", "tensorflow_model_analysis")
_OPTIONAL = {
    "g++": "`make env`, which builds one dependency from source (apt-get install g++ python3-dev)",
    "java": "running Beam on Flink",
    "go": "building the checks against Kubeflow's own compiler",
    "kubectl": "working with a cluster",
    "docker": "building the image for a cluster",
}


def python_version(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Iterator[CheckResult]:
    """Check for a Python version that TFX, Beam and TensorFlow all publish wheels for: 3.11 to 3.13."""
    text = ".".join(map(str, version))
    if OLDEST <= version[:2] < TOO_NEW:
        yield ok(f"Python {text}")
    else:
        yield problem(f"Python {text}; Headrace needs 3.11, 3.12 or 3.13", "rm -r .venv && make env PYTHON=python3.11")


def legacy_keras(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check for TF_USE_LEGACY_KERAS=1: it turns `tf.keras` into Keras 2, which cannot load our models."""
    value = environ.get("TF_USE_LEGACY_KERAS")
    if value in (None, "", "0", "False", "false"):
        yield ok("tf.keras is Keras 3")
    else:
        yield note(
            f"TF_USE_LEGACY_KERAS={value} is set; headrace overrides it, but your own scripts get Keras 2",
            "unset TF_USE_LEGACY_KERAS",
        )


def bytecode() -> Iterator[CheckResult]:
    """Check for .pyc files: without them, importing TFX takes 23 to 29 s instead of 10."""
    missing = [name for name in _LARGE_PACKAGES if not _compiled(name)]
    if not missing:
        yield ok("bytecode is compiled")
        return
    stays = ", and PYTHONDONTWRITEBYTECODE prevents it" if sys.dont_write_bytecode else ""
    yield note(
        f"no compiled bytecode for {', '.join(missing)}{stays}: every start takes about 20 s longer",
        f"{sys.executable} -m compileall -q -j 0 {os.path.relpath(sys.prefix)}/lib",
    )


def versions(project: Path = PROJECT) -> Iterator[CheckResult]:
    """Check each direct dependency against the declared range, and against the lock if there is one."""
    locked, not_locked, good = _locked(project / "uv.lock"), [], []
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
            not_locked.append(f"{requirement.name} {version} (locked: {locked[requirement.name]})")
    if not_locked:
        yield note(f"not the locked versions: {', '.join(not_locked)}", REMAKE)
    if good:
        yield ok(", ".join(good))


def kubernetes_client(path: list[str] | None = None) -> Iterator[CheckResult]:
    """Check that no folder `kubernetes` with an __init__.py hides the client that KFP and TFX import.

    `path` is searched instead of sys.path.
    """
    spec = PathFinder.find_spec("kubernetes", path)
    if spec is None:
        yield problem("the kubernetes client is not installed; TFX imports it", REMAKE)
    elif spec.origin is None:
        yield problem("the kubernetes client is not installed; only a folder named `kubernetes` was found", REMAKE)
    elif not (Path(spec.origin).parent / "client").is_dir():
        yield problem(
            f"{spec.origin} hides the kubernetes client that TFX imports",
            f"remove {spec.origin} (and {Path(spec.origin).parent / '__pycache__'})",
        )
    else:
        yield ok("the kubernetes client is not hidden")


def tools() -> Iterator[CheckResult]:
    """Check for optional programs; none is needed to run a pipeline on this machine."""
    found = [name for name in _OPTIONAL if shutil.which(name)]
    if found:
        yield ok(f"optional programs: {', '.join(found)}")
    for name, purpose in _OPTIONAL.items():
        if name not in found:
            yield note(f"{name} was not found; it is only needed for {purpose}")


def _compiled(package: str) -> bool:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return True  # another check reports that
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return True
    return os.path.exists(cache_from_source(spec.origin))  # noqa: PTH110 - a string is all there is


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
