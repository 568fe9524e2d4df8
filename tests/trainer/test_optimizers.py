"""Optimizers, learning rates, clipping and accumulation, against the same computed in NumPy."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from messages import says
from pydantic import TypeAdapter
from trainings import train_alone

from headrace.common.errors import TrainingError
from headrace.configs.schema.optimizer import LearningRateSchedule
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import adam
from headrace.trainer.optimizers import LearningRate, learning_rate, leftover_batches, optimizer
from headrace.trainer.run import run_fn

FORMULAS: list[tuple[dict[str, Any], Callable[[int], float]]] = [
    ({"schedule": "constant", "initial": 0.3}, lambda _: 0.3),
    ({"schedule": "cosine", "initial": 0.5, "decay_steps": 40, "end": 0.1},
     lambda s: 0.1 + 0.4 * (1 + math.cos(math.pi * min(s, 40) / 40)) / 2),
    ({"schedule": "exponential", "initial": 0.5, "decay_steps": 10, "decay_rate": 0.5},
     lambda s: 0.5 * 0.5 ** (s / 10)),
    ({"schedule": "exponential", "initial": 0.5, "decay_steps": 10, "decay_rate": 0.5, "staircase": True},
     lambda s: 0.5 * 0.5 ** (s // 10)),
    ({"schedule": "polynomial", "initial": 0.5, "decay_steps": 20, "end": 0.1, "power": 2.0},
     lambda s: 0.1 + 0.4 * (1 - min(s, 20) / 20) ** 2),
    ({"schedule": "polynomial", "initial": 0.5, "decay_steps": 20, "end": 0.1, "cycle": True},
     lambda s: 0.1 + 0.4 * (1 - s / (20 * max(math.ceil(s / 20), 1)))),
    ({"schedule": "piecewise", "boundaries": [10, 20], "values": [0.3, 0.2, 0.1]},
     lambda s: 0.3 if s <= 10 else 0.2 if s <= 20 else 0.1),
    ({"schedule": "inverse_time", "initial": 0.5, "decay_steps": 10, "decay_rate": 2.0},
     lambda s: 0.5 / (1 + 2 * s / 10)),
    ({"schedule": "inverse_time", "initial": 0.5, "decay_steps": 10, "decay_rate": 2.0, "staircase": True},
     lambda s: 0.5 / (1 + 2 * (s // 10))),
]  # fmt: skip
IDS = [f"{config['schedule']}-{number}" for number, (config, _) in enumerate(FORMULAS)]


def schedule(config: dict[str, Any], accumulation: int = 1, batches: int | None = None) -> Callable[[int], float]:
    parsed = TypeAdapter(LearningRateSchedule).validate_json(json.dumps(config))
    rate = learning_rate(parsed, accumulation, batches)
    assert isinstance(rate, LearningRate)
    return lambda step: float(rate(np.int64(step)))


def train(**settings: Any) -> TrainConfig:
    return TrainConfig.model_validate_json(json.dumps(settings))


@pytest.mark.parametrize(("config", "formula"), FORMULAS, ids=IDS)
def test_schedule_is_its_formula_at_every_step(config: dict[str, Any], formula: Callable[[int], float]) -> None:
    rate = schedule(config)
    for step in range(60):
        assert rate(step) == pytest.approx(formula(step), rel=1e-5, abs=1e-8), step


@pytest.mark.parametrize(("config", "formula"), FORMULAS, ids=IDS)
def test_warm_up_rises_in_a_line_and_the_schedule_begins_after_it(
    config: dict[str, Any], formula: Callable[[int], float]
) -> None:
    rate = schedule({**config, "warmup_steps": 8, "warmup_from": 0.01})
    for step in range(8):
        assert rate(step) == pytest.approx(0.01 + (formula(0) - 0.01) * step / 8, rel=1e-5)
    for step in range(8, 50):
        assert rate(step) == pytest.approx(formula(step - 8), rel=1e-5, abs=1e-8)


def test_schedule_counts_optimizer_steps_where_gradients_are_accumulated() -> None:
    config = {"schedule": "polynomial", "initial": 1.0, "decay_steps": 10, "warmup_steps": 5}
    plain, accumulated = schedule(config), schedule(config, accumulation=4)
    assert [accumulated(batch) for batch in range(80)] == [plain(batch // 4) for batch in range(80)]


@pytest.mark.parametrize("kind", ["cosine", "polynomial"])
def test_fall_without_decay_steps_lasts_for_the_rest_of_the_training(kind: str) -> None:
    rate = schedule({"schedule": kind, "initial": 1.0, "warmup_steps": 10}, accumulation=2, batches=120)
    assert rate(2 * 10) == pytest.approx(1)
    assert rate(2 * 35) == pytest.approx(0.5)
    assert rate(2 * 60) == pytest.approx(0)


def test_fall_without_decay_steps_is_refused_where_the_length_is_unknown_or_the_warm_up_takes_all() -> None:
    with pytest.raises(TrainingError, match=r"Set `decay_steps` or `train.steps_per_epoch`"):
        schedule({"schedule": "cosine", "initial": 1.0})
    with pytest.raises(TrainingError, match=r"30 optimizer steps, .*warm-up .*\b30\b"):
        schedule({"schedule": "cosine", "initial": 1.0, "warmup_steps": 30}, batches=30)


def test_optimizer_is_found_by_name_in_any_case_and_gets_its_arguments() -> None:
    made = optimizer(train(optimizer={"kind": "AdamW", "weight_decay": 0.5, "beta_1": 0.75}, learning_rate=0.25))
    assert isinstance(made, keras.optimizers.AdamW)
    assert (made.weight_decay, made.beta_1, float(made.learning_rate)) == (0.5, 0.75, 0.25)
    assert optimizer(train(optimizer={"kind": "sgd", "momentum": 0})).momentum == 0.0


def test_unknown_optimizer_offers_the_nearest() -> None:
    with pytest.raises(TrainingError, match=r"train.optimizer: 'adamm' .* Did you mean adam"):
        optimizer(train(optimizer="adamm"))


def test_argument_out_of_its_range_is_refused_in_keras_words() -> None:
    with pytest.raises(TrainingError, match=r"train.optimizer: Keras refuses the arguments of sgd: .*between \[0, 1\]"):
        optimizer(train(optimizer={"kind": "sgd", "momentum": 3}))


GRADIENTS = [np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32) * 3 for seed in range(6)]
BIASES = [np.random.default_rng(seed).normal(size=3).astype(np.float32) for seed in range(10, 16)]


def steps(config: TrainConfig) -> list[np.ndarray]:
    """The two weights after all gradients were applied."""
    weights = [keras.Variable(np.ones((4, 3), np.float32)), keras.Variable(np.zeros(3, np.float32))]
    made = optimizer(config)
    made.build(weights)
    for gradient, bias in zip(GRADIENTS, BIASES, strict=True):
        made.apply([keras.ops.convert_to_tensor(gradient), keras.ops.convert_to_tensor(bias)])
    return [np.asarray(weight) for weight in weights]


def test_momentum_and_schedule_are_a_hand_written_step() -> None:
    rates = {"schedule": "inverse_time", "initial": 0.1, "decay_steps": 1, "decay_rate": 1.0}
    found = steps(train(optimizer={"kind": "sgd", "momentum": 0.9}, learning_rate=rates))
    weight, velocity = np.ones((4, 3), np.float32), np.zeros((4, 3), np.float32)
    for step, gradient in enumerate(GRADIENTS):
        velocity = 0.9 * velocity - 0.1 / (1 + step) * gradient
        weight += velocity
    np.testing.assert_allclose(found[0], weight, rtol=1e-5)


def test_adamw_is_a_hand_written_step() -> None:
    found = steps(train(optimizer={"kind": "adamw", "weight_decay": 0.1, "beta_2": 0.9}, learning_rate=0.01))
    weight, mean, square = np.ones((4, 3)), np.zeros((4, 3)), np.zeros((4, 3))
    for step, gradient in enumerate(GRADIENTS, start=1):
        weight = weight - 0.01 * 0.1 * weight
        mean, square = 0.9 * mean + 0.1 * gradient, 0.9 * square + 0.1 * gradient**2
        weight = weight - 0.01 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.9**step)) + 1e-7)
    np.testing.assert_allclose(found[0], weight, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "scaled"),
    [
        ({}, False),
        ({"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3, "gradient_accumulation_steps": 2}, False),
        ({"use_ema": True, "weight_decay": 0.1}, True),
    ],
)
def test_adam_with_fewer_operations_is_keras_adam(settings: dict[str, Any], scaled: bool) -> None:
    found = []
    for shared in (True, False):
        made: Any = keras.optimizers.Adam(0.1, clipnorm=1.0, **settings)
        made = keras.optimizers.LossScaleOptimizer(made, 4.0) if scaled else made
        if shared:
            adam.install(made)
        weights, step = applied(made)
        for gradients in zip(GRADIENTS, BIASES, strict=True):
            step(*(tf.constant(gradient) * made.scale_loss(1.0) for gradient in gradients))
        assert operations(step, "Pow") == (2 if shared else 4)
        assert operations(step, "StatefulPartitionedCall") == (2 if shared else 0)  # one for each weight
        found.append([np.asarray(variable) for variable in [*weights, *made.variables]])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def applied(made: keras.optimizers.Optimizer) -> tuple[list[keras.Variable], Any]:
    """Two weights, and the graph that applies their gradients."""
    weights = [keras.Variable(np.ones((4, 3), np.float32)), keras.Variable(np.zeros(3, np.float32))]
    made.build(weights)
    return weights, tf.function(lambda *gradients: made.apply(list(gradients), weights), autograph=False)


def operations(step: Any, kind: str) -> int:
    """How many operations of a kind are in the graph of a step, and in the functions that it calls."""
    graph = step.get_concrete_function(tf.constant(GRADIENTS[0]), tf.constant(BIASES[0])).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return sum(node.op == kind for node in nodes)


def test_other_kinds_of_adam_keep_their_formula() -> None:
    for made in (keras.optimizers.Adam(amsgrad=True), keras.optimizers.AdamW(), keras.optimizers.SGD()):
        adam.install(made)
        assert "update_step" not in vars(made)


def clipped(kind: str, limit: float, gradient: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def shorten(array: np.ndarray, length: Any) -> np.ndarray:
        return np.asarray(array * min(1, limit / float(length)))

    if kind == "value":
        return np.clip(gradient, -limit, limit), np.clip(bias, -limit, limit)
    if kind == "norm":
        return shorten(gradient, np.linalg.norm(gradient)), shorten(bias, np.linalg.norm(bias))
    together = math.hypot(np.linalg.norm(gradient), np.linalg.norm(bias))
    return shorten(gradient, together), shorten(bias, together)


@pytest.mark.parametrize("kind", ["norm", "global_norm", "value"])
def test_clipping_is_the_same_in_numpy(kind: str) -> None:
    found = steps(train(optimizer="sgd", learning_rate=1.0, clip={kind: 1.5}))
    both = [clipped(kind, 1.5, *pair) for pair in zip(GRADIENTS, BIASES, strict=True)]
    np.testing.assert_allclose(found[0], 1 - sum(gradient for gradient, _ in both), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], -sum(bias for _, bias in both), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_accumulation_is_one_step_with_the_mean_gradient_which_is_then_clipped(name: str) -> None:
    found = steps(train(optimizer=name, learning_rate=0.5, gradient_accumulation=3, clip={"global_norm": 1.0}))
    weights = [keras.Variable(np.ones((4, 3), np.float32)), keras.Variable(np.zeros(3, np.float32))]
    made = keras.optimizers.get({"class_name": name, "config": {"learning_rate": 0.5}})
    made.build(weights)
    for first in (0, 3):
        means = [np.mean(parts[first : first + 3], axis=0) for parts in (GRADIENTS, BIASES)]
        made.apply([keras.ops.convert_to_tensor(part) for part in clipped("global_norm", 1.0, *means)])
    for one, two in zip(found, weights, strict=True):
        np.testing.assert_allclose(one, np.asarray(two), rtol=1e-4, atol=1e-5)


def test_accumulated_batches_train_as_one_batch_of_their_size() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 5)).astype(np.float32), rng.normal(size=(24, 1)).astype(np.float32)

    def trained(batch: int, accumulation: int) -> np.ndarray:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
        model.compile(optimizer(train(learning_rate=0.1, gradient_accumulation=accumulation)), "mse")
        model.fit(x, y, batch_size=batch, epochs=2, shuffle=False, verbose=0)
        return np.concatenate([np.ravel(weight) for weight in model.get_weights()])

    np.testing.assert_allclose(trained(4, 3), trained(12, 1), rtol=1e-3, atol=1e-4)


OWN = """
import keras

class Halving(keras.optimizers.SGD):
    def __init__(self, learning_rate, share=0.5):
        super().__init__(learning_rate * share)

def nothing(learning_rate):
    return None

def broken(learning_rate):
    raise KeyError("rate")
"""


def test_own_optimizer_is_called_with_rate_and_arguments_and_clips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_optimizer.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = {"kind": "own_optimizer.Halving", "share": 0.25}
    found = steps(train(optimizer=kind, learning_rate=1.0, clip={"value": 0.5}))
    expected = 1 - 0.25 * sum(np.clip(gradient, -0.5, 0.5) for gradient in GRADIENTS)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    with pytest.raises(TrainingError, match=r"own_optimizer.nothing returned NoneType, not a keras.optimizers.Optim"):
        optimizer(train(optimizer="own_optimizer.nothing"))
    with pytest.raises(
        TrainingError, match=r"train.optimizer: own_optimizer.broken raised KeyError: 'rate' \(.*:\d+\)"
    ):
        optimizer(train(optimizer="own_optimizer.broken"))


def test_accumulation_over_more_batches_than_there_are_is_refused_before_training_where_they_are_known() -> None:
    settings = train(gradient_accumulation=50, learning_rate={"schedule": "cosine", "initial": 0.1})
    with pytest.raises(TrainingError, match=r"gradient_accumulation: 50 batches .*\b6, "):
        optimizer(settings, batches=6)
    assert leftover_batches(train(gradient_accumulation=3), 6) == ()


def test_training_without_a_step_of_the_optimizer_fails(prepared: Callable[[str], Any], tmp_path: Path) -> None:
    """Without a cache the number of batches is known at the end."""
    settings = {"epochs": 1, "gradient_accumulation": 50, "input": {"cache": "none"}}
    with pytest.raises(TrainingError, match=r"training has 32, "):
        run_fn(prepared("binary").fn_args(tmp_path, **settings))
    assert not (tmp_path / "Format-Serving").exists()


def test_batches_whose_gradients_are_never_applied_are_reported(prepared: Callable[[str], Any], tmp_path: Path) -> None:
    record = train_alone(prepared("binary").fn_args(tmp_path, epochs=1, gradient_accumulation=5))
    (remark,) = record["remarks"]
    assert says(remark, "gradient_accumulation 5: the last 2 of 32 batches ")
