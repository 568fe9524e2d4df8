"""Lineage from made-up records: chains of warm starts, links, and what is left after files are gone."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from ended_runs import BLESSED

from headrace.common.errors import RunError
from headrace.common.storage.files import stats
from headrace.components.evaluation.result import write_evaluation
from headrace.components.spans.manifest import Span, SpanManifest
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline import api
from headrace.pipeline.cli import cli
from headrace.pipeline.models.lineage import Lineage, lineage
from headrace.pipeline.models.listing import list_models
from headrace.pipeline.models.rollback import roll_back
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status


def config_of(home: Path) -> PipelineConfig:
    given = {
        "pipeline": {"name": home.name, "root": str(home.parent)},
        "data": {"source": {"kind": "csv", "path": "trips.csv"}},
        "label": {"key": "fare", "kind": "regression"},
        "features": {"miles": {"column": "numeric"}},
        "deploy": {"push": str(home / "serving")},
    }
    return load_with_locations(given).config


def output(path: Path, kind: str = "Model", **properties: str | int) -> ArtifactRecord:
    path.mkdir(parents=True, exist_ok=True)
    return ArtifactRecord(kind, str(path), dict(properties))


def trained(home: Path, number: int, spans: tuple[int, ...], base: int | None = None) -> None:
    """The record of the run `r<number>`, whose model read these spans and started from the model of run `r<base>`."""
    artifacts, data = home / "artifacts", home.parent / "data"
    data.mkdir(parents=True, exist_ok=True)
    for span in spans:
        (data / f"{span}.csv").write_text(f"{span}\n")
    read = (Span(span, tuple(stats([str(data / f"{span}.csv")])), str(span)) for span in spans)
    manifest = output(artifacts / "Spans" / "spans" / f"r{number}", "String")
    Path(manifest.uri, "value").write_text(SpanManifest(tuple(read)).to_json(), encoding="utf-8")
    names = json.dumps({str(span): f"key-{span}" for span in spans})
    found = {
        "Spans": {"spans": manifest},
        "ExampleGen": {"examples": output(artifacts / "ExampleGen" / "examples" / f"r{number}", spans=names)},
        "WarmStart": {"base": output(artifacts / "Trainer" / "model" / f"r{base or 0}", exists=int(base is not None))},
        "Trainer": {"model": output(artifacts / "Trainer" / "model" / f"r{number}")},
    }
    nodes = [NodeRecord(name, status=Status.DONE, outputs=outputs) for name, outputs in found.items()]
    folder = home / "runs" / f"r{number}"
    folder.mkdir(parents=True)
    RunRecord(f"r{number}", home.name, "c.yaml", started=float(number), status=Status.DONE, nodes=nodes).write(folder)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Four models: 2 started from 1, and 3 from 2; 4 started from nothing."""
    home = tmp_path / "trips"
    trained(home, 1, (1,))
    trained(home, 2, (2,), base=1)
    trained(home, 3, (3,), base=2)
    trained(home, 4, (3, 4))
    return home


def follow(home: Path, name: str | None) -> Lineage:
    return lineage(config_of(home), api.runs(config_of(home)), name)


def runs(home: Path, name: str) -> list[str | None]:
    return [origin.model.run for origin in follow(home, name).origins]


def test_span_touches_all_models_down_a_chain_of_warm_starts(home: Path) -> None:
    assert {name: runs(home, name) for name in "1234"} == {
        "1": ["r3", "r2", "r1"],
        "2": ["r3", "r2"],
        "3": ["r4", "r3"],
        "4": ["r4"],
    }


def test_file_is_found_by_any_of_its_names(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = home.parent / "data"
    (home.parent / "link.csv").symlink_to(data / "4.csv")
    monkeypatch.chdir(home)
    for name in (str(data / "4.csv"), "../data/4.csv", str(home.parent / "link.csv")):
        found = follow(home, name)
        assert (found.kind, [origin.model.run for origin in found.origins]) == ("file", ["r4"])


def test_model_is_found_by_run_and_folder(home: Path) -> None:
    for name in ("r2", str(home / "artifacts" / "Trainer" / "model" / "r2")):
        (origin,) = follow(home, name).origins
        assert (origin.model.run, [span.name for span in origin.spans]) == ("r2", ["2"])
        assert origin.started_from == home / "artifacts" / "Trainer" / "model" / "r1"


def test_newest_model_is_meant_if_none_is_in_service(home: Path) -> None:
    assert follow(home, None).name == "r4"


def test_version_of_another_program_has_no_origin(home: Path) -> None:
    (home / "serving" / "7").mkdir(parents=True)
    (origin,) = follow(home, "7").origins
    assert (origin.model.run, origin.record, origin.spans, origin.artifacts) == (None, None, (), {})
    assert re.search(r"^run +no run here pushed this version$", command(home, "lineage", "7"), re.MULTILINE)


def test_copied_folders_have_their_own_models_and_say_where_these_were_pushed(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = Entry(uri=str(home / "artifacts" / "Trainer" / "model" / "r4"), blessed_at="2026-11-20T00:00:00+00:00")
    Registry(models=(entry,)).write(home / "blessed.json")
    (tmp_path / "serving" / "7").mkdir(parents=True)
    PushRecord().write(home / "pushed.json", entry, tmp_path / "serving" / "7")
    copy = tmp_path / "copy" / "trips"
    shutil.copytree(home, copy)
    shutil.copytree(tmp_path / "serving", copy.parent / "serving")
    config = config_of(copy)
    config = config.model_copy(update={"deploy": config.deploy.model_copy(update={"push": f"{copy.parent}/serving"})})
    *trained_here, pushed = list_models(config, api.runs(config))
    assert [model.path.relative_to(copy).name for model in trained_here] == ["r4", "r3", "r2", "r1"]
    assert (pushed.run, pushed.versions) == (None, (7,))
    hint = f"models were pushed to {tmp_path}/serving.\n  If that folder was moved or copied to this one, run `headrace"
    assert hint in caplog.text
    with pytest.raises(RunError) as refused:
        roll_back(config, None, datetime(2026, 11, 21, tzinfo=UTC))
    assert hint in str(refused.value)


def test_what_is_gone_is_left_out_and_the_rest_is_shown(home: Path) -> None:
    (home / "artifacts" / "Spans" / "spans" / "r4" / "value").write_text("{}")
    shutil.rmtree(home / "artifacts" / "ExampleGen" / "examples" / "r4")
    (origin,) = follow(home, "r4").origins
    assert origin.spans == ()
    assert origin.model.spans == ("3", "4")
    assert runs(home, "4") == ["r4"]
    assert not origin.artifacts["examples"].exists
    assert origin.artifacts["model"].exists


def test_unknown_name_is_refused_with_the_spans_that_there_are(home: Path) -> None:
    trained(home, 5, (2, 10))  # a backfill
    with pytest.raises(RunError, match="Spans, newest first: 10, 4, 3, 2, 1"):
        follow(home, "5")
    with pytest.raises(RunError, match="has trained a model yet"):
        lineage(config_of(home), [], None)


def command(home: Path, *arguments: str) -> str:
    given = config_of(home).model_dump(mode="json", exclude_unset=True)
    (home.parent / "trips.yaml").write_text(json.dumps(given), encoding="utf-8")
    done = CliRunner().invoke(cli, [*arguments[:1], str(home.parent / "trips.yaml"), *arguments[1:]])
    assert done.exit_code == 0, done.output
    return done.output


def evaluated(home: Path, run: str, auc: float, *, trained_by: str | None = None) -> None:
    """Add the evaluation of the run's model to its record; of one that another run trained, to a run that reused it."""
    folder = home / "runs" / run
    if trained_by is not None:
        record = RunRecord.read(home / "runs" / trained_by)
        record.run_id, record.started = run, float(run[1:])
        for node in record.nodes:
            node.status = Status.CACHED
        folder.mkdir()
        record.write(folder)
    (folder / "config.yaml").write_text(f"# of {run}\n", encoding="utf-8")
    record = RunRecord.read(folder)
    where = home / "artifacts" / "Evaluator" / "evaluation" / run
    outputs = {"evaluation": output(where, "ModelEvaluation")}
    write_evaluation(where, replace(BLESSED, metrics={"auc": auc}))
    record.nodes = [*(node for node in record.nodes if node.id != "Evaluator")]
    record.nodes.append(NodeRecord("Evaluator", status=Status.DONE, outputs=outputs))
    record.write(folder)


def test_prune_leaves_the_lineage_of_what_is_in_service_may_be_again_or_waits(home: Path) -> None:
    for number in (1, 2, 3, 4):
        evaluated(home, f"r{number}", 0.9 + number / 100)
    evaluated(home, "r5", 0.99, trained_by="r2")  # a later verdict on the model of the second run
    trained(home, 6, (4,))
    trained(home, 7, (4,))
    models = {number: str(home / "artifacts" / "Trainer" / "model" / f"r{number}") for number in (1, 2, 3, 4)}
    entries = [Entry(uri=models[number], blessed_at=f"2026-03-0{number}T00:00:00") for number in (1, 2, 3)]
    waiting = Entry(uri=models[4], blessed_at="2026-03-04T00:00:00", awaiting_approval=True)
    Registry(models=(*entries, waiting)).write(home / "blessed.json")
    (home / "serving" / "17").mkdir(parents=True)
    record = PushRecord()
    record.write(home / "pushed.json", entries[1], home / "serving" / "17")  # the third was not pushed yet
    asked: list[tuple[str, ...]] = [(), ("--json",), ("r3",), ("r4", "--json"), ("17",)]
    before = [command(home, "lineage", *more) for more in asked]
    assert "auc 0.9900" in before[0]
    assert '"spans": [\n     "2"' in before[1]
    assert command(home, "prune", "--keep", "1").startswith("2 of 7 runs (r1 to r6)")
    assert [command(home, "lineage", *more) for more in asked] == before
    assert sorted(path.name for path in (home / "runs").iterdir()) == ["r2", "r3", "r4", "r5", "r7"]


ON_CARDS = (
    ("StatisticsGen", "statistics"),
    ("SchemaGen", "schema"),
    ("DataVerdict", "verdict"),
    ("Tuner", "best_hyperparameters"),
)
"""Small artifacts that lineage and model cards name."""


def test_prune_keeps_the_records_of_models_that_a_rollback_may_restore_but_not_their_data(home: Path) -> None:
    for number in (1, 2, 3):
        evaluated(home, f"r{number}", 0.9)
    record = RunRecord.read(home / "runs" / "r2")
    for component, key in ON_CARDS:
        shown = {key: output(home / "artifacts" / component / key / "r2", "T")}
        record.nodes.append(NodeRecord(component, status=Status.DONE, outputs=shown))
    record.write(home / "runs" / "r2")
    trained(home, 5, (4,))
    models = [str(home / "artifacts" / "Trainer" / "model" / f"r{number}") for number in (1, 2, 3)]
    entries = tuple(Entry(uri=uri, blessed_at=f"2026-03-0{at}T00:00:00") for at, uri in enumerate(models, 1))
    Registry(models=entries).write(home / "blessed.json")
    before = follow(home, "r2").origins[0]
    command(home, "prune", "--keep", "2")
    after = follow(home, "r2").origins[0]
    assert (after.model, after.config_digest, after.spans) == (before.model, before.config_digest, before.spans)
    assert {key: artifact.exists for key, artifact in after.artifacts.items()} == {
        "examples": False,
        "model": True,
        "evaluation": True,
        "statistics": True,
        "schema": True,
    }
    assert all((home / "artifacts" / component / key / "r2").is_dir() for component, key in ON_CARDS)
    assert not (home / "runs" / "r1").exists()
    assert command(home, "prune", "--keep", "2").startswith("nothing to remove: all 4 runs are kept")
