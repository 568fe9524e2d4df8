"""What the timing of calls in turn makes of ways whose speed is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from benchmarks.turns import Timed, calls_of_a_turn, in_turn, low, noise, place, shares


def _way(random: Random, step: float, calls: int, begin: float = 0.0) -> Callable[[], Timed]:
    """Calls of ten steps with noise that only adds, rarely much; the first of an epoch takes `begin` longer."""
    position = 0

    def call() -> Timed:
        nonlocal position
        at, position = position, (position + 1) % calls
        seconds = 10 * step * (1 + abs(random.gauss(0, 0.03))) + (begin if at == 0 else 0.0)
        return Timed(place(at, calls), seconds * (20 if random.random() < 0.1 else 1))

    return call


@pytest.mark.parametrize("calls", [1, 12])
def test_a_way_that_is_two_percent_slower_is_found_despite_larger_noise(calls: int) -> None:
    random = Random(0)
    kinds = {"control": _way(random, 0.01, calls), "ours": _way(random, 0.0102, calls)}
    turns = in_turn(kinds, seconds=0, calls=4, least=60)

    ratio = low(turns["ours"], shares(calls)) / low(turns["control"], shares(calls))

    assert noise(turns["control"], turns["ours"], shares(calls)) < 0.007
    assert ratio == pytest.approx(1.02, abs=0.014)


def test_what_the_first_call_of_an_epoch_takes_longer_counts_once_an_epoch() -> None:
    random = Random(0)
    kinds = {"control": _way(random, 0.01, 12), "ours": _way(random, 0.01, 12, begin=0.12)}
    turns = in_turn(kinds, seconds=0, calls=4, least=60)

    assert low(turns["ours"], shares(12)) / low(turns["control"], shares(12)) == pytest.approx(1.1, abs=0.014)


def test_kinds_take_turns_and_the_first_call_of_each_turn_does_not_count() -> None:
    calls: list[str] = []

    def named(name: str) -> Callable[[], Timed]:
        def call() -> Timed:
            calls.append(name)
            return Timed(1, float(len(calls)))

        return call

    turns = in_turn({"a": named("a"), "b": named("b")}, seconds=0, calls=2, least=2)

    assert "".join(calls) == "aaabbbbbbaaa"
    assert [[call.seconds for call in turn] for turn in turns["b"]] == [[5.0, 6.0], [8.0, 9.0]]


@pytest.mark.parametrize("epoch", [1, 2, 3, 4, 12, 23])
@pytest.mark.parametrize("wanted", [0, 1, 3, 11])
def test_every_place_of_an_epoch_is_timed_as_often_as_the_others(wanted: int, epoch: int) -> None:
    each = calls_of_a_turn(wanted, epoch)

    timed = [number % epoch for number in range(epoch * (each + 1)) if number % (each + 1)]

    assert set(Counter(timed).values()) == {each}


def test_an_epoch_of_one_call_has_neither_a_first_nor_a_last() -> None:
    assert [dict(shares(calls)) for calls in (1, 2, 5)] == [{1: 1}, {0: 1, 2: 1}, {0: 1, 1: 3, 2: 1}]
