"""Which settings of `train.input` are fastest for some data on this machine, by trying them for a while.

    found = find(config, lambda tried: open_split(tried), seconds=60, epochs=10)
    found.best                     # an InputConfig
    found.trials                   # what was tried, and how fast it was

One setting after another, each beside the best of those before; what is not clearly better leaves it as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from headrace.configs.input import InputConfig
from headrace.trainer.input.pipeline import Split
from headrace.trainer.input.reading import CORES

CLEARLY = 0.9
"""A setting is changed if the training's reading then takes at most this share of the time."""
SAVED = 0.5
"""And if that saves so many seconds: less is in the noise."""
LEAST = 0.2
"""Seconds that a split is read for, at least."""


@dataclass(frozen=True)
class Trial:
    """One way of reading."""

    setting: str
    """Which one it tries, as `cache: disk`; `as it is` for the first."""
    config: InputConfig
    opened: float
    """Seconds until it was open, with what is kept read and parsed."""
    examples_per_second: float
    """From then on, with nothing but reading to do."""
    reading: float
    """Seconds that all epochs of a training take to read, with the opening."""


@dataclass(frozen=True)
class Found:
    """What came of it."""

    trials: list[Trial]
    best: Trial

    @property
    def changes(self) -> dict[str, Any]:
        """The settings to be changed."""
        before, after = self.trials[0].config.model_dump(), self.best.config.model_dump()
        return {name: value for name, value in after.items() if value != before[name]}


def find(  # noqa: PLR0913, PLR0917
    config: InputConfig,
    open_split: Callable[[InputConfig], Split],
    examples: int,
    epochs: int,
    seconds: float,
    excluded: Collection[str] = (),
) -> Found:
    """Try what may be faster, for about so many seconds in all.

    open_split: opens the train split, endless; examples: in it; epochs: of a training; excluded: caches not to try.
    """
    end = time.monotonic() + seconds
    choices = [(name, value) for name, value in _choices(config) if name != "cache" or value not in excluded]
    each = max(seconds / (2 * (len(choices) + 1)), LEAST)  # half of the time for opening
    _trial("", config, open_split, examples, epochs, LEAST)  # what the first costs more is of no interest
    best = _trial("as it is", config, open_split, examples, epochs, each)
    trials = [best]
    for name, value in choices:
        if time.monotonic() > end:
            break
        tried = best.config.model_copy(update={name: value})
        if tried == best.config or not _matters(name, tried):
            continue
        trial = _trial(f"{name}: {value}", tried, open_split, examples, epochs, each)
        trials.append(trial)
        clearly = min(CLEARLY * best.reading, best.reading - SAVED)
        best = trial if trial.reading < clearly else best
    return Found(trials, best)


def _choices(config: InputConfig) -> Iterator[tuple[str, Any]]:
    """The cache first, since it decides what else matters."""
    options: dict[str, tuple[Any, ...]] = {
        "cache": ("memory", "disk", "none"),
        "read_batch": (256, 4096, 16384),
        "open_files": (1, 4, 64),
        "threads": ("auto", 1, *sorted({CORES, 2 * CORES} - {1})),
        "prefetch": ("auto", 1, 8),
        "deterministic": (False,),
    }
    for name, values in options.items():
        yield from ((name, value) for value in values if value != getattr(config, name))


def _matters(name: str, config: InputConfig) -> bool:
    """Results that can be had again are given up for speed only where nothing is kept."""
    return name != "deterministic" or config.cache == "none"


def _trial(  # noqa: PLR0913, PLR0917
    setting: str,
    config: InputConfig,
    open_split: Callable[[InputConfig], Split],
    examples: int,
    epochs: int,
    seconds: float,
) -> Trial:
    start = time.perf_counter()
    split = open_split(config)
    opened = time.perf_counter() - start
    rate = _rate(split.dataset, seconds)
    return Trial(setting, config, opened, rate, opened + epochs * examples / rate)


def _rate(dataset: tf.data.Dataset, seconds: float) -> float:
    """Examples a second, fetched by a graph as a training step does."""
    iterator = iter(dataset)

    @tf.function(autograph=False)
    def fetch(count: tf.Tensor) -> tf.Tensor:
        def body(step: tf.Tensor, examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            _, label = iterator.get_next()
            return step + 1, examples + tf.shape(label)[0]

        return tf.while_loop(lambda step, _: step < count, body, (0, 0), parallel_iterations=1)[1]

    fetch(tf.constant(2))  # traces, and fills the shuffle's pool
    count, examples, begin = 1, 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < seconds:
        count = max(1, min(4 * count, int(count * (seconds - spent) / max(spent, 1e-3)) if examples else 1))
        examples += int(fetch(tf.constant(count)))
    return examples / spent
