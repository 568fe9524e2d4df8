"""How long the worked example's training step waits for its input: real epochs against one batch repeated.

Both train the same model with the same `steps_per_execution`, in turn; what the real input takes longer is the wait.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import keras
import tensorflow as tf

from benchmarks.training_ladder import Pipelines
from configs.config import PipelineConfig
from trainer.run import build_model
from trainer.sections import TrainerSections

TOGETHER = 64
"""Steps that run as one graph, in both."""
STEPS = 1024
"""In an epoch, which is measured as a whole."""


def measure_wait(pipelines: Pipelines, config: PipelineConfig, rounds: int) -> dict[str, Any]:
    """Milliseconds of a step with either input, and the share of it that is the wait; medians over the rounds."""
    sections = TrainerSections.of(config)
    model = build_model(sections, pipelines.output)
    model.compile("adam", "binary_crossentropy", steps_per_execution=TOGETHER, jit_compile=False)
    batch_size = config.train.batch_size
    real = Pipelines(pipelines.files, pipelines.output, pipelines.label_key, batch_size).ours("memory").dataset
    control = tf.data.Dataset.from_tensors(next(iter(real))).cache().repeat().prefetch(tf.data.AUTOTUNE)
    spent: dict[str, list[float]] = {"real": [], "control": []}
    for dataset in (real, control):
        _epoch(model, dataset)  # traces, and warms up
    for number in range(rounds):
        order = (("real", real), ("control", control))
        for name, dataset in order if number % 2 else order[::-1]:
            spent[name].append(_epoch(model, dataset))
    waits = [1 - control / real for real, control in zip(spent["real"], spent["control"], strict=True)]
    return {
        "batch_size": batch_size,
        "steps_per_execution": TOGETHER,
        "rounds": rounds,
        "step_ms": {name: 1000 * statistics.median(times) for name, times in spent.items()},
        "wait": statistics.median(waits),
    }


def _epoch(model: keras.Model, dataset: tf.data.Dataset) -> float:
    """Seconds a step."""
    start = time.perf_counter()
    model.fit(dataset, steps_per_epoch=STEPS, verbose=0, shuffle=False)
    return (time.perf_counter() - start) / STEPS
