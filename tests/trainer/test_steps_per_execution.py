"""How many steps run as one graph, where the config leaves it open."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from messages import says

from headrace.configs.schema.train import TrainConfig
from headrace.trainer.checkpointing.checkpoints import SavedCheckpoint, TrainingPosition
from headrace.trainer.fitting import MAX_ADDITIONAL_CALLS, STEPS_PER_EXECUTION, Training, choose_steps_per_execution
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.inputs import Inputs
from headrace.trainer.sections import TrainerSections

AUTO = TrainConfig()
STEPS = st.one_of(st.integers(1, 300), st.integers(1, 100_000))


def divides_best(number: int, steps: int) -> bool:
    return steps % number == 0 and not any(steps % more == 0 for more in range(number + 1, STEPS_PER_EXECUTION + 1))


@given(STEPS)
def test_one_iterator_serves_all_epochs_unless_that_takes_many_more_calls(steps: int) -> None:
    number, why = choose_steps_per_execution(AUTO, steps, one_iterator=True)
    few = math.ceil(steps / STEPS_PER_EXECUTION)
    assert 1 <= number <= min(steps, STEPS_PER_EXECUTION)
    assert math.ceil(steps / number) <= few + MAX_ADDITIONAL_CALLS
    best = next(size for size in range(STEPS_PER_EXECUTION, 0, -1) if steps % size == 0)
    assert number == (best if steps // best <= few + MAX_ADDITIONAL_CALLS else STEPS_PER_EXECUTION)
    assert f"{steps:,}" in why


@given(STEPS)
def test_with_an_iterator_for_each_epoch_calls_are_as_few_as_they_can_be(steps: int) -> None:
    assert choose_steps_per_execution(AUTO, steps, one_iterator=False).steps == min(steps, STEPS_PER_EXECUTION)


@given(st.integers(1, 100_000), STEPS | st.none(), st.booleans())
def test_a_given_number_of_steps_is_divided(steps_per_epoch: int, steps: int | None, one_iterator: bool) -> None:
    train = TrainConfig(steps_per_epoch=steps_per_epoch)
    assert divides_best(choose_steps_per_execution(train, steps, one_iterator=one_iterator).steps, steps_per_epoch)


@given(st.integers(1, 1000), STEPS | st.none(), st.booleans())
def test_the_configs_number_stands(number: int, steps: int | None, one_iterator: bool) -> None:
    train = TrainConfig(steps_per_execution=number)
    assert choose_steps_per_execution(train, steps, one_iterator=one_iterator).steps == number


@pytest.mark.parametrize(
    ("steps", "expected", "why"),
    [
        (47, 47, "at most 64, of 47 in an epoch"),
        (69, 23, "the largest …64 that divides the 69 of an epoch"),
        (1000, 50, "the largest …64 that divides the 1,000 of an epoch"),
        (67, 64, "at most 64, of 67 in an epoch, …divisors"),
        (1172, 64, "at most 64, of 1,172 in an epoch, …divisors"),
        (None, 64, "at most 64"),
    ],
)
def test_the_choice_says_why(steps: int | None, expected: int, why: str) -> None:
    chosen = choose_steps_per_execution(AUTO, steps, one_iterator=True)
    assert chosen[0] == expected
    assert says(chosen[1], why)


@pytest.mark.parametrize(("kept", "said"), [(23, "23: the largest number up to 64"), (16, "16: as before")])
def test_training_that_continues_keeps_its_number(kept: int, said: str) -> None:
    dataset = tf.data.Dataset.range(69)
    split = InputSplit(lambda: dataset, lambda: dataset, 69, 69, lambda: 69, lambda: dataset)
    label = {"key": "bought", "kind": "binary"}
    sections = TrainerSections.model_validate({"label": label, "features": {"amount": {"column": "numeric"}}})
    inputs = Inputs(split, split, "in memory")
    going_on = Training(sections, inputs, saved=SavedCheckpoint(Path("kept"), TrainingPosition(), {"together": kept}))
    assert going_on.steps_per_execution == kept
    assert going_on.chosen["steps_per_execution"].startswith(said)
    assert Training(sections, inputs).steps_per_execution == 23
