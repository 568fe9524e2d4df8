"""The interpreter and its settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import cache_from_source, find_spec

from headrace.pipeline.doctor.finding import Finding, note, ok, problem

OLDEST, TOO_NEW = (3, 11), (3, 14)
_LARGE_PACKAGES = ("tensorflow", "tfx", "apache_beam", "tensorflow_model_analysis")


def python_version(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Iterator[Finding]:
    """TFX, Beam and TensorFlow publish wheels for 3.11 to 3.13 together."""
    text = ".".join(map(str, version))
    if OLDEST <= version[:2] < TOO_NEW:
        yield ok(f"Python {text}")
    else:
        yield problem(f"Python {text}; Headrace needs 3.11, 3.12 or 3.13", "rm -r .venv && make env PYTHON=python3.11")


def legacy_keras(environ: Mapping[str, str]) -> Iterator[Finding]:
    """TF_USE_LEGACY_KERAS=1 turns `tf.keras` into Keras 2, which cannot load what is exported here."""
    value = environ.get("TF_USE_LEGACY_KERAS")
    if value in (None, "", "0", "False", "false"):
        yield ok("Keras 3 is what tf.keras means")
    else:
        yield note(
            f"TF_USE_LEGACY_KERAS={value} is set: headrace overrides it, your own scripts would get Keras 2",
            "unset TF_USE_LEGACY_KERAS",
        )


def bytecode() -> Iterator[Finding]:
    """Without .pyc files importing TFX takes 23 to 29 s instead of 10."""
    missing = [name for name in _LARGE_PACKAGES if not _compiled(name)]
    if not missing:
        yield ok("bytecode is compiled")
        return
    stays = " and PYTHONDONTWRITEBYTECODE keeps it so" if sys.dont_write_bytecode else ""
    yield note(
        f"no compiled bytecode for {', '.join(missing)}{stays}: every start takes some 20 s longer",
        f"{sys.executable} -m compileall -q -j 0 {os.path.relpath(sys.prefix)}/lib",
    )


def _compiled(package: str) -> bool:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return True  # another check says so
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return True
    return os.path.exists(cache_from_source(spec.origin))  # noqa: PTH110 - no Path is needed for one question
