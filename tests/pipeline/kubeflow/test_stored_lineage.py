"""`headrace lineage --kubeflow`: what the records beside the models say, and what is left without them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ended_runs import BLESSED
from test_stored_models import CONFIG, HOME, blessed_and_pushed, trained
from tfx.types import standard_artifacts

import headrace
from headrace.common.errors import RunError
from headrace.common.storage.files import FileState
from headrace.components.spans.manifest import Span, SpanManifest
from headrace.pipeline.kubeflow.document import version_name
from headrace.pipeline.kubeflow.pod.exchange import Exchange
from headrace.pipeline.kubeflow.pod.invocation import REFERENCE, VALUE, Invocation, Port
from headrace.pipeline.kubeflow.pod.origin import FILE, Compiled
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.results_store import volume_store
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_lineage import stored_lineage
from headrace.pipeline.kubeflow.stored_models import stored_models
from headrace.pipeline.models.lineage import Lineage

EXAMPLES, GRAPH, MODEL = (f"tfx.types.standard_artifacts:{name}" for name in ("Examples", "TransformGraph", "Model"))
SECRET = "s3://in/1.csv:7: column 'fare': 'hunter2' is not a number"
"""A message that quotes a record."""
COMPILED = Compiled(commit="4f0c2a", dirty=True, config="pipeline: {name: trips}\n", code="c0de")


def task(
    tmp: Path, store: Store, name: str, inputs: dict[str, tuple[str, Any]], output: tuple[str, str, Any]
) -> tuple[dict[str, Any], Exchange]:
    """Exchange a task's artifacts without its component; returns the output as Kubeflow keeps it.

    name: `<run>/<task>`; inputs: type and value of each.
    """
    key, type_, artifact = output
    uri = f"{HOME}/{name}/5/{key}"
    folder = tmp / name
    (folder / "scratch").mkdir(parents=True)
    hows = {
        port: REFERENCE if isinstance(value, str) else VALUE if value is None else "artifact"
        for port, (_, value) in inputs.items()
    }
    invocation = Invocation(
        id=name,
        kind=name,
        executor="some:Executor",
        exec_properties={},
        inputs={port: Port(of, hows[port]) for port, (of, _) in inputs.items()},
        outputs={key: Port(type_)},
        beam={},
        storage="staged",
        mount="",
        store={},
    )
    given = {port: {"artifacts": [value]} for port, (_, value) in inputs.items() if isinstance(value, dict)}
    references = {
        port: json.dumps({"uri": value, "why": ""}) for port, (_, value) in inputs.items() if isinstance(value, str)
    }
    reported = {
        "inputs": {"artifacts": given, "parameterValues": {**references, "epochs": 3}},
        "outputs": {"artifacts": {key: {"artifacts": [{"name": key, "uri": uri}]}}, "outputFile": f"/out/{name}"},
    }
    exchange = Exchange(invocation, reported, PodPaths(str(folder)), folder / "scratch")
    exchange.inputs(store)
    exchange.write({key: [artifact]})
    written = json.loads((folder / f"out/{name}").read_text(encoding="utf-8"))
    found: dict[str, Any] = written["artifacts"][key]["artifacts"][0]
    return found, exchange


def train(store: Store, tmp: Path, run: str, spans: tuple[int, ...], base: str | None = None) -> None:
    """ExampleGen, Transform and Trainer of a run, each in its own pod. base: the run whose model it starts from."""
    trained(store, tmp, run, BLESSED)
    manifest = SpanManifest(tuple(Span(one, (FileState(f"s3://in/{one}.csv", one, "1"),), str(one)) for one in spans))
    store.write(f"{HOME}/{run}/spans/5/record", f"2026-03-01\n{manifest.to_json()}")
    examples, graph, model = (
        standard_artifacts.Examples(),
        standard_artifacts.TransformGraph(),
        standard_artifacts.Model(),
    )
    examples.set_string_custom_property("rows", json.dumps({"train": 7, "eval": 2}))
    examples.set_string_custom_property("input_fingerprint", manifest.fingerprint)
    examples.set_string_custom_property("headrace_contents", "abc")
    examples.set_string_custom_property("skipped", json.dumps({"count": 3, "reported": [SECRET]}))
    examples.set_int_custom_property("dropped", 2)
    examples.set_string_custom_property("gaps", json.dumps(["no data for 2026-02-03"]))
    read, _ = task(tmp, store, f"{run}/example-gen", {}, ("examples", EXAMPLES, examples))
    store.write(f"{HOME}/{run}/example-gen/5/examples/Split-train/1", "rows")
    made, _ = task(tmp, store, f"{run}/transform", {"examples": (EXAMPLES, read)}, ("transform_graph", GRAPH, graph))
    inputs: dict[str, tuple[str, Any]] = {"transform_graph": (GRAPH, made)}
    if base is not None:
        inputs["base"] = (MODEL, f"{HOME}/{base}/trainer/5/model")
    _, exchange = task(tmp, store, f"{run}/trainer", inputs, ("model", MODEL, model))
    exchange.write_origin(model, COMPILED, store)


def runs(found: Lineage) -> list[str | None]:
    return [origin.model.run for origin in found.origins]


@pytest.mark.slow
def test_model_leads_back_to_its_data_and_a_span_forward_through_warm_starts(store: Store, tmp_path: Path) -> None:
    train(store, tmp_path, "run-a", (1, 2))
    train(store, tmp_path, "run-b", (3,), base="run-a")
    train(store, tmp_path, "run-c", (3, 4))
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000001")
    for name in (None, "1790000001", "run-a", f"{HOME}/run-a/trainer/5/model"):
        found = stored_lineage(CONFIG, store, name)
        assert (found.kind, found.home, runs(found)) == ("model", HOME, ["run-a"])
    (origin,) = found.origins
    assert (origin.model.commit, origin.model.dirty, origin.code_digest) == ("4f0c2a", True, "c0de")
    assert store.text(f"{HOME}/{origin.config}") == COMPILED.config
    assert (origin.rows, origin.parameters, origin.started_from) == ({"train": 7, "eval": 2}, {"epochs": 3}, None)
    assert [(span.name, [file.path for file in span.files]) for span in origin.spans] == [
        ("1", ["s3://in/1.csv"]),
        ("2", ["s3://in/2.csv"]),
    ]
    examples, graph = origin.artifacts["examples"], origin.artifacts["transform_graph"]
    assert (str(examples.path), examples.contents, examples.exists) == ("run-a/example-gen/5/examples", "abc", True)
    assert (str(graph.path), graph.exists) == ("run-a/transform/5/transform_graph", False)

    assert sorted(map(str, runs(stored_lineage(CONFIG, store, "1")))) == ["run-a", "run-b"]  # b started from a
    assert sorted(map(str, runs(stored_lineage(CONFIG, store, "s3://in/3.csv")))) == ["run-b", "run-c"]
    with pytest.raises(RunError, match="Spans, newest first"):
        stored_lineage(CONFIG, store, "7")


def test_models_are_listed_with_the_spans_they_lead_back_to_without_a_record_of_the_training(
    store: Store, tmp_path: Path
) -> None:
    train(store, tmp_path, "run-a", (1, 2))
    train(store, tmp_path, "run-b", (3,))
    trained(store, tmp_path, "run-c", BLESSED)  # without a record beside the model
    blessed_and_pushed(store, tmp_path / "pod", "run-b", "2026-03-01T12:00:00", "1790000005")
    found = {model.run: model for model in stored_models(CONFIG, store, 20)}
    # that of run-b's training has spans 4 and 5, and comes first
    assert {run: model.spans for run, model in found.items()} == {"run-a": ("1", "2"), "run-b": ("4", "5"), "run-c": ()}
    assert (found["run-a"].commit, found["run-a"].dirty) == ("4f0c2a", True)
    store.remove(f"{HOME}/run-a/spans/5/record")
    assert {model.run: model.spans for model in stored_models(CONFIG, store, 20)}["run-a"] == ()


def test_spans_on_a_volume_are_those_that_example_gen_wrote_beside_its_examples(tmp_path: Path) -> None:
    store = volume_store(str(tmp_path / "volume"), HOME)
    train(store, tmp_path, "run-a", (1, 2))
    record = f"{HOME}/run-a/spans/5/record"  # in the object store, which the launcher alone writes to
    (tmp_path / "spans").write_text(store.text(record).splitlines()[1], encoding="utf-8")
    store.remove(record)
    examples = standard_artifacts.Examples()
    _, exchange = task(tmp_path / "again", store, "run-a/example-gen", {}, ("examples", EXAMPLES, examples))
    exchange.write_spans(str(tmp_path / "spans"), store)
    (origin,) = stored_lineage(CONFIG, store, "run-a").origins
    assert [(span.name, span.files[0].path) for span in origin.spans] == [
        ("1", "s3://in/1.csv"),
        ("2", "s3://in/2.csv"),
    ]
    assert [model.spans for model in stored_models(CONFIG, store, 20)] == [("1", "2")]


def test_model_without_a_record_is_listed_and_a_damaged_record_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"trained a model in {HOME} yet"):
        stored_lineage(CONFIG, store, None)
    train(store, tmp_path, "run-a", (1,))
    record = f"{HOME}/run-a/trainer/5/{FILE}"
    store.write(record, store.text(record).replace("4f0c2a", "4f0c2b"))
    with pytest.raises(RunError, match=f"^{record}: .*damaged"):
        stored_lineage(CONFIG, store, "run-a")
    store.remove(record)
    (origin,) = stored_lineage(CONFIG, store, "run-a").origins
    assert (origin.model.run, origin.record, origin.artifacts) == ("run-a", None, {})
    # a notebook shows it without the hundreds of packages and modules
    assert "tensorflow" not in repr(replace(origin, packages={"tensorflow": "2.21.0"}, modules={"tensorflow.x": "1f"}))


def test_commits_are_listed_and_python_returns_the_same(store: Store, tmp_path: Path) -> None:
    train(store, tmp_path, "run-a", (1,))
    trained(store, tmp_path, "run-b", BLESSED)  # of an earlier version, without a record
    found = {model.run: model for model in headrace.models(CONFIG, kubeflow=True)}
    assert (found["run-a"].commit, found["run-a"].dirty) == ("4f0c2a", True)
    assert found["run-b"].commit is None
    (origin,) = headrace.lineage(CONFIG, "run-a", kubeflow=True).origins
    assert (origin.model.commit, origin.rows) == ("4f0c2a", {"train": 7, "eval": 2})
    assert headrace.lineage(CONFIG, 1, kubeflow=True).kind == "span"


def test_commit_does_not_name_another_version_of_the_pipeline() -> None:
    def compiled(commit: str, steps: int) -> str:
        env = [{"name": "HEADRACE_ORIGIN", "value": commit}, {"name": "STEPS", "value": str(steps)}]
        return json.dumps({"deploymentSpec": {"executors": {"exec-trainer": {"container": {"env": env}}}}})

    assert version_name("trips", compiled("a", 1)) == version_name("trips", compiled("b", 1))
    assert version_name("trips", compiled("a", 1)) != version_name("trips", compiled("a", 2))
