"""Process-wide settings that must stand before TensorFlow, Beam or gRPC are first imported."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

SETTINGS = {
    "TF_USE_LEGACY_KERAS": "0",  # importing tensorflow_transform sets 1 where nothing is set, which makes Keras 2
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # oneDNN reorders sums: results would differ between machines
    "GRPC_VERBOSITY": "NONE",
}


def prepare() -> None:
    """Put the settings in place. What the user has set wins, except over Keras 3, which everything here is built on."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["TF_USE_LEGACY_KERAS"] = "0"


_LOCK = threading.Lock()
_QUIET: list[int] = []
"""For each `quiet` that goes on, in any thread, a copy of standard error; the first is the one that was there."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what TensorFlow's libraries print on their own, before any logging is set up, off the terminal.

    Standard error belongs to the whole process, so it comes back when the last of several threads is done.
    """
    with _LOCK:
        _flush()
        _QUIET.append(os.dup(2))
        with tempfile.TemporaryFile() as nowhere:
            os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        with _LOCK:
            _flush()
            if len(_QUIET) == 1:
                os.dup2(_QUIET[0], 2)
            os.close(_QUIET.pop())


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
