"""A run whose training waits for input stops before anything is pushed, and the next one resumes there if it may."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Finished, headrace, versions

from headrace.components.profile.result import ProfileDiagnosis

RECORDS = ["--set", "transform.materialize=always"]  # of which parsing can keep a training waiting
SMALL = [*RECORDS, "--set", "train.epochs=3", "--set", "evaluate.thresholds={}", "--set", "deploy.canary=null"]
STARVED = ["--set", "train.input.cache=none", "--set", "train.input.threads=1"]


def limit(share: float) -> list[str]:
    return ["--set", "train.profile=" + json.dumps({"batches": [60, 70], "fail_if_input_bound_above": share})]


def verdict(run: Finished) -> ProfileDiagnosis:
    """What the run leaves of it, passed or not."""
    return ProfileDiagnosis.model_validate_json(run.uri("ProfileVerdict", "verdict").read_text())


@pytest.mark.slow
def test_a_limit_stops_the_starved_run_and_lets_the_healthy_one_pass(new_folder: Callable[[str], Path]) -> None:
    folder = new_folder("profiled")
    (folder / "taxi.yaml").write_text((Path(__file__).parents[2] / "configs" / "taxi.yaml").read_text())

    stopped = headrace(folder, "run", "taxi.yaml", *SMALL, *STARVED, *limit(0.2))
    assert stopped.code == 1
    statuses = stopped.statuses()
    assert [statuses[name] for name in ("ProfileVerdict", "ProfileGate", "Evaluator")] == ["done", "failed", "done"]
    assert (statuses["Pusher"], statuses["RecordBlessing"]) == ("skipped", "skipped")
    assert versions(folder) == []
    error = stopped.run.node("ProfileGate").error or ""
    assert "train.profile.fail_if_input_bound_above allows 20.0%" in error
    assert "first change: set train.input.cache to memory: parsed data is 1.3 MB" in error
    starved = verdict(stopped)
    assert (starved.input_bound or 0) > 0.2
    report = (stopped.folder / "report.html").read_text()
    assert "Where the time went" in report
    assert "read and parsed again" in report

    healthy = headrace(folder, "run", "taxi.yaml", *SMALL, *limit(0.2))
    assert healthy.code == 0
    assert healthy.statuses()["ProfileGate"] == "done"
    assert 0 <= (verdict(healthy).input_bound or 0) < 0.2
    assert len(versions(folder)) == 1

    allowed = headrace(folder, "run", "taxi.yaml", *SMALL, *STARVED, *limit(1.0))
    assert allowed.code == 0
    statuses = allowed.statuses()
    assert [statuses[name] for name in ("Trainer", "ProfileVerdict", "ProfileGate")] == ["cached", "cached", "done"]
    assert verdict(allowed) == starved
