"""Reading BigQuery: Google's own clients against servers on this machine, which speak the REST API and the Storage Read
API in Google's own message types. What only an account could show is not tried here; docs/config.md says what that is.
"""

import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bigquery_worker
import grpc
import pyarrow as pa
import pytest
from beam_runs import WITH_BEAM, same_with_beam
from bigquery_servers import SCHEMA, Google, google_at_hand, rows
from click.testing import CliRunner
from forks import ForkedWorker
from google.cloud.bigquery_storage_v1 import types
from pydantic import ValidationError

from headrace.common.errors import ConfigError, DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.sources import ReadOptions, ScanResult, bigquery, open_source, serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import BigquerySource
from headrace.pipeline.api import load_checked
from headrace.pipeline.verbs.local import validate


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    with google_at_hand(monkeypatch) as held:
        yield held


def config(**source: object) -> DataConfig:
    return DataConfig.model_validate({"source": {"kind": "bigquery", "project": "p", **source}})


def read(data: DataConfig, columns: tuple[str, ...] | None = None) -> tuple[ScanResult, list[dict]]:
    opened = open_source(data.source, options=ReadOptions(columns))
    scan = sum((opened.scan(part, {}) for part in opened.parts(serial_map)), ScanResult())
    found = []
    for part in opened.parts(serial_map):
        own, part = pickle.loads(pickle.dumps((opened, part)))  # noqa: PLW2901 - as it reaches a worker
        found += [row for batch in own.batches(part, scan.kinds) for row in batch.to_pylist()]
    return scan, found


def test_a_table_is_read_by_the_streams_of_one_session(google: Google) -> None:
    scan, found = read(config(table="d.t", row_filter="fare > 1", streams=3))
    (session,) = google.sessions
    assert session.parent == "projects/p"
    assert session.max_stream_count == 3
    assert session.read_session.table == "projects/p/datasets/d/tables/t"
    assert session.read_session.data_format == types.DataFormat.ARROW
    assert session.read_session.read_options.row_restriction == "fare > 1"
    assert list(session.read_session.read_options.selected_fields) == []
    assert [request.read_stream for request in google.reads] == ["s/0", "s/1", "s/2"]
    assert scan.kinds == {"id": "int", "fare": "float", "tags": "string list", "at": "string"}
    assert scan.size == 12_000
    assert found == [
        {
            "id": i,
            "fare": i / 4 if i % 3 else None,
            "tags": ["a"] * (i % 3),
            "at": f"1970-01-01 00:0{i // 60}:{i % 60:02}.000000Z",
        }
        for i in range(120)
    ]


def test_only_the_columns_asked_for_are_sent(google: Google) -> None:
    google.schema = pa.schema([SCHEMA.field("id")])
    google.streams = {"s/0": [rows(0, 9).select(["id"])]}
    data = config(table="other.d.t")
    assert open_source(data.source, options=ReadOptions(("id",))).columns() == ["id"]
    _, found = read(data, ("id",))
    assert found == [{"id": i} for i in range(9)]
    assert list(google.sessions[0].read_session.read_options.selected_fields) == ["id"]
    assert google.sessions[0].read_session.table == "projects/other/datasets/d/tables/t"


def test_a_query_runs_as_a_job_whose_table_is_read(google: Google) -> None:
    data = config(query="select * from d.t", location="EU")
    assert open_source(data.source).columns() == ["id", "fare", "tags", "at"]
    assert google.jobs[0]["configuration"]["dryRun"] is True
    assert len(read(data)[1]) == 120
    assert len(google.jobs) == 2
    assert google.jobs[1]["configuration"]["query"]["query"] == "select * from d.t"
    assert google.jobs[1]["jobReference"]["location"] == "EU"
    assert not google.jobs[1]["configuration"].get("dryRun")
    assert google.sessions[0].read_session.table == "projects/p/datasets/_anonymous/tables/results"


def test_examples_are_written_of_all_rows(google: Google, tmp_path: Path) -> None:
    data = config(table="d.t")
    ingested = ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    assert sum(ingested.rows.values()) == 120
    assert len(google.sessions) == 1


@pytest.mark.parametrize("beam", WITH_BEAM)
def test_a_table_gives_the_same_with_beam_and_without(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beam: BeamConfig
) -> None:
    monkeypatch.setattr(ForkedWorker, "program", [bigquery_worker.__file__])
    same_with_beam(config(table="d.t"), tmp_path, direct=beam)
    assert len(google.sessions) == 2
    assert len(google.reads) >= 2 * len(google.streams)


def test_a_stream_that_breaks_off_resumes_where_it_was(google: Google) -> None:
    google.breaks = 2
    assert [row["id"] for row in read(config(table="d.t"))[1]] == list(range(120))
    assert [request.offset for request in google.reads[:2]] == [0, 40]


def test_the_fingerprint_is_the_tables_time_of_change(google: Google) -> None:
    data = config(table="d.t")
    before = find_spans(data).fingerprint
    assert find_spans(data).fingerprint == before
    google.modified += 1
    assert find_spans(data).fingerprint != before
    query = config(query="select 1 as id")
    assert find_spans(query).fingerprint != find_spans(query).fingerprint


def refused(google: Google) -> None:
    google.refuses = grpc.StatusCode.PERMISSION_DENIED


def a_view(google: Google) -> None:
    google.kind = "VIEW"


def no_streams(google: Google) -> None:
    google.streams = {}


def records(google: Google) -> None:
    google.schema = pa.schema([("r", pa.struct([("a", pa.int64())]))])


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        ({"table": "d.gone"}, None, "BigQuery .*Not found: Table"),
        ({"table": "just_a_name"}, None, "neither project.dataset.table nor dataset.table"),
        ({"query": "select nope"}, None, "Unrecognized name: nope"),
        ({"table": "d.t"}, refused, "BigQuery .*: not for you\n.*roles"),
        ({"table": "d.t"}, a_view, "is of type VIEW"),
        ({"table": "d.t"}, no_streams, "there are no rows"),
        ({"table": "d.t"}, records, "column 'r': .*struct"),
    ],
)
def test_what_bigquery_does_not_give_is_reported(
    google: Google, tmp_path: Path, source: dict, change: Callable[[Google], None] | None, message: str
) -> None:
    if change is not None:
        change(google)
    with pytest.raises(DataError, match=message):
        ingest(config(**source), find_spans(config(**source)), tmp_path / "out", lambda _work: serial_map)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_missing_credentials_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(DataError, match=r"credentials .*\n.*`gcloud auth"):
        open_source(config(table="d.t").source).columns()
    (tmp_path / "key.json").write_text("{}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    with pytest.raises(DataError, match="credentials"):
        open_source(config(table="d.t").source).columns()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"table": "d.t", "query": "select 1"},
        {"query": "select 1", "row_filter": "x"},
        {"table": "d.t", "location": "EU"},
    ],
)
def test_settings_that_do_not_go_together_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="Value error"):
        BigquerySource(kind="bigquery", project="p", **more)


def fares(**settings: Any) -> dict[str, Any]:
    return {
        "pipeline": {"name": "fares"},
        "data": {"source": {"kind": "bigquery", "project": "p", **settings}, "columns": "used"},
        "label": {"key": "id", "kind": "regression"},
        "features": {"fare": {"column": "numeric"}, "at": {"column": "numeric"}},
    }


def test_the_first_rows_of_a_table_are_looked_at_for_free(google: Google) -> None:
    with pytest.raises(ConfigError) as caught:
        load_checked(fares(table="d.t"), None, (), data=True)
    (problem,) = caught.value.problems
    assert problem.what.startswith('features.at: column "at" holds dates such as 1970-01-01')
    assert [query["selectedFields"] for query in google.lists] == [["id,fare,at"]] * 3  # of three pages
    assert (google.sessions, google.reads, google.jobs) == ([], [], [])


@pytest.mark.parametrize("most", [60, 120])
def test_of_a_table_with_more_rows_the_check_says_how_many_it_saw(
    google: Google, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bigquery, "HEAD_ROWS", most)
    config = {**fares(table="d.t"), "features": {"fare": {"column": "numeric"}}}
    seen = load_checked(config, None, (), data=True).rows_seen
    assert (seen.by_split, seen.whole) == ({"": most}, frozenset({""} if most == 120 else ()))
    assert google.lists[0]["maxResults"] == [str(most)]


def test_rows_that_cost_something_are_not_looked_at_and_validate_says_why(google: Google, tmp_path: Path) -> None:
    file = tmp_path / "fares.json"
    for settings in ({"query": "SELECT * FROM d.t"}, {"table": "d.t", "row_filter": "id < 5"}):
        file.write_text(json.dumps(fares(**settings)), encoding="utf-8")
        said = CliRunner().invoke(validate, [str(file)]).output
        assert "rows: not looked at " in said
    assert [job["configuration"]["dryRun"] for job in google.jobs] == [True] * len(google.jobs)
    assert (google.lists, google.sessions) == ([], [])


def test_a_table_that_is_not_listed_is_noted(google: Google, caplog: pytest.LogCaptureFixture) -> None:
    google.refuses = grpc.StatusCode.PERMISSION_DENIED
    assert load_checked(fares(table="d.t"), None, (), data=True).rows_seen.by_split == {}
    assert "the rows were not looked at: " in caplog.text
    assert "BigQuery denies access: " in caplog.text
