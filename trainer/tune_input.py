"""`headrace tune-input`: find the fastest settings of `train.input` for some data on this machine, by trying them.

    result = find_fastest(config, lambda tried: open_split(tried), examples, epochs=10, seconds=60)
    result.best                     # an InputTrial with its InputConfig
    result.trials                   # what was tried, and how fast it was

Settings are tried one after another, each compared with the best so far. A setting that is not clearly better is not
changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from headrace.configs.schema.train import InputConfig, TrainConfig
from headrace.trainer.budget import Budget, scores_of_row
from headrace.trainer.devices.strategy import choose_strategy, detect_hardware
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.errors import explain_label_errors
from headrace.trainer.input.inputs import InputPlan, TransformedExamples
from headrace.trainer.input.memory import CacheKind, FreeSpace, choose_cache, estimate_examples
from headrace.trainer.input.reading import CORES
from headrace.trainer.sections import TrainerSections

CACHES: tuple[CacheKind, ...] = ("memory", "disk", "none")
"""The caches, the one that needs most space first."""
CLEARLY_FASTER = 0.9
"""A setting is changed if reading for the whole training then takes at most this fraction of the time."""
MIN_SECONDS_SAVED = 0.5
"""A setting is changed if that also saves this many seconds: less may be noise."""
MIN_SECONDS = 0.2
"""Minimum number of seconds for which a split is read."""


@dataclass(frozen=True)
class InputTrial:
    """One combination of settings, and its speed."""

    setting: str
    """The setting that it tries, such as `cache: disk`; `as it is` for the first trial."""
    config: InputConfig
    opened: float
    """Seconds to open the split, including reading and parsing what is cached."""
    examples_per_second: float
    """Speed after that, with nothing but reading to do."""
    reading: float
    """Seconds that reading takes in all epochs of a training, including the opening."""


@dataclass(frozen=True)
class InputTuning:
    """The result of the search."""

    trials: list[InputTrial]
    best: InputTrial

    @property
    def changes(self) -> dict[str, Any]:
        before, after = self.trials[0].config.model_dump(), self.best.config.model_dump()
        return {name: value for name, value in after.items() if value != before[name]}


def measure(sections: TrainerSections, graph: Path, transformed: Path, seconds: float) -> InputTuning:
    """Try the settings on the train split, read as a training on this machine reads it.

    That is on its device, through its service, and by way of its snapshot, which is written if there is none. A memory
    cache that does not fit is not tried, nor a cache that amounts to the config's. Raises TrainingError if a split is
    empty or damaged, the service does not answer, or the strategy does not fit this machine.

    Args:
        sections: The config.
        graph: Folder of the transform graph.
        transformed: Folder of the transformed examples.
        seconds: Approximate duration of the search.
    """
    output = tft.TFTransformOutput(str(graph))
    patterns = ([str(transformed / f"Split-{split}" / "*")] for split in ("train", "eval"))
    examples = TransformedExamples.of(output, *patterns)
    budget = Budget.of(sections.train, examples.train, scores_of_row(sections.label, output))
    train, count = budget.applied(sections.train), estimate_examples(examples.train)
    device = choose_strategy(sections.train, detect_hardware()).device

    def plan(tried: InputConfig) -> InputPlan:
        endless = train.model_copy(update={"input": tried, "steps_per_epoch": 1})
        return InputPlan.of(examples, sections.model_copy(update={"train": endless}), device)

    def open_split(tried: InputConfig) -> InputSplit:
        return plan(tried).open_train()

    def resulting_cache(cache: str) -> CacheKind:
        return plan(train.input.model_copy(update={"cache": cache})).cache.kind

    space = FreeSpace.here(examples.sample.bytes_each)
    fits = CACHES.index(choose_cache("auto", examples.train + examples.eval, space).kind)
    distinct = {cache for cache in CACHES[fits:] if resulting_cache(cache) == cache}
    others = distinct - {resulting_cache(train.input.cache)}
    epochs = train.max_epochs if train.steps_per_epoch is None else _epochs(train, count)
    with explain_label_errors(sections.label):
        return find_fastest(train.input, open_split, count, epochs, seconds, set(CACHES) - others)


def _epochs(train: TrainConfig, examples: int) -> int:
    """Passes over the split in a training whose epochs are numbers of steps."""
    return max(round(train.max_epochs * (train.steps_per_epoch or 0) * train.global_batch_size / max(examples, 1)), 1)


def find_fastest(
    config: InputConfig,
    open_split: Callable[[InputConfig], InputSplit],
    examples: int,
    epochs: int,
    seconds: float,
    excluded: Collection[str] = (),
) -> InputTuning:
    """Try settings that may be faster.

    Args:
        config: The settings to start from.
        open_split: Opens the train split, endless.
        examples: Examples in the split.
        epochs: Epochs of a training.
        seconds: Approximate duration of the search.
        excluded: Caches not to try.
    """
    end = time.monotonic() + seconds
    choices = [(name, value) for name, value in _choices(config) if name != "cache" or value not in excluded]
    each = max(seconds / (2 * (len(choices) + 1)), MIN_SECONDS)  # half of the time for opening
    _trial("", config, open_split, examples, epochs, MIN_SECONDS)  # warm-up: the first trial takes longer
    best = _trial("as it is", config, open_split, examples, epochs, each)
    trials = [best]
    for name, value in choices:
        if time.monotonic() > end:
            break
        tried = best.config.model_copy(update={name: value})
        if tried == best.config or not _is_relevant(name, tried):
            continue
        trial = _trial(f"{name}: {value}", tried, open_split, examples, epochs, each)
        trials.append(trial)
        clearly = min(CLEARLY_FASTER * best.reading, best.reading - MIN_SECONDS_SAVED)
        best = trial if trial.reading < clearly else best
    return InputTuning(trials, best)


def _choices(config: InputConfig) -> Iterator[tuple[str, Any]]:
    """The values to try. The cache comes first, since it determines which other settings matter."""
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


def _is_relevant(name: str, config: InputConfig) -> bool:
    """Reproducible results are only given up for speed without a cache."""
    return name != "deterministic" or config.cache == "none"


def _trial(
    setting: str,
    config: InputConfig,
    open_split: Callable[[InputConfig], InputSplit],
    examples: int,
    epochs: int,
    seconds: float,
) -> InputTrial:
    start = time.perf_counter()
    split = open_split(config)
    opened = time.perf_counter() - start
    rate = _rate(split.dataset, seconds)
    return InputTrial(setting, config, opened, rate, opened + epochs * examples / rate)


def _rate(dataset: tf.data.Dataset, seconds: float) -> float:
    """Examples per second, fetched by a graph as a training step does."""
    iterator = iter(dataset)

    @tf.function(autograph=False)
    def fetch(count: tf.Tensor) -> tf.Tensor:
        def body(step: tf.Tensor, examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            _, label, *_ = iterator.get_next()
            return step + 1, examples + tf.shape(label)[0]

        return tf.while_loop(lambda step, _: step < count, body, (0, 0), parallel_iterations=1)[1]

    fetch(tf.constant(2))  # traces, and fills the shuffle's pool
    count, examples, begin = 1, 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < seconds:
        count = max(1, min(4 * count, int(count * (seconds - spent) / max(spent, 1e-3)) if examples else 1))
        examples += int(fetch(tf.constant(count)))
    return examples / spent
