"""How long the worked example's training step waits for its input: real epochs against one batch repeated.

All train the same model with the same `steps_per_execution`, in turn; what the real input takes longer is the wait. It
counts the beginning of each epoch but the first, and that new examples have to come out of memory.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from benchmarks.training_ladder import Pipelines
from configs.config import PipelineConfig
from trainer.run import build_model
from trainer.sections import TrainerSections

EPOCHS = 20
"""In a training, which is measured as a whole."""
MANY = 3
"""Trainings of each kind in a round: other work on the machine only ever adds time, so the fastest counts."""
KINDS = {
    "real": "real epochs, cache: memory",
    "each": "real epochs, cache: memory, an iterator each",
    "cached": "the batches of one epoch, repeated by cache()",
    "control": "one batch, repeated",
}


def measure_wait(pipelines: Pipelines, config: PipelineConfig, rounds: int) -> dict[str, Any]:
    """Milliseconds of a step with each input, and the share of the real one's that is not the control's."""
    model, batch_size = build_model(TrainerSections.of(config), pipelines.output), config.train.batch_size
    split = Pipelines(pipelines.files, pipelines.output, pipelines.label_key, batch_size).ours("memory", endless=False)
    assert split.endless is not None
    assert split.steps is not None
    model.compile("adam", "binary_crossentropy", steps_per_execution=split.steps, jit_compile=False)
    batch = tf.data.Dataset.from_tensors(next(iter(split.peek)))
    inputs = {
        "real": (split.endless(), split.steps),
        "each": (split.dataset, None),
        "cached": (split.peek.cache().repeat().prefetch(tf.data.AUTOTUNE), split.steps),
        "control": (batch.cache().repeat().prefetch(tf.data.AUTOTUNE), split.steps),
    }
    spent: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(rounds * MANY + 1):
        for kind in list(KINDS)[:: 1 if number % 2 else -1]:
            spent[kind].append(_train(model, *inputs[kind], split.steps))
    fastest = {kind: min(times[1:]) for kind, times in spent.items()}  # the first traces, and warms up
    return {
        "batch_size": batch_size,
        "steps_per_execution": split.steps,
        "rounds": rounds * MANY,
        "step_ms": {KINDS[kind]: 1000 * seconds for kind, seconds in fastest.items()},
        "wait": 1 - fastest["control"] / fastest["real"],
        "wait_beside_cached": 1 - fastest["cached"] / fastest["real"],
    }


def _train(model: keras.Model, dataset: tf.data.Dataset, steps_per_epoch: int | None, steps: int) -> float:
    """Seconds a step in the median epoch from the second on: the first begins the iterator, once in a training."""
    ends: list[float] = []
    clock = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(time.perf_counter()))  # noqa: ARG005
    model.fit(dataset, epochs=EPOCHS, steps_per_epoch=steps_per_epoch, callbacks=[clock], verbose=0, shuffle=False)
    return statistics.median(later - end for end, later in pairwise(ends)) / steps
