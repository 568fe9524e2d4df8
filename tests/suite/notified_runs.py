"""Runs that have ended, for tests of what their receivers are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.components.evaluation.result import Evaluation, ThresholdCheck, write_evaluation
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.configs.loading.loader import load
from headrace.pipeline.folders import Folders
from headrace.pipeline.notify.deliver import Outside
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.results.run_folder import RunFolder

SECRET = "T0AB12CD/B0EF34GH/x9Yz8Wv7Ut6Sr5Qp4"
VALUE = "Ada Lovelace, 1815"
"""What stands in a row."""
BASE: dict[str, Any] = {
    "pipeline": {"name": "trips"},
    "data": {"source": {"kind": "csv", "path": "trips.csv"}},
    "label": {"key": "tip", "kind": "binary"},
    "features": {"fare": {"column": "numeric"}},
}
EVALUATION = Evaluation(
    split="test",
    example_count=40,
    unlabelled=0,
    metrics={"auc": 0.71, "accuracy": float("nan")},
    baseline=None,
    slices=(),
    checks=(ThresholdCheck("auc", "min", 0.8, 0.71, None, passed=False),),
    blessed=False,
    reasons=("auc is 0.71, below min 0.8",),
    curves=None,
)


class Pauses(list[float]):
    """A sleep that only notes for how long."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def config_of(tmp_path: Path, **receivers: Any) -> PipelineConfig:
    pipeline = {"name": "trips", "root": str(tmp_path / "runs")}
    return load({**BASE, "pipeline": pipeline, "notify": receivers})


def outside(pauses: Pauses, **environ: str) -> Outside:
    return Outside({"PATH": "/usr/bin:/bin", **environ}, pauses)


def run_folder(config: PipelineConfig, run_id: str = "20261124-030000", status: Status = Status.FAILED) -> RunFolder:
    """A run whose DataGate refused a row."""
    path = Folders.of(config).runs / run_id
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    examples = ArtifactRecord("Examples", str(path), {"rows": '{"train": 300, "eval": 60}'})
    failed = NodeRecord(
        "DataGate", status=status, started=1003.0, finished=1004.5, log=str(path / "logs" / "DataGate.log")
    )
    failed.error, failed.error_class, failed.expected = f"1 anomaly: {VALUE}", "GateError", True
    nodes = [
        NodeRecord("ExampleGen", status=Status.DONE, started=1000.0, finished=1002.0, outputs={"examples": examples})
    ]
    record = RunRecord(run_id, "trips", "trips.yaml", 999.0, 1010.0, status, failed.error, nodes=[*nodes, failed])
    record.write(path)
    return RunFolder.read(path)


def evaluated(config: PipelineConfig, tmp_path: Path, *, blessed: bool) -> RunFolder:
    """A run that evaluated its model and, if blessed, pushed it."""
    folder, result = run_folder(config, status=Status.DONE), tmp_path / "evaluation"
    result.mkdir()
    check = replace(EVALUATION.checks[0], passed=blessed, limit=0.7 if blessed else 0.8)
    reasons = () if blessed else EVALUATION.reasons
    write_evaluation(result, replace(EVALUATION, blessed=blessed, checks=(check,), reasons=reasons))
    pushed = ArtifactRecord("PushedModel", "/m", {"pushed": int(blessed), "pushed_destination": "/serving/trips/7"})
    outputs = {"evaluation": ArtifactRecord("ModelEvaluation", str(result))}
    folder.record.nodes = [
        NodeRecord("Evaluator", status=Status.DONE, started=1000.0, finished=1009.0, outputs=outputs),
        NodeRecord("Pusher", status=Status.DONE, started=1009.0, finished=1010.0, outputs={"pushed_model": pushed}),
    ]
    folder.record.error = None
    folder.record.write(folder.path)
    return RunFolder.read(folder.path)
