"""What a training with `train.profile` does more than one without."""

from __future__ import annotations

import math
import os
import re
import resource
from pathlib import Path

import keras
import tensorflow as tf

from configs.train import TrainConfig
from trainer.callbacks.profile import Profile, window
from trainer.input.memory import free_memory
from trainer.input.pipeline import Split
from trainer.profiling.facts import ProfileFacts


def profiling(train: TrainConfig, split: Split, together: int, directory: Path) -> list[keras.callbacks.Callback]:
    """The callback that profiles, to stand before all others; none without `train.profile`.

    split: the train split; together: steps in one execution; directory: the model's run, which gets `profile.json`.
    """
    if train.profile is None:
        return []

    def done(facts: ProfileFacts, epochs: int) -> None:
        examples = split.size if split.size is not None else split.seen() // max(epochs, 1)
        each = bytes_per_example(split.dataset)
        known = {
            "cached": split.size is not None,
            "examples": examples or None,
            "parsed_bytes": examples * each if each is not None and examples else None,
            "free_bytes": free_memory(),
            "peak_bytes": peak_memory(),
            "checkpoint_steps": train.checkpoint.every_steps,
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        }
        facts = facts.model_copy(update=known)
        facts.write(directory)
        print(f"profile: {in_words(facts)}", flush=True)

    first, last = train.profile.batches
    chosen = window((first, last), together, train.steps_per_epoch or split.steps, train.epochs)
    return [Profile((first, last), chosen, directory, together, done)]


def in_words(facts: ProfileFacts) -> str:
    """What was profiled, in one line."""
    if not facts.executions:
        return f"none: {facts.note}"
    first, last = facts.executions[0].step, facts.executions[-1].step + facts.executions[-1].steps - 1
    return f"steps {first:,} to {last:,}" + (f" ({facts.note})" if facts.note else "")


def bytes_per_example(dataset: tf.data.Dataset) -> int | None:
    """Of one parsed example in batches of this dataset; None where examples vary in length."""
    sizes = []
    for spec in tf.nest.flatten(dataset.element_spec):
        if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None or None in spec.shape[1:].as_list():
            return None
        sizes.append(spec.dtype.size * math.prod(spec.shape[1:].as_list()))
    return sum(sizes)


def peak_memory() -> int:
    """Bytes, the most that this process has held at a time."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) << 10 if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
