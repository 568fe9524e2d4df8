"""The model of a night on many machines: what it makes of figures whose costs are known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.night_cost import Cost, costs, hours

KNOWN = {
    "ExampleGen": Cost(20.0, 3.0, 60.0),
    "StatisticsGen": Cost(8.0, 1.0, 16.0),
    "Transform": Cost(15.0, 2.0, 30.0),
    "Evaluator": Cost(10.0, 0.0, 20.0),
    "Trainer": Cost(5.0, 24.0, 0.0),
}


def _row(megabytes: float, engine: str = "Flink, one worker") -> dict[str, Any]:
    """The figures of a run that costs what is known; the fixed part is in the component's own process."""
    found = {
        name: {
            "own_cpu_seconds": cost.fixed + cost.own * megabytes / 1000,
            "cluster_cpu_seconds": cost.cluster * megabytes / 1000,
        }
        for name, cost in KNOWN.items()
    }
    return {"engine": engine, "megabytes": megabytes, "components": found}


def test_costs_are_found_in_two_sizes_of_one_worker() -> None:
    found = costs([_row(133.0), _row(33.0), _row(500.0, "Flink, two workers")])
    for name, cost in KNOWN.items():
        assert found[name].fixed == pytest.approx(cost.fixed), name
        assert (found[name].own, found[name].cluster) == pytest.approx((cost.own, cost.cluster)), name


def test_workers_share_what_flink_does_up_to_the_limit_of_a_component() -> None:
    one, many = (hours(KNOWN, 1000.0, nodes, 8, 2) for nodes in (1, 64))
    assert one["ExampleGen"] * 3600 == pytest.approx(20 + 3 * 1000 + 60 * 1000 / 8)
    assert many["ExampleGen"] * 3600 == pytest.approx(20 + 3 * 1000 + 60 * 1000 / 512)
    assert many["StatisticsGen"] * 3600 == pytest.approx(8 + 1 * 1000 + 16 * 1000 / 32)
    assert many["Trainer"] * 3600 == pytest.approx(5 + 2 * 24 * 1000 / 512)


def test_figures_of_one_size_are_refused_and_of_two_printed(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"

    def run(*rows: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        file.write_text(json.dumps({"beam_runners": list(rows)}), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.night_cost", str(file), "--nodes", "1,4"]
        root = Path(__file__).parents[2]
        return subprocess.run(command, cwd=root, check=False, capture_output=True, text=True, encoding="utf-8")

    refused = run(_row(33.0))
    assert refused.returncode == 1
    assert "two sizes of CSV" in refused.stderr
    printed = run(_row(33.0), _row(133.0))
    assert printed.returncode == 0, printed.stderr
    lines = [line.split() for line in printed.stdout.splitlines()]
    assert ["4", "1.36", "0.42", "0.82", "0.18", "0.21", "2.98"] in lines
