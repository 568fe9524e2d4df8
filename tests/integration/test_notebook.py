"""docs/notebook.ipynb, executed in a Jupyter kernel, in an empty folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from command import ROOT
from forks import in_program
from installed import without_pythonpath
from nbclient import NotebookClient

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Executed:
    """The outputs of each cell of code, by what its source begins with."""

    folder: Path
    outputs: dict[str, list[Any]]

    def of(self, start: str) -> list[Any]:
        (found,) = (outputs for source, outputs in self.outputs.items() if source.startswith(start))
        return found

    def shown(self, start: str, kind: str = "text/html") -> list[str]:
        return [output["data"][kind] for output in self.of(start) if kind in output.get("data", {})]


@pytest.fixture(scope="module")
def executed(new_folder: Callable[[str], Path]) -> Executed:
    folder = new_folder("notebook")
    notebook = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    environment = {**without_pythonpath(), "IPYTHONDIR": str(folder / ".ipython")}
    first = folder / ".ipython" / "profile_default" / "startup" / "first.py"
    first.parent.mkdir(parents=True)
    first.write_text(in_program(), encoding="utf-8")  # the kernel is not forked
    before = os.environ.copy()
    os.environ.clear()
    os.environ.update(environment)
    try:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    finally:
        os.environ.clear()
        os.environ.update(before)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return Executed(folder, {cell.source: cell.outputs for cell in cells})


def test_run_shows_its_table_and_its_report(executed: Executed) -> None:
    table, report = executed.shown("run = ")
    components = re.findall(r"\b(ExampleGen|Transform|Trainer|Evaluator|Pusher)\b", table)
    assert components == ["ExampleGen", "Transform", "Trainer", "Evaluator", "Pusher"]
    assert "running" not in table
    assert report.startswith("<iframe srcdoc=")
    assert "tips" in report


def test_no_cell_shows_what_libraries_print(executed: Executed) -> None:
    printed = {source: each["text"] for source, all_ in executed.outputs.items() for each in all_ if "text" in each}
    assert printed == {}


def test_figures_are_those_of_the_run(executed: Executed) -> None:
    (frame,) = executed.shown("run.metrics_frame")
    assert re.findall(r"<th>(?:all|payment_type = (?:Cash|Credit Card))</th>", frame)
    (verdict,) = executed.shown("run.blessed", "text/plain")
    assert verdict.startswith("(True,")
    first = min((executed.folder / "serving" / "tips").glob("*/saved_model.pb"))
    assert str(first.parent) in verdict
    (predictions,) = executed.shown("import tensorflow", "text/plain")
    assert "shape=(5, 1)" in predictions


def test_page_of_both_runs_is_written(executed: Executed) -> None:
    (path,) = executed.shown("headrace.share", "text/plain")
    page = executed.folder / "shared" / "tips" / "index.html"
    assert str(page) in path
    text = page.read_text(encoding="utf-8")
    assert "Two learning rates" in text
    assert "train.learning_rate" in text
