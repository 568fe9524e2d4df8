"""What is submitted to Kubeflow is what ran here: `headrace verify`, and what a cluster runs again afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import ROOT

from configs.loader import load
from pipeline.kubeflow.compile import compile_pipeline
from pipeline.kubeflow.verify.cluster import Cluster, ClusterRun
from pipeline.kubeflow.verify.driver import TaskRun, fingerprint, provision, resolve, task_specs
from pipeline.kubeflow.verify.verify import as_compiled

pytestmark = pytest.mark.slow

TAXI = ROOT / "configs" / "taxi.yaml"
HOME = "minio://mlpipeline/v2/artifacts/chicago-taxi"
UNCACHED = {"spans", "baseline", "record-blessing"}
TRIPS = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: %s/trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
kubeflow: {image: "registry.example/headrace:1"}
"""


@dataclass(frozen=True)
class Story:
    """`headrace verify`, and two further runs in the cluster that it left."""

    code: int
    lines: list[str]
    left: list[Path]
    cluster: Cluster
    text: str
    again: ClusterRun
    one_epoch: ClusterRun

    def registry(self) -> list[dict[str, Any]]:
        models: list[dict[str, Any]] = json.loads(self.cluster.path(f"{HOME}/blessed.json").read_text())["models"]
        return models


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder, kept = new_folder("verify"), tmp_path_factory.mktemp("kept")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pipeline", "verify", str(TAXI), "--keep", str(kept)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    config = as_compiled(load(TAXI))
    cluster, text = Cluster(kept / "cluster", config.kubeflow.pipeline_root), compile_pipeline(config)
    again, one_epoch = cluster.run(text), cluster.run(text, {"epochs": 1})
    return Story(done.returncode, done.stdout.splitlines(), [*folder.iterdir()], cluster, text, again, one_epoch)


def test_compiled_pipeline_equals_a_local_run(story: Story) -> None:
    found = {line.split()[1].rstrip(":"): line for line in story.lines if line.startswith("same")}
    assert story.code == 0, "\n".join(story.lines)
    assert "byte for byte" in found["ExampleGen.examples"]
    assert "byte for byte" in found["StatisticsGen.statistics"]
    assert "byte for byte" in found["Transform.transformed_examples"]
    assert "node for node" in found["Transform.transform_graph"]
    assert "4 metrics in 30 slices" in found["Evaluator.evaluation"]
    assert "Pusher.pushed_model" in found
    assert not [line for line in story.lines if line.startswith("DIFFERENT")]


def test_verify_pushes_nothing_and_leaves_nothing_in_the_current_folder(story: Story) -> None:
    assert story.left == []


def test_unchanged_second_run_takes_all_but_the_lookers_from_the_cache(story: Story) -> None:
    specs = task_specs(next(yaml.safe_load_all(story.text)))
    assert story.again.cached == specs.keys() - UNCACHED


def test_a_runs_parameter_runs_again_what_it_concerns(story: Story) -> None:
    ran = story.one_epoch.tasks.keys() - story.one_epoch.cached
    assert ran == {"trainer", "evaluator", "pusher"} | UNCACHED


def test_a_candidate_is_compared_with_the_model_that_the_run_before_blessed(story: Story) -> None:
    first = story.again.tasks["trainer"].artifacts["model"]["uri"]
    assert json.loads(story.again.tasks["baseline"].parameters["baseline"]) == {"uri": "", "why": ""}
    assert json.loads(story.one_epoch.tasks["baseline"].parameters["baseline"]) == {"uri": first, "why": ""}
    assert story.registry()[0]["uri"] == first.removeprefix(f"{HOME}/")
    folder = story.cluster.path(story.one_epoch.tasks["evaluator"].artifacts["evaluation"]["uri"])
    assert json.loads((folder / "evaluation.json").read_text())["baseline"]["auc"] > 0.9


def test_what_is_pushed_lies_whole_in_the_object_store(story: Story) -> None:
    versions = story.cluster.store.children(f"{HOME}/serving")
    told = story.again.tasks["pusher"].artifacts["pushed_model"]["metadata"]
    assert told["pushed_version"] == versions[0]
    assert told["pushed_destination"] == f"{HOME}/serving/{versions[0]}"
    assert (story.cluster.path(told["pushed_destination"]) / "saved_model.pb").is_file()


def test_changed_data_under_the_same_name_misses_the_cache(tmp_path: Path) -> None:
    (tmp_path / "trips.csv").write_text("fare,tip\n1.5,0\n")
    (tmp_path / "trips.yaml").write_text(TRIPS % tmp_path)
    pipeline = next(yaml.safe_load_all(compile_pipeline(load(tmp_path / "trips.yaml"))))
    example_gen, tasks = task_specs(pipeline)["example-gen"], pipeline["root"]["dag"]["tasks"]
    pipeline["root"]["dag"]["tasks"] = {"spans": tasks["spans"]}
    keys = []
    for content in ("fare,tip\n1.5,0\n", "fare,tip\n1.5,0\n2.5,1\n"):
        (tmp_path / "trips.csv").write_text(content)
        run = Cluster(tmp_path / "cluster", "minio://bucket").run(yaml.safe_dump(pipeline))
        keys.append(_key(example_gen, run.tasks))
    assert keys[0] != keys[1]


def _key(spec: Any, ended: dict[str, TaskRun]) -> str:
    return fingerprint(spec, resolve(spec, {}, ended), provision(spec, "minio://bucket/trips/run", "salt"))
