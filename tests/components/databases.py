"""Databases to read from: tables of all kinds of columns, and how a source reads them."""

import contextlib
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import postgres
import psycopg

from headrace.components.example_gen.ingest import ingest
from headrace.components.sources import ParallelMap, ScanResult, open_source, serial_map
from headrace.components.spans.manifest import Span, SpanManifest
from headrace.components.spans.source_state import source_state
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import SqlSource

ROWS = 5000
KEYED = "insert into other.keyed values (1, 'a'), (null, 'b'), (1, 'c'), (9, 'd'), (null, 'e');"
MADE = f"""
create table trips (
    id bigint primary key, "Odd ""Name; --" text, fare numeric(10, 3), paid boolean, day date, at timestamptz,
    stops int[], tags text[], raw bytea, extra jsonb, ratio float4, nothing float8);
insert into trips select i * i - 1000, case when i % 7 > 0 then 'x%:y ' || i end, i / 8.0, i % 2 = 0,
    date '2024-02-27' + i, timestamptz '2024-03-31 00:30:00+00' + i * interval '1 minute', array[i, i + 1],
    case when i % 3 = 0 then array['a', 'ü'] when i % 3 = 1 then array[]::text[] end,
    decode(lpad(to_hex(i), 8, '0'), 'hex'), jsonb_build_object('n', i), i / 4.0, null
from generate_series(1, {ROWS}) i;
create schema other; create table other.keyed (k int, v text);
{KEYED}
create table bare (v text);
"""


@contextlib.contextmanager
def postgresql() -> Iterator[postgres.Server]:
    """A server with these tables."""
    with postgres.server() as made:
        with psycopg.connect(made.conninfo) as connection:
            connection.execute(MADE)
        yield made


def sqlite_of_trips(folder: Path) -> Path:
    """A file with one of them."""
    path = folder / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute('create table trips (id integer primary key, "na me" text, fare, flag bool, raw blob, n)')
        connection.executemany(
            "insert into trips values (?, ?, ?, ?, ?, ?)",
            [
                (i * 3, f"n{i}" if i % 5 else None, i / 4 if i % 2 else i, i % 2, bytes([i % 256]), None)
                for i in range(ROWS)
            ],
        )
        connection.commit()
    return path


def source_of(server: postgres.Server, **more: Any) -> SqlSource:
    return SqlSource(kind="sql", url=server.url, password_env="DB_PASSWORD", **more)


def read(source: SqlSource, declared: dict | None = None) -> tuple[dict[str, str], list[tuple]]:
    opened = open_source(source)
    scan = sum((opened.scan(part, declared or {}) for part in opened.parts(serial_map)), ScanResult())
    kinds = {**scan.kinds, **(declared or {})}
    rows = []
    for part in opened.parts(serial_map):
        for batch in pickle.loads(pickle.dumps(opened)).batches(part, kinds):
            assert batch.schema.names == opened.columns()
            rows += [tuple(row.values()) for row in batch.to_pylist()]
    assert sum(scan.rows.values()) == len(rows)
    return dict(kinds), rows


def config(source: SqlSource, **more: Any) -> DataConfig:
    return DataConfig.model_validate({"source": source.model_dump(), "splits": {"train": 2, "eval": 1}, **more})


def written(
    source: SqlSource, output: Path, make_spread: Callable[[Path], ParallelMap] = lambda _work: serial_map
) -> dict[str, bytes]:
    ingest(config(source), SpanManifest((Span(0, tuple(source_state(source) or ())),)), output, make_spread)
    return {path.name: path.read_bytes() for path in sorted(output.rglob("*.gz"))}
