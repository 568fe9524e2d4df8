"""Process-wide settings that must stand before TensorFlow, Beam or gRPC are first imported."""

from __future__ import annotations

import os

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
