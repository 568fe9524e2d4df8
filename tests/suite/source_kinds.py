"""The same rows in every kind of source that is looked at before a run, and the settings that read them.

source = write("avro", ROWS, Path("data"), files=2)     # the mapping `data.source`
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import openpyxl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from google_crc32c import value as crc32c
from postgres import Server

Row = Mapping[str, Any]
FILES = ("csv", "jsonl", "parquet", "avro", "excel", "datasets", "tfrecord", "tfds", "arrays")
DATABASES = ("sqlite", "postgresql")
WITH_LISTS = ("jsonl", "parquet", "avro", "datasets", "tfrecord", "tfds", "arrays", "postgresql")
ENDINGS = {"excel": "xlsx", "datasets": "arrow", "arrays": "npz"}


def write(kind: str, rows: Sequence[Row], folder: Path, files: int = 1) -> dict[str, Any]:
    """Write the rows into files of a kind. Returns the settings of the source."""
    folder.mkdir(exist_ok=True)
    if kind == "tfds":
        return _tfds(rows, folder, files)
    ending = ENDINGS.get(kind, kind)
    size = -(-len(rows) // files)
    names = [f"data-{number:05}-of-{files:05}.{ending}" for number in range(files)]
    for number, name in enumerate(names):
        WRITERS[kind](folder / name, rows[number * size : (number + 1) * size])
    if kind == "datasets":
        state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "f", "_split": None}
        (folder / "state.json").write_text(json.dumps(state))
        (folder / "dataset_info.json").write_text(json.dumps({"features": {}}))
        return {"kind": kind, "path": str(folder)}
    return {"kind": kind, "path": f"{folder}/*.{ending}"}


def write_sqlite(rows: Sequence[Row], path: Path) -> dict[str, Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"create table trips ({', '.join(rows[0])})")
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"insert into trips values ({marks})", [(*row.values(),) for row in rows])
        connection.commit()
    return {"kind": "sql", "url": f"sqlite:///{path}", "table": "trips"}


def write_postgresql(rows: Sequence[Row], server: Server, table: str) -> dict[str, Any]:
    types = {int: "bigint", float: "float8", str: "text", list: "bigint[]"}
    columns = ", ".join(f"{name} {types[type(value)]}" for name, value in rows[0].items())
    with psycopg.connect(server.conninfo) as connection, connection.cursor() as cursor:
        cursor.execute(f"drop table if exists {table}; create table {table} ({columns})")
        marks = ", ".join(["%s"] * len(rows[0]))
        cursor.executemany(f"insert into {table} values ({marks})", [(*row.values(),) for row in rows])
    return {"kind": "sql", "url": server.url, "password_env": "DB_PASSWORD", "table": table}


def _csv(path: Path, rows: Sequence[Row]) -> None:
    lines = (",".join(map(str, row)) for row in (rows[0], *(row.values() for row in rows)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _lines(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(json.dumps(dict(row)) + "\n" for row in rows), encoding="utf-8")


def _avro(path: Path, rows: Sequence[Row]) -> None:
    types = {int: "long", float: "double", str: "string", list: {"type": "array", "items": "long"}}
    fields = [{"name": name, "type": types[type(value)]} for name, value in rows[0].items()]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, rows)


def _excel(path: Path, rows: Sequence[Row]) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("rows")
    for row in ([*rows[0]], *([*row.values()] for row in rows)):
        sheet.append(row)
    book.save(path)


def _datasets(path: Path, rows: Sequence[Row]) -> None:
    table = pa.Table.from_pylist([dict(row) for row in rows])
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)


def _tfrecord(path: Path, rows: Sequence[Row]) -> None:
    """Written by hand from the definition of the format and of tf.train.Example."""

    def field(tag: int, value: bytes) -> bytes:
        return bytes([tag << 3 | 2]) + _varint(len(value)) + value

    def feature(value: Any) -> bytes:
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], str):
            return field(1, b"".join(field(1, one.encode()) for one in values))
        if isinstance(values[0], float):
            return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
        return field(3, field(1, b"".join(map(_varint, values))))

    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    with path.open("wb") as file:
        for row in rows:
            entries = (field(1, field(1, name.encode()) + field(2, feature(row[name]))) for name in sorted(row))
            record = field(1, b"".join(entries))
            length = struct.pack("<Q", len(record))
            file.write(length + masked(length) + record + masked(record))


def _tfds(rows: Sequence[Row], folder: Path, files: int) -> dict[str, Any]:
    """A prepared dataset, as TensorFlow Datasets writes it."""
    version, size = folder / "trips" / "1.0.0", -(-len(rows) // files)
    version.mkdir(parents=True, exist_ok=True)
    shards = [rows[number * size : (number + 1) * size] for number in range(files)]
    for number, shard in enumerate(shards):
        _tfrecord(version / f"trips-train.tfrecord-{number:05}-of-{files:05}", shard)
    split = {"name": "train", "numBytes": str(100 * len(rows)), "shardLengths": [str(len(shard)) for shard in shards]}
    info = {"name": "trips", "version": "1.0.0", "fileFormat": "tfrecord", "splits": [split]}
    (version / "dataset_info.json").write_text(json.dumps(info))
    module, types = "tensorflow_datasets.core.features", {int: "int64", float: "float32", list: "int64"}
    features = {
        name: {"pythonClassName": f"{module}.text_feature.Text", "text": {}}
        if isinstance(value, str)
        else {
            "pythonClassName": f"{module}.tensor_feature.Tensor",
            "tensor": {
                "dtype": types[type(value)],
                "encoding": "none",
                "shape": {"dimensions": [str(len(value))]} if isinstance(value, list) else {},
            },
        }
        for name, value in rows[0].items()
    }
    described = {
        "pythonClassName": f"{module}.features_dict.FeaturesDict",
        "featuresDict": {"features": features},
    }
    (version / "features.json").write_text(json.dumps(described))
    return {"kind": "tfds", "name": "trips", "data_dir": str(folder)}


def _npz(path: Path, rows: Sequence[Row]) -> None:
    columns: dict[str, Any] = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    np.savez(path, **columns)


def _varint(number: int) -> bytes:
    text = b""
    while number > 127:
        text, number = text + bytes([number & 127 | 128]), number >> 7
    return text + bytes([number])


WRITERS: Mapping[str, Callable[[Path, Sequence[Row]], None]] = {
    "csv": _csv,
    "jsonl": _lines,
    "parquet": lambda path, rows: pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path),
    "avro": _avro,
    "excel": _excel,
    "datasets": _datasets,
    "tfrecord": _tfrecord,
    "arrays": _npz,
}
