"""The rules of `train.strategy`, `train.precision`, `train.jit` and `train.steps_per_execution`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.configs.devices import DISTRIBUTED
from headrace.configs.train import TrainConfig
from headrace.configs.tree import Where

Finding = tuple[Where, str]


def strategy_can_do_the_rest(train: TrainConfig) -> Iterator[Finding]:
    """Where `train.strategy` is auto, training asks for what it has found."""
    yield from unfit(train.strategy, train)


def unfit(strategy: str, train: TrainConfig) -> Iterator[Finding]:
    """The settings that a strategy cannot go with, and what to use instead."""
    if strategy not in DISTRIBUTED:
        return
    if train.jit == "on" and strategy != "tpu":
        what = f"XLA is for a single device here, not for `strategy: {strategy}`; use `auto`, or `strategy: one_gpu`"
        yield ("train", "jit"), what
    if train.gradient_accumulation > 1:
        what = (
            f"Keras cannot accumulate over the devices of `strategy: {strategy}`; raise train.batch_size instead, of"
            " which each device holds its part alone"
        )
        yield ("train", "gradient_accumulation"), what
    if strategy == "tpu" and train.precision == "mixed_float16":
        yield ("train", "precision"), "a TPU computes in bfloat16, not in float16; use `mixed_bfloat16`"
    if strategy == "multi_worker":
        yield from _same_batches(train)


def _same_batches(train: TrainConfig) -> Iterator[Finding]:
    """Each worker makes every batch and takes its part of it, so all have to make the same."""
    own = train.input.service is not None or train.input.own_shards
    if not train.input.deterministic and not (own and train.steps_per_epoch is not None):  # then each makes its own
        what = "each worker of `strategy: multi_worker` takes its part of the same batches; set `true`"
        yield ("train", "input", "deterministic"), what


def own_shards_are_of_workers(train: TrainConfig) -> Iterator[Finding]:
    """Workers that read files of their own have no end in common, so an epoch is a number of steps."""
    if not train.input.own_shards:
        return
    where: Where = ("train", "input", "own_shards")
    if train.strategy != "multi_worker":
        yield where, f"only the workers of `strategy: multi_worker` share files, not `{train.strategy}`; remove it"
    if train.steps_per_epoch is None:
        yield where, "each worker then reads files without an end in common; set `train.steps_per_epoch`"
    if train.input.service is not None:
        yield where, "with train.input.service the workers share the files anyway; remove one of the two"


def executions_divide_an_epoch(train: TrainConfig) -> Iterator[Finding]:
    """Keras makes whole executions only where `steps_per_epoch` is given."""
    together, steps = train.steps_per_execution, train.steps_per_epoch
    if together != "auto" and steps is not None and steps % together:
        what = f"{together} does not divide the {steps} of train.steps_per_epoch; use `auto`, or a number that does"
        yield ("train", "steps_per_execution"), what


RULES = (strategy_can_do_the_rest, own_shards_are_of_workers, executions_divide_an_epoch)
