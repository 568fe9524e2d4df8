"""What the verdict on a profile advises, and what it names as the cause."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from headrace.components.profile.advice import TrainingProfile, advise, explain_waits
from headrace.components.profile.result import TimeShares
from headrace.components.profile.trace import PARSING, READING, STARTING
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.profiling.facts import ProfiledExecution, ProfileFacts

FACTS = ProfileFacts(
    asked=(50, 60),
    cores=4,
    parsed_bytes=38_000_000,
    free_bytes=21_000_000_000,
    free_disk_bytes=100_000_000_000,
    examples=100_000,
)
CACHED = FACTS.model_copy(update={"cache": "memory"})
WAITING = TimeShares(input=0.6, host=0.1, compute=0.3, idle=0.0)
LAUNCHING = TimeShares(input=0.01, host=0.93, compute=0.06, idle=0.0)


def situation(
    facts: ProfileFacts = FACTS,
    split: TimeShares = WAITING,
    stages: Any = None,
    copying: float | None = None,
    **train: Any,
) -> TrainingProfile:
    """copying: None without an accelerator."""
    config = TrainConfig.model_validate_json(json.dumps(train))
    return TrainingProfile(
        split, facts, stages or {}, config, copying is not None, step_seconds=0.01, copying=copying or 0.0
    )


def settings(facts: ProfileFacts = FACTS, **more: Any) -> dict[str, str]:
    """The changes advised, in their order."""
    return {change.setting: change.to for change in advise(situation(facts, **more))}


def test_what_fits_goes_to_memory_and_what_does_not_to_disk() -> None:
    assert settings(input={"cache": "none"})["train.input.cache"] == "memory"
    large = FACTS.model_copy(update={"parsed_bytes": 20_000_000_000})
    assert settings(large, input={"cache": "none"})["train.input.cache"] == "disk"
    on_disk = FACTS.model_copy(update={"cache": "disk"})
    assert settings(on_disk, input={"cache": "disk"})["train.input.cache"] == "memory"
    assert "train.input.cache" not in settings(large.model_copy(update={"cache": "disk"}), input={"cache": "disk"})
    assert not any(name.startswith("train.input") for name in settings(CACHED))


def test_columns_are_not_to_be_cached_since_nothing_is_parsed() -> None:
    columns = FACTS.model_copy(update={"columns": True})
    named = settings(columns, input={"cache": "none", "threads": 1})
    assert named["train.input.threads"] == "auto"
    assert named.keys().isdisjoint({"train.input.cache", "train.input.snapshot"})
    assert "parsed" not in explain_waits(situation(columns, input={"cache": "none"}))


@pytest.mark.parametrize(
    ("facts", "train"),
    [
        ({}, {"input": {"cache": "auto"}}),  # which has looked for room
        ({"parsed_bytes": None}, {"input": {"cache": "auto"}}),
        ({"parsed_bytes": 200_000_000_000}, {"input": {"cache": "none"}}),  # more than half of the disk
        ({"parsed_bytes": 20_000_000_000}, {"input": {"cache": "none", "snapshot": "/kept"}}),
        ({}, {"steps_per_epoch": 50, "input": {"service": {"address": "grpc://host:1", "sharding": "off"}}}),
        (
            {},
            {
                "steps_per_epoch": 50,
                "input": {"cache": "none", "service": {"address": "grpc://host:1", "sharding": "off"}},
            },
        ),
    ],
)
def test_no_cache_is_advised_that_would_be_refused_or_was_weighed_already(facts: Any, train: Any) -> None:
    assert "train.input.cache" not in settings(FACTS.model_copy(update=facts), **train)


def test_settings_that_hold_the_input_back_are_named() -> None:
    held = settings(input={"cache": "none", "threads": 1, "prefetch": 0}, steps_per_execution=1)
    assert list(held) == [f"train.input.{name}" for name in ("cache", "snapshot", "threads", "prefetch")] + [
        "train.steps_per_execution"
    ]
    assert held["train.input.prefetch"] == "auto"
    assert "train.input.threads" not in settings(input={"cache": "none", "threads": 4})


def short_epochs(steps: int) -> ProfileFacts:
    """Facts of a training whose epochs have this many steps, of which one was seen whole."""
    execution = ProfiledExecution(step=steps + 1, steps=steps, seconds=0.1)
    return CACHED.model_copy(update={"executions": (execution,), "examples": steps * 1024, "steps_per_execution": 64})


BEGINNING = {STARTING: 0.9, PARSING: 0.1}


def test_short_epochs_ask_for_longer_ones() -> None:
    short = short_epochs(32)
    assert settings(short, stages=BEGINNING)["train.steps_per_epoch"] == "160"
    assert "train.steps_per_epoch" not in settings(short, stages=BEGINNING, steps_per_epoch=32)
    long = short.model_copy(update={"examples": 10_000_000})
    assert "train.steps_per_epoch" not in settings(long, stages=BEGINNING)  # an epoch has 9,766, of which 32 were seen


@pytest.mark.parametrize(
    ("train", "longer", "fewer"),
    [
        ({"epochs": 30}, 510, 3),
        ({"epochs": 4}, 204, 1),
        ({"epochs": 30, "steps_per_execution": 50}, 500, 3),  # which has to divide steps_per_epoch
        ({"epochs": 1}, None, None),  # one iterator only, and none to save
    ],
)
def test_longer_epochs_are_fewer_so_that_the_training_is_as_long_as_it_was(train: Any, longer: Any, fewer: Any) -> None:
    advised = {change.setting: change for change in advise(situation(short_epochs(51), stages=BEGINNING, **train))}
    change = advised.get("train.steps_per_epoch")
    if longer is None:
        assert change is None
        return
    assert change is not None
    assert change.to == str(longer)
    assert f"`train.epochs: {fewer}`" in change.why
    assert longer * fewer == pytest.approx(51 * train["epochs"], rel=0.02)


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ({"parsing examples": 0.7, "shuffling": 0.3}, "most of the input's work is parsing examples (70%)"),
        (
            {"the operation Gather in a map": 0.21, **{f"stage {number}": 0.1 for number in range(8)}},
            "the largest part of the input's work is the operation Gather in a map (21%)",
        ),
    ],
)
def test_the_largest_part_is_called_most_only_where_it_is(stages: dict[str, float], words: str) -> None:
    assert explain_waits(situation(CACHED, stages=stages)) == words


def test_copies_to_the_accelerator_are_not_a_reason_to_read_faster() -> None:
    starved: dict[str, Any] = {"input": {"cache": "none", "threads": 1, "prefetch": 0}, "steps_per_execution": 64}
    facts = FACTS.model_copy(update={"steps_per_execution": 64})
    advised = settings(facts, copying=0.59, **starved)
    assert list(advised) == ["train.input.prefetch", "train.precision"]
    why = explain_waits(situation(facts, copying=0.59, **starved))
    assert "accelerator" in why
    assert "59% of the time" in why
    assert ";" not in why  # there is no other reason
    computing = TimeShares(input=0.0, host=0.1, compute=0.9, idle=0.0)
    advised = settings(facts, split=computing, copying=0.0, jit="off", **starved)
    assert (advised["train.precision"], advised["train.jit"]) == ("mixed_bfloat16", "auto")


def test_xla_is_advised_where_an_accelerator_waits_for_the_host() -> None:
    facts = CACHED.model_copy(update={"steps_per_execution": 64})
    first = advise(situation(facts, split=LAUNCHING, copying=0.0))[0]
    assert (first.setting, first.to, first.gain) == ("train.jit", "on", 0.93)
    assert settings(facts, split=LAUNCHING, copying=0.0, jit="off")["train.jit"] == "auto"
    several = dataclasses.replace(situation(facts, split=LAUNCHING, copying=0.0), several_devices=True)
    assert "train.jit" not in {change.setting for change in advise(several)}
    refused: list[dict[str, Any]] = [{"jit": "on"}, {"strategy": "mirrored"}]
    for train in refused:
        assert "train.jit" not in settings(facts, split=LAUNCHING, copying=0.0, **train)
    assert "train.jit" not in settings(facts, split=LAUNCHING)  # a CPU
    computing = TimeShares(input=0.0, host=0.1, compute=0.9, idle=0.0)
    assert "train.jit" not in settings(facts, split=computing, copying=0.0)


@pytest.mark.parametrize(
    ("facts", "train"),
    [
        ({"jit_measured": True}, {"jit": "auto"}),  # XLA was slower, or could not compile the steps, or is in use
        ({}, {"embedding_updates": "rows"}),  # which `jit: on` refuses
    ],
)
def test_xla_is_not_advised_where_it_was_measured_or_would_be_refused(facts: Any, train: Any) -> None:
    measured = CACHED.model_copy(update={"steps_per_execution": 64, **facts})
    assert "train.jit" not in settings(measured, split=LAUNCHING, copying=0.0, **train)


def test_xla_is_advised_with_what_it_costs_tables_that_are_updated_by_rows() -> None:
    changes = {}
    for tables in ((), ("a/table (59,200,000 weights)", "b/table (2,000,000 weights)")):
        facts = CACHED.model_copy(update={"steps_per_execution": 64, "updated_rows": tables})
        changes[tables] = advise(situation(facts, split=LAUNCHING, copying=0.0))[0]
        assert (changes[tables].setting, changes[tables].to) == ("train.jit", "on")
    none, some = (change.why for change in changes.values())
    assert "embedding" not in none
    assert "updates all weights of embedding tables" in some
    assert some.endswith("a/table (59,200,000 weights), b/table (2,000,000 weights)")


def test_checkpoints_that_hold_steps_up_are_asked_for_less_often_than_the_training_made_them() -> None:
    waits = TimeShares(input=0.0, host=0.0, compute=0.5, idle=0.5)
    often = FACTS.model_copy(update={"steps_per_execution": 64, "checkpoint_steps": 100})
    assert settings(often, split=waits) == {"train.checkpoint.every_steps": "400"}
    assert settings(often.model_copy(update={"checkpoint_steps": None}), split=waits) == {}


def test_calls_from_python_ask_for_more_steps_in_one_graph() -> None:
    called = TimeShares(input=0.0, host=0.5, compute=0.5, idle=0.0)
    assert settings(split=called, steps_per_execution=1) == {"train.steps_per_execution": "auto"}
    many = FACTS.model_copy(update={"steps_per_execution": 64})
    assert settings(many, split=called) == {}


@pytest.mark.parametrize(
    ("together", "train"),
    [
        (1, {"steps_per_execution": "auto", "steps_per_epoch": 101}),  # a prime, so that no more fit
        (9, {"steps_per_execution": "auto"}),
        (9, {"steps_per_execution": 9, "steps_per_epoch": 9}),  # all of an epoch
    ],
)
def test_no_advice_to_set_what_is_set_or_would_change_nothing(together: int, train: Any) -> None:
    called = TimeShares(input=0.0, host=0.5, compute=0.5, idle=0.0)
    few = FACTS.model_copy(update={"steps_per_execution": together})
    assert "train.steps_per_execution" not in settings(few, split=called, **train)


SERVICES: dict[str | None, dict[str, Any]] = {
    None: {},
    "dynamic": {"service": "grpc://host:1"},
    "off": {"service": {"address": "grpc://host:1", "sharding": "off"}},
}


@pytest.mark.parametrize("served", SERVICES)
@pytest.mark.parametrize("snapshot", [None, "/kept"])
@pytest.mark.parametrize("cache", ["none", "memory", "disk"])
def test_what_is_said_of_the_input_is_true_of_each_cache_snapshot_and_service(
    served: str | None, snapshot: str | None, cache: str
) -> None:
    if served == "off" and (snapshot or cache != "none"):
        return  # refused by the config's rules
    kept = "none" if cache == "disk" and snapshot else cache  # as `Sources.cache` has it
    facts = FACTS.model_copy(update={"cache": kept})
    config = {"cache": cache, **({"snapshot": snapshot} if snapshot else {}), **SERVICES[served]}
    now = situation(facts, stages={READING: 0.9, PARSING: 0.1}, input=config, steps_per_epoch=50)
    why, advised = explain_waits(now), {change.setting for change in advise(now)}
    parses_each_epoch = kept == "none" and snapshot is None
    assert ("parse" in why.partition(";")[0] and "snapshot" not in why) is parses_each_epoch
    assert ("snapshot" in why) is (kept == "none" and snapshot is not None)
    assert ("service" in why) is (parses_each_epoch and served is not None)
    assert ("every epoch" in why) is (kept == "none" and served != "off")
    assert ("train.input.snapshot" in advised) is (parses_each_epoch and served != "off")
    assert ("train.input.deterministic" in advised) is (parses_each_epoch and served != "off")
    assert ("train.input.cache" in advised) is (kept != "memory" and served != "off")
