"""Pods of components that take milliseconds: without TensorFlow and TFX they end as with both."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from command import PATIENCE
from forks import Forked
from test_kubeflow_entrypoint import Pod

from headrace.common.checksums import PREFIX, checksum
from headrace.components.spans.manifest import SpanManifest
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
from headrace.pipeline.kubeflow.pod.invocation import ARTIFACT, Invocation, Port, load_class
from headrace.pipeline.kubeflow.pod.light import TYPES, is_light, new_light
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.local.light import LIGHT

HOME = "minio://bucket/root/trips"
MODEL = f"{HOME}/earlier/trainer/5/model"
SAVED = "Format-Serving/saved_model.pb"
VERSION = "1772366400"
IN_SERVICE = f"{HOME}/serving/trips/{VERSION}"
CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: "%(folder)s/trips-{SPAN}.csv"}, schema: "%(folder)s/schema.pbtxt"}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
train: {warm_start: true}
gates: {skew: {source: {kind: jsonl, path: "%(folder)s/requests.jsonl"}}, drift: {blessed: {}}}
evaluate: {better_than_constant: false}
predict: {source: {kind: csv, path: "%(folder)s/new.csv"}, output: scored.csv}
"""
SCHEMA = 'feature { name: "fare" type: FLOAT } feature { name: "tip" type: INT }'
FILES = {
    "model": {SAVED: "the candidate"},
    "schema": {"schema.pbtxt": SCHEMA},
    "transform_graph": {"transform_fn/saved_model.pb": "the graph"},
    "statistics": {"Split-train/FeatureStats.pb": "statistics"},
    "predictions": {"predictions.csv": "prediction\n0.5\n"},
}
"""Input artifacts by key; others have a file `BLESSED`."""
METADATA: Mapping[str, Mapping[str, Any]] = {
    "blessing": {"blessed": 1.0},
    "canary": {"blessed": 1.0},
    "statistics": {"span": 0.0, "split_names": '["train"]'},
    "predictions": {"rows": 1.0, "skipped_rows": 2.0},
}
"""As Kubeflow gives it: all numbers are doubles."""
TIMES = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)?|(?<= done in )\S+ s, with .*"
    r'|(?<="includes": ")\w+|(?<="checksum": ")[\w:]+'  # of what has times
)
LOGGED = re.compile(r"(blessed|pushed|trained)/[^/]+-(\w+)-[0-9a-f]+\.json$")
BLOCKED = ("tensorflow", "tfx", "apache_beam", "tensorflow_transform")


@dataclass(frozen=True)
class Ended:
    """What a pod left. files: all in the pod and in the object store, without times: name to content,
    or contents of records whose names have times.
    """

    code: int
    log: list[str]
    files: dict[str, list[str]]


@dataclass(frozen=True)
class Case:
    """A task. parameters: of the run; change: makes something else of the object store and the metadata of inputs."""

    task: str
    said: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[Store, dict[str, Any]], object] = lambda _store, _metadata: None


def damage_model(store: Store, _: dict[str, Any]) -> None:
    for file in (f"{MODEL}/{SAVED}", f"{IN_SERVICE}/saved_model.pb"):
        store.write(file, "zeros")


CASES = [
    Case("spans", "Spans: done"),
    Case("serving-log", "files: 1"),
    Case("warm-start", "WarmStart: done"),
    Case("baseline", "Baseline: done"),
    Case("record-blessing", "RecordBlessing: done"),
    Case("model-in-service", f"version {VERSION}: "),
    Case("predict-spans", "PredictSpans: done"),
    Case("publish-predictions", "1 row"),
    Case("spans", "Spans failed: there is no span 9", {"spans": "9"}),
    Case("baseline", "is damaged", change=damage_model),
    Case(
        "baseline",
        "It is read from the objects in blessed/ instead",
        change=lambda store, _: store.write(f"{HOME}/blessed.json", "{"),
    ),
    Case(
        "record-blessing",
        "is damaged",
        change=lambda _, metadata: metadata.update(model={"headrace_contents": f"{PREFIX}0"}),
    ),
    Case("model-in-service", "ModelInService failed: ", change=damage_model),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the data, and packages that stand in the place of TensorFlow and others, whose import fails."""
    folder = tmp_path_factory.mktemp("light")
    for name in ("trips-3.csv", "trips-4.csv", "new.csv"):
        (folder / name).write_text("fare,tip\n1.5,0\n")
    for name, text in {"requests.jsonl": '{"fare": 1}\n', "schema.pbtxt": SCHEMA}.items():
        (folder / name).write_text(text)
    (folder / "trips.yaml").write_text(CONFIG % {"folder": folder})
    (folder / "blocked").mkdir()
    for name in BLOCKED:
        (folder / "blocked" / f"{name}.py").write_text('raise SystemExit(f"{__name__} was imported")\n')
    return folder


@pytest.fixture(scope="module")
def invocations(folder: Path) -> dict[str, Invocation]:
    return {task.name: task.invocation for task in component_tasks(load(folder / "trips.yaml"))}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of each pod, beside an object store with a blessed model that was pushed."""
    root = tmp_path_factory.mktemp("pods") / "pod"
    store, pod = Store({}, str(root.with_name("store"))), PodPaths(str(root))
    model = pod.local(MODEL)
    (model / SAVED).parent.mkdir(parents=True)
    (model / SAVED).write_text("the model in service")
    store.put_all(model, MODEL)
    store.put_all(model / "Format-Serving", IN_SERVICE)
    registry, pushes = (pod.local(f"{HOME}/{name}.json") for name in ("blessed", "pushed"))
    with present({"registry": str(registry), "push_record": str(pushes)}, pod, store):
        entry = Entry(uri=str(model), blessed_at="2026-03-01T12:00:00+00:00", contents=checksum(model))
        Registry(models=(entry,)).write(registry)
        PushRecord().write(pushes, entry, pod.local(IN_SERVICE))
    return root


def pod_of(case: Case, invocation: Invocation, root: Path, texts: Mapping[str, str]) -> Ended:
    """Run the pod of a case, in a folder that is new each time. texts: input parameters."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(root.with_name("store"), root / "store")
    store, metadata = Store({}, str(root / "store")), {key: dict(values) for key, values in METADATA.items()}
    case.change(store, metadata)
    artifacts = {}
    for key in (key for key, port in invocation.inputs.items() if port.how == ARTIFACT):
        uri = f"{HOME}/run/some/4/{key}"
        local = PodPaths(str(root)).local(uri)
        for name, text in FILES.get(key, {"BLESSED": ""}).items():
            (local / name).parent.mkdir(parents=True, exist_ok=True)
            (local / name).write_text(text)
        metadata[key] = {"headrace_contents": checksum(local), **metadata.get(key, {})}
        artifacts[key] = {"artifacts": [{"name": "7", "uri": uri, "metadata": metadata[key]}]}
    task = f"{HOME}/run/{case.task}/9"
    made = {key: {"artifacts": [{"name": key, "uri": f"{task}/{key}"}]} for key in ("record", "executor-logs")}
    given = {
        "inputs": {"parameterValues": {**texts, **case.parameters}, "artifacts": artifacts},
        "outputs": {"artifacts": made, "outputFile": "/output.json"},
    }
    process = Pod(root).start(invocation, given)
    out, _ = process.communicate(timeout=PATIENCE)
    files: dict[str, list[str]] = defaultdict(list)
    for path in root.rglob("*"):
        if path.is_file():
            files[LOGGED.sub(r"\1/\2.json", str(path.relative_to(root)))].append(TIMES.sub("", path.read_text()))
    return Ended(
        process.returncode, TIMES.sub("", out).splitlines(), {name: sorted(texts) for name, texts in files.items()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.task}: {case.said}")
def test_a_light_pod_ends_as_one_with_tfx(
    case: Case, folder: Path, invocations: dict[str, Invocation], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invocation = invocations[case.task]
    assert is_light(invocation)
    spans = SpanManifest.of([str(folder / "new.csv")]).to_json()
    reference = json.dumps({"uri": MODEL, "why": ""})
    known = {"as_of": "2026-11-29", "version": VERSION, "spans": spans, "model": reference}
    texts = {key: known[key] for key, port in invocation.inputs.items() if port.how != ARTIFACT}
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder / "blocked"))
        light = pod_of(case, invocation, root, texts)
    monkeypatch.setattr(subprocess, "Popen", Forked)
    with_tfx = pod_of(case, replace(invocation, kind=f"own.{invocation.id}"), root, texts)
    assert case.said in "\n".join(light.log)
    assert light.code == with_tfx.code == int(" failed: " in light.log[-1])
    assert light.log == with_tfx.log
    assert light.files.keys() == with_tfx.files.keys()
    for name, texts_of_tfx in with_tfx.files.items():
        assert light.files[name] == texts_of_tfx, name
    assert ("output.json" in light.files) == (light.code == 0)


def test_the_light_types_are_those_of_tfx() -> None:
    for name in TYPES:
        light, of_tfx = new_light(name).artifact_type, load_class(name)().artifact_type
        assert (light.name, dict(light.properties)) == (of_tfx.name, dict(of_tfx.properties))


def test_all_that_a_local_run_does_without_tfx_is_light_but_what_kubeflow_reuses(
    invocations: dict[str, Invocation],
) -> None:
    light = {one.kind for one in invocations.values() if is_light(one)}
    assert LIGHT.keys() - light == {invocations["schema-gen"].kind}
    assert light <= LIGHT.keys()


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "mine.Baseline"},
        {"executor": "mine:Executor"},
        {"inputs": {"model": Port("mine:Model"), "schema": Port("tfx.types.standard_artifacts:Schema")}},
        {"outputs": {"baseline": Port("tfx.types.standard_artifacts:Model", ARTIFACT)}},
        {"exec_properties": {}},
    ],
)
def test_what_may_be_of_the_users_or_of_another_version_runs_with_tfx(
    invocations: dict[str, Invocation], change: dict[str, Any]
) -> None:
    assert is_light(invocations["baseline"])
    assert not is_light(replace(invocations["baseline"], **change))
