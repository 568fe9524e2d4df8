"""Epochs, batch size and patience that are `auto`: chosen from the number of examples, once, and recorded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trainings import train_alone

from headrace.configs.schema.features import CrossedFeature, NumericFeature
from headrace.configs.schema.features.base import FeatureBase
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.table_model import TableModel
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.budget import Budget, choose_batch_size, choose_epochs, choose_patience, scores_of_row
from headrace.trainer.callbacks.epoch_log import Epoch
from headrace.trainer.fitting import still_falling
from headrace.trainer.job import Job, job_digest

Prepare = Callable[[str], Any]


@pytest.mark.parametrize(
    ("examples", "batch_size"),
    [(0, 1024), (1, 32), (100, 32), (4095, 32), (4096, 64), (15_002, 128), (65_536, 1024), (10_000_000, 1024)],
)
def test_an_epoch_has_64_steps_of_a_power_of_two_as_far_as_the_limits_allow(examples: int, batch_size: int) -> None:
    assert choose_batch_size(examples) == batch_size


@pytest.mark.parametrize(
    ("examples", "row_scores", "batch_size"),
    [
        (100, 51 * 100, 32),  # small enough
        (65_536, 51 * 100, 1024),
        (65_536, 51 * 10_000, 32),
        (0, 51 * 10_000, 32),
        (65_536, 51 * 20_000, 16),
        (65_536, 51 * 1_000_000, 8),
        (100, 51 * 1_000_000, 8),
    ],
)
def test_a_batch_of_texts_holds_at_most_2_to_the_24_scores_but_has_8_rows(
    examples: int, row_scores: int, batch_size: int
) -> None:
    assert choose_batch_size(examples, row_scores) == batch_size
    assert batch_size == 8 or batch_size * row_scores <= 2**24


def test_the_scores_of_a_text_are_of_all_classes_at_each_place_and_the_reason_names_them(prepared: Prepare) -> None:
    split = prepared("binary")
    words = {"values": tuple(f"w{number}" for number in range(99_998)), "max_tokens": 9}
    label = LabelConfig.model_validate({"key": "answer", "kind": "text", "words": words})
    scores = scores_of_row(label, split.output)
    assert scores == 10 * 100_000  # with the end, and one class for all other words
    assert scores_of_row(LabelConfig(key="tip", kind="binary"), split.output) == 0
    train = TrainConfig.model_validate({"batch_size": "auto", "steps_per_epoch": 7})
    assert Budget.of(train, [], scores).words["batch_size"] == "16: auto, each with 1,000,000 scores of words"
    files = [split.patterns["train"]]
    by_examples = Budget.of(TrainConfig.model_validate({"batch_size": "auto", "epochs": "auto"}), files, scores)
    assert by_examples.words["batch_size"] == "16: auto, for 2,000 examples, each with 1,000,000 scores of words"
    assert by_examples.epochs == 80  # of 125 steps
    explicit = TrainConfig.model_validate({"batch_size": 500, "epochs": "auto"})
    assert Budget.of(explicit, files, scores).batch_size is None


@pytest.mark.parametrize(
    ("steps", "epochs", "patience"), [(0, 5, 2), (4, 100, 12), (150, 67, 6), (500, 20, 2), (100_000, 10, 2)]
)
def test_epochs_and_patience_follow_from_the_steps_of_an_epoch(steps: int, epochs: int, patience: int) -> None:
    assert (choose_epochs(steps), choose_patience(steps)) == (epochs, patience)


def test_only_settings_that_are_auto_are_chosen(prepared: Prepare) -> None:
    files = [prepared("binary").patterns["train"]]  # of 2,000 examples
    explicit = TrainConfig.model_validate({"epochs": 7, "batch_size": 500, "early_stopping": {"patience": 4}})
    assert Budget.of(explicit, files).words == {}
    assert Budget.of(explicit, files).applied(explicit) == explicit
    epochs_only = TrainConfig.model_validate({"epochs": 7})
    assert Budget.of(epochs_only, files).applied(epochs_only).patience == 2
    by_steps = TrainConfig.model_validate({"steps_per_epoch": 30})
    chosen = Budget.of(by_steps, files).applied(by_steps)
    assert (chosen.epochs, chosen.batch_size, chosen.patience) == (5, 1024, 2)
    never = TrainConfig.model_validate({"early_stopping": None})
    assert Budget.of(never, files).applied(never).early_stopping is None


def test_a_run_records_its_numbers_and_the_job_keeps_its_digest(prepared: Prepare, tmp_path: Path) -> None:
    fn_args = prepared("binary").fn_args(tmp_path, epochs="auto", batch_size="auto")
    job = Job.of(fn_args)
    assert (job.sections.train.epochs, job.sections.train.batch_size, job.sections.train.patience) == (100, 32, 12)
    assert job_digest(job) == job_digest(Job.of(fn_args))
    record = train_alone(fn_args)
    assert record["chosen"]["batch_size"] == "32: auto, for 2,000 examples"
    assert record["chosen"]["epochs"] == "100: auto, for 2,000 examples"
    assert record["stopped_early"] is True
    assert len(record["epochs"]) == record["best_epoch"] + 12


def epochs_with(*losses: float) -> list[Epoch]:
    return [Epoch(number, 1.0, 1.0, {"val_loss": loss}) for number, loss in enumerate(losses, start=1)]


@pytest.mark.parametrize(
    ("losses", "planned", "falling"),
    [
        ((0.5, 0.4), 2, True),
        ((0.5, 0.4), 3, False),  # stopped early
        ((0.5, 0.4, 0.45), 3, False),
        ((0.5, 0.4, 0.3999), 3, False),  # by less than a thousandth
        ((0.5,), 1, False),
        ((0.5, 4e-7, 3e-7), 3, False),  # nearly 0
        ((-1.0, -1.5), 2, True),
    ],
)
def test_a_loss_that_falls_in_the_last_planned_epoch_is_said(
    losses: tuple[float, ...], planned: int, falling: bool
) -> None:
    remarks = still_falling(epochs_with(*losses), planned)
    assert bool(remarks) is falling
    assert all("raise `train.epochs`" in remark for remark in remarks)


def test_the_default_model_is_the_ensemble_for_few_examples_and_the_same_as_if_it_was_named(
    prepared: Prepare, tmp_path: Path
) -> None:
    data = prepared("binary")
    fn_args = data.table_args(tmp_path / "default", epochs=1)
    job, named = Job.of(fn_args), Job.of(data.table_args(tmp_path / "named", {"kind": "tabm"}, epochs=1))
    assert job.sections.model == named.sections.model
    assert (job.sections.model.kind, job.sections.model.hidden) == ("tabm", (4,))
    assert job_digest(job) == job_digest(named)
    assert job.budget.words["model"] == "tabm: auto, for 2,000 examples"
    assert "model" not in named.budget.words
    assert train_alone(fn_args)["chosen"]["model"] == "tabm: auto, for 2,000 examples"


def test_the_default_model_is_one_network_for_many_examples(
    prepared: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.configs.schema.table_model.FEW_EXAMPLES", 1_999)
    job = Job.of(prepared("binary").table_args(tmp_path))
    assert (job.sections.model.kind, job.sections.model.hidden) == ("wide_and_deep", (4,))
    assert job.budget.words["model"] == "wide_and_deep: auto, for 2,000 examples"


def test_the_default_model_is_one_network_where_an_ensemble_would_ignore_a_feature_or_the_number_could_change() -> None:
    price, cross = NumericFeature(column="numeric"), {"column": "crossed", "keys": ("a", "b"), "hash_buckets": 9}
    crossed = CrossedFeature.model_validate(cross)
    deep = CrossedFeature.model_validate({**cross, "deep": True})
    nightly = TrainConfig.model_validate({"warm_start": True})
    sharing = TrainConfig.model_validate({"input": {"own_shards": True}})

    def kind(train: TrainConfig, **features: FeatureBase) -> str:
        model = TableModel(hidden=(7,), dropout=0.5).for_table(9, features, train)
        assert (model.hidden, model.dropout) == ((7,), 0.5)
        return model.kind

    assert kind(TrainConfig(), price=price) == "tabm"
    assert kind(TrainConfig(), price=price, both=deep) == "tabm"
    assert kind(TrainConfig(), price=price, both=crossed) == "wide_and_deep"
    assert kind(nightly, price=price) == "wide_and_deep"
    assert kind(sharing, price=price) == "wide_and_deep"
