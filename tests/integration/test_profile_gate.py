"""A run whose training waits for input stops before anything is pushed, and goes on from there where it may."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command import headrace, versions

from components.profile_verdict.result import Verdict

SMALL = ["--set", "train.epochs=3", "--set", "evaluate.thresholds={}", "--set", "train.input.cache=none"]


def profile(limit: float) -> list[str]:
    return ["--set", "train.profile=" + json.dumps({"batches": [60, 70], "fail_if_input_bound_above": limit})]


@pytest.mark.slow
def test_a_limit_stops_the_run_and_a_higher_one_lets_the_same_training_pass(new_folder: Callable[[str], Path]) -> None:
    folder = new_folder("profiled")
    (folder / "taxi.yaml").write_text((Path(__file__).parents[2] / "configs" / "taxi.yaml").read_text())

    stopped = headrace(folder, "run", "taxi.yaml", *SMALL, *profile(0.0))
    assert stopped.code == 1
    statuses = stopped.statuses()
    assert (statuses["Trainer"], statuses["ProfileVerdict"], statuses["Evaluator"]) == ("done", "failed", "done")
    assert (statuses["Pusher"], statuses["RecordBlessing"]) == ("skipped", "skipped")
    assert versions(folder) == []
    error = stopped.run.node("ProfileVerdict").error or ""
    assert "train.profile.fail_if_input_bound_above allows 0.0%" in error
    assert "first change: set train.input.cache to memory: parsed data is 1.3 MB of" in error

    passed = headrace(folder, "run", "taxi.yaml", *SMALL, *profile(1.0))
    assert passed.code == 0
    assert passed.statuses()["Trainer"] == "cached"
    assert len(versions(folder)) == 1
    verdict = Verdict.model_validate_json(passed.uri("ProfileVerdict", "verdict").read_text())
    assert verdict.steps > 0
    assert verdict.input_bound is not None
    assert 0 < verdict.input_bound < 1
    assert passed.run_dir is not None
    assert "input-bound" in (passed.run_dir / "report.html").read_text()

    again = headrace(folder, "run", "taxi.yaml", *SMALL, *profile(1.0))
    assert again.statuses()["ProfileVerdict"] == again.statuses()["Trainer"] == "cached"
