"""From a table to a judged model: what one writes, types and waits for, beside AutoGluon and Ludwig by their defaults.

    python -m benchmarks.first_hour                                        Headrace alone; two minutes
    python -m benchmarks.first_hour --autogluon ag/bin/python --ludwig lu/bin/ludwig

Each of the others is installed in an environment of its own (`autogluon.tabular[lightgbm,xgboost,catboost]`, `ludwig`).
All learn from the same three quarters of the rows, and report their own measure on the other quarter.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchmarks.tables import Section, Table

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["binary", "multiclass", "regression"]
METRIC: Mapping[Kind, str] = {"binary": "AUC", "multiclass": "accuracy", "regression": "R²"}
AUTOGLUON = """\
import json, sys, pandas as pd
from autogluon.tabular import TabularPredictor
predictor = TabularPredictor(label=sys.argv[1]).fit(pd.read_csv("train.csv"))
print(json.dumps({key: float(value) for key, value in predictor.evaluate(pd.read_csv("test.csv")).items()}))
"""
"""What one writes for AutoGluon."""


@dataclass(frozen=True)
class Question:
    """A table, and the column to predict. load: the rows; scikit-learn and TFX bring them along."""

    name: str
    label: str
    kind: Kind
    load: Callable[[], pd.DataFrame]


@dataclass(frozen=True)
class Answer:
    """What one tool took, and what its model reaches. lines: written by hand; score: None if the tool failed; commands:
    to type once the files are there.
    """

    tool: str
    lines: int
    seconds: float
    cpu: float
    score: float | None
    commands: int = 1


def _sklearn(name: str, label: str) -> pd.DataFrame:
    from sklearn import datasets

    data = getattr(datasets, name)(as_frame=True)
    frame: pd.DataFrame = data.frame.rename(columns=lambda column: "_".join(column.split()))
    target = frame.pop("target")
    names = getattr(data, "target_names", None)
    is_text = names is not None and isinstance(names[0], str)
    frame[label] = [str(names[row]) for row in target] if is_text and names is not None else target
    return frame


def _taxi() -> pd.DataFrame:
    import pandas as pd

    file = files("tfx") / "examples/chicago_taxi_pipeline/data/big_tipper_label/data.csv"
    return pd.read_csv(str(file)).drop(columns="tips")  # of which the label is made


QUESTIONS = (
    Question("breast cancer", "diagnosis", "binary", lambda: _sklearn("load_breast_cancer", "diagnosis")),
    Question("wine", "cultivar", "multiclass", lambda: _sklearn("load_wine", "cultivar")),
    Question("diabetes", "progression", "regression", lambda: _sklearn("load_diabetes", "progression")),
    Question("digits", "digit", "multiclass", lambda: _sklearn("load_digits", "digit")),
    Question("taxi", "big_tipper", "binary", _taxi),
)


def _by_headrace(question: Question, folder: Path, program: str) -> Answer:
    command = [program, "init", "train.csv", "test.csv", "--label", question.label, "-o", "mine.yaml", "--run"]
    done, seconds, cpu = _timed(command, folder)
    if done.returncode:
        return Answer("Headrace", 0, seconds, cpu, None)
    listed = subprocess.run(
        [program, "models", "mine.yaml", "--json"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    metrics = json.loads(listed.stdout)[0]["metrics"]
    if question.kind != "regression":
        return Answer("Headrace", 0, seconds, cpu, metrics["auc" if question.kind == "binary" else "accuracy"])
    with (folder / "test.csv").open(encoding="utf-8", newline="") as file:
        values = np.array([float(row[question.label]) for row in csv.DictReader(file)])
    return Answer("Headrace", 0, seconds, cpu, float(1 - metrics["mean_squared_error"] / values.var()))


def _by_autogluon(question: Question, folder: Path, program: str) -> Answer:
    (folder / "train.py").write_text(AUTOGLUON, encoding="utf-8")
    done, seconds, cpu = _timed([program, "train.py", question.label], folder)
    key = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "r2"}[question.kind]
    score = None if done.returncode else json.loads(done.stdout.splitlines()[-1])[key]
    return Answer("AutoGluon", len(AUTOGLUON.splitlines()), seconds, cpu, score)


def _by_ludwig(question: Question, folder: Path, program: str) -> Answer:
    config = _ludwig_config(question, folder / "train.csv")
    (folder / "ludwig.yaml").write_text("\n".join(config) + "\n", encoding="utf-8")
    words = ["--training_set", "train.csv", "--test_set", "test.csv", "--output_directory", "out"]
    done, seconds, cpu = _timed([program, "experiment", "--config", "ludwig.yaml", *words], folder)
    found = sorted(folder.glob("out/**/test_statistics.json"))
    key = {"binary": "roc_auc", "multiclass": "accuracy_micro", "regression": "r2"}[question.kind]
    score = (
        json.loads(found[0].read_text(encoding="utf-8"))[question.label][key] if found and not done.returncode else None
    )
    return Answer("Ludwig", len(config), seconds, cpu, score)


def _ludwig_config(question: Question, train: Path) -> list[str]:
    """The shortest config: a line for each column that is not constant, which Ludwig refuses."""
    with train.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    values = {name: {row[name] for row in rows} - {""} for name in rows[0] if name != question.label}
    types = {name: "number" if all(map(_is_number, own)) else "category" for name, own in values.items() if own}
    of_label = {"binary": "binary", "multiclass": "category", "regression": "number"}[question.kind]
    inputs = [f"  - {{name: {name}, type: {kind}}}" for name, kind in types.items() if len(values[name]) > 1]
    return ["input_features:", *inputs, "output_features:", f"  - {{name: {question.label}, type: {of_label}}}"]


def _is_number(text: str) -> bool:
    try:
        return bool(float(text) or True)
    except ValueError:
        return False


def _timed(command: Sequence[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], float, float]:
    """The process, its seconds, and the CPU seconds of it and all that it started."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, encoding="utf-8", env=environment
    )
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return done, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def answers(question: Question, programs: Mapping[Callable[[Question, Path, str], Answer], str]) -> list[Answer]:
    """What each tool makes of the same two files."""
    frame = question.load()
    order = np.random.default_rng(0).permutation(len(frame))
    found = []
    for ask, program in programs.items():
        with tempfile.TemporaryDirectory() as name:
            frame.iloc[order[len(frame) // 4 :]].to_csv(f"{name}/train.csv", index=False)
            frame.iloc[order[: len(frame) // 4]].to_csv(f"{name}/test.csv", index=False)
            found.append(ask(question, Path(name), program))
    return found


def section(results: Mapping[Question, Sequence[Answer]]) -> Section:
    """The table for docs/comparison.md."""
    head = ("", "tool", "measure", "on the test rows", "lines by hand", "commands", "s", "CPU s")
    rows = [
        (
            question.name if answer is own[0] else "",
            answer.tool,
            METRIC[question.kind],
            "failed" if answer.score is None else f"{answer.score:.4f}",
            str(answer.lines),
            str(answer.commands),
            f"{answer.seconds:.0f}",
            f"{answer.cpu:.0f}",
        )
        for question, own in results.items()
        for answer in own
    ]
    return Section("From a table to a judged model", [("Defaults, one command each", Table(head, rows))], [])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="From a table to a judged model, beside AutoGluon and Ludwig.")
    parser.add_argument("--headrace", default=str(Path(sys.executable).with_name("headrace")))
    parser.add_argument("--autogluon", metavar="PYTHON", help="a Python that has AutoGluon")
    parser.add_argument("--ludwig", metavar="PROGRAM", help="Ludwig's command")
    parser.add_argument("--only", metavar="NAME", choices=[question.name for question in QUESTIONS])
    given = parser.parse_args()
    asked: dict[Callable[[Question, Path, str], Answer], Any] = {
        _by_headrace: given.headrace,
        _by_autogluon: given.autogluon,
        _by_ludwig: given.ludwig,
    }
    programs = {ask: str(Path(program).absolute()) for ask, program in asked.items() if program}
    chosen = [question for question in QUESTIONS if given.only in {None, question.name}]
    results = {question: answers(question, programs) for question in chosen}
    print(section(results).markdown())


if __name__ == "__main__":
    main()
