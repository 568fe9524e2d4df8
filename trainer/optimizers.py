"""The optimizer that the config names, with its arguments, learning rate, clipping and accumulation.

optimizer(TrainConfig(optimizer="sgd"), batches=1000)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras

from headrace.configs.errors import TrainingError
from headrace.configs.keras_names import OPTIMIZER_ARGUMENTS, SHARED_ARGUMENTS
from headrace.configs.optimizer import OptimizerConfig, optimizer_config
from headrace.configs.train import TrainConfig
from headrace.trainer.hooks import resolve
from headrace.trainer.nearest import unknown
from headrace.trainer.schedules import learning_rate

Kind = Callable[..., keras.optimizers.Optimizer]


def optimizer(train: TrainConfig, batches: int | None = None) -> keras.optimizers.Optimizer:
    """A new optimizer, not built.

    batches: in the whole training, None where that is not known. Raises TrainingError for a name or an argument that
    Keras does not have, where the user's own gives something else than a Keras optimizer, and where the training is too
    short for a single step of it.
    """
    if batches is not None:
        left_over(train, batches)
    config = optimizer_config(train.optimizer)
    rate = learning_rate(train.learning_rate, train.gradient_accumulation, batches)
    made = _own(config, rate) if config.is_own else _of_keras(config, rate)
    if train.clip is not None:
        made.clipnorm, made.clipvalue, made.global_clipnorm = train.clip.norm, train.clip.value, train.clip.global_norm
    if train.gradient_accumulation > 1:
        made.gradient_accumulation_steps = train.gradient_accumulation
    return made


def left_over(train: TrainConfig, batches: int) -> tuple[str, ...]:
    """A remark if gradients of the training's last batches are never applied, as they are too few for a step.

    batches: in the whole training. Raises TrainingError if they make no step at all.
    """
    together = train.gradient_accumulation
    if batches < together:
        raise TrainingError(
            f"train.gradient_accumulation: {together:,} batches make one step of the optimizer, and the whole training"
            f" has {batches:,}, so nothing is learned. Lower it, or `train.batch_size`, or raise `train.epochs`"
        )
    if not (rest := batches % together):
        return ()
    return (f"gradient_accumulation {together:,}: the last {rest:,} of {batches:,} batches made no optimizer step",)


def _of_keras(config: OptimizerConfig, rate: Any) -> keras.optimizers.Optimizer:
    known: dict[str, Kind] = {
        known.lower(): kind
        for known, kind in vars(keras.optimizers).items()
        if inspect.isclass(kind) and known not in ("Optimizer", "LossScaleOptimizer")
    }
    name = config.kind.lower()
    if name not in known:
        raise unknown("train.optimizer", config.kind, known)
    try:
        return known[name](learning_rate=rate, **_typed(config.arguments, OPTIMIZER_ARGUMENTS.get(name, {})))
    except (TypeError, ValueError) as error:
        raise TrainingError(f"train.optimizer: Keras refuses the arguments of {config.kind}: {error}") from error


def _typed(arguments: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    """With floats where numbers are meant: Keras refuses `momentum=0`."""
    kinds = {**own, **SHARED_ARGUMENTS}
    numbers = {name for name, kind in kinds.items() if kind.startswith("a number")}
    return {
        name: float(value) if name in numbers and isinstance(value, int) else value for name, value in arguments.items()
    }


def _own(config: OptimizerConfig, rate: Any) -> keras.optimizers.Optimizer:
    made = resolve(config.kind, "train.optimizer")(learning_rate=rate, **config.arguments)
    if not isinstance(made, keras.optimizers.Optimizer):
        raise TrainingError(
            f"train.optimizer: {config.kind} returned {type(made).__name__}, not a keras.optimizers.Optimizer. Name a"
            " class that derives from it, or a function that returns one"
        )
    return made
