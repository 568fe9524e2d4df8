"""Which kills of a campaign count, and which components the next ones aim at."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from drawn_kills import PER_NIGHT, Kills
from dying_run import START

from headrace.pipeline.results.record import NodeRecord, RunRecord, Status

CHANGES = Counter({("command", START): 33, ("command", "Spans"): 24, ("component", "Spans"): 20})


def record(**statuses: Status) -> RunRecord:
    nodes = [NodeRecord(id_, status=status, started=1.0, finished=1.5) for id_, status in statuses.items()]
    return RunRecord("1", "nightly", "nightly.yaml", started=0.0, nodes=nodes)


@pytest.fixture
def kills() -> Kills:
    return Kills("nightly", each=3, draw=random.Random(1))


def test_component_dies_at_most_twice_a_night_and_not_once_more_than_it_has_to(kills: Kills) -> None:
    for most in (PER_NIGHT, 1, 0):
        night, nights_deaths = kills.night(record(Spans=Status.DONE), CHANGES), 0
        while night.due:
            assert {moment.component for moment in night.due} == {START, "Spans"}
            night.count([START, "Spans"], record(Spans=Status.RUNNING))
            nights_deaths += 1
        assert nights_deaths == most
    assert (kills.counts, kills.missed, kills.too_late) == ({START: 3, "Spans": 3}, {}, 0)


def test_moments_are_those_of_a_run_like_the_undisturbed_one(kills: Kills) -> None:
    drawn = [moment for _ in range(200) for moment in kills.night(record(Spans=Status.DONE), CHANGES).due]
    assert all(moment.at < CHANGES[moment.process, moment.component] for moment in drawn)
    assert max(moment.after for moment in drawn) <= 0.5
    for component, numbers in ((START, 33), ("Spans", 20)):
        process = "command" if component == START else "component"
        found = {moment.at for moment in drawn if (moment.component, moment.process) == (component, process)}
        assert len(found) > numbers * 0.8


def test_death_within_a_component_that_had_ended_does_not_count(kills: Kills) -> None:
    night = kills.night(record(Spans=Status.DONE), CHANGES)
    night.count(["Spans"], record(Spans=Status.DONE))
    night.count(["Spans"], None)  # killed before there was a record
    assert (kills.missed, kills.too_late) == ({START: 3, "Spans": 2}, 1)


def test_component_that_no_moment_hits_is_named(kills: Kills) -> None:
    for _ in range(5):
        night = kills.night(record(Spans=Status.DONE, Drift=Status.CACHED), CHANGES)
        while night.due:
            at_start = any(moment.component == START for moment in night.due)
            night.count([START] if at_start else [], record(Spans=Status.DONE))
    assert kills.missed == {"Spans": 3, "Drift": 3}
    assert kills.counts[START] == 3
