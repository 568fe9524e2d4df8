"""A run with `tune:`: its trials, what they give the Trainer, the report, and what runs again after which change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import assert_accessible
from command import Finished, headrace

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SMALL = ["--set", "train.epochs=2", "--set", "evaluate.thresholds={}", "--set", "deploy.push=null"]
TUNE = """
tune:
  max_trials: 3
  epochs: 1
  parameters:
    train.learning_rate: {min: 0.0005, max: 0.02, scale: log}
    model.hidden: {choices: [[8], [32, 16]]}
"""


@pytest.fixture(scope="module")
def folder(new_folder: Callable[[str], Path]) -> Path:
    folder = new_folder("tuned")
    (folder / "taxi.yaml").write_text((Path(__file__).parents[2] / "configs" / "taxi.yaml").read_text() + TUNE)
    return folder


@pytest.fixture(scope="module")
def first(folder: Path) -> Finished:
    done = headrace(folder, "run", "taxi.yaml", *SMALL)
    assert done.code == 0, done.out + done.err
    return done


@pytest.mark.slow
def test_best_values_reach_the_trainer_and_only_what_changed_runs_again(folder: Path, first: Finished) -> None:
    reported = json.loads((first.uri("Tuner", "best_hyperparameters") / "best_hyperparameters.txt").read_text())[
        "headrace"
    ]
    trials = reported["search"]["trials"]
    assert len(trials) == 3
    best = min(trials, key=lambda trial: trial["score"])
    assert reported["values"] == best["values"]
    record = json.loads((first.uri("Trainer", "model_run") / "training.json").read_text())
    assert record["chosen"]["tuned"].endswith(f"(trial {best['number']} of 3, random: val_loss {best['score']:.5f})")
    assert first.run_dir is not None
    report = (first.run_dir / "report.html").read_text()
    assert report.count('<tr class="best"><th scope="row" class="n">') >= 1
    assert "3 trials (random), compared by loss on the eval split" in report
    log = (first.run_dir / "logs" / "Tuner.log").read_text()
    assert "trial     loss  seconds  epochs  train.learning_rate" in log

    judged = headrace(folder, "run", "taxi.yaml", *SMALL, "--set", "evaluate.metrics=[auc]")
    statuses = judged.statuses()
    assert (statuses["Tuner"], statuses["Trainer"], statuses["Evaluator"]) == ("cached", "cached", "done")


@pytest.mark.slow
def test_report_with_trials_passes_axe(first: Finished, browser: Browser) -> None:
    assert first.run_dir is not None
    assert_accessible(browser, (first.run_dir / "report.html").as_uri())
