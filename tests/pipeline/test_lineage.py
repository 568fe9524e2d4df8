"""Lineage from made-up records: chains of warm starts, links, and what is left after files are gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headrace.common.errors import RunError
from headrace.common.storage.files import stats
from headrace.components.spans.manifest import Span, SpanManifest
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline import api
from headrace.pipeline.models.lineage import Lineage, lineage
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
    names = json.dumps(dict.fromkeys(map(str, spans)))
    found = {
        "Spans": {"spans": manifest},
        "ExampleGen": {"examples": output(artifacts / "ExampleGen" / f"r{number}", spans=names)},
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


def test_what_is_gone_is_left_out_and_the_rest_is_shown(home: Path) -> None:
    (home / "artifacts" / "Spans" / "spans" / "r4" / "value").write_text("{}")
    shutil.rmtree(home / "artifacts" / "ExampleGen" / "r4")
    (origin,) = follow(home, "r4").origins
    assert origin.spans == ()
    assert origin.model.spans == ("3", "4")
    assert runs(home, "4") == ["r4"]
    assert not origin.artifacts["examples"].exists
    assert origin.artifacts["model"].exists


def test_unknown_name_is_refused_with_the_spans_that_there_are(home: Path) -> None:
    with pytest.raises(RunError, match="Spans, newest first: 4, 3, 2, 1"):
        follow(home, "5")
    with pytest.raises(RunError, match="has trained a model yet"):
        lineage(config_of(home), [], None)
