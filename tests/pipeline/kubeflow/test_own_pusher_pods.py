"""A Pusher of the user's own in its pod: what it pushed is noted there, as it is after a local run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command import PATIENCE
from compiled_trips import settings_of, trips
from test_kubeflow_entrypoint import Pod

from headrace.components.stored_models.blessing import record_blessing
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.results_store import volume_store
from headrace.pipeline.kubeflow.store import FOLDER, Store
from headrace.pipeline.kubeflow.stored_models import StoredHome

ROOT = "minio://bucket/root"
HOME = f"{ROOT}/trips"
MODEL = f"{HOME}/run/trainer/5/model"
PUSHERS = """
import dataclasses
import os
import shutil
from pathlib import Path

from tfx.components import Pusher
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.proto.pusher_pb2 import PushDestination
from tfx.types.standard_artifacts import Model, ModelBlessing, PushedModel


@component
def Upload(
    model: InputArtifact[Model],
    model_blessing: InputArtifact[ModelBlessing],
    pushed_model: OutputArtifact[PushedModel],
    to: Parameter[str],
):
    shutil.copytree(Path(model.uri, "Format-Serving"), Path(os.environ["HEADRACE_STORE"], to.replace("://", "/")))
    pushed_model.set_int_custom_property("pushed", 1)
    pushed_model.set_string_custom_property("pushed_destination", to)


def given(components):
    return {"model": components.trainer.outputs["model"], "model_blessing": components.evaluator.outputs["blessing"]}


def tfx(components):
    folder = PushDestination.Filesystem(base_directory=os.environ["BASE_DIRECTORY"])
    mine = Pusher(**given(components), push_destination=PushDestination(filesystem=folder))
    return dataclasses.replace(components, pusher=mine)


def upload(components):
    return dataclasses.replace(components, pusher=Upload(**given(components), to=os.environ["UPLOAD_TO"]))
"""
TFX = ("pipeline.extend=own_pushers.tfx", "kubeflow.storage=reference", "kubeflow.volume={claim: all, path: /all}")
UPLOAD = ("pipeline.extend=own_pushers.upload",)


@pytest.fixture
def pod(forked_pods: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pod:
    (tmp_path / "own_pushers.py").write_text(PUSHERS)
    pod = Pod(tmp_path / "pod")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(FOLDER, str(pod.root / "store"))
    monkeypatch.setenv("UPLOAD_TO", f"{HOME}/serving/trips/1790000005")
    monkeypatch.setenv("BASE_DIRECTORY", f"{pod.root}/all/minio/bucket/root/trips/serving/trips")
    return pod


def executor_input() -> dict[str, Any]:
    root = f"{HOME}/run/pusher/7"

    def artifact(name: str, uri: str, **metadata: int) -> dict[str, Any]:
        type_ = {"schemaTitle": "system.Artifact"}
        return {"artifacts": [{"name": name, "uri": uri, "type": type_, "metadata": metadata}]}

    inputs = {
        "model": artifact("model", MODEL),
        "model_blessing": artifact("blessing", f"{HOME}/run/evaluator/6/blessing", blessed=1),
    }
    return {
        "inputs": {"artifacts": inputs},
        "outputs": {
            "artifacts": {name: artifact(name, f"{root}/{name}") for name in ("pushed_model", "executor-logs")},
            "outputFile": f"/{root.replace('minio://', 'minio/')}/output_metadata.json",
        },
    }


def blessed(pod: Pod, store: Store, mount: str) -> None:
    """A model as the Trainer and RecordBlessing leave it, and as the launcher downloads it."""
    paths = PodPaths(str(pod.root), mount)
    home = paths.local(HOME)
    (paths.local(MODEL) / "Format-Serving").mkdir(parents=True)
    (paths.local(MODEL) / "Format-Serving" / "saved_model.pb").write_text("graph")
    store.write(f"{MODEL}/Format-Serving/saved_model.pb", "graph")
    with present({"registry": str(home / "blessed.json")}, paths, store):
        record_blessing(home / "blessed.json", str(paths.local(MODEL)), datetime(2026, 3, 1, tzinfo=UTC))


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "mount"), [(TFX, "/all"), (UPLOAD, "")], ids=["on a volume", "into the store"])
def test_what_a_pusher_of_the_users_pushed_is_the_version_of_its_model(
    pod: Pod, tmp_path: Path, settings: tuple[str, ...], mount: str
) -> None:
    store = volume_store(f"{pod.root}{mount}", HOME) if mount else Store({}, str(pod.root / "store"))
    blessed(pod, store, mount)
    config = trips(f"kubeflow.pipeline_root={ROOT}", "deploy.canary=null", *settings)
    (pusher,) = (task for task in component_tasks(config) if task.name == "pusher")
    process = pod.start(pusher.invocation, executor_input())
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    (model,) = StoredHome(HOME, "serving/trips", store, tmp_path / "read").models()
    (version,) = store.children(f"{HOME}/serving/trips")
    assert (model.uri, [str(one) for one in model.versions], model.in_service) == (MODEL, [version], True)
    record = json.loads(store.text(f"{HOME}/pushed.json"))
    assert record["last"]["serving/trips"]["version"] == version


def test_the_pod_of_a_pusher_of_the_users_gets_the_keys_of_the_store(pod: Pod) -> None:
    del pod
    asked = settings_of(trips(*UPLOAD))["exec-pusher"]["secretAsEnv"]
    assert {one["secretNameParameter"]["runtimeValue"]["constant"] for one in asked} == {"mlpipeline-minio-artifact"}
