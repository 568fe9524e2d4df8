"""Which steps are profiled, and what the Trainer leaves behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from messages import says
from pydantic import ValidationError
from trainings import train_alone

from headrace.components.profile.component import diagnose
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.train import ProfileConfig
from headrace.trainer.callbacks.checkpoint import Checkpoint
from headrace.trainer.profiling.facts import SESSIONS, ProfileFacts
from headrace.trainer.profiling.steps import profile_window
from headrace.trainer.run import run_fn
from headrace.trainer.sections import TrainerSections

EPOCH = 32
"""Steps in an epoch of the tests' data (2,000 examples) with batches of 64."""


@pytest.mark.parametrize(
    ("asked", "together", "epoch", "epochs", "chosen"),
    [
        ((50, 60), 1, 1000, 3, (50, 60)),
        ((50, 60), 16, None, 3, (50, 60)),
        ((1, 5), 1, 1000, 3, (2, 6)),  # the first execution is left out
        ((1, 5), 16, 1000, 3, (17, 21)),
        ((1, 5), 16, None, 3, (17, 21)),
        ((1, 5), 16, 16, 1, (1, 5)),  # there is no other
        ((5000, 5010), 1, 100, 3, (290, 300)),
        ((5000, 5200), 1, 100, 3, (201, 300)),  # no further back than the last epoch begins
        ((50, 60), 7, 7, 3, (15, 21)),
        ((5, 10), 64, 19, 3, (20, 25)),  # an execution has no more steps than its epoch
    ],
)
def test_the_steps_asked_for_become_steps_that_there_are(
    asked: tuple[int, int], together: int, epoch: int | None, epochs: int, chosen: tuple[int, int]
) -> None:
    found = profile_window(asked, together, epoch, epochs)
    assert (found.first, found.last) == chosen
    assert bool(found.note) == (chosen != asked or together == epoch)


@pytest.mark.parametrize(
    ("asked", "epoch", "chosen"),
    [
        ((150, 160), 99, (150, 160)),  # still to come
        ((20, 30), 99, (130, 140)),  # as far behind the checkpoint
        ((100, 120), 99, (178, 198)),  # of what is left
        ((100, 120), None, (210, 230)),
        ((110, 112), 99, (196, 198)),
        ((111, 113), 99, (127, 129)),  # behind the first execution
    ],
)
def test_steps_are_counted_from_the_beginning_where_training_continues(
    asked: tuple[int, int], epoch: int | None, chosen: tuple[int, int]
) -> None:
    found = profile_window(asked, 16, epoch, 2, 110)
    assert (found.first, found.last) == chosen
    assert bool(found.note) == (chosen != asked)


class KilledError(Exception):
    """Stands for SIGKILL."""


class Killed(Checkpoint):
    """Ends the training at batch 45."""

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        if self.batches >= 45:
            raise KilledError


@pytest.fixture(scope="module")
def killed(prepared: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a training that was killed behind step 40 of 96, and had profiled steps 5 to 8."""
    folder = tmp_path_factory.mktemp("killed")
    given = resumable(prepared, folder, [5, 8])
    given.custom_config["checkpoints"] = str(folder / "checkpoints")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.trainer.fitting.Checkpoint", Killed)
        with pytest.raises(KilledError):
            run_fn(given)
    return folder / "checkpoints"


def resumable(prepared: Callable[[str], Any], folder: Path, steps: list[int]) -> Any:
    settings = {"early_stopping": None, "epochs": 3, "steps_per_execution": 2, "checkpoint": {"every_steps": 20}}
    return prepared("binary").fn_args(folder, profile={"batches": steps}, jit="off", **settings)


@pytest.mark.parametrize(
    ("asked", "profiled", "note"),
    [
        ([5, 8], [5, 7], ""),  # before it was killed
        ([70, 73], [69, 71, 73], ""),
        ([10, 12], [49, 51], "…after step 40, …not 10 to 12"),
    ],
)
def test_training_that_continues_has_a_profile_of_steps_that_were_made(
    prepared: Callable[[str], Any], tmp_path: Path, killed: Path, asked: list[int], profiled: list[int], note: str
) -> None:
    shutil.copytree(killed, tmp_path / "checkpoints")
    given = resumable(prepared, tmp_path, asked)
    given.custom_config["checkpoints"] = str(tmp_path / "checkpoints")
    train_alone(given)
    facts = ProfileFacts.read(tmp_path / "run")
    assert [one.step for one in facts.executions] == profiled
    assert says(facts.note, note)
    assert bool(facts.note) is bool(note)
    verdict = diagnose(tmp_path / "run")
    assert verdict.split is not None
    assert verdict.split.compute > 0.02  # steps that are passed over compute nothing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "profiled"),
    [
        ([5, 10], (EPOCH + 1, "the first execution was left out")),
        (
            [5000, 5010],
            (2 * EPOCH + 1, "…only 96 steps, …not 5,000 to 5,010"),
        ),
    ],
)
def test_small_data_without_a_cache_is_profiled_once_the_first_epoch_has_shown_its_length(
    prepared: Callable[[str], Any], tmp_path: Path, asked: list[int], profiled: tuple[int, str]
) -> None:
    """An execution may have 64 steps, and the whole epoch has 32, which nobody knows before its end."""
    run = trained(prepared, tmp_path, epochs=3, input={"cache": "none"}, profile={"batches": asked})
    facts = ProfileFacts.read(run)
    assert [(one.step, one.steps) for one in facts.executions] == [(profiled[0], EPOCH)]
    assert says(facts.note, profiled[1])


def trained(prepared: Callable[[str], Any], folder: Path, **train: Any) -> Path:
    """A training of the tests' data; its model_run."""
    train_alone(arguments(prepared, folder, **train))
    return folder / "run"


def arguments(prepared: Callable[[str], Any], folder: Path, **train: Any) -> Any:
    return prepared("binary").fn_args(folder, batch_size=64, early_stopping=None, **train)


@pytest.mark.slow
def test_whole_executions_are_profiled_where_tensorboard_looks(prepared: Callable[[str], Any], tmp_path: Path) -> None:
    run = trained(prepared, tmp_path, epochs=3, profile={"batches": [50, 60]}, steps_per_execution=8)
    facts = ProfileFacts.read(run)
    assert [(one.step, one.steps) for one in facts.executions] == [(49, 8), (57, 8)]
    assert facts.note == ""
    assert facts.cache == "memory"
    assert facts.examples == 2000
    spec = prepared("binary").output.transformed_feature_spec()
    assert facts.parsed_bytes == 2000 * sum(column.dtype.size for column in spec.values())
    (profile,) = (run / SESSIONS).glob("*/*.xplane.pb")
    assert profile.stat().st_size > 10_000
    assert (facts.jit_measured, facts.updated_rows) == (False, ())  # it is short, and has small tables


@pytest.mark.slow
def test_facts_say_that_xla_was_measured_and_which_tables_were_updated_by_rows(
    prepared: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training of seconds that is measured as if a minute of it were left."""
    monkeypatch.setattr("headrace.trainer.callbacks.jit.ESTIMATE_AFTER", 0.0)
    monkeypatch.setattr("headrace.trainer.callbacks.jit.WORTHWHILE_FROM", 0.0)
    given = arguments(
        prepared, tmp_path, epochs=3, profile={"batches": [5, 6]}, steps_per_execution=2, embedding_updates="rows"
    )
    chosen, facts = train_alone(given)["chosen"], ProfileFacts.read(tmp_path / "run")
    assert "; measured in" in chosen["jit"]
    assert facts.jit_measured
    assert facts.updated_rows
    assert chosen["embedding_updates"] == f"rows of {', '.join(facts.updated_rows)}"


@pytest.mark.slow
def test_short_last_executions_are_counted_right_without_a_cache(
    prepared: Callable[[str], Any], tmp_path: Path
) -> None:
    """Keras does not know how many steps an epoch has, and the third execution of an epoch has 8 of 12."""
    run = trained(
        prepared,
        tmp_path,
        epochs=3,
        input={"cache": "none"},
        profile={"batches": [EPOCH + 25, EPOCH + 25]},
        steps_per_execution=12,
        precision="mixed_float16",  # its optimizer counts inside another
    )
    facts = ProfileFacts.read(run)
    assert [(one.step, one.steps) for one in facts.executions] == [(EPOCH + 25, 8)]
    assert facts.cache == "none"
    assert facts.examples == 2000


@pytest.mark.usefixtures("at_once")
@pytest.mark.slow
def test_a_training_over_several_devices_is_profiled_too(
    prepared: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_VIRTUAL_CPUS", "2")
    run_fn(arguments(prepared, tmp_path, epochs=2, strategy="mirrored", profile={"batches": [50, 60]}))
    run = tmp_path / "run"
    assert [(one.step, one.steps) for one in ProfileFacts.read(run).executions] == [(EPOCH + 1, EPOCH)]
    verdict = diagnose(run)
    assert verdict.xprof_input is not None
    assert verdict.split is not None
    assert verdict.split.compute > 0


@pytest.mark.slow
def test_a_training_that_ends_before_says_so(prepared: Callable[[str], Any], tmp_path: Path) -> None:
    run = trained(prepared, tmp_path, epochs=1, input={"cache": "none"}, profile={"batches": [5000, 5010]})
    assert ProfileFacts.read(run).note == f"training ended after {EPOCH} steps, before step 5,000"
    assert not (run / SESSIONS).exists()


@pytest.mark.slow
def test_a_training_without_a_profile_leaves_none(prepared: Callable[[str], Any], tmp_path: Path) -> None:
    run = trained(prepared, tmp_path, epochs=1)
    assert not (run / SESSIONS).exists()
    with pytest.raises(FileNotFoundError):
        ProfileFacts.read(run)


def test_a_range_goes_forward() -> None:
    with pytest.raises(ValidationError, match="the first step, 60, is after the last, 50"):
        ProfileConfig.model_validate_json('{"batches": [60, 50]}')


def test_the_limit_is_none_of_the_trainers_business() -> None:
    def sections(profile: dict[str, Any] | None) -> TrainerSections:
        config = {
            "pipeline": {"name": "trips"},
            "data": {"source": {"kind": "csv", "path": "x.csv"}},
            "label": {"key": "tip", "kind": "binary"},
            "features": {"fare": {"column": "numeric"}},
            "train": {"profile": profile},
        }
        return TrainerSections.of(PipelineConfig.model_validate_json(json.dumps(config)))

    assert sections({"fail_if_input_bound_above": 0.2}) == sections({})
    assert sections({"batches": [7, 9]}) != sections({})
    assert sections(None) != sections({})
