"""`headrace tune-input` on the transformed examples of a run."""

from __future__ import annotations

from pathlib import Path

import tensorflow_transform as tft

from headrace.configs.input import InputConfig
from headrace.configs.train import TrainConfig
from headrace.trainer.devices.strategy import choose, look
from headrace.trainer.input.choices import Found, find
from headrace.trainer.input.inputs import Examples, Plan
from headrace.trainer.input.memory import Room, Where, choose_cache, estimate_examples
from headrace.trainer.input.pipeline import Split
from headrace.trainer.label_check import labels_told
from headrace.trainer.sections import TrainerSections

CACHES: tuple[Where, ...] = ("memory", "disk", "none")
"""From the one that takes most room."""


def measure(sections: TrainerSections, graph: Path, transformed: Path, seconds: float) -> Found:
    """Try the settings on the train split, read as a training on this machine reads it: on its device, through its
    service, by way of its snapshot, which is written if there is none.

    graph, transformed: the folders of the transform graph and of the transformed examples. Raises TrainingError if a
    split is empty or damaged, the service does not answer, or the strategy is none for this machine. A cache in memory
    that does not fit is not tried, nor one that comes to the same as the config's.
    """
    output = tft.TFTransformOutput(str(graph))
    examples = Examples.of(output, *([str(transformed / f"Split-{split}" / "*")] for split in ("train", "eval")))
    train, count, device = sections.train, estimate_examples(examples.train), choose(sections.train, look()).device

    def plan(tried: InputConfig) -> Plan:
        endless = train.model_copy(update={"input": tried, "steps_per_epoch": 1})
        return Plan.of(examples, sections.model_copy(update={"train": endless}), device)

    def open_split(tried: InputConfig) -> Split:
        return plan(tried).open_train()

    def comes_to(cache: str) -> Where:
        return plan(train.input.model_copy(update={"cache": cache})).cache.where

    room = Room.here(examples.sample.bytes_each)
    fits = CACHES.index(choose_cache("auto", examples.train + examples.eval, room).where)
    others = {cache for cache in CACHES[fits:] if comes_to(cache) == cache} - {comes_to(train.input.cache)}
    epochs = train.epochs if train.steps_per_epoch is None else _epochs(train, count)
    with labels_told(sections.label):
        return find(train.input, open_split, count, epochs, seconds, set(CACHES) - others)


def _epochs(train: TrainConfig, examples: int) -> int:
    """Passes over the split in a training that counts steps."""
    return max(round(train.epochs * (train.steps_per_epoch or 0) * train.batch_size / max(examples, 1)), 1)
