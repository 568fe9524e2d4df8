"""What is submitted to Kubeflow is what ran here: `headrace verify`, and what a cluster runs again afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from command import PATIENCE, ROOT, wait_until
from forks import FIRST, HEADRACE, Forked
from model_registry import Registry, model_registry
from s3_servers import S3Server

import headrace
from headrace.components.canary.verdict import AnswersVerdict, CanaryVerdict, ReplayVerdict
from headrace.components.stored_models.blessed_record import LATE
from headrace.configs.loading.loader import load
from headrace.configs.schema.model_registry import KubeflowRegistry, ModelRegistries
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import TaskSpec, task_specs
from headrace.pipeline.kubeflow.pod.invocation import pack, unpack
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.store import KEYS as STORE_KEYS
from headrace.pipeline.kubeflow.stored_models import stored_models
from headrace.pipeline.kubeflow.verify.cluster import Cluster, ClusterRun
from headrace.pipeline.kubeflow.verify.driver import TaskRun, fingerprint, provision, resolve
from headrace.pipeline.kubeflow.verify.launcher import Pod, command
from headrace.pipeline.kubeflow.verify.verify import as_compiled
from headrace.trainer.answers import RecordedAnswers

pytestmark = pytest.mark.slow

TAXI = ROOT / "configs" / "taxi.yaml"
# What `auto` chooses follows from how long steps take, and the weights are compared closely.
SETTINGS = ["train.jit=off", "deploy.lite={precision: float16, examples: 20}"]
HELD_CHECKPOINT = str(Path(__file__).with_name("held_checkpoint.py"))
AS_IN_IMAGE = Path(__file__).parent / "as_in_image"  # components see what the image has, and no more
HOME = "minio://mlpipeline/v2/artifacts/chicago-taxi"
UNCACHED = {"spans", "baseline", "record-blessing"}
TRIPS = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: %s/trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
evaluate: {better_than_constant: false}
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
    registered: Registry
    """The registry that the last of the runs knew."""

    def versions(self) -> list[str]:
        """Those that were pushed. Their files for devices lie in a folder beside them."""
        return [name for name in self.cluster.store.children(f"{HOME}/serving") if name.isdecimal()]

    def registry(self) -> list[dict[str, Any]]:
        models: list[dict[str, Any]] = json.loads(self.cluster.path(f"{HOME}/blessed.json").read_text())["models"]
        return models


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder, kept = new_folder("verify"), tmp_path_factory.mktemp("kept")
    with_settings = [word for setting in SETTINGS for word in ("--set", setting)]
    done = subprocess.run(
        [str(HEADRACE), "verify", str(TAXI), *with_settings, "--keep", str(kept)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(AS_IN_IMAGE)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    config = as_compiled(load(TAXI, overrides=SETTINGS))
    cluster, text = Cluster(kept / "cluster", config.kubeflow.pipeline_root), compile_pipeline(config)
    with forked_pods(), model_registry() as registered:
        registries = ModelRegistries(kubeflow=KubeflowRegistry(url=registered.url))
        registering = config.model_copy(update={"deploy": config.deploy.model_copy(update={"registry": registries})})
        again, one_epoch = cluster.run(text), cluster.run(compile_pipeline(registering), {"epochs": 1})
    lines, left = done.stdout.splitlines(), [*folder.iterdir()]
    return Story(done.returncode, lines, left, cluster, text, again, one_epoch, registered)


@contextlib.contextmanager
def forked_pods() -> Iterator[None]:
    """Start tasks with their imports done. Those of `headrace verify` above did all imports themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Forked)
        yield


def test_compiled_pipeline_equals_a_local_run(story: Story) -> None:
    found = {line.split()[1].rstrip(":"): line for line in story.lines if line.startswith("same")}
    assert story.code == 0, "\n".join(story.lines)
    assert "byte for byte" in found["ExampleGen.examples"]
    assert "byte for byte" in found["StatisticsGen.statistics"]
    assert "byte for byte" in found["Transform.transformed_examples"]
    assert "node for node" in found["Transform.transform_graph"]
    assert "4 metrics in 30 slices" in found["Evaluator.evaluation"]
    assert "Canary.blessing" in found
    assert "3 files" in found["Lite.blessing"]  # whose measurements of time differ
    assert "Pusher.pushed_model" in found
    assert not [line for line in story.lines if line.startswith("DIFFERENT")]


def test_verify_pushes_nothing_and_leaves_nothing_in_the_current_folder(story: Story) -> None:
    assert story.left == []


def test_unchanged_second_run_takes_all_but_the_lookers_from_the_cache(story: Story) -> None:
    specs = task_specs(next(yaml.safe_load_all(story.text)))
    assert story.again.cached == specs.keys() - UNCACHED


def test_a_runs_parameter_runs_again_what_it_concerns(story: Story) -> None:
    ran = story.one_epoch.tasks.keys() - story.one_epoch.cached
    assert ran == {"trainer", "canary", "evaluator", "lite", "pusher"} | UNCACHED


def test_a_candidate_is_compared_with_the_model_that_the_run_before_blessed(story: Story) -> None:
    first = story.again.tasks["trainer"].artifacts["model"]["uri"]
    assert json.loads(story.again.tasks["baseline"].parameters["baseline"]) == {"uri": "", "why": ""}
    reported = json.loads(story.one_epoch.tasks["baseline"].parameters["baseline"])
    assert (reported["uri"], reported["why"]) == (first, "")
    assert reported["contents"] == story.again.tasks["trainer"].artifacts["model"]["metadata"]["headrace_contents"]
    assert story.registry()[0]["uri"] == first.removeprefix(f"{HOME}/")
    folder = story.cluster.path(story.one_epoch.tasks["evaluator"].artifacts["evaluation"]["uri"])
    assert json.loads((folder / "evaluation.json").read_text())["baseline"]["auc"] > 0.9


def test_canary_pod_compares_each_signature_with_the_answers_of_the_trainers_pod(story: Story) -> None:
    for run in (story.again, story.one_epoch):
        recorded = RecordedAnswers.read(story.cluster.path(run.tasks["trainer"].artifacts["model_run"]["uri"]))
        assert recorded is not None
        verdict, replay = canary_verdict(story.cluster.path(run.tasks["canary"].artifacts["blessing"]["uri"]))
        assert (replay.skipped, replay.differing) == ("", ())
        assert min(replay.examples, replay.features) > 10
        assert (verdict.skipped, verdict.split, verdict.examples) == ("", "eval", recorded.examples)
        assert verdict.signatures == ("serving_default", "serving_raw", "serving_transformed")
        assert verdict.difference is not None
        assert verdict.difference < 1e-4
        assert recorded.examples == 128
        assert np.ptp(recorded.outputs["predictions"]) > 0.1


def test_canary_pod_refuses_a_model_that_answers_otherwise_than_the_trainers(story: Story, tmp_path: Path) -> None:
    """The model of another run stands for an export that went wrong."""
    canary, ended = task_specs(next(yaml.safe_load_all(story.text)))["canary"], story.again.tasks
    other = story.one_epoch.tasks["trainer"].artifacts["model"]
    trainer = replace(ended["trainer"], artifacts={**ended["trainer"].artifacts, "model": other})
    given = {"inputs": resolve(canary, {}, {**ended, "trainer": trainer}), "outputs": provision(canary, HOME, "salt")}
    pod = Pod(tmp_path / "pod", story.cluster.store_folder, {})
    with forked_pods():
        made = pod.launch(canary, given)["artifacts"]["blessing"]["artifacts"][0]
    assert made["metadata"]["blessed"] == 0
    verdict, _ = canary_verdict(story.cluster.path(made["uri"]))
    differing = verdict.differing
    assert differing is not None
    assert differing.rows > 100
    (before, now) = (
        RecordedAnswers.read(story.cluster.path(run.tasks["trainer"].artifacts["model_run"]["uri"]))
        for run in (story.again, story.one_epoch)
    )
    assert before is not None
    assert now is not None
    found = [
        float(one.outputs[differing.output].reshape(128, -1)[differing.row - 1, (differing.place or 1) - 1])
        for one in (before, now)
    ]
    assert [float(differing.trained), float(differing.exported)] == pytest.approx(found, rel=1e-3)


def canary_verdict(folder: Path) -> tuple[AnswersVerdict, ReplayVerdict]:
    """The comparisons with the answers that the Trainer recorded, and with what Transform wrote."""
    verdict = CanaryVerdict.read(folder)
    assert verdict is not None
    assert verdict.answers is not None
    assert verdict.replay is not None
    return verdict.answers, verdict.replay


def test_a_pipeline_that_only_predicts_finds_the_model_that_the_other_pushed(story: Story, tmp_path: Path) -> None:
    (data,) = resources.files("tfx.examples.chicago_taxi_pipeline").joinpath("data/big_tipper_label").iterdir()
    (tmp_path / "new.csv").write_text("".join(data.read_text().splitlines(keepends=True)[:51]))
    given = f"predict={{source: {{kind: csv, path: {tmp_path}/new.csv}}, output: scored/new.parquet, only: true}}"
    text = compile_pipeline(as_compiled(load(TAXI, overrides=[*SETTINGS, given])))
    with forked_pods():
        first, again = (story.cluster.run(text) for _ in range(2))
    assert first.tasks.keys() == {"model-in-service", "predict-spans", "bulk-predictor", "publish-predictions"}
    assert again.cached == {"bulk-predictor"}
    version = max(story.versions(), key=int)
    records = [json.loads(unpack(run.tasks["publish-predictions"].parameters["published"])) for run in (first, again)]
    assert [(one["version"], one["rows"], one["changed"]) for one in records] == [
        (version, 50, True),
        (version, 50, False),
    ]
    story.cluster.store.get_all(f"{HOME}/serving/{version}", tmp_path / version)
    story.cluster.store.get(f"{HOME}/predictions/new.parquet", tmp_path / "new.parquet")
    expected = headrace.predict(str(tmp_path / version), str(tmp_path / "new.csv"), str(tmp_path / "expected.parquet"))
    assert pq.read_table(tmp_path / "new.parquet").equals(pq.read_table(expected))


def test_what_is_pushed_lies_whole_in_the_object_store(story: Story) -> None:
    versions = story.versions()
    reported = story.again.tasks["pusher"].artifacts["pushed_model"]["metadata"]
    assert reported["pushed_version"] == versions[0]
    assert reported["pushed_destination"] == f"{HOME}/serving/{versions[0]}"
    assert (story.cluster.path(reported["pushed_destination"]) / "saved_model.pb").is_file()


def test_file_for_devices_lies_beside_each_version_that_the_pods_pushed(story: Story) -> None:
    for version in story.versions():
        beside = story.cluster.path(f"{HOME}/serving/lite/{version}")
        assert (beside / "model.tflite").read_bytes()[4:8] == b"TFL3"  # FlatBuffers' identifier of the format
        assert json.loads((beside / "report.json").read_text())["precision"] == "float16"


def test_models_are_listed_by_what_the_runs_left_in_the_store(story: Story) -> None:
    found = stored_models(as_compiled(load(TAXI, overrides=SETTINGS)), story.cluster.store, 20)
    trained = {model.uri: model for model in found}
    runs = [story.again, story.one_epoch]
    assert trained.keys() == {run.tasks["trainer"].artifacts["model"]["uri"] for run in runs}
    versions = [int(name) for name in story.versions()]
    for run in runs:
        model = trained[run.tasks["trainer"].artifacts["model"]["uri"]]
        pushed = run.tasks["pusher"].artifacts["pushed_model"]["metadata"]
        written = json.loads(
            (story.cluster.path(run.tasks["evaluator"].artifacts["evaluation"]["uri"]) / "evaluation.json").read_text()
        )
        assert model.metrics == written["metrics"]
        assert model.blessed == written["blessed"]
        own = pushed["pushed"] and LATE not in pushed  # of another run's model, that one has the version
        assert model.versions == ((int(pushed["pushed_version"]),) if own else ())
        assert model.in_service == (max(versions) in model.versions)


def test_pushers_pod_registers_the_versions_that_lie_in_the_object_store(story: Story) -> None:
    name = "chicago-taxi"
    versions = story.versions()
    assert {*story.registered.versions(name)} == {*versions}
    uris = {number: one["uri"] for number, (one,) in story.registered.artifacts(name).items()}
    assert uris == {number: f"{HOME}/serving/{number}".replace("minio://", "s3://") for number in versions}
    states = story.registered.texts(name, "headrace.state")
    assert [number for number, state in states.items() if state == "in_service"] == [max(versions, key=int)]
    model = story.again.tasks["trainer"].artifacts["model"]["uri"]
    assert story.registered.texts(name, "headrace.model")[versions[0]] == model
    evaluation = story.cluster.path(story.again.tasks["evaluator"].artifacts["evaluation"]["uri"]) / "evaluation.json"
    measured = story.registered.versions(name)[versions[0]]["customProperties"]
    for metric, value in json.loads(evaluation.read_text())["metrics"].items():
        assert measured[f"metric.{metric}"]["double_value"] == value


@pytest.fixture
def bucket(s3_server: S3Server) -> Iterator[Any]:
    """The bucket of the pipeline root."""
    with s3_server.bucket("mlpipeline") as bucket:
        yield bucket


def test_killed_training_continues_in_a_new_pod_from_the_object_store(
    story: Story, s3_server: S3Server, bucket: Any, tmp_path: Path
) -> None:
    pipeline = next(yaml.safe_load_all(story.text))
    parameters = pipeline["root"]["inputDefinitions"]["parameters"]
    trainer = with_store(task_specs(pipeline)["trainer"], s3_server.url)
    given = {name: one["defaultValue"] for name, one in parameters.items() if "defaultValue" in one}
    inputs = resolve(trainer, given, story.again.tasks)
    reported = {"inputs": inputs, "outputs": provision(trainer, f"{HOME}/run", "salt")}
    first, second = (Pod(tmp_path / name, story.cluster.store_folder, {}) for name in ("first", "second"))
    with in_pod(first, trainer, reported, s3_server, **{FIRST: HELD_CHECKPOINT}) as process:
        assert wait_until(lambda: bool(checkpoints_in(bucket)) or process.poll() is not None)
        process.kill()
    kept = checkpoints_in(bucket)
    assert kept
    assert not (model_in(first, reported) / "Format-Serving").exists()
    with in_pod(second, trainer, reported, s3_server) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    assert f"checkpoint: fetched {HOME}/checkpoints/{max(kept)}" in out
    assert "checkpoint: resuming from" in out
    uninterrupted = story.cluster.path(story.again.tasks["trainer"].artifacts["model"]["uri"])
    ours, theirs = (weights(folder / "Format-Serving") for folder in (model_in(second, reported), uninterrupted))
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=1e-4, atol=1e-6)
    assert not checkpoints_in(bucket)


def with_store(spec: TaskSpec, address: str) -> TaskSpec:
    """The task as compiled for an object store elsewhere (`kubeflow.object_store.endpoint`)."""
    first, argument, *others = spec.container["args"]
    reported = json.loads(unpack(argument))
    reported["store"]["endpoint"] = address
    return replace(spec, container={**spec.container, "args": [first, pack(json.dumps(reported), spec.name), *others]})


@contextlib.contextmanager
def in_pod(pod: Pod, spec: TaskSpec, reported: Any, server: S3Server, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A task's container in a pod that has its inputs and the store's keys. `more`: environment variables."""
    pod.prepare(reported)
    uncached = json.dumps({"checkpoint": json.dumps({"every_steps": 40})})
    own = {"HEADRACE_POD": str(pod.root), "HEADRACE_UNCACHED": uncached, "PYTHONPATH": str(ROOT)}
    keys = dict(zip(STORE_KEYS, (server.access_key, server.secret_key), strict=True))
    with Forked(
        command(spec, reported),
        env={**os.environ, **own, **keys, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        yield process


def checkpoints_in(bucket: Any) -> list[str]:
    """The names of the checkpoints below their folder."""
    folder = f"{HOME.removeprefix('minio://mlpipeline/')}/checkpoints/"
    keys = [one.key.removeprefix(folder) for one in bucket.objects.filter(Prefix=folder)]
    return [key for key in keys if key and not key.endswith("/")]  # PyArrow marks folders


def model_in(pod: Pod, reported: Any) -> Path:
    return PodPaths(str(pod.root)).local(reported["outputs"]["artifacts"]["model"]["artifacts"][0]["uri"])


def weights(serving: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    with h5py.File(serving / "assets.extra" / "model.weights.h5") as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def test_changed_data_under_the_same_name_misses_the_cache(tmp_path: Path) -> None:
    (tmp_path / "trips.csv").write_text("fare,tip\n1.5,0\n")
    (tmp_path / "trips.yaml").write_text(TRIPS % tmp_path)
    pipeline = next(yaml.safe_load_all(compile_pipeline(load(tmp_path / "trips.yaml"))))
    example_gen, tasks = task_specs(pipeline)["example-gen"], pipeline["root"]["dag"]["tasks"]
    pipeline["root"]["dag"]["tasks"] = {"spans": tasks["spans"]}
    keys = []
    for content in ("fare,tip\n1.5,0\n", "fare,tip\n1.5,0\n2.5,1\n"):
        (tmp_path / "trips.csv").write_text(content)
        with forked_pods():
            run = Cluster(tmp_path / "cluster", "minio://bucket").run(yaml.safe_dump(pipeline))
        keys.append(_key(example_gen, run.tasks))
    assert keys[0] != keys[1]


def _key(spec: Any, ended: dict[str, TaskRun]) -> str:
    return fingerprint(spec, resolve(spec, {}, ended), provision(spec, "minio://bucket/trips/run", "salt"))
