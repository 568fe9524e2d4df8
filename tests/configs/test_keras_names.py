"""The names of optimizers and activations are those of the installed Keras."""

from __future__ import annotations

import keras
import pytest

from configs.keras_names import ACTIVATIONS, OPTIMIZERS


def test_the_optimizers_are_those_of_keras_that_stand_alone() -> None:
    classes = [value for value in vars(keras.optimizers).values() if isinstance(value, type)]
    names = {value.__name__.lower() for value in classes if issubclass(value, keras.optimizers.Optimizer)}
    # lamb is a class that this Keras does not find by its name
    assert set(OPTIMIZERS) == names - {"optimizer", "lossscaleoptimizer", "multioptimizer", "lamb"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_keras_makes_each_optimizer_by_its_name(name: str) -> None:
    assert type(keras.optimizers.get(name)).__name__.lower() == name


def test_the_activations_are_those_of_keras() -> None:
    functions = {name for name, value in vars(keras.activations).items() if callable(value)}
    assert set(ACTIVATIONS) == functions - {"deserialize", "get", "serialize"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_keras_finds_each_activation_by_its_name(name: str) -> None:
    assert callable(keras.activations.get(name))
