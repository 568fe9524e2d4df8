"""Splits from separate files: every row stays in the split of its file, and a missing eval is cut from train."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from beam_runs import same_with_beam
from pydantic import TypeAdapter, ValidationError

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import IngestResult, ingest
from headrace.components.example_gen.span_store import SpanStore
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import SourceConfig

ROWS = {"train": 90, "test": 10}
FIRST = {"train": 0, "eval": 500, "test": 1000}
"""The number of the first row of each split."""
SOURCE: TypeAdapter[SourceConfig] = TypeAdapter(SourceConfig)


def rows_of(split: str, count: int | None = None) -> list[dict[str, Any]]:
    numbers = range(FIRST[split], FIRST[split] + (count or ROWS.get(split, 10)))
    return [{"number": number, "word": f"w{number % 7}", "share": number / 8} for number in numbers]


def write_csv(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...] = ("number", "word", "share")) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([columns, *([row[name] for name in columns] for row in rows)])


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_tfrecord(path: Path, rows: list[dict[str, Any]]) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            feature = {
                "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["number"]])),
                "word": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["word"].encode()])),
                "share": tf.train.Feature(float_list=tf.train.FloatList(value=[row["share"]])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


WRITERS: dict[str, Any] = {
    "csv": write_csv,
    "json": write_json,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "tfrecord": write_tfrecord,
}


def config(kind: str, folder: Path, own: tuple[str, ...], **settings: Any) -> DataConfig:
    paths = {split: str(folder / f"{split}.{kind}") for split in own}
    return DataConfig(source=SOURCE.validate_python({"kind": kind, "path": paths}), **settings)


def run(data: DataConfig, folder: Path, store: Path | None = None, **options: Any) -> IngestResult:
    return ingest(data, find_spans(data), folder, lambda _work: serial_map, SpanStore(store), **options)


def examples(folder: Path) -> Iterator[Any]:
    for record in tf.data.TFRecordDataset(sorted(map(str, folder.iterdir())), "GZIP").as_numpy_iterator():
        yield tf.train.Example.FromString(record).features.feature


def numbers(folder: Path) -> list[int]:
    return sorted(one["number"].int64_list.value[0] for one in examples(folder))


@pytest.mark.parametrize("kind", WRITERS)
def test_rows_stay_in_the_split_of_their_file(tmp_path: Path, kind: str) -> None:
    splits = ("train", "eval", "test")
    for split in splits:
        WRITERS[kind](tmp_path / f"{split}.{kind}", rows_of(split))
    found = run(config(kind, tmp_path, splits), tmp_path / "out")
    assert found.rows == {"train": 90, "eval": 10, "test": 10}
    for split in splits:
        assert numbers(tmp_path / "out" / f"Split-{split}") == [row["number"] for row in rows_of(split)]
    first = {one["number"].int64_list.value[0]: one for one in examples(tmp_path / "out" / "Split-test")}[1003]
    assert first["word"].bytes_list.value == [b"w2"]
    assert first["share"].float_list.value == [1003 / 8]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_missing_eval_is_cut_from_train_as_if_train_were_all(tmp_path: Path, kind: str) -> None:
    for split in ("train", "test"):
        WRITERS[kind](tmp_path / f"{split}.{kind}", rows_of(split))
    data = config(kind, tmp_path, ("train", "test"), splits={"train": 3, "eval": 1, "test": 9})
    run(data, tmp_path / "out")
    alone = DataConfig(
        source=SOURCE.validate_python({"kind": kind, "path": str(tmp_path / f"train.{kind}")}),
        splits={"train": 3, "eval": 1},
    )
    run(alone, tmp_path / "alone")
    for split in ("train", "eval"):
        cut = numbers(tmp_path / "out" / f"Split-{split}")
        assert cut == numbers(tmp_path / "alone" / f"Split-{split}")
        assert cut
    assert numbers(tmp_path / "out" / "Split-test") == [row["number"] for row in rows_of("test")]


def test_the_default_splits_are_those_of_the_files_and_eval() -> None:
    source = SOURCE.validate_python({"kind": "csv", "path": {"train": "a", "test": "b"}})
    assert DataConfig(source=source).splits == {"train": 8, "eval": 1, "test": 1}
    source = SOURCE.validate_python({"kind": "csv", "path": {"train": "a", "eval": "b"}})
    data = DataConfig(source=source)
    assert data.splits == {"train": 8, "eval": 1}
    assert DataConfig.model_validate_json(data.model_dump_json(by_alias=True)).splits == data.splits


def test_types_are_those_of_all_splits_and_columns_may_have_another_order(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", rows_of("train"))
    halves = [{**row, "number": row["number"] + 0.5} for row in rows_of("test")]
    write_csv(tmp_path / "test.csv", halves, ("share", "number", "word"))
    found = run(config("csv", tmp_path, ("train", "test")), tmp_path / "out")
    assert found.kinds == {"number": "float", "word": "string", "share": "float"}
    values = sorted(one["number"].float_list.value[0] for one in examples(tmp_path / "out" / "Split-test"))
    assert values == [row["number"] for row in halves]


def test_records_of_json_lines_may_lack_columns_that_another_split_has(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", rows_of("train"))
    write_jsonl(tmp_path / "test.jsonl", [{"number": row["number"], "new": 1} for row in rows_of("test")])
    run(config("jsonl", tmp_path, ("train", "test")), tmp_path / "out")
    (one, *_) = examples(tmp_path / "out" / "Split-test")
    assert one["new"].int64_list.value == [1]
    assert not one["word"].bytes_list.value
    (one, *_) = examples(tmp_path / "out" / "Split-train")
    assert not one["new"].int64_list.value


def test_files_that_differ_in_a_column_are_refused_with_both_names(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", rows_of("train"))
    write_csv(tmp_path / "test.csv", rows_of("test"), ("number", "word"))
    data = config("csv", tmp_path, ("train", "test"))
    with pytest.raises(DataError) as error:
        run(data, tmp_path / "out")
    assert str(error.value).startswith(f"{tmp_path}/test.csv: column 'share': there is no such column")
    assert f"{tmp_path}/train.csv has one, for train" in str(error.value)
    assert "headrace predict" in str(error.value)
    run(data.model_copy(update={"columns": ("number", "word")}), tmp_path / "out")
    assert numbers(tmp_path / "out" / "Split-test") == [row["number"] for row in rows_of("test")]


@pytest.mark.parametrize("other", ["train.csv", "link.csv"])
def test_a_file_of_two_splits_is_refused(tmp_path: Path, other: str) -> None:
    write_csv(tmp_path / "train.csv", rows_of("train"))
    (tmp_path / "link.csv").symlink_to(tmp_path / "train.csv")
    paths = {"train": str(tmp_path / "train.csv"), "test": str(tmp_path / other)}
    data = DataConfig(source=SOURCE.validate_python({"kind": "csv", "path": paths}))
    with pytest.raises(DataError, match="belongs to both"):
        find_spans(data)


def test_shards_are_planned_by_the_rows_of_each_split(tmp_path: Path) -> None:
    """A test file of twice the size gets twice the shards, although `splits` would give it a tenth."""
    random = np.random.default_rng(3)
    for split, rows in (("train", 60_000), ("test", 120_000)):
        noise = random.bytes(rows * 60)
        blobs = [noise[start : start + 60].hex() for start in range(0, len(noise), 60)]
        table = {"number": range(FIRST[split], FIRST[split] + rows), "noise": blobs}
        pq.write_table(pa.table({name: list(values) for name, values in table.items()}), tmp_path / f"{split}.parquet")
    run(config("parquet", tmp_path, ("train", "test"), shards="1MB"), tmp_path / "out")
    sizes = {
        split: [shard.stat().st_size for shard in (tmp_path / "out" / f"Split-{split}").iterdir()]
        for split in ("train", "eval", "test")
    }
    assert np.mean(sizes["test"]) == pytest.approx(np.mean(sizes["train"]), rel=0.2)
    assert len(sizes["test"]) == pytest.approx(2 * (len(sizes["train"]) + len(sizes["eval"])), abs=2)


def test_gzip_and_several_patterns_of_a_split(tmp_path: Path) -> None:
    for number in range(3):
        part = rows_of("train")[number * 30 : number * 30 + 30]
        write_csv(tmp_path / f"train-{number}.csv", part)
    text = (tmp_path / "train-2.csv").read_bytes()
    (tmp_path / "train-2.csv").unlink()
    (tmp_path / "more.csv.gz").write_bytes(gzip.compress(text))
    write_csv(tmp_path / "test.csv", rows_of("test"))
    paths = {
        "train": (str(tmp_path / "train-*.csv"), str(tmp_path / "more.csv.gz")),
        "test": str(tmp_path / "test.csv"),
    }
    data = DataConfig(source=SOURCE.validate_python({"kind": "csv", "path": paths}))
    assert run(data, tmp_path / "out").rows["test"] == 10
    kept = [numbers(tmp_path / "out" / f"Split-{split}") for split in ("train", "eval")]
    assert sorted(kept[0] + kept[1]) == list(range(90))


def days(folder: Path, **settings: Any) -> DataConfig:
    paths = {split: str(folder / f"{split}-{{YYYY}}-{{MM}}-{{DD}}.csv") for split in ("train", "test")}
    return DataConfig(source=SOURCE.validate_python({"kind": "csv", "path": paths}), window=3, **settings)


def test_spans_of_each_split_are_read_once_and_gaps_of_one_are_reported(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        write_csv(tmp_path / f"train-2026-11-0{day}.csv", [{**row, "share": day} for row in rows_of("train")])
        if day != 2:
            write_csv(tmp_path / f"test-2026-11-0{day}.csv", [{**row, "share": day} for row in rows_of("test")])
    data = days(tmp_path)
    manifest = find_spans(data)
    assert manifest == type(manifest).from_json(manifest.to_json())
    assert (manifest.missing, manifest.missing_count) == (("2026-11-02 (test)",), 1)
    first = run(data, tmp_path / "out", tmp_path / "store")
    assert first.rows["test"] == 20
    assert first.rows["train"] + first.rows["eval"] == 270
    assert "there is no data for 2026-11-02 (test)" in first.gaps
    write_csv(tmp_path / "test-2026-11-02.csv", [{**row, "share": 2} for row in rows_of("test")])
    second = run(data, tmp_path / "again", tmp_path / "store")
    assert second.read == "read now: 2026-11-02"
    assert second.rows["test"] == 30


def test_images_have_folders_by_split(tmp_path: Path) -> None:
    for split, count in (("train", 20), ("test", 4)):
        for number in range(count):
            folder = tmp_path / split / ("cat" if number % 2 else "dog")
            folder.mkdir(parents=True, exist_ok=True)
            pixels = np.full((4, 4, 3), FIRST[split] // 20 + number, np.uint8)
            (folder / f"{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
    paths = {split: str(tmp_path / split) for split in ("train", "test")}
    data = DataConfig(source=SOURCE.validate_python({"kind": "images", "path": paths}))
    found = run(data, tmp_path / "out")
    assert found.rows["test"] == 4
    assert found.rows["train"] + found.rows["eval"] == 20
    labels = {
        int(tf.io.decode_png(one["image"].bytes_list.value[0])[0, 0, 0]): one["label"].bytes_list.value[0]
        for one in examples(tmp_path / "out" / "Split-test")
    }
    assert labels == {50: b"dog", 51: b"cat", 52: b"dog", 53: b"cat"}


def test_the_bytes_are_the_same_in_beam(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_csv(tmp_path / f"{split}.csv", rows_of(split))
    same_with_beam(config("csv", tmp_path, ("train", "test")), tmp_path)


def test_tables_and_queries_by_split(tmp_path: Path) -> None:
    file = tmp_path / "rides.db"
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute("create table rides (number integer, word text)")
        rows = [(row["number"], row["word"]) for split in FIRST for row in rows_of(split)]
        database.executemany("insert into rides values (?, ?)", rows)
    queries = {"train": "select * from rides where number < 500", "test": "select * from rides where number >= 1000"}
    settings = {"kind": "sql", "url": f"sqlite:///{file}", "query": queries, "key": "number"}
    found = run(DataConfig(source=SOURCE.validate_python(settings)), tmp_path / "out")
    assert found.rows["test"] == 10
    assert numbers(tmp_path / "out" / "Split-test") == [row["number"] for row in rows_of("test")]
    kept = [numbers(tmp_path / "out" / f"Split-{split}") for split in ("train", "eval")]
    assert sorted(kept[0] + kept[1]) == list(range(90))


def arrays_to_train() -> dict[str, Any]:
    return {"number": np.arange(40)}


def arrays_to_test() -> dict[str, Any]:
    return {"number": np.arange(1000, 1007)}


def test_functions_by_split(tmp_path: Path) -> None:
    functions = {"train": f"{__name__}.arrays_to_train", "test": f"{__name__}.arrays_to_test"}
    data = DataConfig(source=SOURCE.validate_python({"kind": "arrays", "function": functions}))
    assert data.source.functions() == {("function", split): function for split, function in functions.items()}
    found = run(data, tmp_path / "out")
    assert found.rows["train"] + found.rows["eval"] == 40
    assert numbers(tmp_path / "out" / "Split-test") == list(range(1000, 1007))


def test_settings_that_differ_between_splits_name_the_same_splits() -> None:
    settings = {"kind": "images", "path": {"train": "a", "test": "b"}, "index": {"train": "a.csv", "eval": "b.csv"}}
    with pytest.raises(ValidationError, match=r"`path` and `index` .*splits"):
        SOURCE.validate_python(settings)
