"""`train.checkpoint`: what is kept of a training that is not done."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.section import Section

KEPT_IN, KEPT_HOW = "checkpoints", "checkpoint"
"""What the Trainer is told of checkpoints beside its config: their folder, and these settings as JSON. Nothing of what
it makes follows from them.
"""


class CheckpointConfig(Section):
    """What is kept of a training that is not done. A run that was killed is continued by the next from the last
    checkpoint, as long as config, data and code are the same; what a finished training left is removed.
    """

    every_steps: Annotated[int, Field(gt=0)] | None = 1000
    """Batches between two checkpoints, at least: they are made where an execution of several steps ends. null: only
    when SIGTERM (or Ctrl-C) stops the training."""
    keep: Annotated[int, Field(gt=0)] = 2
    """How many of the latest are kept."""
