"""A run with `model: {kind: auto}`: what was chosen in the log, the report, the commands, and the exported model."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command import headrace

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: sums}
data: {source: {kind: csv, path: sums.csv}, splits: {train: 8, eval: 2}}
label: {key: y, kind: regression}
features: {a: {column: numeric}, b: {column: numeric}, c: {column: vocabulary}}
model: {kind: auto, candidates: [dnn, linear, trees, periodic_tabm], hidden: [4]}
train: {epochs: 4, batch_size: 32, learning_rate: 0.05}
deploy: {canary: null}
"""


def test_chosen_kind_is_shown_and_exported_and_an_unchanged_run_reuses_it(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    rows = [(*random.normal(size=2), random.choice(["x", "y"])) for _ in range(600)]
    lines = [f"{a:.4f},{b:.4f},{c},{2 * a - b + (c == 'x'):.4f}" for a, b, c in rows]
    (tmp_path / "sums.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n", encoding="utf-8")
    (tmp_path / "sums.yaml").write_text(CONFIG, encoding="utf-8")
    done = headrace(tmp_path, "run", "sums.yaml")
    assert done.code == 0, done.out + done.err
    found = json.loads((done.uri("Trainer", "model_run") / "model_search.json").read_text())
    scores = {trial["values"]["model.kind"]: trial["score"] for trial in found["search"]["trials"]}
    best = found["model"]["kind"]
    chosen = next(trial for trial in found["search"]["trials"] if trial["number"] == found["search"]["chosen"])
    assert chosen["values"]["model.kind"] == best
    assert best == "dnn" or scores[best] == min(score for score in scores.values() if score is not None)
    assert scores["trees"] is None
    exported = done.uri("Trainer", "model") / "Format-Serving" / "assets.extra" / "description.json"
    assert json.loads(exported.read_text())["model"] == found["model"]

    assert done.run_dir is not None
    report = (done.run_dir / "report.html").read_text()
    assert "3 trials (kinds of models), compared by loss on the eval split" in report
    assert f"{best}, " in report
    assert "Trial 2 was left out: train.epochs: " in report
    assert "would ignore `train.learning_rate`" in report
    assert "failed" not in report[report.index('id="tuning"') :].partition("</section>")[0]
    assert f"Chosen: trial {chosen['number']}, with " in report
    assert "model.kind  model.frequencies" in (done.run_dir / "logs" / "Trainer.log").read_text()
    (listed,) = json.loads(headrace(tmp_path, "models", "sums.yaml", "--json").out)
    assert listed["tuned"]["model.kind"] == best
    table = headrace(tmp_path, "models", "sums.yaml").out
    assert table.splitlines()[0].endswith("COMMIT\tTUNED")
    assert f"model.kind: {best}" in table

    again = headrace(tmp_path, "run", "sums.yaml")
    assert again.statuses()["Trainer"] == "cached"
    trained = headrace(tmp_path, "run", "sums.yaml", "--set", f"model={json.dumps(found['model'])}")
    assert trained.statuses()["Trainer"] == "done"
    alone = json.loads((trained.uri("Trainer", "model_run") / "training.json").read_text())
    assert min(epoch["metrics"]["val_loss"] for epoch in alone["epochs"]) == pytest.approx(scores[best], rel=1e-5)
    runs = [run.name for run in sorted((tmp_path / "runs" / "sums" / "runs").iterdir())]
    compared = headrace(tmp_path, "compare", "sums.yaml", runs[0], runs[-1]).out
    (kinds,) = [line.split() for line in compared.splitlines() if line.split()[:1] == ["model.kind"]]
    assert kinds == ["model.kind", best, "(tuned)", best]


STEPS = """\
pipeline: {name: steps}
data: {source: {kind: csv, path: steps.csv}, splits: {train: 8, eval: 2}}
label: {key: y, kind: binary}
features: {a: {column: numeric}, c: {column: vocabulary}}
model: {kind: auto, candidates: [linear, trees], hidden: [4], seconds: 600}
deploy: {canary: null}
"""


def test_trees_are_chosen_where_they_are_better_and_exported(tmp_path: Path) -> None:
    """The label is the parity of a number, which no linear model learns."""
    random = np.random.default_rng(3)
    rows = [(value, random.choice(["x", "y"]), int(value) % 2) for value in random.uniform(0, 6, 500)]
    lines = [f"{a:.4f},{c},{y}" for a, c, y in rows]
    (tmp_path / "steps.csv").write_text("\n".join(["a,c,y", *lines]) + "\n", encoding="utf-8")
    (tmp_path / "steps.yaml").write_text(STEPS, encoding="utf-8")
    done = headrace(tmp_path, "run", "steps.yaml")
    assert done.code == 0, done.out + done.err
    run = done.uri("Trainer", "model_run")
    found = json.loads((run / "model_search.json").read_text())
    assert found["model"] == {"kind": "trees"}
    assert found["search"]["reason"].startswith("the lowest eval loss (")
    record = json.loads((run / "training.json").read_text())
    assert record["chosen"]["model"].startswith("trees, of 2 candidates, in ")
    assert "iterations" in record["chosen"]["trees"]
    assert headrace(tmp_path, "run", "steps.yaml").statuses()["Trainer"] == "cached"
    (listed,) = json.loads(headrace(tmp_path, "models", "steps.yaml", "--json").out)
    assert listed["tuned"]["model.kind"] == "trees"
    scored = headrace(tmp_path, "predict", "steps.yaml", "--input", "steps.csv", "--output", "scored.csv")
    assert scored.code == 0, scored.err
    with (tmp_path / "scored.csv").open(newline="", encoding="utf-8") as file:
        right = [row["y"] == row["prediction"] for row in csv.DictReader(file)]
    assert sum(right) > 0.95 * len(right)
