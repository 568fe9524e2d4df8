"""ExampleGen and StatisticsGen with `beam: {runner: direct}`, in one process and in several: the graphs of a cluster,
executed here, make the bytes that the ways without Beam make. (BigQuery and TFDS are with their own tests.)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import openpyxl
import postgres
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from beam_runs import AUTO, DIRECT, WITH_BEAM, make, same_with_beam, transforms
from databases import source_of, sqlite_of_trips
from given_trips import ROWS, columns, rows

from headrace.components import beam_pipelines
from headrace.components.examples import parts
from headrace.components.sources.parquet import source as parquet
from headrace.configs.schema import sources as registry
from headrace.configs.schema.beam import BeamConfig, OptionValue
from headrace.configs.schema.data import DataConfig


def csv(folder: Path) -> dict[str, Any]:
    for number in range(2):
        lines = [f'{row["id"]},{"" if row["fare"] is None else row["fare"]},"{row["company"]}"' for row in rows()]
        (folder / f"{number}.csv").write_text("id,fare,company\n" + "\n".join(lines) + "\n")
    return {"kind": "csv", "path": str(folder / "*.csv")}


def parquet_files(folder: Path) -> dict[str, Any]:
    for number in range(2):
        pq.write_table(pa.table(columns()), folder / f"{number}.parquet", row_group_size=700)
    return {"kind": "parquet", "path": str(folder)}


def jsonl(folder: Path) -> dict[str, Any]:
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows())))
    return {"kind": "jsonl", "path": str(folder / "a.jsonl")}


def json_array(folder: Path) -> dict[str, Any]:
    for number in range(2):
        (folder / f"{number}.json").write_text(json.dumps(rows(), indent=1))
    return {"kind": "json", "path": str(folder / "*.json")}


def avro(folder: Path) -> dict[str, Any]:
    fields = [{"name": "id", "type": "long"}, {"name": "fare", "type": ["null", "double"]}]
    schema = {"type": "record", "name": "Trip", "fields": [*fields, {"name": "company", "type": "string"}]}
    with (folder / "a.avro").open("wb") as stream:
        fastavro.writer(stream, schema, rows(), sync_interval=1 << 12)
    return {"kind": "avro", "path": str(folder / "a.avro")}


def excel(folder: Path) -> dict[str, Any]:
    for number in range(2):
        book = openpyxl.Workbook()
        table = [list(rows()[0]), *(list(row.values()) for row in rows()[number::2])]
        for row in table:
            book.worksheets[0].append(row)
        book.save(folder / f"{number}.xlsx")
    return {"kind": "excel", "path": str(folder / "*.xlsx")}


def datasets(folder: Path) -> dict[str, Any]:
    table = pa.Table.from_pylist(rows())
    with pa.ipc.new_stream(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=200)
    return {"kind": "datasets", "path": str(folder / "a.arrow")}


def python(_: Path) -> dict[str, Any]:
    return {"kind": "python", "function": "tests.components.given_trips.rows"}


def tfrecord(folder: Path) -> dict[str, Any]:
    with tf.io.TFRecordWriter(str(folder / "a.tfrecord")) as writer:
        for row in rows():
            feature = {
                "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["id"]])),
                "company": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["company"].encode()])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return {"kind": "tfrecord", "path": str(folder / "a.tfrecord")}


def images(folder: Path) -> dict[str, Any]:
    random = np.random.default_rng(4)
    for number in range(60):
        path = folder / f"class {number % 3}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(tf.io.encode_png(random.integers(0, 256, (8, 8, 1), np.uint8)).numpy())
    return {"kind": "images", "path": str(folder)}


def text(folder: Path) -> dict[str, Any]:
    lines = (f"the {number} rides with {number % 7} of them\n" for number in range(ROWS))
    (folder / "a.txt").write_text("".join(lines))
    return {"kind": "text", "path": str(folder / "a.txt"), "unit": "line"}


def sqlite(folder: Path) -> dict[str, Any]:
    return {"kind": "sql", "url": f"sqlite:///{sqlite_of_trips(folder)}", "table": "trips", "key": "id", "ranges": 3}


def arrays(folder: Path) -> dict[str, Any]:
    np.savez(folder / "a.npz", id=np.arange(ROWS), vector=np.random.default_rng(5).normal(size=(ROWS, 4)))
    return {"kind": "arrays", "path": str(folder / "a.npz")}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 32 kB, so that each source has several."""
    for module, name in ((parts, "SMALLEST_PART"), (parts, "LARGEST_PART"), (parquet, "SMALLEST_PART")):
        monkeypatch.setattr(module, name, 1 << 15)
    monkeypatch.setattr(parquet, "LARGEST_PART", 1 << 15)


def config(source: dict[str, Any], **more: Any) -> DataConfig:
    return DataConfig.model_validate({"source": source, "splits": {"train": 3, "eval": 1}, "shards": 2, **more})


SOURCES = {
    "arrays": (arrays, 3),
    "csv": (csv, 4),
    "images": (images, 3),
    "jsonl": (jsonl, 3),
    "json": (json_array, 3),
    "avro": (avro, 3),
    "excel": (excel, 3),
    "datasets": (datasets, 4),
    "python": (python, 3),
    "parquet": (parquet_files, 4),
    "sql": (sqlite, 3),
    "text": (text, 3),
    "tfrecord": (tfrecord, 3),
}
"""What makes the data of each kind, and how many pipelines ExampleGen needs for it."""


@pytest.mark.parametrize("beam", WITH_BEAM)
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.usefixtures("small_parts")
def test_a_source_gives_the_same_shards_and_statistics_with_beam_and_without(
    tmp_path: Path, kind: str, beam: BeamConfig
) -> None:
    source, pipelines = SOURCES[kind]
    (tmp_path / "data").mkdir()
    same_with_beam(config(source(tmp_path / "data")), tmp_path, pipelines, beam)


@pytest.mark.parametrize("beam", WITH_BEAM)
def test_a_postgresql_table_gives_the_same_with_beam_and_without(
    server: postgres.Server, tmp_path: Path, beam: BeamConfig
) -> None:
    source = source_of(server, table="trips", key="id", ranges=3).model_dump()
    same_with_beam(config(source), tmp_path, direct=beam)


def test_every_kind_of_source_is_compared() -> None:
    assert SOURCES.keys() | {"bigquery", "tfds"} == registry.SOURCES.kinds.keys()


def test_the_smallest_piece_of_work_goes_through_beam_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n" + "\n".join(map(str, range(40))) + "\n")
    made = make(config({"kind": "csv", "path": str(tmp_path / "a.csv")}, shards=1), tmp_path / "direct", DIRECT)
    assert transforms(made.ingest_summary, 3) >= 9
    assert transforms(made.statistics_summary, 1) >= 4


def test_statistics_of_any_size_need_no_beam_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam would hold the accumulators of all files until the last is there."""
    monkeypatch.setattr(beam_pipelines, "SMALL", -1)
    (tmp_path / "a.csv").write_text("a\n" + "\n".join(map(str, range(40))) + "\n")
    made = make(config({"kind": "csv", "path": str(tmp_path / "a.csv")}, shards=1), tmp_path / "auto", AUTO)
    assert made.statistics_summary.startswith("auto, no pipeline")


@pytest.mark.usefixtures("small_parts")
def test_a_job_service_of_beam_gives_the_same(tmp_path: Path) -> None:
    """The one within Beam takes the jobs over gRPC, as that of a cluster does, and calls back for the Python code."""
    options: dict[str, OptionValue] = {"job_endpoint": "embed", "environment_type": "LOOPBACK"}
    (tmp_path / "data").mkdir()
    same_with_beam(config(jsonl(tmp_path / "data")), tmp_path, 3, BeamConfig(runner="portable", options=options))
