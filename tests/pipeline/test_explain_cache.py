"""Which part of a cache key decided: from what runs keep, without running anything."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.common.errors import RunError
from headrace.common.storage.files import FileState
from headrace.components.spans.manifest import Span, SpanManifest
from headrace.pipeline.cache.differences import differences
from headrace.pipeline.cache.explain import explain
from headrace.pipeline.cache.explanation import UNCHANGED, ComponentExplanation, as_json, lines, show
from headrace.pipeline.cache_key import KeyInput, KeyParts, flatten
from headrace.pipeline.folders import Folders
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status


def parts(key: str = "k", **changed: Any) -> KeyParts:
    reported = {
        "settings": {"train.epochs": 5},
        "sources": {"headrace.trainer.run": "aa"},
        "versions": {"keras": "3.1"},
    }
    return KeyParts(**{"key": key, "executor": "Trainer", **reported, **changed})


class Home:
    """A pipeline's folder with runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folders = Folders(folder / "nightly")
        self._count = 0

    def run(self, name: str, **nodes: tuple[Status, KeyParts | None]) -> None:
        self._count += 1
        run_dir = self.folders.runs / name
        run_dir.mkdir(parents=True)
        records = [
            NodeRecord(id_, status=status, outputs={"out": ArtifactRecord("T", self.uri(id_, "first"))})
            for id_, (status, _) in nodes.items()
        ]
        RunRecord(name, "nightly", "c", float(self._count), status=Status.DONE, nodes=records).write(run_dir)
        for id_, (_, kept) in nodes.items():
            if kept is not None:
                kept.write(run_dir, id_)

    def uri(self, node: str, run: str) -> str:
        return str(self.folders.artifacts / node / "out" / run)

    def reported(self, run: str | None = None) -> dict[str, ComponentExplanation]:
        return {one.component: one for one in explain(self.folders, run).components}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_component_that_was_reused_names_the_run_that_made_it(home: Home) -> None:
    home.run("first", Trainer=(Status.DONE, parts()))
    home.run("second", Trainer=(Status.CACHED, parts()))
    assert home.reported()["Trainer"] == ComponentExplanation("Trainer", "reused", "first", [UNCHANGED])


def test_a_miss_is_held_against_the_latest_of_the_runs_that_differ_least(home: Home) -> None:
    home.run("far", Trainer=(Status.DONE, parts(settings={"train.epochs": 1}, versions={"keras": "2"})))
    home.run("near", Trainer=(Status.DONE, parts(settings={"train.epochs": 7})))
    home.run("nearer", Trainer=(Status.CACHED, parts(settings={"train.epochs": 9})))
    home.run("failed", Trainer=(Status.FAILED, parts(settings={"train.epochs": 5})))
    home.run("now", Trainer=(Status.DONE, parts()))
    assert home.reported()["Trainer"] == ComponentExplanation(
        "Trainer", "ran", "nearer", ["setting train.epochs: 9 → 5"]
    )
    assert home.reported("near")["Trainer"].run == "far"


def test_every_kind_of_part_is_reported() -> None:
    before = parts(sources={"a": "1", "b": "1"}, settings={"old": 1}, inputs={"x": KeyInput("A", "out", "i", "u")})
    now = parts(sources={"a": "2", "c": "1"}, settings={"new": [1]}, versions={"keras": "3.2"}, executor="Other")
    assert list(map(str, differences(before, now))) == [
        "input x: removed, was i",
        "executor Other: Trainer → Other",
        "setting new: added, [1]",
        "setting old: removed, was 1",
        "code a: changed",
        "code b: removed",
        "code c: added",
        'version keras: "3.1" → "3.2"',
    ]


def test_settings_are_reported_one_by_one_however_deep_the_json_is_that_they_travel_in() -> None:
    config = json.dumps({"train": {"epochs": 5}, "features": {"a": {"buckets": [1, 2]}}})
    custom = json.dumps({"config": config, "files": "{}"})
    found = flatten({"custom_config": custom, "run_fn": "headrace.trainer.run", "n": 1})
    assert found == {
        "train.epochs": 5,
        "features.a.buckets": [1, 2],
        "files": {},
        "run_fn": "headrace.trainer.run",
        "n": 1,
    }


def test_new_and_changed_data_is_reported_by_spans_and_files(home: Home, tmp_path: Path) -> None:
    def manifest(name: str, *spans: tuple[str, int]) -> KeyInput:
        files = {day: (FileState(f"/d/{day}.csv", size, "t"),) for day, size in spans}
        text = SpanManifest(tuple(Span(n, files[day], day) for n, (day, _) in enumerate(spans))).to_json()
        path = Path(home.uri("Spans", name), "value")
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        return KeyInput("Spans", "out", text, str(path))

    one, two = manifest("first", ("a", 10), ("b", 20)), manifest("second", ("b", 30), ("c", 1))
    home.run("first", ExampleGen=(Status.DONE, parts(inputs={"spans": one})))
    home.run("second", ExampleGen=(Status.DONE, parts(inputs={"spans": two})))
    (reason,) = home.reported()["ExampleGen"].reasons
    assert reason == ("input spans from Spans: new: c; no longer read: a; /d/b.csv changed (20 bytes, now 30)")


def test_an_artifact_that_was_made_again_leads_to_the_component_that_made_it(home: Home) -> None:
    uris = {run: home.uri("ExampleGen", run) for run in ("first", "second")}
    inputs = {run: {"examples": KeyInput("ExampleGen", "out", uri, uri)} for run, uri in uris.items()}
    home.run("first", Transform=(Status.DONE, parts(inputs=inputs["first"])))
    home.run("second", Transform=(Status.DONE, parts(inputs=inputs["second"])))
    reasons = home.reported()["Transform"].reasons
    assert reasons == ["input examples from ExampleGen: made by run first, now by run second"]


def test_a_baseline_that_there_was_not_is_told_from_the_model_of_the_same_run(home: Home) -> None:
    """The first run has no baseline, an empty folder of its own; that of the second is the first run's model."""
    none, model = home.uri("Baseline", "first"), home.uri("Trainer", "first")
    for uri in (none, model):
        Path(uri).mkdir(parents=True)
    Path(model, "saved_model.pb").touch()
    inputs = [{"baseline_model": KeyInput("Baseline", "out", uri, uri)} for uri in (none, model)]
    home.run("first", Evaluator=(Status.DONE, parts(inputs=inputs[0])))
    home.run("second", Evaluator=(Status.DONE, parts(inputs=inputs[1])))
    (reason,) = home.reported()["Evaluator"].reasons
    assert reason == "input baseline_model from Baseline: none, now what Trainer made in run first"


def test_the_same_key_that_missed_is_reported_by_its_reason(home: Home) -> None:
    home.run("first", A=(Status.DONE, parts()), B=(Status.DONE, parts()))
    home.run("second", A=(Status.DONE, parts()), B=(Status.DONE, parts(reuse=False)))
    assert "its outputs" in home.reported()["A"].reasons[0]
    assert "--fresh" in home.reported()["B"].reasons[0]


def test_what_is_not_known_is_said_and_a_run_that_is_not_there_is_named(home: Home) -> None:
    with pytest.raises(RunError, match="explain-cache --next`"):
        home.reported()
    home.run("20261120-01", Trainer=(Status.DONE, None), Spans=(Status.DONE, parts(cacheable=False)))
    assert home.reported()["Trainer"].result == "unknown"
    assert home.reported()["Spans"].result == "always runs"
    with pytest.raises(RunError, match=r'no run 20261120-1 .*did you mean "20261120-01"'):
        home.reported("20261120-1")


def test_lines_table_and_json_say_the_same(home: Home) -> None:
    home.run("first", Trainer=(Status.DONE, parts()))
    home.run("second", Trainer=(Status.DONE, parts(settings={"train.epochs": 9})))
    explanation = explain(home.folders)
    reason = "setting train.epochs: 5 → 9"
    assert list(lines(explanation))[1] == f"Trainer  ran              [compared with run first] {reason}"
    console = Console(force_terminal=True, width=100, record=True, file=io.StringIO())
    show(explanation, console)
    assert reason in console.export_text()
    assert json.loads(as_json(explanation))["components"][0]["reasons"] == [reason]
