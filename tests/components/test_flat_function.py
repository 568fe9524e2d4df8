"""One function in place of those that it calls computes what they do, and runs what they run, in their order."""

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef

from headrace.components.flat_function import CALLS, flat_function
from headrace.trainer.private_api import add_function, call_function, remove_function

MATRIX = tf.TensorSpec([None, 2], tf.float32, "x")
AS_THEY_ARE = tf.compat.v1.ConfigProto()


@tf.function(autograph=False)
def scaled(x: tf.Tensor, by: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    tf.debugging.assert_less(x, 100.0, "too large")
    return x * by, tf.linalg.matmul(x, x, transpose_b=True)


@tf.function(autograph=False)
def halves(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    first, products = scaled(x, 0.5)
    second, _ = scaled(first, 0.5)
    return x, second, tf.reduce_sum(products)


@tf.function(input_signature=[MATRIX], autograph=False)
def outer(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
    same, quarter, total = halves(x)
    return tf.cond(total > 0, lambda: quarter + 1, lambda: quarter - 1), same, total, tf.nn.relu(quarter)


def definitions(function: tf.types.experimental.ConcreteFunction) -> tuple[FunctionDef, dict[str, FunctionDef]]:
    library = function.graph.as_graph_def().library.function
    return function.function_def, {one.signature.name: one for one in library}


@pytest.fixture
def added() -> Iterator[list[str]]:
    names: list[str] = []
    yield names
    for name in names:
        remove_function(name)


def flat_of(function: tf.types.experimental.ConcreteFunction, outputs: list[int], added: list[str]) -> FunctionDef:
    top, functions = definitions(function)
    name = f"headrace_flat_{'_'.join(map(str, outputs))}_of_{top.signature.name}"
    flat = flat_function(top, functions, outputs, name)
    add_function(flat)
    added.append(name)
    return flat


def operations(function: FunctionDef) -> list[str]:
    return [node.op for node in function.node_def]


@pytest.mark.parametrize("outputs", [[0], [1], [2], [3], [3, 0], [0, 1, 2, 3]])
def test_any_outputs_are_those_of_the_functions_that_are_inlined(outputs: list[int], added: list[str]) -> None:
    concrete = outer.get_concrete_function()
    flat = flat_of(concrete, outputs, added)
    assert CALLS.isdisjoint(operations(flat))
    x = tf.constant(np.random.default_rng(3).normal(size=(4, 2)), tf.float32)
    wanted = concrete(x)
    found = call_function(flat.signature.name, [x], len(outputs), AS_THEY_ARE)
    for number, one in zip(outputs, found, strict=True):
        np.testing.assert_allclose(one.numpy(), wanted[number].numpy(), 1e-6)


def test_what_only_other_outputs_need_is_left_out_but_not_what_is_asserted(added: list[str]) -> None:
    concrete = outer.get_concrete_function()
    assert {"MatMul", "Relu", "StatelessIf"} <= {*operations(flat_of(concrete, [0, 1, 2, 3], added))}
    flat = flat_of(concrete, [1], added)
    assert {"MatMul", "Relu", "StatelessIf"}.isdisjoint(operations(flat))
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        call_function(flat.signature.name, [tf.fill([3, 2], 100.0)], 1, AS_THEY_ARE)


def test_what_a_call_waits_for_still_comes_first(added: list[str]) -> None:
    total = tf.Variable(1.0)

    @tf.function(autograph=False)
    def add(amount: tf.Tensor) -> tf.Tensor:
        return total.assign_add(amount)

    @tf.function(autograph=False)
    def add_twice(amount: tf.Tensor) -> tf.Tensor:
        add(amount)
        total.assign(total * 10)
        return add(amount)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)], autograph=False)
    def outermost(amount: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        before = total + 0
        add_twice(amount)
        total.assign(total * 2)
        return add_twice(amount), before

    flat = flat_of(outermost.get_concrete_function(), [1], added)
    (before,) = call_function(flat.signature.name, [tf.constant(1.0), total.handle], 1, AS_THEY_ARE)
    assert before.numpy() == 1
    assert total.numpy() == 431  # ((1 + 1) * 10 + 1) * 2 = 42; (42 + 1) * 10 + 1
    assert CALLS.isdisjoint(operations(flat))


def test_a_function_that_must_stay_one_is_still_called(added: list[str]) -> None:
    @tf.function(autograph=False, experimental_attributes={"_noinline": True})
    def double(x: tf.Tensor) -> tf.Tensor:
        return 2 * x

    @tf.function(input_signature=[MATRIX], autograph=False)
    def above(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return double(x) + 1, x

    concrete = above.get_concrete_function()
    flat = flat_of(concrete, [0], added)
    assert len(CALLS.intersection(operations(flat))) == 1
    (found,) = call_function(flat.signature.name, [tf.ones([1, 2])], 1, AS_THEY_ARE)
    assert found.numpy().tolist() == [[3, 3]]
    assert not CALLS.intersection(operations(flat_of(concrete, [1], added)))


def test_many_calls_that_each_wait_for_two_others_are_inlined_too(added: list[str]) -> None:
    totals = [tf.Variable(float(place)) for place in range(3)]

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)], autograph=False)
    def chain(amount: tf.Tensor) -> tf.Tensor:
        for place in range(60):
            one, other = totals[place % 3], totals[(place + 1) % 3]

            @tf.function(autograph=False)
            def add(amount: tf.Tensor, one: tf.Variable = one, other: tf.Variable = other) -> tf.Tensor:
                one.assign_add(amount)
                return other.assign_add(one)

            add(amount)
        return amount + 1

    concrete = chain.get_concrete_function()
    flat = flat_of(concrete, [0], added)
    wanted = np.array([0.0, 1.0, 2.0], np.float32)
    for place in range(60):
        wanted[place % 3] += np.float32(1e-3)
        wanted[(place + 1) % 3] += wanted[place % 3]
    call_function(flat.signature.name, [tf.constant(1e-3), *concrete.captured_inputs], 1, AS_THEY_ARE)
    np.testing.assert_allclose([total.numpy() for total in totals], wanted, 1e-5)
    assert CALLS.isdisjoint(operations(flat))
