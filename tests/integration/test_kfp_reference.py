"""A pipeline that trains where data drifted, its artifacts on a volume, through a stock Kubeflow Pipelines release.

The release's own driver looks at one condition within the other; its own launcher finds nothing to copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import headrace
from kfp_cluster import BUCKET, Bucket, Cluster, ClusterRun, cluster
from kfp_metadata import ended_tasks
from kfp_server import Server
from test_triggers import CONFIG, write_day

from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.verify.compare import OutputComparison
from headrace.pipeline.kubeflow.verify.driver import TaskRun
from headrace.pipeline.kubeflow.verify.verify import compared

pytestmark = pytest.mark.slow

KUBEFLOW = """\
kubeflow:
  image: registry.example/headrace:1
  storage: reference
  volume: {claim: artifacts, path: /on/a/volume}
"""
BEFORE_DRIFT = {"spans", "example-gen", "statistics-gen", "schema-gen", "example-validator", "data-gate", "drift"}


@dataclass(frozen=True)
class Night:
    """One run: its pods, and what its tasks left."""

    run: ClusterRun
    tasks: dict[str, TaskRun]

    def ran(self) -> set[str]:
        """The tasks that had a pod to run in."""
        return {name for name in self.run.pods if not name.endswith("-driver")}

    def text(self, task: str, key: str) -> str:
        return unpack(str(self.tasks[task].parameters[key]))


@dataclass
class Story:
    """The nights, and how the first compares with a local run. `chosen`: the version that is run."""

    folder: Path
    volume: Path
    there: Cluster
    chosen: Mapping[str, str]
    nights: dict[str, Night] = field(default_factory=dict)
    compared: list[OutputComparison] = field(default_factory=list)

    def path(self, uri: str) -> Path:
        return PodPaths(str(self.volume)).local(uri)

    def run(self) -> Night:
        run = self.there.run(self.chosen)
        return Night(run, ended_tasks(self.there.database, run.run_id))


@pytest.fixture(scope="module")
def story(
    server: Server,
    kfp_binary: Path,
    bucket: Bucket,
    new_folder: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    folder, volume = new_folder("by-reference"), tmp_path_factory.mktemp("volume")
    own = CONFIG.replace("mine.build", "dnn")  # whose module would have to be in the image
    pushing = own.replace("days/", f"{folder}/days/").replace("push: null", "push: serving")
    (folder / "nightly.yaml").write_text(pushing + KUBEFLOW)
    for day in (1, 2):
        write_day(folder, day)
    done = headrace(folder, "compile", "nightly.yaml", "-o", "pipeline.yaml")
    assert done.code == 0, done.out + done.err
    local = headrace(folder, "run", "nightly.yaml")
    assert local.code == 0, local.out + local.err
    state = tmp_path_factory.mktemp("cluster")
    with cluster(server, kfp_binary, bucket, state, shared=[folder], claims={"artifacts": volume}) as there:
        reported = Story(folder, volume, there, there.uploaded(folder / "pipeline.yaml"))
        first = reported.nights["first"] = reported.run()
        reported.compared = list(compared(load(folder / "nightly.yaml"), local.run, first.tasks, reported.path))
        reported.nights["nothing"] = reported.run()
        write_day(folder, 3)
        reported.nights["alike"] = reported.run()
        yield reported


@pytest.fixture(scope="module")
def drifted(story: Story) -> Night:
    write_day(story.folder, 4, taxed=3, share=0.9)
    return story.run()


def test_first_run_on_a_volume_gives_what_a_local_run_gives(story: Story) -> None:
    different = [str(line) for line in story.compared if not line.same]
    assert not different
    found = {f"{line.component}.{line.output}": line.what for line in story.compared}
    assert "byte for byte" in found["ExampleGen.examples"]
    assert "byte for byte" in found["Transform.transformed_examples"]
    assert "RecordTraining" in {line.component for line in story.compared}
    assert "Pusher.pushed_model" in found


def test_nothing_new_ends_the_run_after_the_first_task(story: Story) -> None:
    nothing = story.nights["nothing"]
    assert nothing.ran() == {"spans"}
    assert nothing.text("spans", "why").startswith("nothing new")
    assert not [name for name in nothing.run.pods if name.startswith("condition-2")]


def test_new_span_like_those_trained_on_ends_the_run_at_the_inner_condition(story: Story) -> None:
    alike = story.nights["alike"]
    assert alike.ran() == BEFORE_DRIFT
    assert alike.text("drift", "go") == "no"
    assert "condition-2-driver" in alike.run.pods


def test_span_that_drifted_is_trained_on_and_held_against_the_model_on_the_volume(story: Story, drifted: Night) -> None:
    first = story.nights["first"]
    assert drifted.ran() == first.ran()
    reported = json.loads(drifted.text("baseline", "baseline"))
    assert reported["uri"] == first.tasks["trainer"].artifacts["model"]["uri"]
    home = story.path(f"minio://{BUCKET}/v2/artifacts/nightly")
    blessed = json.loads((home / "blessed.json").read_text())["models"]
    assert len([*(home / "serving").glob("*/saved_model.pb")]) == len(blessed)
    trained = json.loads((home / "trained.json").read_text())
    assert trained["judged"]["spans"] == ["2026-11-03", "2026-11-04"]


def test_launcher_copies_nothing_but_logs_and_records(story: Story, bucket: Bucket) -> None:
    assert story.nights
    assert {name.rpartition("/")[2] for name in bucket.names()} <= {"executor-logs-0", "record"}
