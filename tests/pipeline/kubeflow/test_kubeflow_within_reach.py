"""Workers outside of the pods, which cannot open staged artifacts."""

from __future__ import annotations

import json

import pytest
from compiled_trips import NO_SECRET, trips

from configs.errors import ConfigError
from pipeline.kubeflow.compile import compile_pipeline
from pipeline.kubeflow.within_reach import check, elsewhere

FLINK = ["--runner=PortableRunner", "--job_endpoint=headrace-beam-jobs:8099", "--environment_type=EXTERNAL"]
SERVICE = "train.input.service=grpc://headrace-tfdata:5050"


@pytest.mark.parametrize(
    ("args", "to"),
    [
        (FLINK, "headrace-beam-jobs:8099"),
        (["--runner", "portable", "--job_endpoint", "jobs:8099"], "jobs:8099"),
        (["--runner=FlinkRunner", "--flink_master=flink:8081"], "flink:8081"),
        (["--runner=SparkRunner", "--spark_master_url=spark://there:7077"], "spark://there:7077"),
        (["--runner=DataflowRunner", "--region=europe-west1"], "DataflowRunner"),
        (["--runner=dataflow"], "dataflow"),
        (["--runner=apache_beam.runners.dataflow.dataflow_runner.DataflowRunner"], "apache_beam.runners.dataflow."
         "dataflow_runner.DataflowRunner"),
        ([], None),
        (["--direct_num_workers=2"], None),
        (["--runner=DirectRunner", "--job_endpoint=jobs:8099"], None),
        (["--runner=FlinkRunner"], None),  # starts a Flink of its own
        (["--runner=FlinkRunner", "--flink_master=[local]"], None),
        (["--runner=SparkRunner", "--spark_master_url=local[2]"], None),
        (["--runner=PortableRunner", "--job_endpoint=embed"], None),
        (["--runner=PortableRunner", "--job_endpoint=localhost:8099"], None),
        (["--runner=PortableRunner", "--job_endpoint=jobs:8099", "--environment_type=LOOPBACK"], None),
    ],
)  # fmt: skip
def test_a_runner_elsewhere_is_known_by_where_its_jobs_go(args: list[str], to: str | None) -> None:
    assert elsewhere(args) == to


def test_workers_elsewhere_are_refused_where_artifacts_are_staged_with_all_places_and_the_way_out() -> None:
    with pytest.raises(ConfigError) as raised:
        compile_pipeline(trips(NO_SECRET, f"beam.args={json.dumps(FLINK)}", SERVICE), {})
    told = {problem.where: problem.what for problem in raised.value.problems}
    assert set(told) == {"beam.args", "train.input.service"}
    assert "Beam's workers at headrace-beam-jobs:8099 would open" in told["beam.args"]
    assert "the workers of grpc://headrace-tfdata:5050 would open" in told["train.input.service"]
    assert all("use `kubeflow.storage: reference`" in what for what in told.values())


def test_workers_elsewhere_share_the_volume_of_artifacts_by_reference() -> None:
    volume = ("kubeflow.storage=reference", "kubeflow.volume={claim: artifacts}")
    check(trips(*volume, f"beam.args={json.dumps(FLINK)}", SERVICE))
