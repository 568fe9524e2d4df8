"""The measuring piece, on processes whose use is known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.components import END, START, seconds
from benchmarks.measure import Used, by_stock, command, in_turn, medians, run_process, throughput, throughput_cells
from benchmarks.tables import Section, Table

GRANDCHILD = """
import subprocess, sys, time
burn = "import time\\nheld = bytes(200_000_000).replace(b'\\\\0', b'1')\\nwhile time.process_time() < 2.5: pass"
subprocess.run([sys.executable, "-c", burn], check=True)
"""


@pytest.mark.slow
def test_what_a_grandchild_uses_counts(tmp_path: Path) -> None:
    used = run_process([sys.executable, "-c", GRANDCHILD], tmp_path, tmp_path / "log")

    assert 2.5 <= used.cpu_seconds < 5
    assert used.wall_seconds >= 2
    assert 200 <= used.peak_mb < 700


def test_a_process_that_fails_ends_the_benchmark_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="out of luck"):
        run_process([sys.executable, "-c", "raise SystemExit('out of luck')"], tmp_path, tmp_path / "log")


def test_engines_take_turns_and_each_round_turns_the_order_around() -> None:
    calls: list[str] = []

    def call(name: str) -> int:
        calls.append(name)
        return len(calls)

    found = in_turn({"a": 3, "b": 3, "c": 1}, call)

    assert calls == ["a", "b", "c", "b", "a", "a", "b"]
    assert found == {"a": [1, 5, 6], "b": [2, 4, 7], "c": [3]}


def test_a_median_is_over_the_runs_that_have_the_figure() -> None:
    assert medians([{"x": 1.0}, {"x": 9.0, "y": 5.0}, {"x": 2.0}]) == {"x": 2.0, "y": 5.0}


def test_time_before_the_first_component_and_after_the_last_is_reported_too() -> None:
    used = Used(started=100.0, ended=120.0, cpu_seconds=1.0, peak_mb=1.0)

    found = seconds(used, {"Trainer": (108.0, 117.0), "Spans": (104.0, 105.5)})

    assert found == {START: 4.0, "Trainer": 9.0, "Spans": 1.5, END: 3.0}


def test_a_section_is_text_for_the_terminal_and_markdown_for_a_document() -> None:
    section = Section("Ingest", [("Rows", Table(["", "s"], [["ours", "1.5"], ["stock", "20"]]))], ["Less is better."])

    assert section.text() == "== Ingest ==\n\nRows\n\n         s\nours   1.5\nstock   20\n\n- Less is better."
    assert "| stock | 20 |" in section.markdown()


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "== Rows ==\n\nOf 3\n\n  s\n\n- Less is better."),
        (["--sizes", "5", "--json"], "5"),
        (["--child", "ours", "out"], '"ours in out"'),
    ],
)
def test_a_benchmark_prints_a_table_figures_or_what_its_child_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], printed: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])

    command(
        "It measures.",
        lambda given: given.sizes,
        lambda found: Section("Rows", [(f"Of {found}", Table(["", "s"], []))], ["Less is better."]),
        child=lambda engine, out: f"{engine} in {out}",
        options={"--sizes": {"type": int, "default": 3}},
    )

    assert capsys.readouterr().out.rstrip("\n") == printed


def test_a_throughput_is_rows_by_the_median_of_processor_seconds() -> None:
    found = [{"cpu_seconds": n, "wall_seconds": 9.0, "peak_mb": 1234.5} for n in (1.0, 2.0, 30.0)]

    row = throughput(3000, found)

    assert throughput_cells(row) == ["3,000", "1,500", "2.00", "9.00", "1,234"]
    slower = {"engine": "stock", "rows_per_cpu_second": 600.0}
    assert by_stock([{"engine": "ours", **row}, slower], digits=1) == "Rows per CPU second, Headrace by stock: 2.5."
