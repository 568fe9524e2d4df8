"""Executed first (`FIRST` in forks.py), this keeps a training from its end: the second checkpoint is waited for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.trainer.checkpointing.checkpoints import Checkpoints, TrainingPosition

write = Checkpoints.write


def write_one(self: Checkpoints, position: TrainingPosition, tree: Mapping[str, Any]) -> Path:
    """Write it where there is none yet."""
    while self.files():
        time.sleep(60)
    return write(self, position, tree)


Checkpoints.write = write_one  # type: ignore[method-assign]
