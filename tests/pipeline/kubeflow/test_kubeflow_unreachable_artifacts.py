"""Workers outside of the pods, which cannot open staged artifacts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compiled_trips import NO_SECRET, trips

from headrace.common.errors import ConfigError
from headrace.configs.rules.on_kubeflow import remote_endpoint
from headrace.configs.schema.beam import BeamConfig, Runner
from headrace.pipeline.kubeflow.compiler.checks import check_config
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline

JOBS = {
    "job_endpoint": "headrace-beam-jobs:8099",
    "environment_type": "EXTERNAL",
    "environment_config": "localhost:50000",
}
FLINK = ("beam.runner=flink", f"beam.options={json.dumps(JOBS)}")
SERVICE = "train.input.service=grpc://headrace-tfdata:5050"


@pytest.mark.parametrize(
    ("runner", "options", "to"),
    [
        ("flink", JOBS, "headrace-beam-jobs:8099"),
        ("portable", JOBS, "headrace-beam-jobs:8099"),
        ("flink", {"flink_master": "flink:8081"}, "flink:8081"),
        ("spark", {"spark_master_url": "spark://there:7077"}, "spark://there:7077"),
        ("spark", {"spark_rest_url": "http://there:6066"}, "http://there:6066"),
        ("dataflow", {"region": "europe-west1"}, "Dataflow"),
        ("auto", {}, None),
        ("direct", {"experiments": "a"}, None),
        ("flink", {"flink_master": "[local]"}, None),  # starts a Flink of its own
        ("spark", {"spark_master_url": "local[2]"}, None),
        ("portable", {"job_endpoint": "embed"}, None),
        ("portable", {"job_endpoint": "localhost:8099"}, None),
        ("portable", {"job_endpoint": "jobs:8099", "environment_type": "LOOPBACK"}, None),
    ],
)
def test_a_runner_elsewhere_is_known_by_where_its_jobs_go(runner: Runner, options: Any, to: str | None) -> None:
    assert remote_endpoint(BeamConfig(runner=runner, options=options)) == to


def test_workers_elsewhere_are_refused_where_artifacts_are_staged_with_all_places_and_the_way_out() -> None:
    with pytest.raises(ConfigError) as raised:
        compile_pipeline(trips(NO_SECRET, *FLINK, SERVICE), {})
    reported = {problem.where: problem.what for problem in raised.value.problems}
    assert set(reported) == {"beam.runner", "train.input.service"}
    assert "Beam's workers at headrace-beam-jobs:8099 would open" in reported["beam.runner"]
    assert "the workers of grpc://headrace-tfdata:5050 would open" in reported["train.input.service"]
    assert all("`kubeflow.storage: reference`" in what for what in reported.values())


def test_workers_elsewhere_share_the_volume_of_artifacts_by_reference() -> None:
    volume = ("kubeflow.storage=reference", "kubeflow.volume={claim: artifacts}")
    check_config(trips(*volume, *FLINK, SERVICE))
