"""`data.types: float64`: the digits that float32 loses, from each source to the features, exactly."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.common.errors import DataError, TrainingError
from headrace.common.storage.paths import resolve
from headrace.components.example_gen.ingest import IngestResult, ingest
from headrace.components.examples.tfexample.encode import encode
from headrace.components.examples.tfexample.float64_columns import with_bits, without_bits
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.sources import serial_map
from headrace.components.spans.manifest import SpanManifest
from headrace.components.transform.analyzer_inputs import AnalyzerInputs
from headrace.components.transform.columnar import Columnar
from headrace.components.transform.columns_analysis import analyze_columns
from headrace.components.transform.record_blocks import record_blocks
from headrace.components.transform.shards import TransformShards
from headrace.components.transform.task import AnalysisTask
from headrace.configs.schema.data import DataConfig
from headrace.trainer.columns.raw import RawColumn, with_float64
from headrace.trainer.sections import TrainerSections

ROWS = 700
TIMES = 1700000000 + np.random.default_rng(2).integers(0, 60_000, ROWS) / 1000
"""A minute in milliseconds, in which float32 has a single number."""
IN_RANGE = st.floats(-(2.0**127), 2.0**127)
BITS = {"x": tf.io.VarLenFeature(tf.float32), "x:float64": tf.io.VarLenFeature(tf.int64)}


def same(found: Any, expected: Any) -> None:
    """Equal to the last bit, also of zeros with a sign."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def batch(values: list[Any], kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, kind or pa.float64())})


@given(st.lists(st.none() | IN_RANGE | st.just(float("nan")), min_size=1, max_size=40), st.integers(0, 3))
def test_the_graph_reads_every_number_exactly_and_nothing_where_there_is_none(values: list[Any], skipped: int) -> None:
    """Slices of batches have offsets."""
    rows = batch([1.5] * skipped + values).slice(skipped)
    parsed = tf.io.parse_example(encode(with_bits(rows, ["x", "y"])).to_pylist(), BITS)
    expected = [np.nan if value is None else value for value in values]
    read = with_float64(parsed, ["x"])
    assert set(read) == {"x"}
    same(RawColumn("x", read["x"]).numbers, expected)
    np.testing.assert_array_equal(parsed["x"].values, np.array([v for v in values if v is not None], np.float32))
    assert parsed["x:float64"].indices.shape[0] == np.sum(~np.isnan(expected))


@given(st.lists(st.none() | IN_RANGE, min_size=1, max_size=30))
def test_examples_as_columns_go_there_and_back(values: list[Any]) -> None:
    serialized = encode(with_bits(batch(values), ["x"]))
    decoded = ExamplesToRecordBatchDecoder().DecodeBatch(serialized.to_pylist())
    back = without_bits(decoded, ["x", "y"])
    assert back.schema.names == ["x"]
    same([row[0] if row else np.nan for row in back["x"].to_pylist()], [np.nan if v is None else v for v in values])
    assert encode(with_bits(back, ["x"])).to_pylist() == serialized.to_pylist()


def test_without_bits_an_example_has_the_float32_that_it_has() -> None:
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(0.1)
    parsed = tf.io.parse_example([example.SerializeToString(), b""], BITS)
    same(RawColumn("x", with_float64(parsed, ["x"])["x"]).numbers, [np.float32(0.1), np.nan])
    with pytest.raises(TrainingError, match=r"x:float64.*data\.schema"):
        with_float64({"x": parsed["x"]}, ["x"])


def test_a_wide_table_keeps_the_digits_of_each_column() -> None:
    """Whose columns are encoded as one stack."""
    random = np.random.default_rng(1)
    columns = {f"c{number}": TIMES[:9] + random.integers(0, 99, 9) for number in range(40)}
    columns["c7"][3] = np.nan
    rows = pa.record_batch({name: pa.array(values, from_pandas=name == "c7") for name, values in columns.items()})
    names = [*columns][::2]
    records = encode(with_bits(rows, [*names, "c7"])).to_pylist()
    for name in (*names, "c7"):
        spec = {name: tf.io.VarLenFeature(tf.float32), f"{name}:float64": tf.io.VarLenFeature(tf.int64)}
        same(RawColumn(name, with_float64(tf.io.parse_example(records, spec), [name])[name]).numbers, columns[name])


def written(tmp_path: Path, kind: str, values: Any, **data: Any) -> tuple[IngestResult, dict[int, float]]:
    """What ExampleGen says, and the float64 value of each id in the examples."""
    raw, ids = tmp_path / "raw", np.arange(len(values))
    raw.mkdir()
    table, path = pa.table({"id": ids, "x": np.asarray(values)}), str(raw / "data")
    source: dict[str, Any] = {"kind": kind, "path": path}
    match kind:
        case "csv":
            lines = (f"{i},{value!r}\n" for i, value in zip(ids, map(float, values), strict=True))
            Path(path).write_text("id,x\n" + "".join(lines), encoding="utf-8")
        case "jsonl":
            rows = ({"id": int(i), "x": float(value)} for i, value in zip(ids, values, strict=True))
            Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case "parquet":
            pq.write_table(table, path)
        case "arrays":
            path = source["path"] = f"{path}.npz"
            np.savez(path, id=ids, x=np.asarray(values))
        case "sql":
            with sqlite3.connect(path) as database:
                database.execute("create table t (id integer, x double)")
                database.executemany("insert into t values (?, ?)", zip(ids.tolist(), map(float, values), strict=True))
            source = {"kind": "sql", "url": f"sqlite:///{path}", "table": "t"}
    config = DataConfig.model_validate({"source": source, "types": {"x": "float64"}, **data})
    manifest = SpanManifest.of(resolve(path) if kind != "sql" else ())
    found = ingest(config, manifest, tmp_path / "out", lambda _work: serial_map)
    read: dict[int, float] = {}
    for shard in (tmp_path / "out").glob("Split-*/*"):
        for record in tf.data.TFRecordDataset(str(shard), "GZIP").as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            if "x:float64" not in feature:
                continue
            bits = np.int64(feature["x:float64"].int64_list.value[0])
            read[feature["id"].int64_list.value[0]] = float(bits.view(np.float64))
            assert feature["x"].float_list.value[0] == np.float32(bits.view(np.float64))
    return found, read


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrays", "sql"])
def test_each_source_writes_all_digits_and_has_nothing_to_report(tmp_path: Path, kind: str) -> None:
    found, read = written(tmp_path, kind, TIMES)
    same([read[number] for number in range(ROWS)], TIMES)
    assert not found.rounded
    assert found.kinds["x"] == "float"


def test_the_split_of_a_row_is_that_which_it_has_as_a_float(tmp_path: Path) -> None:
    found = []
    for kind in ("float64", "float"):
        (tmp_path / kind).mkdir()
        written(tmp_path / kind, "csv", TIMES, types={"x": kind})
        files = sorted((tmp_path / kind / "out").glob("Split-test/*"))
        records = (one for file in files for one in tf.data.TFRecordDataset(str(file), "GZIP").as_numpy_iterator())
        examples = map(tf.train.Example.FromString, records)
        found.append({example.features.feature["id"].int64_list.value[0] for example in examples})
    assert found[0] == found[1] != set()


def test_a_column_with_the_name_of_the_bits_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x,x:float64\n" + "0.5,1\n" * 100)
    config = DataConfig.model_validate(
        {"source": {"kind": "csv", "path": str(tmp_path / "data")}, "types": {"x": "float64"}}
    )
    with pytest.raises(DataError, match=r"data\.columns") as caught:
        ingest(config, SpanManifest.of(resolve(str(tmp_path / "data"))), tmp_path / "out", lambda _work: serial_map)
    assert caught.value.column == "x:float64"


def test_a_number_beyond_float32_still_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="float32"):
        written(tmp_path, "csv", [*TIMES, 1e39])


SCHEMA = """
    feature { name: "x" type: FLOAT } feature { name: "x:float64" type: INT } feature { name: "label" type: INT }
"""
FEATURES: dict[str, Any] = {
    "scaled": {"column": "numeric", "key": "x"},
    "ranged": {"column": "numeric", "key": "x", "normalize": "min_max", "missing": 1700000000.25},
    "logged": {"column": "numeric", "key": "x", "normalize": "log"},
    "fifth": {"column": "bucketized", "key": "x", "buckets": 5},
    "bounded": {"column": "bucketized", "key": "x", "boundaries": [1700000000.001, 1700000030.5]},
}


def sections(**features: Any) -> TrainerSections:
    given = {"label": {"key": "label", "kind": "binary"}, "features": features or FEATURES, "float64": ["x"]}
    return TrainerSections.from_json(json.dumps(given))


def learned(folder: Path, values: Any) -> tuple[Columnar, TransformShards, AnalyzerInputs]:
    """Both ways of a transform function that was learned from some values."""
    write(folder / "train", values)
    schema = text_format.Parse(SCHEMA, schema_pb2.Schema())
    task = AnalysisTask([str(folder / "train")], schema, {"code": "", "custom_config": "{}"}, str(folder / "graph"), {})
    content = schema.SerializeToString()
    statistics = analyze_columns(task, sections(), None)
    shards = TransformShards(task.graph, content, folder / "failed")
    shards.setup()
    columnar = Columnar(sections(), content)
    columnar.load(task.graph, statistics)
    return columnar, shards, AnalyzerInputs(sections(), content)


def write(file: Path, values: Any) -> Any:
    table = with_bits(batch(list(values)), ["x"]).append_column("label", pa.array(np.zeros(len(values), np.int64)))
    file.write_bytes(memoryview(framed_examples(table).buffers()[2]))
    (block,) = record_blocks(str(file), len(values))
    return block


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Columnar, TransformShards, AnalyzerInputs]:
    return learned(tmp_path_factory.mktemp("both"), TIMES)


def test_features_are_those_that_numpy_computes_of_float64(both: Any, tmp_path: Path) -> None:
    columnar, shards, _ = both
    block = write(tmp_path / "rows", [*TIMES, None])
    features = columnar.features(block)
    assert features is not None
    span, low = TIMES.max() - TIMES.min(), TIMES.min()
    filled = np.append(TIMES, TIMES.mean())
    np.testing.assert_allclose(features["scaled"], (filled - TIMES.mean()) / TIMES.std(), atol=2e-7)
    np.testing.assert_allclose(features["ranged"], (np.append(TIMES, 1700000000.25) - low) / span, atol=1e-7)
    np.testing.assert_array_equal(features["logged"], np.log1p(filled).astype(np.float32))
    bounds = FEATURES["bounded"]["boundaries"]
    np.testing.assert_array_equal(features["bounded"], [*np.searchsorted(bounds, TIMES, side="right"), 3])
    assert np.bincount(features["fifth"], minlength=6).tolist() == pytest.approx([140] * 5 + [1], abs=2)
    by_graph = shards._by_graph(block.serialized())
    for name, values in features.items():
        np.testing.assert_array_equal(values, by_graph[name].flatten().to_numpy(), err_msg=name)


@given(st.lists(st.none() | IN_RANGE | st.sampled_from(TIMES.tolist()), min_size=1, max_size=50))
@settings(deadline=None, max_examples=40)
def test_columns_and_graph_agree_on_any_numbers(
    both: Any, tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    columnar, shards, inputs = both
    block = write(tmp_path_factory.getbasetemp() / "rows", values)
    found, by_graph = columnar.features(block), shards._by_graph(block.serialized())
    assert found is not None
    for name, own in found.items():
        np.testing.assert_array_equal(
            own.view(np.uint8), by_graph[name].flatten().to_numpy().view(np.uint8), err_msg=name
        )
    numbers = columnar.analyzed(block, inputs.analyzers)
    assert numbers is not None
    np.testing.assert_array_equal(numbers[0], inputs(block.serialized())[0])


def test_a_function_of_the_users_gets_float64(tmp_path: Path) -> None:
    given = {"column": "custom", "function": "tests_float64.seconds", "keys": ["x"]}
    (tmp_path / "tests_float64.py").write_text(
        "import tensorflow as tf\n"
        "def seconds(inputs):\n"
        "    return tf.sparse.to_dense(inputs['x'])[:, 0] - tf.constant(1700000000, tf.float64)\n"
    )
    pytest.MonkeyPatch().syspath_prepend(str(tmp_path))
    write(tmp_path / "train", TIMES)
    schema = text_format.Parse(SCHEMA, schema_pb2.Schema())
    task = AnalysisTask(
        [str(tmp_path / "train")], schema, {"code": "", "custom_config": "{}"}, str(tmp_path / "graph"), {}
    )
    analyze_columns(task, sections(own=given), None)
    shards = TransformShards(task.graph, schema.SerializeToString(), tmp_path / "failed")
    shards.setup()
    found = shards._by_graph(write(tmp_path / "rows", TIMES).serialized())["own"].flatten().to_numpy()
    np.testing.assert_array_equal(found, (TIMES - 1700000000).astype(np.float32))
