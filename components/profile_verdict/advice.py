"""What to change, in terms of the config's own fields, ranked by how much of the time each could save at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from components.profile_verdict.result import Change, Split
from components.profile_verdict.stages import READING, SHUFFLING, STARTING
from configs.input import InputConfig
from configs.train import TrainConfig
from trainer.input.memory import SHARE, in_words
from trainer.profiling.facts import ProfileFacts

LEAST = 0.02
"""A change that saves a smaller share of the time than this is not worth a line."""
SHORT = 0.002
"""Seconds: a step shorter than this is mostly the calls around it."""


@dataclass(frozen=True)
class Situation:
    """All that advice is drawn from."""

    split: Split
    facts: ProfileFacts
    stages: Mapping[str, float]
    """Seconds of tf.data's work."""
    train: TrainConfig
    accelerated: bool
    """Whether the steps computed on an accelerator."""
    step_seconds: float

    def stage_share(self, stage: str) -> float:
        """Of all of tf.data's work."""
        return self.stages.get(stage, 0.0) / (sum(self.stages.values()) or 1.0)

    def setting(self, name: str) -> Any:
        """Of `train.input`."""
        return getattr(self.train.input, name, None)


def advise(situation: Situation) -> list[Change]:
    """The changes worth making, the one that could save most first."""
    changes = [change for rule in RULES for change in rule(situation) if change.gain >= LEAST]
    return sorted(changes, key=lambda change: -change.gain)


def cause(situation: Situation) -> str:
    """Why the steps wait for input, as far as the profile and the config tell: one sentence, the most telling first."""
    facts, reasons = situation.facts, []
    if not facts.cached:
        reasons.append("examples are read and parsed again in every epoch")
    threads, starved = situation.setting("threads"), None
    if isinstance(threads, int) and threads < facts.cores:
        starved = f"`train.input.threads: {threads}` leaves {facts.cores - threads} of {facts.cores} cores to others"
        reasons.append(starved)
    if situation.stages:
        stage, seconds = next(iter(situation.stages.items()))
        reasons.append(f"most of the input's work is {stage} ({seconds / sum(situation.stages.values()):.0%})")
    return "; ".join(reasons) or "the input gives batches more slowly than the steps take them"


def keep_parsed(now: Situation) -> Iterator[Change]:
    """Parse once and not in every epoch."""
    if now.facts.cached and now.setting("cache") != "disk":
        return
    size, free = now.facts.parsed_bytes, now.facts.free_bytes
    said = now.setting("cache")
    if size is not None and size * SHARE <= free:
        yield Change(
            "train.input.cache", "memory", f"parsed data is {in_words(size)} of {in_words(free)} free", _all(now)
        )
    elif size is None and said != "auto":
        yield Change("train.input.cache", "auto", "it keeps the parsed examples in memory if they fit", _all(now))
    elif "disk" in _allowed("cache") and said != "disk":
        why = f"parsed data, {in_words(size)}, is too much for " if size else "parsed data may be too much for "
        why += f"memory ({in_words(free)} free), and reading it from disk is faster than parsing it"
        yield Change("train.input.cache", "disk", why, 0.8 * now.split.input)


def work_in_parallel(now: Situation) -> Iterator[Change]:
    """Let tf.data use the cores."""
    threads, cores = now.setting("threads"), now.facts.cores
    if isinstance(threads, int) and threads < cores:
        why = f"{threads} of {cores} cores {'works' if threads == 1 else 'work'} for the input"
        yield Change("train.input.threads", "auto", why, now.split.input * (1 - threads / cores))


def fetch_ahead(now: Situation) -> Iterator[Change]:
    """Make the next batches while a step computes: saves at most the computing time, once."""
    prefetch = now.setting("prefetch")
    if isinstance(prefetch, int) and prefetch < 2:
        why = f"with {prefetch} in advance, input and steps take turns"
        yield Change("train.input.prefetch", "auto", why, min(now.split.input, now.split.compute))


def let_files_overtake(now: Situation) -> Iterator[Change]:
    """The order of files costs waits for the slowest."""
    if now.setting("deterministic") is True and not now.facts.cached and now.stage_share(READING) > 0.1:
        why = "batches need not wait for the slowest file (their order then differs from run to run)"
        yield Change("train.input.deterministic", "false", why, 0.2 * now.split.input)


def store_once(now: Situation) -> Iterator[Change]:
    """Share the parsed examples between runs."""
    if now.facts.cached or "snapshot" not in InputConfig.model_fields or now.setting("snapshot"):
        return
    why = "reading and parsing are then done once, for later runs on the same data too"
    yield Change("train.input.snapshot", "a folder", why, 0.7 * now.split.input)


def shuffle_less(now: Situation) -> Iterator[Change]:
    """A pool that takes long to fill."""
    share = now.stage_share(SHUFFLING)
    if not now.facts.cached and now.train.input.shuffle > 1024 and share > 0.2:
        why = f"shuffling is {share:.0%} of the input's work"
        yield Change("train.input.shuffle", str(now.train.input.shuffle // 4), why, share * now.split.input)


def start_seldom(now: Situation) -> Iterator[Change]:
    """The iterator of each epoch costs tens of milliseconds, which short epochs feel."""
    share = now.stage_share(STARTING)
    if share > 0.3 and now.train.steps_per_epoch is None and now.facts.steps:
        why = f"starting each epoch's iterator is {share:.0%} of the input's work, and epochs are short"
        longer = 10 * max(now.facts.steps, 1)
        yield Change("train.steps_per_epoch", f"{longer:,} or so", why, 0.9 * share * now.split.input)


def call_seldom(now: Situation) -> Iterator[Change]:
    """Steps that are called one by one from Python."""
    together = now.facts.steps_per_execution
    if together < 16 and "steps_per_execution" in TrainConfig.model_fields:
        why = f"Python calls each {together} steps, and that takes {now.split.host:.0%} of the time"
        why = why if together > 1 else f"Python calls each step, and that takes {now.split.host:.0%} of the time"
        yield Change("train.steps_per_execution", "auto", why, 0.8 * now.split.host)


def larger_batches(now: Situation) -> Iterator[Change]:
    """What a step costs whatever its size."""
    overhead = now.split.host + (now.split.input if now.facts.cached else 0.0)
    examples = now.facts.examples
    batch = 4 * now.train.batch_size
    if now.step_seconds < SHORT and (examples is None or examples >= 4 * batch):
        why = f"a step takes {now.step_seconds * 1e3:.2g} ms, of which {overhead:.0%} is spent around its computing"
        yield Change("train.batch_size", f"{batch}", why, 0.75 * overhead)


def save_seldom(now: Situation) -> Iterator[Change]:
    """What happens between steps."""
    every = now.facts.checkpoint_steps
    if every:
        why = f"{now.split.idle:.0%} of the time lies between steps, with checkpoints every {every:,}"
        yield Change("train.checkpoint.every_steps", f"{4 * every}", why, 0.5 * now.split.idle)


def compute_faster(now: Situation) -> Iterator[Change]:
    """Where an accelerator is busy."""
    if not now.accelerated:
        return
    if getattr(now.train, "precision", None) == "float32":
        why = f"the accelerator computes {now.split.compute:.0%} of the time, and does so faster with 16 bits"
        yield Change("train.precision", "mixed_bfloat16", why, 0.4 * now.split.compute)
    if getattr(now.train, "jit", None) == "off":
        yield Change("train.jit", "auto", "XLA joins small operations where that is faster", 0.2 * now.split.compute)


def _all(now: Situation) -> float:
    return 0.95 * now.split.input


def _allowed(name: str) -> tuple[Any, ...]:
    return get_args(InputConfig.model_fields[name].annotation)


RULES: tuple[Callable[[Situation], Iterator[Change]], ...] = (
    keep_parsed,
    work_in_parallel,
    fetch_ahead,
    let_files_overtake,
    store_once,
    shuffle_less,
    start_seldom,
    call_seldom,
    larger_batches,
    save_seldom,
    compute_faster,
)
