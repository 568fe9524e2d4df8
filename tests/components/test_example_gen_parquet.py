"""Reading Parquet: every stored type against pyarrow's own reading, and all that a folder of files can get wrong."""

import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from decoded_examples import decoded
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import Bucket

from components.example_gen.encode import encode
from components.example_gen.find import find_spans
from components.example_gen.ingest import ingest
from components.example_gen.sources import Reading, Survey, in_place, open_source
from components.example_gen.sources import parquet as parquet_module
from configs.data import DataConfig
from configs.errors import DataError
from configs.sources import ParquetSource


def write(path: Path, columns: dict | pa.Table, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return path


def survey_of(path: Path, reading: Reading | None = None, declared: dict | None = None, **source: object) -> Survey:
    opened = open_source(ParquetSource(kind="parquet", path=str(path), **source), reading=reading)
    return sum((opened.survey(part, declared or {}) for part in opened.parts(in_place)), Survey())


def read(
    path: Path, reading: Reading | None = None, declared: dict | None = None, **source: object
) -> tuple[dict[str, str], list[dict]]:
    """The kinds of the columns, and the tf.Examples as lists of values; None for a missing value."""
    opened = open_source(ParquetSource(kind="parquet", path=str(path), **source), reading=reading)
    kinds = {**survey_of(path, reading, declared, **source).kinds, **(declared or {})}
    rows = []
    for part in opened.parts(in_place):
        for batch in opened.batches(part, kinds):
            assert batch.schema.names == list(kinds)
            rows += [decoded(record) for record in encode(batch).to_pylist()]
    return kinds, rows


def one(tmp_path: Path, column: pa.Array, declared: str | None = None) -> tuple[str, list]:
    path = write(tmp_path / "f.parquet", {"x": column})
    kinds, rows = read(path, declared={"x": declared} if declared else None)
    return kinds["x"], [row["x"] and row["x"][0] for row in rows]


NOON = dt.datetime(2026, 11, 21, 12, 30)


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, None, -3], pa.int8()), "int", [1, None, -3]),
        (pa.array([4_000_000_000], pa.uint32()), "int", [4_000_000_000]),
        (pa.array([2**63 - 1], pa.uint64()), "int", [2**63 - 1]),
        (pa.array([1, 2**64 - 1], pa.uint64()), "string", [b"1", b"18446744073709551615"]),
        (pa.array([True, None, False]), "int", [1, None, 0]),
        (pa.array(np.array([1.5, -2], np.float16)), "float", [1.5, -2.0]),
        (pa.array([1.5, None], pa.float32()), "float", [1.5, None]),
        (pa.array([0.25], pa.float64()), "float", [0.25]),
        (pa.array(["é", "", None]), "string", ["é".encode(), b"", None]),
        (pa.array(["a"], pa.large_string()), "string", [b"a"]),
        (pa.array(["b", "a", None, "b"]).dictionary_encode(), "string", [b"b", b"a", None, b"b"]),
        (pa.array([b"\xff", None]), "bytes", [b"\xff", None]),
        (pa.array([b"\x00\x01"], pa.binary(2)), "bytes", [b"\x00\x01"]),
        (pa.array([Decimal("12.50"), None]), "string", [b"12.50", None]),
        (pa.array([dt.date(2026, 11, 21), None]), "string", [b"2026-11-21", None]),
        (pa.array([dt.time(12, 30, 1)], pa.time32("s")), "string", [b"12:30:01.000"]),
        (pa.array([NOON], pa.timestamp("ms")), "string", [b"2026-11-21 12:30:00.000"]),
        (
            pa.array([NOON.replace(tzinfo=dt.UTC)], pa.timestamp("us", "Asia/Kolkata")),
            "string",
            [b"2026-11-21 12:30:00.000000Z"],
        ),
        (pa.array([dt.timedelta(minutes=1.5)]), "float", [90.0]),
        (pa.nulls(2), "missing", [None, None]),
    ],
)
def test_a_stored_type_becomes_the_documented_kind(tmp_path: Path, column: pa.Array, kind: str, values: list) -> None:
    assert one(tmp_path, column) == (kind, values)


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, None]), "float", [1.0, None]),
        (pa.array([2**60 + 1]), "float", [float(2**60)]),
        (pa.array(["7", None]), "int", [7, None]),
        (pa.array(["7", "8"]).dictionary_encode(), "int", [7, 8]),
        (pa.array([7]), "string", [b"7"]),
        (pa.array([True]), "string", [b"true"]),
        (pa.array([3.0]), "int", [3]),
        (pa.array(["a"]), "bytes", [b"a"]),
        (pa.array([b"a"]), "string", [b"a"]),
        (pa.array([Decimal("12.50")]), "float", [12.5]),
        (pa.array([dt.date(1970, 1, 3), None]), "int", [2, None]),
        (pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)]), "int", [-1]),
        (pa.array([5, None]), "int list", [5, None]),
    ],
)
def test_a_declared_type_wins(tmp_path: Path, column: pa.Array, kind: str, values: list) -> None:
    assert one(tmp_path, column, kind) == (kind, values)


@pytest.mark.parametrize(
    ("column", "kind", "what"),
    [
        (pa.array(["7", "x"]), "int", "row 1 of row group 0 .* cannot be read as int: .*'x'"),
        (pa.array([1.0, 2.5]), "int", "row 1 of row group 0 .*2.5"),
        (pa.array([b"a", b"\xff"]), "string", "row 1 of row group 0 .*UTF8"),
        (pa.array([dt.date(1970, 1, 3)]), "float", "date32.* cannot be read as float"),
        (pa.array([[1]]), "int", "`int list` is the type of lists"),
        (pa.array([[1], [2, None]]), "int list", "row 1 of row group 0 .* a list with a null in it"),
        (pa.array([["x"]]), "int list", "cannot be read as int"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_named_with_its_place(
    tmp_path: Path, column: pa.Array, kind: str, what: str
) -> None:
    with pytest.raises(DataError, match=what) as caught:
        one(tmp_path, column, kind)
    assert (caught.value.file, caught.value.column) == (str(tmp_path / "f.parquet"), "x")


def test_skipped_rows_are_the_same_in_the_survey_and_the_batches(tmp_path: Path) -> None:
    table = {"n": ["1", "x", "3", "4", "y"], "l": [[1], [1], [1, None], None, [2]], "i": [0, 1, 2, 3, 4]}
    path = write(tmp_path / "f.parquet", table, row_group_size=2)
    skip, declared = Reading(None, skip_bad=True), {"n": "int"}
    survey = survey_of(path, skip, declared)
    assert (survey.rows, survey.skipped.count) == ({str(path): 2}, 3)
    assert "row 1 of row group 0" in survey.skipped.told[0]
    assert [row["i"] for row in read(path, skip, declared)[1]] == [[0], [3]]


def test_invalid_utf_8_in_a_string_column_is_no_value(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    with pytest.raises(DataError, match=r"row 0 of row group 0 .*UTF8"):
        one(tmp_path, bad)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2], [], None]),
        pa.array([[1, 2], [], None], pa.large_list(pa.int32())),
        pa.array([[1, 2], [], None], pa.list_(pa.uint64())),
        pa.array([["a"], [], None, ["b", ""]]),
        pa.array([["a"], [], None]).cast(pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)),
        pa.array([[0.5], [1.5, 2.5]], pa.list_(pa.float32())),
        pa.array([[True, False]]),
        pa.array([[b"\xff"], None]),
    ],
)
def test_lists_become_multi_valued_features(tmp_path: Path, column: pa.Array) -> None:
    path = write(tmp_path / "f.parquet", {"x": column})
    kinds, rows = read(path)
    assert kinds["x"].endswith(" list")
    expected = [
        value and [item.encode() if isinstance(item, str) else item for item in value]
        for value in pq.read_table(path)["x"].to_pylist()
    ]
    assert [row["x"] for row in rows] == expected


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pa.array([{"a": 1}]), "struct"),
        (pa.array([[{"a": 1}]]), "struct"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "map"),
        (pa.array([[[1]]]), "lists of lists"),
    ],
)
def test_a_nested_column_is_refused_unless_it_is_not_read(tmp_path: Path, column: pa.Array, what: str) -> None:
    path = write(tmp_path / "f.parquet", {"x": column, "y": [1]})
    with pytest.raises(DataError, match=what) as caught:
        read(path)
    assert caught.value.column == "x"
    assert read(path, Reading(("y",))) == ({"y": "int"}, [{"y": [1]}])


def test_a_uint64_column_without_statistics_gets_its_kind_from_its_values(tmp_path: Path) -> None:
    small, large = pa.array([1, 2], pa.uint64()), pa.array([1, 2**63], pa.uint64())
    path = write(tmp_path / "f.parquet", {"s": small, "l": large}, write_statistics=False)
    assert survey_of(path).kinds == {"s": "int", "l": "string"}


def test_only_the_chosen_columns_are_read_from_disk(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"a": [1, 2], "b": ["x" * 999, "y" * 999]}, compression="none")
    damaged = path.read_bytes().replace(b"x" * 999, b"\xff" * 999)
    path.write_bytes(damaged)
    assert read(path, Reading(("a",)))[1] == [{"a": [1]}, {"a": [2]}]
    with pytest.raises(DataError):
        read(path)


COLUMNS = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats(width=32, allow_nan=False)),
    "string": (pa.string(), st.text(max_size=5)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=st.integers(1, 20), group=st.integers(1, 7), batch=st.sampled_from([16, 1 << 21]))
def test_any_table_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rows: int, group: int, batch: int
) -> None:
    columns, expected = {}, {}
    for kind, (arrow, values) in COLUMNS.items():
        single = data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        several = data.draw(st.lists(st.none() | st.lists(values, max_size=3), min_size=rows, max_size=rows))
        columns |= {kind: pa.array(single, arrow), f"{kind} list": pa.array(several, pa.list_(arrow))}
        expected |= {kind: [None if value is None else [value] for value in single], f"{kind} list": several}
    path = write(tmp_path_factory.mktemp("parquet") / "f.parquet", columns, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("components.example_gen.columnar.fit.BATCH", batch)
        patch.setattr(parquet_module, "SMALLEST_PART", 50)
        patch.setattr(parquet_module, "LARGEST_PART", 50)
        kinds, found = read(path)
    assert kinds == {name: name for name in columns}
    text = {
        name: [v and [i.encode() if isinstance(i, str) else i for i in v] for v in own]
        for name, own in expected.items()
    }
    assert found == [{name: text[name][row] for name in columns} for row in range(rows)]


def test_the_survey_needs_nothing_but_the_footer(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"a": list(range(1000))}, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(4000) + whole[4004:])
    assert survey_of(path).rows == {str(path): 1000}
    with pytest.raises(DataError, match="damaged"):
        read(path)


def test_row_groups_are_parts_of_bounded_size_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_module, "SMALLEST_PART", 3000)
    write(tmp_path / "a.parquet", {"a": np.random.default_rng(0).random(2000)}, row_group_size=100, compression="none")
    write(tmp_path / "b.parquet", {"a": np.random.default_rng(1).random(500)}, row_group_size=100, compression="none")
    parts = open_source(ParquetSource(kind="parquet", path=str(tmp_path))).parts(in_place)
    sizes = [sum(group.rows for piece in part for group in piece.groups) for part in parts]
    assert sum(sizes) == 2500
    assert 5 < len(parts) <= 64


def test_a_folder_is_its_parquet_files_with_columns_from_their_folders(tmp_path: Path) -> None:
    root = tmp_path / "trips.parquet"
    write(root / "year=2025" / "city=New%20York" / "0.parquet", {"a": [1]})
    write(root / "year=2026" / "city=Łódź" / "0.parquet", {"a": [2]})
    write(root / "year=2026" / "city=__HIVE_DEFAULT_PARTITION__" / "0.parquet", {"a": [3]})
    (root / "_SUCCESS").touch()
    kinds, rows = read(root)
    assert kinds == {"a": "int", "year": "int", "city": "string"}
    table = {row["a"][0]: (row["year"], row["city"]) for row in rows}
    assert table == {1: ([2025], [b"New York"]), 2: ([2026], ["Łódź".encode()]), 3: ([2026], None)}
    assert open_source(ParquetSource(kind="parquet", path=str(root))).columns() == ["a", "year", "city"]
    assert read(root, Reading(("year",)))[1] == [{"year": [2025]}, {"year": [2026]}, {"year": [2026]}]
    assert read(root, partitions="none")[0] == {"a": "int"}
    assert read(root, declared={"year": "string"})[1][0]["year"] == [b"2025"]
    assert read(root / "*" / "*" / "*.parquet")[1] == read(f"{root}/year=*")[1] == rows  # type: ignore[arg-type]


def test_partitions_as_pyarrow_writes_them_read_as_pyarrow_reads_them(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2, 1, 2], "s": ["a/b", "c=d", "e", "a/b"], "v": [1, 2, 3, 4]})
    pq.write_to_dataset(table, tmp_path / "d", partition_cols=["k", "s"])
    _, rows = read(tmp_path / "d")
    found = sorted((row["v"][0], row["k"][0], row["s"][0].decode()) for row in rows)
    assert found == [(1, 1, "a/b"), (2, 2, "c=d"), (3, 1, "e"), (4, 2, "a/b")]


def test_codes_in_the_names_of_folders_stay_strings(tmp_path: Path) -> None:
    for month in ("01", "02"):
        write(tmp_path / f"month={month}" / "0.parquet", {"a": [1]})
    assert read(tmp_path)[0]["month"] == "string"


def test_a_file_whose_folders_name_no_column_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a" / "k=1" / "0.parquet", {"a": [1]})
    write(tmp_path / "b" / "0.parquet", {"a": [1]})
    with pytest.raises(DataError, match=r"no folder .* partition column 'k'") as caught:
        read(tmp_path)
    assert caught.value.file == str(tmp_path / "b" / "0.parquet")


def test_int_and_float_files_widen(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"x": [1, 2], "y": pa.array([[1]] * 2)})
    write(tmp_path / "b.parquet", {"y": pa.array([[0.5]]), "x": [1.5]})
    kinds, rows = read(tmp_path)
    assert kinds == {"x": "float", "y": "float list"}
    assert [row["x"] for row in rows] == [[1.0], [2.0], [1.5]]


def test_a_column_that_is_all_null_in_one_file_takes_the_type_of_the_other(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"x": pa.nulls(1)})
    write(tmp_path / "b.parquet", {"x": pa.array(["s"])})
    assert read(tmp_path) == ({"x": "string"}, [{"x": None}, {"x": [b"s"]}])


def test_files_that_store_a_column_differently_are_both_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"x": [1]})
    write(tmp_path / "b.parquet", {"x": ["1"]})
    with pytest.raises(DataError, match=r"'x': is string in .*b\.parquet, but int in .*a\.parquet"):
        read(tmp_path)
    assert read(tmp_path, declared={"x": "int"})[1] == [{"x": [1]}, {"x": [1]}]


def test_files_with_other_columns_are_both_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"x": [1], "only": [1]})
    write(tmp_path / "b.parquet", {"x": [2]})
    with pytest.raises(DataError, match=r"b\.parquet: has no column 'only', which .*a\.parquet has"):
        read(tmp_path)
    assert read(tmp_path, Reading(("x",)))[1] == [{"x": [1]}, {"x": [2]}]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda _: b"", "the file is empty"),
        (lambda whole: whole[: len(whole) // 2], "cut short"),
        (lambda _: b"a,b\n1,2\n", "no Parquet file"),
        (
            lambda whole: whole[: -8 - (size := int.from_bytes(whole[-8:-4], "little"))] + bytes(size) + whole[-8:],
            "damaged",
        ),
        (lambda whole: whole[:-8] + b"\xff\xff\xff\x7fPAR1", "damaged"),
        (lambda whole: b"PARE" + whole[4:-4] + b"PARE", "encrypted"),
        (lambda whole: whole[:4] + whole[5:], "damaged"),
        (lambda _: b"PAR1", "cut short"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, damage: object, what: str) -> None:
    path = write(tmp_path / "f.parquet", {"a": list(range(100))})
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(DataError, match=what) as caught:
        read(path)
    assert caught.value.file == str(path)


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_gives_an_error_or_the_footers_number_of_rows(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = write(
        folder / "f.parquet", {"a": list(range(300)), "s": ["ab", None, "c"] * 100, "l": [[1, 2], [], [3]] * 100}
    )
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        _, rows = read(path)
    except DataError as error:
        assert error.file == str(path)  # noqa: PT017 - either this, or the rows
    else:
        assert len(rows) == survey_of(path).rows[str(path)]


def test_a_folder_without_files_and_a_path_without_anything_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no files `\*\.parquet`"):
        read(tmp_path / "empty")
    with pytest.raises(DataError, match="no file matches"):
        read(tmp_path / "none")


def generate(tmp_path: Path, path: str, **data: object) -> tuple[dict, list[dict]]:
    config = DataConfig.model_validate({"source": {"kind": "parquet", "path": path}, "shards": 2, **data})
    found = ingest(config, find_spans(config), tmp_path / "out", lambda _work: in_place)
    files = sorted(map(str, (tmp_path / "out").rglob("*.gz")))
    return dict(found.kinds), [decoded(r.numpy()) for r in tf.data.TFRecordDataset(files, "GZIP")]


def test_ingest_writes_all_rows_of_a_folder(tmp_path: Path) -> None:
    for year in (2025, 2026):
        rows = {"a": list(range(year, year + 500)), "l": [[1.5] * (i % 4) for i in range(500)]}
        write(tmp_path / "in" / f"year={year}" / "0.parquet", rows)
    kinds, rows = generate(tmp_path, str(tmp_path / "in"))
    assert kinds == {"a": "int", "l": "float list", "year": "int"}
    assert sorted(row["a"][0] - row["year"][0] for row in rows) == sorted([*range(500)] * 2)
    assert all(len(row["l"]) == (row["a"][0] - row["year"][0]) % 4 for row in rows)


def test_a_file_without_rows_stops_the_ingest(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"x": list(range(99))})
    write(tmp_path / "b.parquet", {"x": pa.array([], pa.int64())})
    with pytest.raises(DataError, match="no rows") as caught:
        generate(tmp_path, str(tmp_path / "*.parquet"))
    assert caught.value.file == str(tmp_path / "b.parquet")


def test_spans_may_be_folders(tmp_path: Path) -> None:
    for day in ("2026-11-20", "2026-11-21"):
        write(tmp_path / "in" / f"date={day}" / "part=0" / "f.parquet", {"x": list(range(99))})
    config = {"source": {"kind": "parquet", "path": f"{tmp_path}/in/date={{YYYY}}-{{MM}}-{{DD}}"}, "window": 2}
    manifest = find_spans(DataConfig.model_validate(config))
    assert [(span.name, len(span.files)) for span in manifest.spans] == [("2026-11-20", 1), ("2026-11-21", 1)]
    kinds, rows = generate(tmp_path, config["source"]["path"], window=2)  # type: ignore[index]
    assert kinds == {"x": "int", "date": "string", "part": "int"}
    assert json.dumps(sorted({row["date"][0].decode() for row in rows})) == '["2026-11-20", "2026-11-21"]'


def test_the_names_of_columns_need_no_tensorflow(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"a": [1]})
    code = (
        "import sys; from components.example_gen.sources import open_source; from configs.sources import ParquetSource;"
        f"print(open_source(ParquetSource(kind='parquet', path={str(path)!r})).columns(), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "['a'] False"


def test_a_remote_folder_reads_as_a_local_one(tmp_path: Path, bucket: Bucket) -> None:
    for year in (2025, 2026):
        local = write(tmp_path / f"{year}.parquet", {"a": [year, None], "l": [[1], []]})
        bucket.put(f"in/year={year}/0.parquet", local.read_bytes())
    assert read(f"{bucket.url}/in")[1] == [  # type: ignore[arg-type]
        {"a": [2025], "l": [1], "year": [2025]},
        {"a": None, "l": [], "year": [2025]},
        {"a": [2026], "l": [1], "year": [2026]},
        {"a": None, "l": [], "year": [2026]},
    ]
    bucket.put("in/year=2026/0.parquet", b"PAR1 cut short")
    with pytest.raises(DataError, match="cut short"):
        read(f"{bucket.url}/in")  # type: ignore[arg-type]
