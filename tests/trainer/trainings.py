"""Trainings without their export, for tests that ask nothing of it: it takes a CPU second, as long as a short training;
and graphs without TensorFlow's optimizer, which takes a fifth of one.

record = train_alone(prepared("binary").fn_args(folder, epochs=1))
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from headrace.trainer import run
from headrace.trainer.devices.strategy import choose_strategy, detect_hardware
from headrace.trainer.job import Job


def train_alone(fn_args: SimpleNamespace) -> dict[str, Any]:
    """What `run_fn` does with these arguments on one device before it exports; training.json of it."""
    job = Job.of(fn_args)
    run.train(job, choose_strategy(job.sections.train, detect_hardware()))
    record: dict[str, Any] = json.loads(Path(fn_args.model_run_dir, "training.json").read_text(encoding="utf-8"))
    return record


def leave_graphs_as_they_are(leave: bool = True) -> None:
    """Whether this process runs graphs without optimizing them first: for tests of what happens around trainings."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": leave})


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
    """Graphs run as they are."""
    leave_graphs_as_they_are()
    try:
        yield
    finally:
        leave_graphs_as_they_are(False)
