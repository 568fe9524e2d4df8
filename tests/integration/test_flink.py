"""The taxi pipeline as compiled for Kubeflow, with its Beam components on a real Flink."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import pytest
from command import ROOT, headrace
from flink import HIDDEN, PodApart, described, workers
from forks import Forked
from kfp_kubernetes import pods_work

from benchmarks.flink import JobServer, MissingError, beam_section, jars, job_server
from headrace.common.errors import TrainingError
from headrace.components.beam_pipelines import BeamPipelines
from headrace.configs.loading.loader import load
from headrace.configs.rules.beam_options import JOB_SERVER_OPTIONS
from headrace.configs.schema.beam import BeamConfig
from headrace.pipeline.execute import WORKER_ERROR
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.verify.cluster import Cluster, ClusterRun
from headrace.pipeline.kubeflow.verify.compare import OutputComparison
from headrace.pipeline.kubeflow.verify.verify import as_compiled, compared

pytestmark = pytest.mark.slow

TAXI = ROOT / "configs" / "taxi.yaml"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that ends before it has got faster by compiling its code again."""
PAYMENTS = ("Cash", "Credit Card", "Unknown", "No Charge")


@dataclass(frozen=True)
class Story:
    """A run in pods with Flink, and how it compares with a local run without. `volume`: what pods and workers share."""

    jobs: JobServer
    beam: BeamConfig
    volume: Path
    run: ClusterRun
    finished: int
    lines: dict[str, OutputComparison]
    folders: dict[str, Path]


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if reason := pods_work():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", SHORT_LIVED)
        yield from _story(new_folder, tmp_path_factory)


def _story(new_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    try:
        parts = jars(tmp_path_factory.mktemp("flink_jars"))
    except MissingError as reason:
        pytest.skip(str(reason))
    kept = tmp_path_factory.mktemp("cluster")
    hidden = kept / HIDDEN
    hidden.mkdir()
    folder, vocabulary = new_folder("taxi"), tmp_path_factory.mktemp("named") / "payments.txt"
    vocabulary.write_text("\n".join(PAYMENTS))
    payments = ["features.payment_type.top_k=null", f"features.payment_type.file={vocabulary}"]
    overrides = ["train.epochs=1", "deploy.canary=null", *payments]
    local = headrace(folder, "run", str(TAXI), *(word for one in overrides for word in ("--set", one))).run
    with job_server(parts, new_folder("jobs")) as jobs, workers(new_folder("workers"), hidden) as pool:
        section = beam_section(jobs, pool, workers=2)
        shared = ("kubeflow.storage=reference", "kubeflow.volume={claim: artifacts}")
        on_flink = [f"beam={section.model_dump_json()}", *shared]
        config = as_compiled(load(TAXI, overrides=[*overrides, *on_flink]))
        cluster = Cluster(kept, config.kubeflow.pipeline_root)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.pipeline.kubeflow.verify.cluster.Pod", PodApart)
            patch.setattr(subprocess, "Popen", Forked)  # with the imports done
            run = cluster.run(compile_pipeline(config))
        lines = compared(config, local, run.tasks, lambda uri: cluster.path(uri, config.kubeflow.volume))
        found = {f"{line.component}.{line.output}": line for line in lines}
        folders = {
            f"{name}.{key}": cluster.path(str(one["uri"]), config.kubeflow.volume)
            for name, task in run.tasks.items()
            for key, one in task.artifacts.items()
        }
        yield Story(jobs, section, kept / "volumes" / "artifacts", run, jobs.finished, found, folders)


def test_pods_and_workers_that_share_only_the_volume_make_what_a_local_run_makes(story: Story) -> None:
    assert [str(line) for line in story.lines.values() if not line.same] == []
    assert "byte for byte" in story.lines["ExampleGen.examples"].what
    assert "byte for byte" in story.lines["StatisticsGen.statistics"].what
    assert "byte for byte" in story.lines["Transform.transformed_examples"].what
    assert "node for node" in story.lines["Transform.transform_graph"].what
    assert "4 metrics in 30 slices" in story.lines["Evaluator.evaluation"].what


def test_flink_has_run_every_beam_component_in_parallel(story: Story) -> None:
    """ExampleGen's three passes, StatisticsGen, both halves of Transform, Evaluator."""
    assert story.finished == 7
    assert "(2/2)" in story.jobs.log.read_text()


def test_the_options_of_the_job_server_are_in_the_table(story: Story) -> None:
    assert described(story.jobs) >= JOB_SERVER_OPTIONS["flink"]


def test_nothing_that_was_only_for_the_workers_stays_on_the_volume(story: Story) -> None:
    assert list(story.volume.rglob(".scratch")) == []


def test_what_a_worker_says_to_the_user_is_found_in_what_comes_back(story: Story, tmp_path: Path) -> None:
    def refuse(number: int) -> None:
        raise TrainingError(f"{number} cannot be taken")

    with (
        pytest.raises(RuntimeError) as raised,
        BeamPipelines(story.beam, tmp_path)() as pipeline,
    ):
        _ = pipeline | beam.Create([7]) | beam.Map(refuse)
    said = WORKER_ERROR.match(str(raised.value))
    assert said is not None
    assert said[1] == "7 cannot be taken"
