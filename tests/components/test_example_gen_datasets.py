"""Stored datasets of Hugging Face: what `datasets` wrote comes back, classes by their names."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import yaml
from click.testing import CliRunner
from decoded_examples import decoded
from hypothesis import given, settings
from hypothesis import strategies as st
from source_rows import read_source, values_of
from stores import Bucket

from headrace.common.errors import DataError, RunError
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples import parts as parts_module
from headrace.components.sources import ScanResult, open_source, serial_map
from headrace.components.sources.base import HasHead, HasTypes
from headrace.components.sources.types import Kind
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import DatasetsSource
from headrace.pipeline.cli import cli
from headrace.pipeline.init.source import given_source
from headrace.pipeline.predict.scoring import source_of

FILE = [{"filename": "data-00000-of-00001.arrow"}]
CLASSES, TAGS = ["bad", "good"], ["a", "b", "c"]
FEATURES: dict[str, Any] = {
    "id": {"dtype": "int64", "_type": "Value"},
    "x": {"dtype": "float32", "_type": "Value"},
    "y": {"names": CLASSES, "_type": "ClassLabel"},
    "tags": {"feature": {"names": TAGS, "_type": "ClassLabel"}, "_type": "List"},
    "image": {"_type": "Image"},
}
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "x": pa.float32(),
        "y": pa.int64(),
        "tags": pa.list_(pa.int64()),
        "image": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
    }
)
ROWS: list[dict[str, Any]] = [
    {"id": 7, "x": 0.5, "y": 1, "tags": [0, 2], "image": {"bytes": b"png", "path": None}},
    {"id": 8, "x": None, "y": -1, "tags": [], "image": None},
    {"id": 9, "x": -2.0, "y": 0, "tags": None, "image": {"bytes": b"", "path": "x.png"}},
]
READ = [
    {"id": 7, "x": 0.5, "y": "good", "tags": ["a", "c"], "image": b"png"},
    {"id": 8},
    {"id": 9, "x": -2.0, "y": "bad", "image": b""},
]


def write(path: Path, batches: list[pa.RecordBatch], features: Any = None) -> None:
    """A file as the library writes it, with its features in the schema."""
    path.parent.mkdir(parents=True, exist_ok=True)
    info = json.dumps({"info": {"features": features or {}}})
    with pa.ipc.new_stream(path, batches[0].schema.with_metadata({"huggingface": info})) as writer:
        for batch in batches:
            writer.write_batch(batch)


def save(folder: Path, files: list[list[pa.RecordBatch]], features: Any = None) -> None:
    """A folder as `Dataset.save_to_disk` writes it."""
    names = [f"data-{number:05}-of-{len(files):05}.arrow" for number in range(len(files))]
    for name, batches in zip(names, files, strict=True):
        write(folder / name, batches, features)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "f", "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}}))


def batch(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def numbers(start: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(start, start + count)), "x": np.arange(count) / 4})


def read(path: Path | str, *args: Any, **how: Any) -> tuple[ScanResult, list[dict[str, Any]]]:
    return read_source(DatasetsSource(kind="datasets", path=str(path)), *args, **how)


def test_rows_come_back_with_the_names_of_their_classes(tmp_path: Path) -> None:
    save(tmp_path, [[batch(ROWS[:1]), batch(ROWS[1:2])], [batch(ROWS[2:])]], FEATURES)
    scan, rows = read(tmp_path)
    assert scan.kinds == {"id": "int", "x": "float", "y": "string", "tags": "string list", "image": "bytes"}
    assert list(scan.rows.values()) == [2, 1]
    assert [*map(values_of, rows)] == READ


def test_a_declared_int_keeps_the_number_of_a_class(tmp_path: Path) -> None:
    save(tmp_path, [[batch(ROWS)]], FEATURES)
    _, rows = read(tmp_path, {"y": "int", "tags": "int list"})
    assert [(row["y"], row["tags"]) for row in rows] == [(1, [0, 2]), (-1, []), (0, None)]


def test_only_columns_that_mean_what_is_stored_can_be_read_as_stored(tmp_path: Path) -> None:
    save(tmp_path, [[batch(ROWS)]], FEATURES)
    source = open_source(DatasetsSource(kind="datasets", path=str(tmp_path)))
    kinds: dict[str, Kind] = {"id": "int", "x": "float", "y": "string", "tags": "string list", "image": "bytes"}
    assert isinstance(source, HasTypes)
    assert source.stored_types(kinds) == {"x": pa.float32()}
    (part,) = source.parts(serial_map)
    (found,) = source.batches(part, {"id": "int", "x": "stored"})
    assert (found.schema.field("x").type, found["x"].to_pylist()) == (pa.float32(), [0.5, None, -2.0])
    save(tmp_path, [[batch(ROWS)], [numbers(0, 2)]], FEATURES)
    assert source.stored_types({"x": "float"}) == {"x": pa.float32()}  # it reads the files that it found
    both = open_source(DatasetsSource(kind="datasets", path=str(tmp_path)))
    assert isinstance(both, HasTypes)
    assert both.stored_types({"x": "float"}) == {}


def test_lists_of_the_older_form_have_class_names_too(tmp_path: Path) -> None:
    for form in ([FEATURES["y"]], {"feature": FEATURES["y"], "length": -1, "_type": "Sequence"}):
        save(tmp_path, [[pa.RecordBatch.from_pydict({"y": pa.array([[1, 0], [1]])})]], {"y": form})
        assert read(tmp_path)[1] == [{"y": ["good", "bad"]}, {"y": ["good"]}]


def test_a_class_without_a_name_is_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    save(tmp_path, [[batch([{**ROWS[0], "y": 2}])]], FEATURES)
    with pytest.raises(DataError, match=r"the class 2.*0 to 1") as caught:
        read(tmp_path)
    assert caught.value.column == "y"
    assert "data.types.y: int" in str(caught.value)


def test_an_image_that_is_only_a_path_is_an_error(tmp_path: Path) -> None:
    save(tmp_path, [[batch([{**ROWS[0], "image": {"bytes": None, "path": "/elsewhere/a.png"}}])]], FEATURES)
    with pytest.raises(DataError, match="paths of images"):
        read(tmp_path)


VALUES = st.tuples(st.integers(-(2**63), 2**63 - 1) | st.none(), st.text(max_size=4), st.integers(-1, 2))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(VALUES, max_size=5), min_size=1, max_size=5))
def test_any_record_batches_come_back_in_order(tmp_path_factory: pytest.TempPathFactory, many: list[Any]) -> None:
    schema = pa.schema({"n": pa.int64(), "s": pa.large_string(), "c": pa.int64()})
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array(list(column), field.type) for column, field in zip(zip(*own, strict=True), schema, strict=True)]
            if own
            else [pa.array([], field.type) for field in schema],
            schema=schema,
        )
        for own in many
    ]
    folder = tmp_path_factory.mktemp("any")
    save(folder, [batches], {"c": {"names": TAGS, "_type": "ClassLabel"}})
    scan, rows = read(folder)
    expected = [(n, s, TAGS[c] if c >= 0 else None) for own in many for n, s, c in own]
    assert [(row["n"], row["s"], row["c"]) for row in rows] == expected
    assert sum(scan.rows.values()) == len(expected)


def test_parts_divide_the_record_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "SMALLEST_PART", 4000)
    save(tmp_path, [[numbers(start, 100) for start in range(0, 1000, 100)], [numbers(1000, 50)]])
    source = open_source(DatasetsSource(kind="datasets", path=str(tmp_path)))
    parts = source.parts(serial_map)
    assert len(parts) > 2
    kinds: dict[str, Kind] = {"n": "int", "x": "float"}
    found = [row["n"] for part in parts for own in source.batches(part, kinds) for row in own.to_pylist()]
    assert found == list(range(1050))


def test_values_that_do_not_fit_are_named_or_skipped(tmp_path: Path) -> None:
    save(tmp_path, [[pa.RecordBatch.from_pydict({"s": ["1", "2"]}), pa.RecordBatch.from_pydict({"s": ["x", "4"]})]])
    with pytest.raises(DataError, match="row 2") as caught:
        read(tmp_path, {"s": "int"})
    assert caught.value.column == "s"
    scan, rows = read(tmp_path, {"s": "int"}, skip_bad=True)
    assert [row["s"] for row in rows] == [1, 2, 4]
    assert scan.skipped.count == 1
    assert sum(scan.rows.values()) == 3


def test_uint64_is_a_string_only_if_a_value_is_beyond_int64(tmp_path: Path) -> None:
    small, large = pa.array([1, 2], pa.uint64()), pa.array([1, 2**63], pa.uint64())
    save(tmp_path, [[pa.RecordBatch.from_pydict({"a": small, "b": large})]])
    scan, rows = read(tmp_path)
    assert scan.kinds == {"a": "int", "b": "string"}
    assert rows[1] == {"a": 2, "b": str(2**63)}


def test_files_that_the_state_does_not_list_are_not_read(tmp_path: Path) -> None:
    save(tmp_path, [[numbers(0, 3)]])
    write(tmp_path / "cache-0123.arrow", [numbers(100, 3)])
    write(tmp_path / "data-00000-of-00007.arrow", [numbers(200, 3)])  # left by an earlier `save_to_disk`
    assert [row["n"] for row in read(tmp_path)[1]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"_data_files": FILE, "_indices_data_files": [{"filename": "indices.arrow"}]}, "lists a file of indices"),
        ({"_data_files": ["data-00000-of-00001.arrow"]}, "does not list files as `save_to_disk` does"),
    ],
)
def test_a_state_of_other_rows_is_an_error(state: Any, message: str, tmp_path: Path) -> None:
    save(tmp_path, [[batch(ROWS)]])
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(DataError, match=message):
        read(tmp_path)


def test_a_file_of_its_own_is_read_without_a_state(tmp_path: Path) -> None:
    write(tmp_path / "reviews-train.arrow", [numbers(0, 3)])
    assert [row["n"] for row in read(tmp_path / "*.arrow")[1]] == [0, 1, 2]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    save(tmp_path, [[numbers(0, 3)], [numbers(3, 3)]])
    (tmp_path / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(DataError, match="which is not there"):
        read(tmp_path)


def test_columns_of_two_files_must_agree(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", [pa.RecordBatch.from_pydict({"a": [1], "b": [1]})])
    write(tmp_path / "b.arrow", [pa.RecordBatch.from_pydict({"a": ["x"]})])
    with pytest.raises(DataError, match="no column 'b'"):
        read(tmp_path / "*.arrow")
    with pytest.raises(DataError, match=r"is string in .*, but int in"):
        read(tmp_path / "*.arrow", columns=("a",))


def test_structs_are_left_out_with_columns(tmp_path: Path) -> None:
    save(tmp_path, [[pa.RecordBatch.from_pydict({"a": [1], "s": [{"k": 1}]})]])
    with pytest.raises(DataError, match="struct") as caught:
        read(tmp_path)
    assert "data.columns" in (caught.value.hint or "")
    assert read(tmp_path, columns=("a",))[1] == [{"a": 1}]


@pytest.mark.parametrize("cut", [1, 9, 400])
def test_a_truncated_file_is_an_error(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write(path, [numbers(0, 100)])
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match="truncated") as caught:
        read(path)
    assert caught.value.file == str(path)


def test_other_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    for content, what in ((b"", "empty"), (b"a,b\n1,2\n" * 9, "not an Arrow stream"), (b"ARROW1" * 9, "random access")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=what):
            read(path)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, numbers(0, 9).schema) as writer:
        writer.write_batch(numbers(0, 9))
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"\xff" * 40 + content[80:])
    with pytest.raises(DataError, match="damaged Arrow stream"):
        read(path)


def both(folder: Path) -> Path:
    """A folder as `DatasetDict.save_to_disk` writes it."""
    for number, split in enumerate(("train", "validation", "test")):
        save(folder / split, [[numbers(100 * number, 40)]])
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation", "test"]}))
    return folder


def test_a_folder_of_splits_says_how_to_name_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train, validation, test") as caught:
        read(both(tmp_path))
    assert f"train: {tmp_path}/train" in (caught.value.hint or "")


def test_init_and_predict_know_the_folders(tmp_path: Path) -> None:
    folder = both(tmp_path / "reviews")
    splits = {
        split: f"{folder}/{name}" for split, name in (("train", "train"), ("eval", "validation"), ("test", "test"))
    }
    assert given_source(str(folder)) == {"kind": "datasets", "path": splits}
    assert given_source(f"{folder}/train") == {"kind": "datasets", "path": f"{folder}/train"}
    assert given_source(f"{folder}/train", others=[f"{folder}/test"])["path"] == {
        "train": f"{folder}/train",
        "test": f"{folder}/test",
    }
    assert source_of(f"{folder}/test", None).kind == "datasets"
    assert source_of("a/b.arrow", None).kind == "datasets"


def test_init_takes_the_splits_of_a_dataset_and_says_which_folders_it_leaves_out(tmp_path: Path) -> None:
    folder = both(tmp_path / "reviews")
    save(folder / "unsupervised", [[numbers(900, 40)]])
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "unsupervised", "test"]}))
    done = CliRunner().invoke(cli, ["init", str(folder), "--label", "n", "-o", str(tmp_path / "r.yaml")])
    assert (done.exit_code, f"{folder}/unsupervised" in done.stderr) == (0, True), done.output
    assert done.stderr.rstrip().endswith("train, test")
    text = (tmp_path / "r.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["data"]["source"]["path"] == {s: f"{folder}/{s}" for s in ("train", "test")}
    assert "not named after a split" in text
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["unsupervised", "test"]}))
    with pytest.raises(RunError, match=r"unsupervised, test.*`train`"):
        given_source(str(folder))


def test_splits_of_their_own_become_examples(tmp_path: Path) -> None:
    folder = both(tmp_path / "reviews")
    source = {"kind": "datasets", "path": {split: f"{folder}/{split}" for split in ("train", "test")}}
    data = DataConfig.model_validate({"source": source, "splits": {"train": 4, "eval": 1, "test": 1}})
    ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    rows: dict[str, dict[int, float]] = {}
    for path in (tmp_path / "out").glob("Split-*/*"):
        for record in tf.data.TFRecordDataset([str(path)], "GZIP").as_numpy_iterator():
            row = decoded(record)
            rows.setdefault(path.parent.name, {})[row["n"][0]] = row["x"][0]
    assert {**rows["Split-train"], **rows["Split-eval"]} == {number: number / 4 for number in range(40)}
    assert rows["Split-test"] == {200 + number: number / 4 for number in range(40)}


def test_spans_are_folders_of_days(tmp_path: Path) -> None:
    for day in (1, 2):
        save(tmp_path / f"2026-11-0{day}", [[numbers(0, 50 * day)]])
    source = DatasetsSource(kind="datasets", path=str(tmp_path / "{YYYY}-{MM}-{DD}"))
    data = DataConfig(source=source, window=2, splits={"train": 1, "eval": 1})
    result = ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    assert dict(result.span_rows) == {"2026-11-01": 50, "2026-11-02": 100}


def test_objects_are_read_as_files_are(bucket: Bucket, tmp_path: Path) -> None:
    save(tmp_path, [[batch(ROWS[:2])], [batch(ROWS[2:])]], FEATURES)
    for file in tmp_path.iterdir():
        bucket.put(f"reviews/{file.name}", file.read_bytes())
    bucket.put("reviews/data-00000-of-00009.arrow", b"left over")
    assert [*map(values_of, read(f"{bucket.url}/reviews")[1])] == READ
    bucket.put("both/dataset_dict.json", json.dumps({"splits": ["train"]}))
    with pytest.raises(DataError, match="the splits train"):
        read(f"{bucket.url}/both")


def test_the_head_is_the_first_record_batches(tmp_path: Path) -> None:
    save(tmp_path, [[numbers(start, 100) for start in range(0, 500, 100)]])
    source = open_source(DatasetsSource(kind="datasets", path=str(tmp_path)))
    assert isinstance(source, HasHead)
    head = source.head()
    assert (head.whole, head.settled) == (True, True)
    assert sum(own.num_rows for own in head.source.batches(head.part, {"n": "int"})) == 500


def test_dates_are_read_as_they_are_written(tmp_path: Path) -> None:
    when = [dt.date(2026, 1, 1)] * 2
    save(tmp_path, [[pa.RecordBatch.from_pydict({"v": [[1.0], [2.0, 3.0]], "when": when})]])
    assert read(tmp_path)[1][0]["when"] == "2026-01-01"
