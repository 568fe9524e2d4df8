"""Which settings of the config to change, ranked by the share of the time that each could save.

A gain is an upper bound: the share that the change is about, reduced where arithmetic allows (a fourth of the calls,
twice the speed). Only a run shows how much is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.components.profile.result import SettingChange, TimeShares
from headrace.components.profile.trace import READING, SHUFFLING, STARTING
from headrace.configs.schema.train import DISTRIBUTED, TrainConfig, service_config
from headrace.trainer.input.memory import DISK_SHARE, MEMORY_SHARE, format_bytes
from headrace.trainer.profiling.facts import ProfileFacts

MIN_GAIN = 0.02
"""Changes that save a smaller share of the time than this are left out."""
SHORT_STEP = 0.002
"""Seconds: a shorter step is mostly the calls around it."""
EPOCH_FACTOR = 10
"""How many times more steps to put into an epoch if starting one is expensive."""
STEPS_PER_CALL = 16
"""Advise to run more steps per Python call if one call runs fewer than this."""
COST_FACTOR = 4
"""How many times larger to make batches, or rarer to make checkpoints, if each is expensive."""
MANY_LAUNCHES = 0.3
"""Share of the host from which XLA is worth trying on an accelerator. On an H100, a step of two models whose host share
was 93% and 58% took 5.7 and 12 ms, and 1.2 and 6.4 ms with XLA."""
SPEEDUP_16_BIT = 2
"""Speed-up of 16 over 32 bits: half of the bytes, and twice the operations per second (NVIDIA's A100 has 312 TFLOPS in
bfloat16 and 156 in TF32, which TensorFlow uses for float32)."""


@dataclass(frozen=True)
class TrainingProfile:
    """A profile, the facts of its training, and the config: everything that advice is based on."""

    shares: TimeShares
    facts: ProfileFacts
    stages: Mapping[str, float]
    """Seconds of tf.data's work by stage, the longest first."""
    train: TrainConfig
    accelerated: bool
    """Whether the steps computed on an accelerator."""
    step_seconds: float
    copying: float = 0.0
    """The part of `shares.input` in which batches are being copied to the accelerator."""
    several_devices: bool = False
    """Whether they computed on several."""

    def stage_share(self, stage: str) -> float:
        """The share of a stage in all of tf.data's work."""
        return self.stages.get(stage, 0.0) / (sum(self.stages.values()) or 1.0)

    @property
    def producing(self) -> float:
        """The part of `shares.input` in which the next batch is not ready yet: what tf.data can improve."""
        return self.shares.input - self.copying

    @property
    def parses_each_epoch(self) -> bool:
        """Whether examples were parsed and not cached."""
        return self.facts.cache == "none" and not self.facts.columns

    @property
    def endless(self) -> bool:
        """Whether a tf.data service gives an endless stream of examples, which cannot be cached."""
        settings = service_config(self.train.input.service)
        return settings is not None and settings.sharding == "off"

    @property
    def epoch(self) -> int | None:
        """Steps in one pass over the train split."""
        examples = self.facts.examples
        return None if examples is None else -(-examples // self.train.global_batch_size)


def advise(profile: TrainingProfile) -> list[SettingChange]:
    """The changes worth making, starting with the one that could save most."""
    changes = [change for rule in RULES for change in rule(profile) if change.gain >= MIN_GAIN]
    return sorted(changes, key=lambda change: -change.gain)


def explain_waits(profile: TrainingProfile) -> str:
    """Why the steps wait for input, as far as the profile and the config show it, in one sentence."""
    reasons = [*_slow_copies(profile), *(_slow_batches(profile) if profile.producing >= MIN_GAIN else ())]
    return "; ".join(reasons) or "the input produces batches more slowly than the steps consume them"


def _slow_copies(profile: TrainingProfile) -> Iterator[str]:
    if profile.copying >= MIN_GAIN:
        yield f"batches are being copied to the accelerator {profile.copying:.0%} of the time"


def _slow_batches(profile: TrainingProfile) -> Iterator[str]:
    if profile.parses_each_epoch:
        yield _each_epoch(profile)
    threads, cores = profile.train.input.threads, profile.facts.cores
    if threads != "auto" and threads < cores:
        yield f"`train.input.threads: {threads}` leaves {cores - threads} of {cores} cores unused"
    for stage in list(profile.stages)[:1]:
        share = profile.stage_share(stage)
        yield f"{'most' if share > 1 / 2 else 'the largest part'} of the input's work is {stage} ({share:.0%})"


def _each_epoch(profile: TrainingProfile) -> str:
    """The work that each epoch repeats if examples are cached neither in memory nor on disk."""
    if profile.train.input.snapshot is not None:
        return "the parsed examples of the snapshot are read from disk again in every epoch"
    if service_config(profile.train.input.service) is None:
        return "examples are read and parsed again in every epoch"
    when = "endlessly" if profile.endless else "again in every epoch"
    return f"the workers of the tf.data service read and parse the examples {when}"


def cache_parsed(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Parse once, not in every epoch. `auto` has looked for free space itself."""
    setting, current = "train.input.cache", profile.facts.cache
    if current == "memory" or profile.train.input.cache == "auto" or profile.endless or profile.facts.columns:
        return
    size, free, disk = profile.facts.parsed_bytes, profile.facts.free_bytes, profile.facts.free_disk_bytes
    if size is None:
        yield SettingChange(setting, "auto", "it caches the parsed examples if they fit", profile.producing)
    elif size * MEMORY_SHARE <= free:
        yield SettingChange(
            setting, "memory", f"parsed data is {format_bytes(size)} of {format_bytes(free)} free", profile.producing
        )
    elif current == "none" and profile.train.input.snapshot is None and size * DISK_SHARE <= disk:
        too_large = f"parsed data ({format_bytes(size)}) does not fit into memory ({format_bytes(free)} free)"
        why = f"{too_large}, and reading it from disk"
        yield SettingChange(
            setting, "disk", f"{why} ({format_bytes(disk)} free) is faster than parsing", profile.producing
        )


def use_all_cores(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Let tf.data use all cores."""
    threads, cores = profile.train.input.threads, profile.facts.cores
    if threads != "auto" and threads < cores:
        why = f"{threads} of {cores} cores {'works' if threads == 1 else 'work'} on the input"
        yield SettingChange("train.input.threads", "auto", why, profile.producing * (1 - threads / cores))


def prefetch(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Produce the next batches while a step computes: saves at most the computing time, once."""
    batches = profile.train.input.prefetch
    if batches != "auto" and batches < 2:
        why = f"with {batches} prefetched, input and steps take turns"
        yield SettingChange("train.input.prefetch", "auto", why, min(profile.shares.input, profile.shares.compute))


def relax_file_order(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Do not wait for the slowest file. The order of a snapshot is fixed, and an endless service has none."""
    share = profile.stage_share(READING)
    ordered = profile.train.input.deterministic and profile.train.input.snapshot is None and not profile.endless
    if ordered and profile.facts.cache == "none" and share > 0.1:
        why = "batches need not wait for the slowest file (their order then differs from run to run)"
        yield SettingChange("train.input.deterministic", "false", why, share * profile.producing)


def share_snapshot(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Share the parsed examples between runs."""
    if profile.parses_each_epoch and profile.train.input.snapshot is None and not profile.endless:
        why = "reading and parsing are then done once, also for later runs on the same data"
        yield SettingChange("train.input.snapshot", "a folder", why, profile.producing)


def shuffle_less(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Use a smaller shuffle buffer if filling it takes long."""
    share = profile.stage_share(SHUFFLING)
    if profile.facts.cache != "memory" and profile.train.input.shuffle > 1024 and share > 0.2:
        why = f"shuffling is {share:.0%} of the input's work"
        yield SettingChange(
            "train.input.shuffle", str(profile.train.input.shuffle // 4), why, share * profile.producing
        )


def lengthen_epochs(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Start fewer iterators: one for each epoch costs tens of milliseconds, a large share of a short epoch.

    A profile of little more than the start of an epoch overstates that share, so it is scaled down. Epochs become
    fewer as they become longer, so that the number of steps stays the same.
    """
    share, epoch, epochs = profile.stage_share(STARTING), profile.epoch, profile.train.max_epochs
    fewer = max(round(epochs / EPOCH_FACTOR), 1)
    if share > 0.3 and profile.train.steps_per_epoch is None and epoch is not None and fewer < epochs:
        why = f"with `train.epochs: {fewer}` the training has as many steps as now, and starting an epoch's iterator is"
        why = f"{why} {share:.0%} of the input's work with {epoch:,} steps per epoch"
        gain = (1 - fewer / epochs) * share * profile.producing * min(profile.facts.steps / epoch, 1)
        yield SettingChange(
            "train.steps_per_epoch", f"{_whole_executions(epoch * epochs / fewer, profile.train)}", why, gain
        )


def _whole_executions(steps: float, train: TrainConfig) -> int:
    """The nearest multiple of the config's `steps_per_execution`, as its rules require."""
    execution = 1 if train.steps_per_execution == "auto" else train.steps_per_execution
    return max(round(steps / execution), 1) * execution


def run_more_steps_per_call(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Run multiple steps per call from Python. `auto` already runs as many per call as an epoch allows."""
    execution, epoch = (
        profile.facts.steps_per_execution,
        profile.train.steps_per_epoch or profile.epoch or STEPS_PER_CALL,
    )
    if profile.train.steps_per_execution != "auto" and execution < min(STEPS_PER_CALL, epoch):
        called = f"every {execution} steps" if execution > 1 else "every step"
        why = f"Python calls the graph for {called}, which takes {profile.shares.host:.0%} of the time"
        yield SettingChange("train.steps_per_execution", "auto", why, profile.shares.host)


def enlarge_batches(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Spread the fixed cost of a step over more examples."""
    overhead = profile.shares.host + (profile.producing if profile.facts.cache == "memory" else 0.0)
    examples, batch = profile.facts.examples, COST_FACTOR * profile.train.global_batch_size
    if profile.step_seconds < SHORT_STEP and (examples is None or examples >= 4 * batch):
        why = f"a step takes {profile.step_seconds * 1e3:.2g} ms, of which {overhead:.0%} is overhead"
        yield SettingChange("train.batch_size", f"{batch}", why, (1 - 1 / COST_FACTOR) * overhead)


def checkpoint_less_often(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Spend less time between steps."""
    every = profile.facts.checkpoint_steps
    if every:
        why = f"{profile.shares.idle:.0%} of the time is between steps, with a checkpoint every {every:,} steps"
        yield SettingChange(
            "train.checkpoint.every_steps", f"{COST_FACTOR * every}", why, (1 - 1 / COST_FACTOR) * profile.shares.idle
        )


def compute_faster(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Make better use of an accelerator."""
    if not profile.accelerated:
        return
    if profile.train.precision == "float32":
        why = f"the accelerator computes {profile.shares.compute:.0%} of the time, and is faster with 16 bits"
        yield SettingChange("train.precision", "mixed_bfloat16", why, (1 - 1 / SPEEDUP_16_BIT) * profile.shares.compute)
    if profile.train.jit == "off":
        why = "XLA fuses small operations; `auto` measures whether that is faster"
        yield SettingChange("train.jit", "auto", why, max(profile.shares.compute, profile.shares.host))


def launch_less(profile: TrainingProfile) -> Iterator[SettingChange]:
    """Let XLA fuse operations if the accelerator waits for the host, which starts them one by one.

    `auto` only measures where a minute of training is left; where it did, there is nothing to advise: it has chosen.
    XLA compiles the steps of a single device, and `on` excludes `embedding_updates: rows`.
    """
    host, several = profile.shares.host, profile.several_devices or profile.train.strategy in DISTRIBUTED
    chosen = profile.train.jit != "auto" or profile.facts.jit_measured or profile.train.embedding_updates == "rows"
    if profile.accelerated and not (chosen or several) and host >= MANY_LAUNCHES:
        why = f"the host starts operations one by one, {host:.0%} of the time, and XLA fuses them into few (not with"
        why = f"{why} features that have any number of values){_whole_tables(profile.facts.updated_rows)}"
        yield SettingChange("train.jit", "on", why, host)


def _whole_tables(updated_rows: Sequence[str]) -> str:
    """What a training loses with XLA if it updates tables by rows."""
    lost = "; but each step then updates all weights of embedding tables, not only the rows that it looked up, as of"
    return f"{lost} {', '.join(updated_rows)}" if updated_rows else ""


RULES: tuple[Callable[[TrainingProfile], Iterator[SettingChange]], ...] = (
    cache_parsed,
    use_all_cores,
    prefetch,
    relax_file_order,
    share_snapshot,
    shuffle_less,
    lengthen_epochs,
    run_more_steps_per_call,
    enlarge_batches,
    checkpoint_less_often,
    compute_faster,
    launch_less,
)
