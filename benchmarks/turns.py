"""Compares the speed of several ways to do the same on a machine with other work, by alternating their calls.

    turns = in_turn({"ours": ours.call, "control": control.call}, seconds=60, calls=5, least=8)
    low(turns["ours"], shares)                          # seconds of an epoch of ours, with little other work
    noise(turns["control"], turns["ours"], shares)      # the standard deviation of their ratio

Other work only adds time, and short calls find the moments without it, so a low percentile of the calls is used.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

LOW = 0.1
"""The percentile that counts, as a fraction of the calls."""
DRAWS = 200
"""Bootstrap draws for the noise."""


class Timed(NamedTuple):
    """A call: its place in an epoch (see `place`), and its seconds."""

    place: int
    seconds: float


Turn = Sequence[Timed]
"""Consecutive calls of one kind."""


def place(position: int, calls: int) -> int:
    """The place of a call in an epoch of `calls`: 0 for the first, which may do more, 2 for the last, which may be
    short, else 1.
    """
    return (position > 0) + (position == calls - 1)


def shares(calls: int) -> Mapping[int, int]:
    """How many calls of each place an epoch has."""
    return Counter(place(position, calls) for position in range(calls))


def in_turn(
    kinds: Mapping[str, Callable[[], Timed]], seconds: float, calls: int, least: int = 1
) -> dict[str, list[Turn]]:
    """Alternate between the kinds for the given seconds, with `calls` calls in each turn.

    One more call at the start of a turn is not counted; it fills the processor's caches. All kinds have the same number
    of turns, at least `least`.
    """
    turns: dict[str, list[Turn]] = {kind: [] for kind in kinds}
    order, end = list(kinds), time.monotonic() + seconds
    while time.monotonic() < end or len(turns[order[0]]) < least:
        for kind in order:
            kinds[kind]()
            turns[kind].append([kinds[kind]() for _ in range(calls)])
        order.reverse()
    return turns


def calls_of_a_turn(wanted: int, calls: int) -> int:
    """About `wanted` calls, such that a turn does not divide an epoch and so covers all places."""
    wanted = max(wanted, 1)
    while math.gcd(wanted + 1, calls) > 1:
        wanted += 1
    return wanted


def low(turns: Sequence[Turn], shares: Mapping[int, int]) -> float:
    """Seconds of an epoch. Raises ValueError if no call of one of its places was timed."""
    return sum(share * _low(turns, place) for place, share in shares.items())


def noise(one: Sequence[Turn], other: Sequence[Turn], shares: Mapping[int, int]) -> float:
    """The standard deviation of the ratio of two kinds, over bootstrap draws of their paired turns."""
    random, pairs, ratios = Random(0), list(zip(one, other, strict=True)), list[float]()
    while len(ratios) < DRAWS:
        drawn = zip(*random.choices(pairs, k=len(pairs)), strict=True)
        try:
            first, second = (low(turns, shares) for turns in drawn)
        except ValueError:  # none of one place was drawn
            continue
        ratios.append(first / second)
    return statistics.stdev(ratios)


def _low(turns: Sequence[Turn], place: int) -> float:
    times = sorted(call.seconds for turn in turns for call in turn if call.place == place)
    if not times:
        raise ValueError(place)
    return times[int(LOW * len(times))]
