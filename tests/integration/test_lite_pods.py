"""`deploy.lite` as a task of a compiled pipeline, in pods that begin with nothing: the file reaches the store."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from forks import Forked
from parcels import parcels_config, write_parcels

from headrace.components.lite.verdict import MODEL_FILE, REPORT_FILE, LiteVerdict
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow import model_changes
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.stored_models import stored_models
from headrace.pipeline.kubeflow.verify.cluster import Cluster, ClusterRun
from headrace.pipeline.kubeflow.verify.verify import as_compiled

pytestmark = pytest.mark.slow

ROOT = "minio://mlpipeline/v2/artifacts"
HOME = f"{ROOT}/parcels"
CONFIG = parcels_config("distance: {column: numeric}").replace("parcels.csv", "%s/parcels.csv")
DEPLOY = """\
deploy: {push: serving, canary: null, keep: 2, lite: {precision: float16, examples: 20}}
kubeflow: {image: "registry.example/headrace:1", pipeline_root: "minio://mlpipeline/v2/artifacts"}
"""


@dataclass(frozen=True)
class Story:
    """Two runs that push a model each, and a rollback to the first, which makes a third version."""

    config: PipelineConfig
    cluster: Cluster
    first: ClusterRun
    second: ClusterRun
    versions: list[list[str]]
    """The versions after each of the three."""

    def files(self) -> set[str]:
        """The names of the files beside the versions."""
        return {*self.cluster.store.files(f"{HOME}/serving/lite")}


def versions(cluster: Cluster) -> list[str]:
    return [name for name in cluster.store.children(f"{HOME}/serving") if name.isdecimal()]


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("lite_pods")
    write_parcels(folder / "parcels.csv", 400)
    (folder / "parcels.yaml").write_text(CONFIG % folder + DEPLOY)
    config = as_compiled(load(folder / "parcels.yaml"))
    cluster, found, runs = Cluster(folder / "cluster", config.kubeflow.pipeline_root), list[list[str]](), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Forked)
        for epochs in (1, 2):
            runs.append(cluster.run(compile_pipeline(config), {"epochs": epochs}))
            found.append(versions(cluster))
    model_changes.roll_back(config, cluster.store, None, datetime.now(UTC))
    return Story(config, cluster, runs[0], runs[1], [*found, versions(cluster)])


def test_file_of_each_version_lies_beside_it_in_the_store_also_after_a_rollback(story: Story) -> None:
    first, second, third = story.versions
    assert (len(first), len(second), len(third)) == (1, 2, 2)  # `deploy.keep` removed the first one, and its file
    assert story.files() == {f"{version}/{name}" for version in third for name in (MODEL_FILE, REPORT_FILE)}
    store = story.cluster.store
    for run, version in ((story.second, second[-1]), (story.first, third[-1])):
        written = story.cluster.path(run.tasks["lite"].artifacts["blessing"]["uri"])
        beside = story.cluster.path(f"{HOME}/serving/lite/{version}")
        assert (beside / MODEL_FILE).read_bytes() == (written / MODEL_FILE).read_bytes()
        assert store.text(f"{HOME}/serving/lite/{version}/{REPORT_FILE}") == (written / REPORT_FILE).read_text()


def test_models_on_kubeflow_are_listed_with_what_the_conversion_came_to(story: Story) -> None:
    models = stored_models(story.config, story.cluster.store, 20)
    assert len(models) == 2
    for model, run in zip(models, (story.second, story.first), strict=True):
        verdict = LiteVerdict.read(story.cluster.path(run.tasks["lite"].artifacts["blessing"]["uri"]))
        assert model.lite == verdict
        assert model.lite is not None
        assert model.lite.passed
        assert model.lite.words.startswith("float16, ")


def test_task_is_reused_with_the_model(story: Story) -> None:
    assert "lite" not in story.second.cached
    assert {"example-gen", "transform"} <= story.second.cached
