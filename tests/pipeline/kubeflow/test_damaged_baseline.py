"""A blessed model that was damaged in the object store: what the pods that would compare with it do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tfx.types import standard_artifacts

from headrace.common.checksums import checksum
from headrace.components.deploy.baseline import Baseline, RecordBlessing
from headrace.components.stored_models.blessed_record import DAMAGED, Entry, Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.pipeline.kubeflow.pod.exchange import Exchange
from headrace.pipeline.kubeflow.pod.invocation import REFERENCE, Invocation, Port
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store

HOME = "s3://root/v2/trips"
MODEL = f"{HOME}/run-1/trainer/17/model"
WEIGHTS = "Format-Serving/variables/data"
VERSION = f"{HOME}/serving/1772366400"


@pytest.fixture
def blessed(store: Store, tmp_path: Path) -> Store:
    """A store with a blessed model that was pushed, as two pods left it."""
    pod = _new_pod(tmp_path)
    model = pod.local(MODEL)
    for name in ("Format-Serving/saved_model.pb", WEIGHTS):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_text(f"what {name} holds")
    store.put_all(model, MODEL)
    store.put_all(model / "Format-Serving", VERSION)
    names = _lists(pod)
    with present(names, pod, store):
        entry = Entry(uri=str(model), blessed_at="2026-03-01T12:00:00+00:00", contents=checksum(model))
        Registry(models=(entry,)).write(Path(names["registry"]))
        PushRecord().write(Path(names["push_record"]), entry, pod.local(VERSION))
    return store


def _new_pod(folder: Path) -> PodPaths:
    """Nothing of the last one is there; its paths are the same."""
    shutil.rmtree(folder / "pod", ignore_errors=True)
    return PodPaths(str(folder / "pod"))


def _lists(pod: PodPaths) -> dict[str, str]:
    return {
        name: str(pod.local(f"{HOME}/{file}.json"))
        for name, file in (("registry", "blessed"), ("push_record", "pushed"))
    }


def _schema(folder: Path) -> standard_artifacts.Schema:
    schema = standard_artifacts.Schema()
    schema.uri = str(folder)
    (folder / "schema.pbtxt").write_text('feature { name: "fare" type: FLOAT }')
    return schema


def _invocation(inputs: dict[str, Port], outputs: dict[str, Port]) -> Invocation:
    return Invocation(
        id="Some",
        kind="some",
        executor="some:Executor",
        exec_properties={},
        inputs=inputs,
        outputs=outputs,
        beam={},
        storage="staged",
        mount="",
        store={},
    )


MODEL_PORT = Port("tfx.types.standard_artifacts:Model", REFERENCE)
SOME = Port("tfx.types.standard_artifacts:Examples")


def _baseline(store: Store, folder: Path) -> dict[str, Any]:
    """What the Baseline's pod tells Kubeflow of its output."""
    pod, scratch = _new_pod(folder), folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    written = {"artifacts": {"record": {"artifacts": [{"name": "record", "uri": f"{HOME}/run-2/baseline/17/record"}]}}}
    reported = {"outputs": {**written, "outputFile": "/s3/output.json"}}
    exchange = Exchange(_invocation({}, {"baseline": MODEL_PORT}), reported, pod, scratch)
    candidate, baseline = standard_artifacts.Model(), standard_artifacts.Model()
    candidate.uri, baseline.uri = str(pod.local(f"{HOME}/run-2/trainer/17/model")), exchange.output_uris()["baseline"]
    outputs = {"baseline": [baseline]}
    properties = {**_lists(pod), "label": "{}"}
    with present(properties, pod, store):
        inputs = {"model": [candidate], "schema": [_schema(folder)]}
        Baseline.EXECUTOR_SPEC.executor_class().Do(inputs, outputs, properties)
        exchange.write(outputs)
    values: dict[str, Any] = json.loads(pod.launcher_file("/s3/output.json").read_text())["parameterValues"]
    return values


def _compared_with(store: Store, folder: Path, baseline: Any) -> standard_artifacts.Model:
    """The baseline as it comes into the Evaluator's pod."""
    pod = _new_pod(folder)
    (folder / "evaluator").mkdir()
    written = {"examples": {"artifacts": [{"name": "examples", "uri": f"{HOME}/run-2/evaluator/17/examples"}]}}
    reported = {"inputs": {"parameterValues": {"best": baseline}}, "outputs": {"artifacts": written}}
    invocation = _invocation({"best": MODEL_PORT}, {"examples": SOME})
    (found,) = Exchange(invocation, reported, pod, folder / "evaluator").inputs(store)["best"]
    return found


def _damage(store: Store, uri: str) -> None:
    store.write(uri, "zeros")


@pytest.mark.slow
def test_model_is_restored_in_the_store_from_the_version_that_was_pushed(blessed: Store, tmp_path: Path) -> None:
    _damage(blessed, f"{MODEL}/{WEIGHTS}")
    reported = _baseline(blessed, tmp_path)["baseline"]
    assert json.loads(reported)["uri"] == MODEL
    assert blessed.text(f"{MODEL}/{WEIGHTS}") == f"what {WEIGHTS} holds"
    found = _compared_with(blessed, tmp_path, reported)
    assert checksum(Path(found.uri)) == json.loads(reported)["contents"]


def test_without_an_intact_copy_the_evaluators_pod_learns_that_no_candidate_may_pass(
    blessed: Store, tmp_path: Path
) -> None:
    for uri in (f"{MODEL}/{WEIGHTS}", f"{VERSION}/variables/data"):
        _damage(blessed, uri)
    reported = _baseline(blessed, tmp_path)["baseline"]
    assert json.loads(reported)["uri"] == ""
    found = _compared_with(blessed, tmp_path, reported)
    assert found.get_int_custom_property("exists") == 0
    text = (Path(found.uri) / DAMAGED).read_text()
    assert f"the blessed model {MODEL} is damaged" in text
    assert f"Restore the files of {MODEL}" in text


def test_a_model_of_which_some_files_are_lost_is_damaged_and_one_without_any_is_gone(
    blessed: Store, tmp_path: Path
) -> None:
    for file in ("variables/data", "saved_model.pb"):
        blessed.remove(f"{VERSION}/{file}")
    blessed.remove(f"{MODEL}/{WEIGHTS}")
    assert "damaged" in json.loads(_baseline(blessed, tmp_path)["baseline"])
    blessed.remove(f"{MODEL}/Format-Serving/saved_model.pb")
    reported = json.loads(_baseline(blessed, tmp_path)["baseline"])
    assert "damaged" not in reported
    assert "gone" in reported["why"]


def test_a_damaged_model_is_not_offered_to_the_pusher(blessed: Store, tmp_path: Path) -> None:
    for uri in (f"{MODEL}/{WEIGHTS}", f"{VERSION}/variables/data"):
        _damage(blessed, uri)
    pod = _new_pod(tmp_path)
    candidate, blessing = standard_artifacts.Model(), standard_artifacts.ModelBlessing()
    entry, newest = standard_artifacts.String(), standard_artifacts.Model()
    candidate.uri, entry.uri, newest.uri = (str(tmp_path / name) for name in ("candidate", "value", "newest"))
    blessing.set_int_custom_property("blessed", 0)
    properties = {**_lists(pod), "label": "{}", "columns": "[]"}
    with present(properties, pod, blessed):
        RecordBlessing.EXECUTOR_SPEC.executor_class().Do(
            {"model": [candidate], "blessing": [blessing], "schema": [_schema(tmp_path)]},
            {"entry": [entry], "newest": [newest]},
            properties,
        )
    assert Path(entry.uri).read_text(encoding="utf-8") == "{}"
