"""What a training with `train.profile` does more than one without."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import keras

from headrace.configs.train import TrainConfig
from headrace.trainer.callbacks.profile import Asked, Profile
from headrace.trainer.checkpointing.checkpoints import Position
from headrace.trainer.input.inputs import Inputs
from headrace.trainer.input.memory import Room
from headrace.trainer.input.reading import CORES
from headrace.trainer.profiling.facts import ProfileFacts

BEGINNING = Position()


def profiling(
    train: TrainConfig, inputs: Inputs, together: int, directory: Path, begin: Position = BEGINNING
) -> list[keras.callbacks.Callback]:
    """The callback that profiles, to stand before all others; none without `train.profile`.

    together: steps in one execution; directory: the model's run, which gets `profile.json`; begin: where training goes
    on.
    """
    if train.profile is None:
        return []

    split = inputs.train

    def done(facts: ProfileFacts, epochs: int) -> None:
        examples = split.size
        if examples is None:
            examples = (begin.examples + split.seen()) // max(begin.epoch + epochs, 1)
        room = Room.here(inputs.bytes_each)
        known = {
            "train": train,
            "cache": inputs.cache,
            "examples": examples or None,
            "parsed_bytes": examples * room.each or None,
            "free_bytes": room.memory,
            "free_disk_bytes": room.disk,
            "peak_bytes": peak_memory(),
            "checkpoint_steps": train.checkpoint.every_steps,
            "cores": CORES,
        }
        facts = facts.model_copy(update=known)
        facts.write(directory)
        print(f"profile: {in_words(facts)}", flush=True)

    first, last = train.profile.batches
    steps = train.steps_per_epoch or split.steps
    if steps is None and begin.epoch:
        steps = (begin.batches - begin.step) // begin.epoch
    asked = Asked((first, last), together, steps, train.epochs, begin)
    return [Profile(asked, directory, done)]


def in_words(facts: ProfileFacts) -> str:
    """What was profiled, in one line."""
    if not facts.executions:
        return f"none: {facts.note}"
    first, last = facts.executions[0].step, facts.executions[-1].step + facts.executions[-1].steps - 1
    return f"steps {first:,} to {last:,}" + (f" ({facts.note})" if facts.note else "")


def peak_memory() -> int:
    """Bytes, the most that this process has held at a time."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) << 10 if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
