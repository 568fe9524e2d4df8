"""Runs that have ended on Kubeflow's API, with what their tasks left in the object store.

kubeflow = kubeflow_of(server, store, folder, all={"kind": "webhook", "url": hook.url})
run_id = kubeflow.ended("SUCCEEDED", {})
kubeflow.evaluated(run_id, BLESSED)
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from api_server import ApiServer
from compiled_trips import trips

from headrace.common.checksums import with_checksum
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import Evaluation, ThresholdCheck, write_evaluation
from headrace.pipeline.kubeflow.notifier.sweep import sweep
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.submit import submit
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.notify.deliver import Outside

ROOT = "s3://root/runs"
HOME = f"{ROOT}/trips"
CHECK = ThresholdCheck("auc", "min", 0.8, 0.71, None, passed=False)
EVALUATION = Evaluation(
    split="test",
    example_count=40,
    unlabelled=0,
    metrics={"auc": 0.71},
    baseline=None,
    slices=(),
    checks=(CHECK,),
    blessed=False,
    reasons=(str(CHECK),),
    curves=None,
)
BLESSED = replace(EVALUATION, checks=(replace(CHECK, limit=0.7, passed=True),), blessed=True, reasons=())
Details = list[dict[str, Any]]


@dataclass
class Kubeflow:
    """A pipeline on a server, whose receivers are the config's. Objects are those that a launcher would leave."""

    server: ApiServer
    session: Session
    store: Store
    tmp: Path

    def ended(self, state: str, tasks: Mapping[str, tuple[str, str]], nodes: Details | None = None) -> str:
        """A run that ended so. tasks: the state of each, and Argo's message; all others succeeded."""
        run_id = str(submit(self.session, again=True)[1].run.run_id)
        self.report(run_id, state, tasks, nodes)
        return run_id

    def report(
        self, run_id: str, state: str, tasks: Mapping[str, tuple[str, str]], nodes: Details | None = None
    ) -> None:
        self.server.time += dt.timedelta(minutes=5)
        details = []
        for number, name in enumerate(self.session.tasks(self.session.run(run_id))):
            task, message = tasks.get(name, ("SUCCEEDED", ""))
            start = self.server.time + dt.timedelta(seconds=number)
            times = {"start_time": start.isoformat(), "end_time": (start + dt.timedelta(seconds=2)).isoformat()}
            error = {"error": {"message": message}} if message else {}
            details.append({"display_name": name, "state": task, **times, **error})
        self.server.report(run_id, state, details, nodes or ())

    def evaluated(self, run_id: str, evaluation: Evaluation, *refusals: str) -> None:
        """What Evaluator and Canary leave. refusals: the canary's."""
        write_evaluation(self.tmp, evaluation)
        CanaryVerdict(reasons=refusals).write(self.tmp)
        self.store.put(self.tmp / "evaluation.json", f"{HOME}/{run_id}/evaluator/17/evaluation/evaluation.json")
        self.store.put(self.tmp / "verdict.json", f"{HOME}/{run_id}/canary/18/blessing/verdict.json")

    def pushed(self, run_id: str, version: str) -> None:
        self.store.write(f"{HOME}/{run_id}/pusher/19/pushed_model/saved_model.pb", "graph")
        pushes = {"serving/trips": {"1700000000": "old/trainer/1/model", version: f"{run_id}/trainer/9/m"}}
        self.store.write(f"{HOME}/pushed.json", with_checksum(json.dumps({"models": pushes})))

    def sweep(self) -> list[str]:
        outside = Outside({"PATH": "/usr/bin:/bin"}, lambda _: None)
        return [str(one) for one in sweep(self.session, self.store, outside, self.server.time.timestamp)]


def kubeflow_of(server: ApiServer, store: Store, tmp: Path, *settings: str, **receivers: Any) -> Kubeflow:
    own = [f"notify={json.dumps(receivers)}", f"kubeflow.pipeline_root={ROOT}", *settings]
    session = Session.of(trips(f"kubeflow.server.endpoint={server.url}", *own))
    session.server._sleep = lambda _: None
    return Kubeflow(server, session, store, tmp)
