"""The rules of `train:`: the optimizer and its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pydantic import JsonValue

from headrace.configs.keras_names import OPTIMIZER_ARGUMENTS, OPTIMIZERS, SET_ELSEWHERE, SHARED_ARGUMENTS
from headrace.configs.optimizer import OptimizerConfig, optimizer_config
from headrace.configs.schedules import CosineSchedule, PolynomialSchedule
from headrace.configs.suggest import did_you_mean, listed, meant
from headrace.configs.train import TrainConfig
from headrace.configs.tree import Where

Finding = tuple[Where, str]

OPTIMIZER: Where = ("train", "optimizer")


def optimizer_is_known(train: TrainConfig) -> Iterator[Finding]:
    config = optimizer_config(train.optimizer)
    where = OPTIMIZER if isinstance(train.optimizer, str) else (*OPTIMIZER, "kind")
    if config.is_own:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", config.kind):
            yield where, f'"{config.kind}" is no dotted path, such as my_package.my_module.MyOptimizer'
    elif config.kind.lower() not in OPTIMIZERS:
        yield where, f'Keras has no optimizer "{config.kind}"{meant(config.kind, OPTIMIZERS, "it has")}'


def optimizer_takes_its_arguments(train: TrainConfig) -> Iterator[Finding]:
    config = optimizer_config(train.optimizer)
    for name, value in config.arguments.items():
        where: Where = (*OPTIMIZER, name)
        if name in SET_ELSEWHERE:
            yield where, f"this is set by {SET_ELSEWHERE[name]}; move it there"
        elif config.kind.lower() in OPTIMIZER_ARGUMENTS:
            yield from ((where, what) for what in _wrong(config, name, value))


def _wrong(config: OptimizerConfig, name: str, value: JsonValue) -> Iterator[str]:
    """What is wrong with an argument of one of Keras' optimizers."""
    allowed = OPTIMIZER_ARGUMENTS[config.kind.lower()] | SHARED_ARGUMENTS
    if name not in allowed:
        yield f"{config.kind} has no such argument; it has: {listed(allowed, 24)}{did_you_mean(name, allowed)}"
    elif not any(_fits(value, kind) for kind in allowed[name].split(" or ", 1)):
        yield f"found {json.dumps(value, ensure_ascii=False)}; allowed: {allowed[name]}"


def _fits(value: JsonValue, kind: str) -> bool:
    if isinstance(value, bool):
        return kind in ("true", "false")
    return {
        "a number": isinstance(value, int | float),
        "a whole number": isinstance(value, int),
        "null": value is None,
        "a list of texts": isinstance(value, list) and all(isinstance(item, str) for item in value),
    }.get(kind, False)


def averages_count_optimizer_steps(train: TrainConfig) -> Iterator[Finding]:
    """Keras takes the average after every batch, those that only gather gradients included."""
    if train.gradient_accumulation > 1 and optimizer_config(train.optimizer).arguments.get("use_ema"):
        what = "Keras averages the weights after every batch, not after every optimizer step, so this does not go"
        yield (*OPTIMIZER, "use_ema"), f"{what} with train.gradient_accumulation; remove one of them"


def schedule_knows_its_end(train: TrainConfig) -> Iterator[Finding]:
    """Where examples are not kept, nobody knows how many there are before the first epoch is over."""
    rate, known = train.learning_rate, train.steps_per_epoch is not None or train.input.cache != "none"
    if isinstance(rate, CosineSchedule | PolynomialSchedule) and rate.decay_steps is None and not known:
        what = f"a {rate.schedule} schedule needs decay_steps where `train.input.cache: none` leaves it open how many"
        yield ("train", "learning_rate"), f"{what} steps the training has; give decay_steps, or train.steps_per_epoch"


RULES = (optimizer_is_known, optimizer_takes_its_arguments, averages_count_optimizer_steps, schedule_knows_its_end)
