"""The names of optimizers, their arguments and activations are those of the installed Keras."""

from __future__ import annotations

import inspect

import keras
import pytest

from headrace.configs.rules.keras_names import (
    ACTIVATIONS,
    OPTIMIZER_ARGUMENTS,
    OPTIMIZERS,
    SET_ELSEWHERE,
    SHARED_ARGUMENTS,
)


def test_the_optimizers_are_those_of_keras_that_stand_alone() -> None:
    classes = [value for value in vars(keras.optimizers).values() if isinstance(value, type)]
    names = {value.__name__.lower() for value in classes if issubclass(value, keras.optimizers.Optimizer)}
    # lamb is a class that this Keras does not find by its name
    assert set(OPTIMIZERS) == names - {"optimizer", "lossscaleoptimizer", "multioptimizer", "lamb"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_keras_makes_each_optimizer_by_its_name(name: str) -> None:
    assert type(keras.optimizers.get(name)).__name__.lower() == name


DEFAULTS: dict[str, tuple[type, ...]] = {
    "number": (float, int),
    "integer": (int,),
    "true or false": (bool,),
    "number or null": (float, type(None)),
    "integer or null": (int, type(None)),
    "list of strings or null": (type(None),),
}
"""For what is allowed for an argument, the types that Keras' default may have."""


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_arguments_are_those_of_keras_and_their_kinds_those_of_its_defaults(name: str) -> None:
    parameters = dict(inspect.signature(type(keras.optimizers.get(name)).__init__).parameters)
    arguments = OPTIMIZER_ARGUMENTS[name] | SHARED_ARGUMENTS
    assert set(arguments) == parameters.keys() - SET_ELSEWHERE.keys() - {"self", "name", "kwargs"}
    assert SET_ELSEWHERE.keys() <= parameters.keys()
    for argument, kind in arguments.items():
        assert type(parameters[argument].default) in DEFAULTS[kind], argument


def test_the_activations_are_those_of_keras() -> None:
    functions = {name for name, value in vars(keras.activations).items() if callable(value)}
    assert set(ACTIVATIONS) == functions - {"deserialize", "get", "serialize"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_keras_finds_each_activation_by_its_name(name: str) -> None:
    assert callable(keras.activations.get(name))
