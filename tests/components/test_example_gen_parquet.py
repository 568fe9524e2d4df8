"""Reading Parquet: folders of files, with columns from their names, through ingest, and from object stores."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from decoded_examples import decoded
from parquet_files import read, write
from stores import Bucket

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.sources import ReadOptions, open_source, serial_map
from headrace.components.sources.parquet import source as parquet_module
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import ParquetSource


def test_row_groups_are_parts_of_bounded_size_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_module, "SMALLEST_PART", 3000)
    write(tmp_path / "a.parquet", {"a": np.random.default_rng(0).random(2000)}, row_group_size=100, compression="none")
    write(tmp_path / "b.parquet", {"a": np.random.default_rng(1).random(500)}, row_group_size=100, compression="none")
    parts = open_source(ParquetSource(kind="parquet", path=str(tmp_path))).parts(serial_map)
    sizes = [sum(group.rows for piece in part for group in piece.groups) for part in parts]
    assert sum(sizes) == 2500
    assert 5 < len(parts) <= 64


def test_a_file_is_opened_once_for_all_its_row_groups(tmp_path: Path) -> None:
    """What pyarrow knows of a file grows with its row groups, and stays until Python collects its garbage."""
    write(tmp_path / "a.parquet", {"a": np.arange(2000)}, row_group_size=10)
    gc.collect()
    gc.disable()
    try:
        _, rows = read(tmp_path / "a.parquet")
        left = sum(isinstance(each, pq.FileMetaData) for each in gc.get_objects())
    finally:
        gc.enable()
    assert [row["a"] for row in rows] == [[number] for number in range(2000)]
    assert left <= 3


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
    assert read(root, ReadOptions(("year",)))[1] == [{"year": [2025]}, {"year": [2026]}, {"year": [2026]}]
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
    with pytest.raises(DataError, match=r"'x': .*string in .*b\.parquet.* int in .*a\.parquet"):
        read(tmp_path)
    assert read(tmp_path, declared={"x": "int"})[1] == [{"x": [1]}, {"x": [1]}]


def test_files_with_other_columns_are_both_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"x": [1], "only": [1]})
    write(tmp_path / "b.parquet", {"x": [2]})
    with pytest.raises(DataError, match=r"b\.parquet: .* 'only', .*a\.parquet has"):
        read(tmp_path)
    assert read(tmp_path, ReadOptions(("x",)))[1] == [{"x": [1]}, {"x": [2]}]


def generate(tmp_path: Path, path: str, **data: object) -> tuple[dict, list[dict]]:
    config = DataConfig.model_validate({"source": {"kind": "parquet", "path": path}, "shards": 2, **data})
    found = ingest(config, find_spans(config), tmp_path / "out", lambda _work: serial_map)
    files = sorted(map(str, (tmp_path / "out").rglob("*.gz")))
    return dict(found.kinds), [decoded(r.numpy()) for r in tf.data.TFRecordDataset(files, "GZIP")]


def test_ingest_writes_all_rows_of_a_folder(tmp_path: Path) -> None:
    for year in (2025, 2026):
        table = {"a": list(range(year, year + 500)), "l": [[1.5] * (i % 4) for i in range(500)]}
        write(tmp_path / "in" / f"year={year}" / "0.parquet", table)
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
        "import sys; from headrace.components.sources import open_source;"
        "from headrace.configs.schema.sources import ParquetSource;"
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
    bucket.put("in/year=2026/0.parquet", b"PAR1 truncated")
    with pytest.raises(DataError, match="truncated"):
        read(f"{bucket.url}/in")  # type: ignore[arg-type]
