"""The rules of `train:`: the optimizer, the devices, and the tf.data service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pydantic import JsonValue

from headrace.common.names import did_you_mean, did_you_mean_or_list, join_names
from headrace.configs.rules.keras_names import OPTIMIZER_ARGUMENTS, OPTIMIZERS, SET_ELSEWHERE, SHARED_ARGUMENTS
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.optimizer import CosineSchedule, OptimizerConfig, PolynomialSchedule, optimizer_config
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.train import DISTRIBUTED, TrainConfig, service_config

OPTIMIZER: KeyPath = ("train", "optimizer")
ROW_OPTIMIZERS = ("adam", "adagrad", "sgd")
"""Optimizers that can update single rows of an embedding table."""
CLASS_WEIGHT: KeyPath = ("train", "class_weight")
SERVICE: KeyPath = ("train", "input", "service")


def optimizer_is_known(train: TrainConfig) -> Iterator[Violation]:
    config = optimizer_config(train.optimizer)
    where = OPTIMIZER if isinstance(train.optimizer, str) else (*OPTIMIZER, "kind")
    if config.is_own:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", config.kind):
            yield where, f'"{config.kind}" is not a dotted path such as my_package.my_module.MyOptimizer'
    elif config.kind.lower() not in OPTIMIZERS:
        known = did_you_mean_or_list(config.kind, OPTIMIZERS, "available")
        yield where, f'Keras has no optimizer "{config.kind}"{known}'


def optimizer_takes_its_arguments(train: TrainConfig) -> Iterator[Violation]:
    config = optimizer_config(train.optimizer)
    for name, value in config.arguments.items():
        where: KeyPath = (*OPTIMIZER, name)
        if name in SET_ELSEWHERE:
            yield where, f"this is set by {SET_ELSEWHERE[name]}; move it there"
        elif config.kind.lower() in OPTIMIZER_ARGUMENTS:
            yield from ((where, what) for what in _argument_errors(config, name, value))


def _argument_errors(config: OptimizerConfig, name: str, value: JsonValue) -> Iterator[str]:
    """What is wrong with an argument of a Keras optimizer."""
    allowed = OPTIMIZER_ARGUMENTS[config.kind.lower()] | SHARED_ARGUMENTS
    if name not in allowed:
        known = f"{join_names(allowed, 24)}{did_you_mean(name, allowed)}"
        yield f"{config.kind} has no such argument; available: {known}"
    elif not any(_matches(value, kind) for kind in allowed[name].split(" or ", 1)):
        yield f"found {json.dumps(value, ensure_ascii=False)}; allowed: {allowed[name]}"


def _matches(value: JsonValue, kind: str) -> bool:
    if isinstance(value, bool):
        return kind in ("true", "false")
    return {
        "number": isinstance(value, int | float),
        "integer": isinstance(value, int),
        "null": value is None,
        "list of strings": isinstance(value, list) and all(isinstance(item, str) for item in value),
    }.get(kind, False)


def averages_count_optimizer_steps(train: TrainConfig) -> Iterator[Violation]:
    """Keras averages the weights after every batch, including those that only accumulate gradients."""
    if train.gradient_accumulation > 1 and optimizer_config(train.optimizer).arguments.get("use_ema"):
        what = "Keras averages the weights after every batch, not every optimizer step, so `use_ema` cannot be combined"
        yield (*OPTIMIZER, "use_ema"), f"{what} with train.gradient_accumulation; remove one of them"


def rows_can_be_updated(train: TrainConfig) -> Iterator[Violation]:
    """An update of rows must not concern the other rows, and their number differs from batch to batch."""
    if train.embedding_updates != "rows":
        return
    where: KeyPath = ("train", "embedding_updates")
    config = optimizer_config(train.optimizer)
    if not config.is_own and config.kind.lower() not in ROW_OPTIMIZERS:
        yield where, f"{config.kind} has no update by rows; use `auto`, or one of {', '.join(ROW_OPTIMIZERS)}"
    for name in ("weight_decay", "use_ema", "amsgrad"):
        if config.arguments.get(name):
            yield where, f"`{name}` of the optimizer concerns all rows in each step; use `auto`, or remove it"
    if train.gradient_accumulation > 1:
        yield where, "accumulated gradients are those of whole tables; use `auto`, or remove gradient_accumulation"
    if train.jit == "on":
        yield where, "XLA compiles fixed shapes, and the number of rows varies; use `auto`, or `jit: auto`"
    if train.strategy in DISTRIBUTED:
        yield where, f"`strategy: {train.strategy}` sums gradients of whole tables; use `auto`, or `strategy: one_gpu`"


def schedule_has_an_end(train: TrainConfig) -> Iterator[Violation]:
    """Without a cache, the number of examples is unknown until the end of the first epoch."""
    rate, known = train.learning_rate, train.steps_per_epoch is not None or train.input.cache != "none"
    if isinstance(rate, CosineSchedule | PolynomialSchedule) and rate.decay_steps is None and not known:
        what = f"a {rate.schedule} schedule with `train.input.cache: none` requires decay_steps, because the number of"
        yield ("train", "learning_rate"), f"{what} steps is unknown; set decay_steps, or train.steps_per_epoch"


def strategy_fits_the_settings(train: TrainConfig) -> Iterator[Violation]:
    """If `train.strategy` is auto, training checks the strategy that it chooses."""
    strategy = train.strategy
    if strategy not in DISTRIBUTED:
        return
    if train.jit == "on" and strategy != "tpu":
        what = f"XLA is supported for a single device, not for `strategy: {strategy}`; use `auto`"
        yield ("train", "jit"), f"{what}, or `strategy: one_gpu`"
    if train.gradient_accumulation > 1:
        what = f"Keras cannot accumulate gradients with `strategy: {strategy}`; increase train.batch_size instead"
        yield ("train", "gradient_accumulation"), f"{what}, which is divided among the devices"
    if strategy == "tpu" and train.precision == "mixed_float16":
        yield ("train", "precision"), "a TPU computes in bfloat16, not in float16; use `mixed_bfloat16`"
    if strategy == "multi_worker":
        yield from _workers_need_the_same_batches(train)


def _workers_need_the_same_batches(train: TrainConfig) -> Iterator[Violation]:
    """Each worker makes every batch and uses its part, so all must make the same batches."""
    own = train.input.service is not None or train.input.own_shards
    if not train.input.deterministic and not (own and train.steps_per_epoch is not None):  # then each makes its own
        what = "the workers of `strategy: multi_worker` must make the same batches; set it to `true`"
        yield ("train", "input", "deterministic"), what


def class_weights_are_of_classes(train: TrainConfig, label: LabelConfig) -> Iterator[Violation]:
    weights, where = train.class_weight, CLASS_WEIGHT
    if weights is None:
        return
    if label.kind not in ("binary", "multiclass"):
        reasons = {"multilabel": "may have several classes at once", "multitask": "has several sets of classes"}
        what = reasons.get(label.kind, "has no classes to weigh")
        yield where, f"a {label.kind} label {what}; remove it"
        return
    classes = [str(value) for value in label.class_values]
    for name in weights if weights != "balanced" else ():
        if name not in classes:
            yield (
                (*where, name),
                f'"{name}" is not a class of the label{did_you_mean_or_list(name, classes, "available")}',
            )
    if weights != "balanced" and not any(weights.get(name, 1.0) for name in classes):
        yield where, "all classes have weight 0, so there is nothing to learn; set at least one above 0"


def weights_are_measured_over_all_files(train: TrainConfig, label: LabelConfig) -> Iterator[Violation]:
    """Workers that see only their own share of the files would each find another mean."""
    if not train.input.own_shards:
        return
    what = "each worker reads only its share of the files (train.input.own_shards), and not"
    if label.weight is not None:
        yield ("label", "weight"), f"{what} the weights of all rows, whose mean is needed; remove one of both settings"
    if train.class_weight == "balanced":
        yield CLASS_WEIGHT, f"{what} how often each class occurs; set a number for each class, or remove one of them"


def own_shards_require_workers(train: TrainConfig) -> Iterator[Violation]:
    """Workers that read different files do not finish together, so an epoch must be a number of steps."""
    if not train.input.own_shards:
        return
    where: KeyPath = ("train", "input", "own_shards")
    if train.strategy != "multi_worker":
        yield where, f"only `strategy: multi_worker` has workers to share files, not `{train.strategy}`; remove it"
    if train.steps_per_epoch is None:
        yield where, "the workers would not finish an epoch together; set `train.steps_per_epoch`"
    if train.input.service is not None:
        yield where, "with train.input.service, workers share the files anyway; remove one of the two"


def executions_divide_an_epoch(train: TrainConfig) -> Iterator[Violation]:
    """With `steps_per_epoch`, Keras runs only whole executions."""
    execution, steps = train.steps_per_execution, train.steps_per_epoch
    if execution != "auto" and steps is not None and steps % execution:
        what = f"{execution} does not divide train.steps_per_epoch, {steps}; use `auto`, or a divisor"
        yield ("train", "steps_per_execution"), what


def coordinated_reads_are_unsharded(train: TrainConfig) -> Iterator[Violation]:
    service = service_config(train.input.service)
    if service and service.coordinated and service.sharding != "off":
        yield (*SERVICE, "coordinated"), "coordinated reads require `sharding: off`"


def unsharded_reads_are_endless(train: TrainConfig) -> Iterator[Violation]:
    service = service_config(train.input.service)
    if service is None or service.sharding != "off":
        return
    where: KeyPath = (*SERVICE, "sharding")
    if train.steps_per_epoch is None:
        yield where, "`off` reads endlessly, so an epoch requires `train.steps_per_epoch`; or use `dynamic`"
    if train.input.snapshot is not None:
        yield where, "`off` reads endlessly, but train.input.snapshot stores one pass; remove one of them"
    if train.input.cache in ("memory", "disk"):
        yield where, f"`off` reads endlessly, which `cache: {train.input.cache}` cannot store; remove one of them"
