"""What to change, in terms of the config's own fields, ranked by how much of the time each could save.

A change's gain is a bound: the whole part of the time that it is about, or what arithmetic leaves of that (a fourth of
the calls, twice the speed). How much of it is saved, a run tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from headrace.components.profile_verdict.result import Change, Split
from headrace.components.profile_verdict.stages import READING, SHUFFLING, STARTING
from headrace.configs.service import service
from headrace.configs.train import TrainConfig
from headrace.trainer.input.memory import DISK_SHARE, SHARE, in_words
from headrace.trainer.profiling.facts import ProfileFacts

LEAST = 0.02
"""A change that saves a smaller share of the time than this is not worth a line."""
SHORT = 0.002
"""Seconds: a step shorter than this is mostly the calls around it."""
LONGER = 10
"""Times as many steps in an epoch, where beginning one is dear."""
CALLED = 16
"""Steps that Python calls together: with fewer, calling them is worth a line."""
FEWER = 4
"""Times as large batches, or as many steps between checkpoints, where each is dear."""
FASTER = 2
"""Times as fast as in 32 bits: half of the bytes, and twice the operations a second (NVIDIA's A100 has 312 TFLOPS in
bfloat16 and 156 in TF32, which TensorFlow takes for float32)."""


@dataclass(frozen=True)
class Situation:
    """All that advice is drawn from."""

    split: Split
    facts: ProfileFacts
    stages: Mapping[str, float]
    """Seconds of tf.data's work, the most first."""
    train: TrainConfig
    accelerated: bool
    """Whether the steps computed on an accelerator."""
    step_seconds: float
    copying: float = 0.0
    """The part of `split.input` in which batches are on their way to the accelerator."""

    def stage_share(self, stage: str) -> float:
        """Of all of tf.data's work."""
        return self.stages.get(stage, 0.0) / (sum(self.stages.values()) or 1.0)

    @property
    def making(self) -> float:
        """The part of `split.input` in which batches are not there yet: what tf.data can do about it."""
        return self.split.input - self.copying

    @property
    def endless(self) -> bool:
        """Whether a tf.data service gives examples without an end, which cannot be kept."""
        settings = service(self.train.input.service)
        return settings is not None and settings.sharding == "off"

    @property
    def epoch(self) -> int | None:
        """Steps in a pass over the train split."""
        examples = self.facts.examples
        return None if examples is None else -(-examples // self.train.batch_size)


def advise(situation: Situation) -> list[Change]:
    """The changes worth making, the one that could save most first."""
    changes = [change for rule in RULES for change in rule(situation) if change.gain >= LEAST]
    return sorted(changes, key=lambda change: -change.gain)


def cause(situation: Situation) -> str:
    """Why the steps wait for input, as far as the profile and the config tell: one sentence, the most telling first."""
    reasons = [*_slow_copies(situation), *(_slow_batches(situation) if situation.making >= LEAST else ())]
    return "; ".join(reasons) or "the input gives batches more slowly than the steps take them"


def _slow_copies(now: Situation) -> Iterator[str]:
    if now.copying >= LEAST:
        yield f"batches are on their way to the accelerator {now.copying:.0%} of the time"


def _slow_batches(now: Situation) -> Iterator[str]:
    if now.facts.cache == "none":
        yield _each_epoch(now)
    threads, cores = now.train.input.threads, now.facts.cores
    if threads != "auto" and threads < cores:
        yield f"`train.input.threads: {threads}` leaves {cores - threads} of {cores} cores to others"
    for stage in list(now.stages)[:1]:
        share = now.stage_share(stage)
        yield f"{'most' if share > 1 / 2 else 'the largest part'} of the input's work is {stage} ({share:.0%})"


def _each_epoch(now: Situation) -> str:
    """What every epoch does where no examples are kept in memory or in a disk cache."""
    if now.train.input.snapshot is not None:
        return "the parsed examples of the snapshot are read from disk again in every epoch"
    if service(now.train.input.service) is None:
        return "examples are read and parsed again in every epoch"
    again = "without an end" if now.endless else "again in every epoch"
    return f"the workers of the tf.data service read and parse the examples {again}"


def keep_parsed(now: Situation) -> Iterator[Change]:
    """Parse once and not in every epoch. `auto` has looked for room itself."""
    setting, kept = "train.input.cache", now.facts.cache
    if kept == "memory" or now.train.input.cache == "auto" or now.endless:
        return
    size, free, disk = now.facts.parsed_bytes, now.facts.free_bytes, now.facts.free_disk_bytes
    if size is None:
        yield Change(setting, "auto", "it keeps the parsed examples where they fit", now.making)
    elif size * SHARE <= free:
        yield Change(setting, "memory", f"parsed data is {in_words(size)} of {in_words(free)} free", now.making)
    elif kept == "none" and now.train.input.snapshot is None and size * DISK_SHARE <= disk:
        why = f"parsed data, {in_words(size)}, is too much for memory ({in_words(free)} free), and reading it from disk"
        yield Change(setting, "disk", f"{why} ({in_words(disk)} free) is faster than parsing it", now.making)


def work_in_parallel(now: Situation) -> Iterator[Change]:
    """Let tf.data use the cores."""
    threads, cores = now.train.input.threads, now.facts.cores
    if threads != "auto" and threads < cores:
        why = f"{threads} of {cores} cores {'works' if threads == 1 else 'work'} for the input"
        yield Change("train.input.threads", "auto", why, now.making * (1 - threads / cores))


def fetch_ahead(now: Situation) -> Iterator[Change]:
    """Make the next batches while a step computes: saves at most the computing time, once."""
    prefetch = now.train.input.prefetch
    if prefetch != "auto" and prefetch < 2:
        why = f"with {prefetch} in advance, input and steps take turns"
        yield Change("train.input.prefetch", "auto", why, min(now.split.input, now.split.compute))


def let_files_overtake(now: Situation) -> Iterator[Change]:
    """The order of files costs waits for the slowest. That of a snapshot's files is fixed, and an endless service has
    none.
    """
    share = now.stage_share(READING)
    ordered = now.train.input.deterministic and now.train.input.snapshot is None and not now.endless
    if ordered and now.facts.cache == "none" and share > 0.1:
        why = "batches need not wait for the slowest file (their order then differs from run to run)"
        yield Change("train.input.deterministic", "false", why, share * now.making)


def store_once(now: Situation) -> Iterator[Change]:
    """Share the parsed examples between runs."""
    if now.facts.cache == "none" and now.train.input.snapshot is None and not now.endless:
        why = "reading and parsing are then done once, for later runs on the same data too"
        yield Change("train.input.snapshot", "a folder", why, now.making)


def shuffle_less(now: Situation) -> Iterator[Change]:
    """A pool that takes long to fill."""
    share = now.stage_share(SHUFFLING)
    if now.facts.cache != "memory" and now.train.input.shuffle > 1024 and share > 0.2:
        why = f"shuffling is {share:.0%} of the input's work"
        yield Change("train.input.shuffle", str(now.train.input.shuffle // 4), why, share * now.making)


def start_seldom(now: Situation) -> Iterator[Change]:
    """The iterator of each epoch costs tens of milliseconds, which short epochs feel. A profile that holds the begin of
    an epoch and little more of it has a larger share of that than the epoch.

    Longer epochs are fewer, or the training would be so many times as long.
    """
    share, epoch, epochs = now.stage_share(STARTING), now.epoch, now.train.epochs
    fewer = max(round(epochs / LONGER), 1)
    if share > 0.3 and now.train.steps_per_epoch is None and epoch is not None and fewer < epochs:
        why = f"with `train.epochs: {fewer}` the training has as many steps as now, and starting each epoch's iterator"
        why = f"{why} is {share:.0%} of the input's work where an epoch has {epoch:,}"
        gain = (1 - fewer / epochs) * share * now.making * min(now.facts.steps / epoch, 1)
        yield Change("train.steps_per_epoch", f"{_whole_executions(epoch * epochs / fewer, now.train)}", why, gain)


def _whole_executions(steps: float, train: TrainConfig) -> int:
    """About so many, as a number that the config takes beside its `steps_per_execution`."""
    together = 1 if train.steps_per_execution == "auto" else train.steps_per_execution
    return max(round(steps / together), 1) * together


def call_seldom(now: Situation) -> Iterator[Change]:
    """Steps that are called one by one from Python. `auto` has taken as many together as an epoch allows."""
    together, epoch = now.facts.steps_per_execution, now.train.steps_per_epoch or now.epoch or CALLED
    if now.train.steps_per_execution != "auto" and together < min(CALLED, epoch):
        called = f"each {together} steps" if together > 1 else "each step"
        why = f"Python calls {called}, and that takes {now.split.host:.0%} of the time"
        yield Change("train.steps_per_execution", "auto", why, now.split.host)


def larger_batches(now: Situation) -> Iterator[Change]:
    """What a step costs whatever its size."""
    overhead = now.split.host + (now.making if now.facts.cache == "memory" else 0.0)
    examples, batch = now.facts.examples, FEWER * now.train.batch_size
    if now.step_seconds < SHORT and (examples is None or examples >= 4 * batch):
        why = f"a step takes {now.step_seconds * 1e3:.2g} ms, of which {overhead:.0%} is spent around its computing"
        yield Change("train.batch_size", f"{batch}", why, (1 - 1 / FEWER) * overhead)


def save_seldom(now: Situation) -> Iterator[Change]:
    """What happens between steps."""
    every = now.facts.checkpoint_steps
    if every:
        why = f"{now.split.idle:.0%} of the time lies between steps, with checkpoints every {every:,}"
        yield Change("train.checkpoint.every_steps", f"{FEWER * every}", why, (1 - 1 / FEWER) * now.split.idle)


def compute_faster(now: Situation) -> Iterator[Change]:
    """Where an accelerator is busy."""
    if not now.accelerated:
        return
    if now.train.precision == "float32":
        why = f"the accelerator computes {now.split.compute:.0%} of the time, and does so faster with 16 bits"
        yield Change("train.precision", "mixed_bfloat16", why, (1 - 1 / FASTER) * now.split.compute)
    if now.train.jit == "off":
        why = "XLA joins small operations; `auto` measures whether that is faster"
        yield Change("train.jit", "auto", why, now.split.compute)


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
