"""A late scheduled run, and a backfill of the days around it: what each reads, with pods that are processes.

The schedule and the runs are on a stand-in of the API server (api_server.py), and tasks run as in `headrace verify`. Of
the pipeline only Spans and ExampleGen are left, as nothing else decides what is read.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from api_server import ApiServer
from faulty_backend import serving
from forks import Forked

from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler import compile as compile_module
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.pod.parameters import SCHEDULE_PLACEHOLDER
from headrace.pipeline.kubeflow.server.backfill import backfill, spans
from headrace.pipeline.kubeflow.server.schedules import submit_schedule
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.verify.cluster import Cluster, ClusterRun

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: nightly}
data: {source: {kind: csv, path: "%s/{YYYY}-{MM}-{DD}.csv"}, window: 1, delay: 1}
label: {key: tip, kind: binary}
model: {kind: wide_and_deep}
features: {fare: {column: numeric}}
evaluate: {better_than_constant: false}
schedule: {cron: "0 5 * * *", as_of: scheduled, window: 2}
kubeflow:
  image: registry.example/headrace:1
  parameters: [run_date, spans, window]
  server: {endpoint: "%s"}
"""
READ = ("spans", "example-gen")
LATE = "2026-11-04T05:00:00Z"
"""When the scheduled run should have begun. It begins when the data of the days after it is there too."""


@dataclass(frozen=True)
class Nightly:
    """The pipeline on a server, and a cluster for its tasks."""

    server: ApiServer
    session: Session
    cluster: Cluster
    text: str

    def run(self, parameters: Mapping[str, str], scheduled: str = "") -> ClusterRun:
        """scheduled: what the driver puts in the place of the time that the run was scheduled for."""
        return self.cluster.run(self.text.replace(SCHEDULE_PLACEHOLDER, scheduled), parameters)


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nightly]:
    folder = tmp_path_factory.mktemp("nightly")
    for day in range(1, 6):
        rows = [f"{day}{row}.5,{row % 2}" for row in range(50)]
        (folder / f"2026-11-{day:02d}.csv").write_text("\n".join(["fare,tip", *rows, ""]))
    with serving(ApiServer()) as server, pytest.MonkeyPatch.context() as patch:
        assert isinstance(server, ApiServer)
        (folder / "nightly.yaml").write_text(CONFIG % (folder, server.url))
        config = load(folder / "nightly.yaml")
        whole = compile_module.compile_pipeline(config)
        patch.setattr(compile_module, "compile_pipeline", lambda _, **_given: whole)
        patch.setattr(subprocess, "Popen", Forked)
        cluster = Cluster(folder / "cluster", config.kubeflow.pipeline_root)
        yield Nightly(server, Session.of(config), cluster, reading_alone(whole))


def reading_alone(text: str) -> str:
    first, *more = yaml.safe_load_all(text)
    dag = first["root"]["dag"]
    dag["tasks"] = {name: one for name, one in dag["tasks"].items() if name in READ}
    return yaml.safe_dump_all([first, *more])


def days(run: ClusterRun) -> list[str]:
    return [one["name"] for one in json.loads(unpack(run.tasks["spans"].parameters["spans"]))["spans"]]


def as_reported(run: ClusterRun) -> list[dict[str, Any]]:
    """The nodes of the drivers, which hold the inputs of the tasks."""
    given = {"example-gen": {"spans": run.tasks["spans"].parameters["spans"]}, "trainer": {}}
    found = []
    for name, values in given.items():
        command = ["launcher", "--executor_input", json.dumps({"inputs": {"parameterValues": values}})]
        patch = {"name": "pod-spec-patch", "value": json.dumps({"containers": [{"command": command}]})}
        found.append({"id": name, "displayName": f"{name}-driver", "outputs": {"parameters": [patch]}})
    return found


def test_a_late_run_reads_what_it_would_have_read_in_time_and_a_backfill_does_the_rest(nightly: Nightly) -> None:
    config, session, server = nightly.session.config, nightly.session, nightly.server
    assert config.schedule is not None
    submit_schedule(session, config.schedule)
    (schedule,) = server.objects["recurringruns"].values()
    given = schedule["runtime_config"]["parameters"]
    late = nightly.run(given, LATE)
    assert days(late) == ["2026-11-02", "2026-11-03"]  # of the fourth, less a day of delay, the newest two
    made = server.answer("POST", "/apis/v2beta1/runs", {**schedule, "display_name": "nightly-1"})[1]
    server.report(made["run_id"], "SUCCEEDED", nodes=as_reported(late))

    wanted = spans(config, "2026-11-02", "2026-11-05")
    filled = {one.span: one for one in backfill(session, wanted)}
    assert [span for span, one in filled.items() if not one.made] == ["2026-11-03"]
    assert filled["2026-11-03"].run.display_name == "nightly-1"
    first = nightly.run(filled["2026-11-02"].run.runtime_config.parameters)
    assert days(first) == ["2026-11-01", "2026-11-02"]
    assert not any(one.made for one in backfill(session, wanted))

    same = nightly.run({"spans": "2026-11-03", "window": "2"})
    assert days(same) == days(late)
    assert same.cached == {"example-gen"}, "the same data is the same input, however it was asked for"
