"""Process-wide settings: what libraries read on import, garbage collection, standard error, and where the cache is."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

SETTINGS = {
    "TF_USE_LEGACY_KERAS": "0",  # if unset, importing tensorflow_transform sets it to 1, which selects Keras 2
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # oneDNN reorders sums, so results would differ between machines
    "GRPC_VERBOSITY": "NONE",
}


def prepare() -> None:
    """Make the settings. Values set by the user win, except that everything here needs Keras 3."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["TF_USE_LEGACY_KERAS"] = "0"


def cache_folder() -> Path:
    """The folder for what can be made again, such as parsed code. Raises RuntimeError without a home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def collect_rarely() -> None:
    """Collect garbage a hundredth as often. A command makes many permanent objects and ends soon: a tenth of the time
    of an unchanged run went into looking for garbage among them.
    """
    gc.set_threshold(100_000, 50, 100)


def collect_no_more() -> None:
    """Leave what exists out of the last collections, which Python makes at its end: they took a tenth of the time of an
    unchanged run.
    """
    gc.freeze()


@contextlib.contextmanager
def imports_alone() -> Iterator[None]:
    """Collect no garbage while modules are imported, and leave what they made out of later collections.

    Imports of TensorFlow, TFX and Beam make millions of permanent objects. Garbage collection among them takes a
    quarter of the time of the imports and frees next to nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


_LOCK = threading.RLock()  # what is shown may itself log
_QUIET: list[int] = []
"""A copy of standard error for each active `quiet`, in any thread; the first is the original."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide what TensorFlow's libraries print to standard error before any logging is set up.

    Standard error belongs to the whole process, so it is restored when the last of several threads leaves.
    """
    with _LOCK:
        _flush()
        _QUIET.append(os.dup(2))
        with tempfile.TemporaryFile() as null:
            os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        with _LOCK:
            _flush()
            if len(_QUIET) == 1:
                os.dup2(_QUIET[0], 2)
            os.close(_QUIET.pop())


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Show what is printed to standard error, even inside `quiet`."""
    with _LOCK:
        if not _QUIET:
            yield
            return
        _flush()
        hidden = os.dup(2)
        os.dup2(_QUIET[0], 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(hidden, 2)
            os.close(hidden)


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
