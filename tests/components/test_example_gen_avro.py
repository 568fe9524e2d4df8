"""Avro files: what fastavro reads comes back, from whole files and from ranges, with the types of the schema."""

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_rows import read_source, values_of

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples import parts as parts_module
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.avro.blocks import read_blocks, read_header
from headrace.components.sources.avro.source import AvroFiles
from headrace.components.sources.base import HasTypes
from headrace.components.sources.streams import LineRange
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import AvroSource

SYNC = b"0123456789abcdef"
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "price", "type": ["null", "long"]}]}
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "x", "type": ["null", "double"]},
    {"name": "s", "type": ["string", "null"]},
    {"name": "on", "type": "boolean"},
    {"name": "l", "type": {"type": "array", "items": "int"}},
    {
        "name": "user",
        "type": ["null", {"type": "record", "name": "User", "fields": [{"name": "age", "type": "int"}]}],
    },
    {"name": "items", "type": {"type": "array", "items": ITEM}},
]
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False),
        "s": st.none() | st.text(max_size=5),
        "on": st.booleans(),
        "l": st.lists(st.integers(-9, 9), max_size=3),
        "user": st.none() | st.fixed_dictionaries({"age": st.integers(0, 99)}),
        "items": st.lists(st.fixed_dictionaries({"price": st.none() | st.integers(0, 9)}), max_size=3),
    }
)


def write(path: Path, rows: list[dict[str, Any]], fields: list[Any] = FIELDS, **options: Any) -> None:
    schema = {"type": "record", "name": "Row", "namespace": "test", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, **options)


def read(path: Path | str, *args: Any, **how: Any) -> tuple[ScanResult, list[dict[str, Any]]]:
    return read_source(AvroSource(kind="avro", path=str(path)), *args, **how)


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of a row as fastavro reads it."""
    prices = [item["price"] for item in row["items"] if item["price"] is not None]
    columns = {name: value for name, value in row.items() if name not in {"user", "items"}}
    return values_of({**columns, "user.age": (row["user"] or {}).get("age"), "items.price": prices})


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=30),
    codec=st.sampled_from(["null", "deflate", "bzip2", "xz"]),
    interval=st.sampled_from([1, 100, 16000]),
    length=st.sampled_from([50, 1 << 24]),
)
def test_what_fastavro_reads_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], codec: str, interval: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("avro") / "f.avro"
    write(path, rows, codec=codec, sync_interval=interval)
    with path.open("rb") as file:
        expected: list[Any] = list(fastavro.reader(file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts_module, "SMALLEST_PART", length)
        scan, found = read(path)
    assert [values_of(row) for row in found] == list(map(flat, expected))
    assert scan.rows == {str(path): len(rows)}
    assert scan.kinds == {
        "id": "int", "x": "float", "s": "string", "on": "int", "l": "int list", "user.age": "int",
        "items.price": "int list",
    }  # fmt: skip


def test_each_block_is_in_one_range(tmp_path: Path) -> None:
    path = tmp_path / "f.avro"
    rows = [{"id": number} for number in range(300)]
    write(path, rows, FIELDS[:1], sync_interval=20)
    size = path.stat().st_size
    for number in (1, 2, 7, 50, size):
        starts = [place * size // number for place in range(number)]
        ranges = zip(starts, [*starts[1:], None], strict=True)
        blocks = [block for start, end in ranges for block in read_blocks(LineRange(str(path), start, end))]
        assert [record for block in blocks for record in block.records] == rows


def test_logical_types_are_mapped_as_those_of_parquet(tmp_path: Path) -> None:
    def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "logicalType": name, **more}

    types: dict[str, Any] = {
        "day": logical("int", "date"), "millis": logical("long", "timestamp-millis"),
        "local": logical("long", "local-timestamp-micros"), "time": logical("int", "time-millis"),
        "cost": logical("bytes", "decimal", precision=9, scale=2), "key": logical("string", "uuid"),
        "suit": {"type": "enum", "name": "Suit", "symbols": ["a", "b"]}, "sum": ["int", "double"],
        "raw": {"type": "fixed", "name": "Raw", "size": 2}, "suits": {"type": "array", "items": "Suit"},
        "in": {"type": "record", "name": "In", "fields": [{"name": "key", "type": logical("string", "uuid")}]},
        "nothing": "null", "float": "float",
    }  # fmt: skip
    key = UUID("12345678123456781234567812345678")
    moment = dt.datetime(2026, 11, 21, 12, 30, 0, 500_000)
    row = {
        "day": dt.date(2026, 11, 21), "millis": moment.replace(tzinfo=dt.UTC), "local": moment, "time": dt.time(1, 2),
        "cost": Decimal("7.25"), "key": key, "suit": "b", "sum": 2, "raw": b"\xff\x00", "suits": ["a", "b"],
        "in": {"key": key}, "nothing": None, "float": 0.5,
    }  # fmt: skip
    write(tmp_path / "f.avro", [row], [{"name": name, "type": kind} for name, kind in types.items()])
    scan, found = read(tmp_path / "f.avro")
    assert found == [
        {
            "day": "2026-11-21", "millis": "2026-11-21 12:30:00.500Z", "local": "2026-11-21 12:30:00.500000",
            "time": "01:02:00.000", "cost": 7.25, "key": str(key), "suit": "b", "sum": 2.0, "raw": b"\xff\x00",
            "suits": ["a", "b"], "in.key": str(key), "nothing": None, "float": 0.5,
        }
    ]  # fmt: skip
    assert (scan.kinds["cost"], scan.kinds["nothing"], scan.kinds["suits"]) == ("float", "missing", "string list")
    source = open_source(AvroSource(kind="avro", path=str(tmp_path / "f.avro")))
    assert isinstance(source, HasTypes)
    (part,), stored = source.parts(serial_map), [*source.stored_types(scan.kinds)]
    assert sorted(stored) == ["cost", "day", "float", "local", "millis", "time"]
    (as_stored,) = source.batches(part, dict.fromkeys(stored, "stored"))
    assert as_stored.to_pylist() == [{name: row[name] for name in stored}]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ({"type": "map", "values": "int"}, {"a": 1}, "of type map"),
        (["int", "string"], 1, "of type union"),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, [[1]], "lists of lists"),
        ({"type": "record", "name": "Node", "fields": [{"name": "n", "type": ["null", "Node"]}]}, {"n": None}, "union"),
    ],
)
def test_what_no_feature_can_hold_is_named_and_can_be_left_out(
    tmp_path: Path, kind: Any, value: Any, words: str
) -> None:
    write(tmp_path / "f.avro", [{"id": 1, "odd": value}], [FIELDS[0], {"name": "odd", "type": kind}])
    with pytest.raises(DataError, match=words) as caught:
        read(tmp_path / "f.avro")
    assert str(caught.value.column).startswith("odd")
    assert "data.columns" in caught.value.hint
    assert read(tmp_path / "f.avro", None, ("id",))[1] == [{"id": 1}]


def test_declared_types_and_bad_records_name_the_record(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"s": "1"}, {"s": "x"}, {"s": None}, {"s": "3"}]
    write(tmp_path / "f.avro", rows, [FIELDS[2]])
    with pytest.raises(DataError, match=r"record 1 after byte \d+ .* as int") as caught:
        read(tmp_path / "f.avro", {"s": "int"})
    assert (Path(str(caught.value.file)).name, caught.value.column) == ("f.avro", "s")
    scan, found = read(tmp_path / "f.avro", {"s": "int"}, skip_bad=True)
    assert (scan.skipped.count, [row["s"] for row in found]) == (1, [1, None, 3])


def test_files_may_differ_in_columns_but_not_in_what_is_a_number(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", [{"id": 1, "s": "x"}], [FIELDS[0], FIELDS[2]])
    write(tmp_path / "b.avro", [{"id": 2.5, "x": 0.5}], [{"name": "id", "type": "double"}, FIELDS[1]])
    scan, rows = read(tmp_path / "*.avro")
    assert scan.kinds == {"id": "float", "s": "string", "x": "float"}
    assert [values_of(row) for row in rows] == [{"id": 1.0, "s": "x"}, {"id": 2.5, "x": 0.5}]
    write(tmp_path / "c.avro", [{"id": "7"}], [{"name": "id", "type": "string"}])
    with pytest.raises(DataError, match=r"string in .*c\.avro.* int in .*a\.avro"):
        read(tmp_path / "*.avro")


def damaged(content: bytes, what: str) -> bytes:
    middle = len(content) // 2
    changes = {
        "empty": b"",
        "csv": b"a,b\n1,2\n",
        "truncated": content[: middle + 3],
        "header": content[:40],
        "marker": content[:middle] + content[middle:].replace(SYNC, bytes(16), 1),
        "snappy": content.replace(b"\x08null", b"\x0csnippy"),
    }
    return changes[what]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("empty", "the file is empty"),
        ("csv", "not an Avro file"),
        ("header", "is a damaged Avro file"),
        ("truncated", r"damaged Avro file, .*byte [\d,]+"),
        ("marker", r"damaged Avro file, .*byte [\d,]+"),
        ("snappy", "its codec cannot be read"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, what: str, words: str) -> None:
    rows = [{"id": number} for number in range(2000)]
    write(tmp_path / "good.avro", rows, FIELDS[:1], sync_interval=500, sync_marker=SYNC)
    path = tmp_path / "bad.avro"
    path.write_bytes(damaged((tmp_path / "good.avro").read_bytes(), what))
    with pytest.raises(DataError, match=words) as caught:
        read(path, skip_bad=True)
    assert caught.value.file == str(path)


def test_records_are_required(tmp_path: Path) -> None:
    with (tmp_path / "f.avro").open("wb") as file:
        fastavro.writer(file, "long", [1, 2])
    with pytest.raises(DataError, match="not records"):
        read(tmp_path / "f.avro")


def test_the_head_is_the_first_blocks(tmp_path: Path) -> None:
    for number, whole in ((3, True), (2000, True), (12_000, False)):
        rows = [{"id": number, "l": [1] * (number % 3)} for number in range(number)]
        write(tmp_path / "f.avro", rows, [FIELDS[0], FIELDS[4]], sync_interval=100)
        source = open_source(AvroSource(kind="avro", path=str(tmp_path / "f.avro")), options=ReadOptions())
        assert isinstance(source, AvroFiles)
        head = source.head()
        count = head.source.scan(head.part, {}).rows[str(tmp_path / "f.avro")]
        assert (head.whole, count == number) == (whole, whole)
        assert whole or 10_000 <= count < 10_100


def test_spans_of_avro_files_are_read(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / f"2026-11-0{day}.avro", [{"id": number} for number in range(50 * day)], FIELDS[:1])
    data = DataConfig(
        source=AvroSource(kind="avro", path=str(tmp_path / "{YYYY}-{MM}-{DD}.avro")),
        window=2,
        splits={"train": 1, "eval": 1},
    )
    result = ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    assert dict(result.span_rows) == {"2026-11-01": 50, "2026-11-02": 100}


def test_the_header_ends_with_the_sync_marker(tmp_path: Path) -> None:
    write(tmp_path / "f.avro", [{"id": 1}], FIELDS[:1], sync_marker=SYNC)
    header = read_header(str(tmp_path / "f.avro"))
    assert header.content.endswith(SYNC)
    assert fastavro.block_reader(io.BytesIO(header.content)).writer_schema == header.schema
