"""`train:` what is refused in its optimizer, schedules, clipping and checkpoints, and how profiles change them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from messages import says

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load
from headrace.configs.schema.optimizer import OptimizerConfig, optimizer_config

REST = """
pipeline: {name: a}
data: {source: {kind: csv, path: x.csv}}
label: {key: l, kind: binary}
features: {a: {column: numeric}}
"""
SCHEDULES = "constant, cosine, exponential, polynomial, piecewise or inverse_time"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            "learning_rate: fast",
            f'train.learning_rate: found the string "fast"; allowed: number, above 0, …{SCHEDULES}',
        ),
        (
            "learning_rate: {schedule: cosin, initial: 1}",
            f'train.learning_rate.schedule: …"cosin"…{SCHEDULES}; did you mean "cosine"?',
        ),
        ("learning_rate: {initial: 1}", f"train.learning_rate.schedule: missing; allowed: {SCHEDULES}"),
        (
            "learning_rate: {schedule: cosine, initial: -1}",
            "train.learning_rate.initial: found the number -1; allowed",
        ),
        (
            "learning_rate: {schedule: constant, initial: 0.1, warmup_step: 3}",
            'train.learning_rate.warmup_step: no such setting; …warmup_from, …did you mean "warmup_steps"?',
        ),
        (
            "learning_rate: {schedule: piecewise, boundaries: [1], values: [1, 2, 3]}",
            "train.learning_rate: 1 boundaries …2 intervals…`values` has 3 rates",
        ),
        (
            "learning_rate: {schedule: piecewise, boundaries: [5, 5], values: [1, 2, 3]}",
            "train.learning_rate: `boundaries` must be ascending; found [5, 5]",
        ),
        (
            "clip: {norm: 1, value: 2}",
            "train.clip: …exactly one…found norm and value",
        ),
        ("clip: {}", "train.clip: …exactly one…found none"),
        (
            "gradient_accumulation: 0",
            "train.gradient_accumulation: found the number 0; allowed",
        ),
        (
            "checkpoint: {every_steps: 0}",
            "train.checkpoint.every_steps: found the number 0; allowed",
        ),
    ],
)
def test_mistake_is_reported_once_at_its_setting(tmp_path: Path, settings: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(f"{REST}train:\n  {settings}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "c.yaml")
    assert len(caught.value.problems) == 1
    assert says(str(caught.value), f"{tmp_path / 'c.yaml'}:7: {message}")


def test_optimizer_and_schedule_of_a_profile_replace_those_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        f"{REST}train:\n  optimizer: {{kind: sgd, momentum: 0.9}}\n"
        "  learning_rate: {schedule: cosine, initial: 0.1, end: 0.01}\n"
    )
    (tmp_path / "c.big.yaml").write_text(
        "train: {optimizer: {kind: adamw, weight_decay: 0.1}, learning_rate: {schedule: constant, initial: 0.2}}"
    )
    train = load(tmp_path / "c.yaml", profile="big").train
    assert optimizer_config(train.optimizer).arguments == {"weight_decay": 0.1}
    assert json.loads(train.model_dump_json())["learning_rate"] == {
        "schedule": "constant", "initial": 0.2, "warmup_steps": 0, "warmup_from": 0.0
    }  # fmt: skip


def test_arguments_of_an_optimizer_survive_the_way_through_json() -> None:
    config = OptimizerConfig.model_validate_json('{"kind": "muon", "exclude_layers": ["a"], "ns_steps": 3}')
    assert OptimizerConfig.model_validate_json(config.model_dump_json()).arguments == {
        "exclude_layers": ["a"], "ns_steps": 3
    }  # fmt: skip
