"""A run with `model: {kind: auto}`: what was chosen in the log, the report, the commands, and the exported model."""

from __future__ import annotations

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
model: {kind: auto, candidates: [dnn, linear, periodic_tabm], hidden: [4]}
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
    best = min(scores, key=lambda kind: scores[kind])
    assert found["model"]["kind"] == best
    exported = done.uri("Trainer", "model") / "Format-Serving" / "assets.extra" / "description.json"
    assert json.loads(exported.read_text())["model"] == found["model"]

    assert done.run_dir is not None
    report = (done.run_dir / "report.html").read_text()
    assert "3 trials (kinds of models), compared by loss on the eval split" in report
    assert f"{best}, " in report
    assert "model.kind  model.frequencies" in (done.run_dir / "logs" / "Trainer.log").read_text()
    (listed,) = json.loads(headrace(tmp_path, "models", "sums.yaml", "--json").out)
    assert listed["tuned"]["model.kind"] == best
    table = headrace(tmp_path, "models", "sums.yaml").out
    assert table.splitlines()[0].endswith("COMMIT  TUNED")
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
