"""Feature columns computed from Arrow columns, against the exported transform graph, to the last bit."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import yaml
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.transform.analyzer_inputs import AnalyzerInputs
from headrace.components.transform.columnar import Columnar
from headrace.components.transform.columns_analysis import analyze_columns
from headrace.components.transform.record_blocks import BATCH, RecordBlock, record_blocks, serialized_blocks
from headrace.components.transform.shards import BATCHES, TransformShards
from headrace.components.transform.task import AnalysisTask
from headrace.trainer.sections import TrainerSections

SCHEMA = """
    feature { name: "amount" type: FLOAT } feature { name: "count" type: INT } feature { name: "word" type: BYTES }
    feature { name: "flag" type: BYTES } feature { name: "label" type: INT } feature { name: "worth" type: FLOAT }
"""
WORDS = [b"taxi", "Zürich".encode(), "東京".encode(), b"7", b"", b"\xff\xfe", b"a b"]
FEATURES: dict[str, Any] = {
    "scaled": {"column": "numeric", "key": "amount"},
    "ranged": {"column": "numeric", "key": "count", "normalize": "min_max", "missing": 3},
    "logged": {"column": "numeric", "key": "amount", "normalize": "log"},
    "logged_count": {"column": "numeric", "key": "count", "normalize": "log", "missing": 0},
    "plain": {"column": "numeric", "key": "count", "normalize": "none"},
    "quarter": {"column": "bucketized", "key": "amount", "buckets": 4},
    "bounded": {"column": "bucketized", "key": "count", "boundaries": [0, 5, 20], "missing": 5},
    "hour": {"column": "identity", "key": "count", "num_buckets": 24},
    "hour_or_2": {"column": "identity", "key": "count", "num_buckets": 24, "missing": 2},
    "learned": {"column": "vocabulary", "key": "word"},
    "frequent": {"column": "vocabulary", "key": "word", "top_k": 2, "oov_buckets": 7, "missing": "taxi"},
    "counts": {"column": "vocabulary", "key": "count", "oov_buckets": 3, "missing": 4},
    "listed": {"column": "vocabulary", "key": "word", "values": ["taxi", "7"], "oov_buckets": 2},
    "bucket": {"column": "hashed", "key": "word", "hash_buckets": 11},
    "count_bucket": {"column": "hashed", "key": "count", "hash_buckets": 11, "missing": "none"},
    "true": {"column": "boolean", "key": "flag"},
    "true_count": {"column": "boolean", "key": "count", "missing": False},
    "pair": {"column": "crossed", "keys": ["word", "true_count"], "hash_buckets": 5},
    "three": {"column": "crossed", "keys": ["quarter", "hour", "true"], "hash_buckets": 1000},
    "mixed": {"column": "crossed", "keys": ["bucket", "count", "word"], "hash_buckets": 77},
    "flag": {"column": "crossed", "keys": ["flag", "bounded"], "hash_buckets": 30},
}
LABEL = {"key": "label", "kind": "binary", "weight": "worth"}
INTEGERS = st.one_of(st.integers(-3, 30), st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1]), st.none())
FLOATS = st.one_of(st.floats(width=32), st.none())
TEXTS = st.one_of(st.sampled_from(WORDS), st.binary(max_size=6), st.none())
FLAGS = st.one_of(st.sampled_from([b" TRUE", b"no", b"1", b"0", b"maybe", b""]), st.none())
ROWS = st.lists(st.tuples(FLOATS, INTEGERS, TEXTS, FLAGS, st.sampled_from([0, 1, 2, None]), FLOATS), min_size=1)
TYPES = {
    "amount": pa.float32(), "count": pa.int64(), "word": pa.binary(), "flag": pa.binary(), "label": pa.int64(),
    "worth": pa.float32(),
}  # fmt: skip


class Both(NamedTuple):
    """The two ways of one transform function."""

    columnar: Columnar
    shards: TransformShards
    inputs: AnalyzerInputs
    columns: TransformShards


def sections(**features: Any) -> TrainerSections:
    return TrainerSections.from_json(json.dumps({"label": LABEL, "features": features or FEATURES}))


def serialized_schema() -> bytes:
    content: bytes = text_format.Parse(SCHEMA, schema_pb2.Schema()).SerializeToString()
    return content


def write(file: Path, rows: list[tuple[Any, ...]]) -> RecordBlock:
    table = pa.record_batch(
        {
            name: pa.array(column, kind)
            for (name, kind), column in zip(TYPES.items(), zip(*rows, strict=True), strict=True)
        }
    )
    file.write_bytes(memoryview(framed_examples(table).buffers()[2]))
    (block,) = record_blocks(str(file), len(rows))
    assert isinstance(block, RecordBlock)
    return block


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder, random = tmp_path_factory.mktemp("columnar"), np.random.default_rng(5)
    counts = random.integers(-2, 30, 300).tolist()
    words, flags = random.choice(5, 300), random.choice([b"yes", b"no"], 300)
    amounts = random.normal(5, 3, 300).astype(np.float32).tolist()
    rows = [(a, c, WORDS[w] or None, f, 1, 1.0) for a, c, w, f in zip(amounts, counts, words, flags, strict=True)]
    write(folder / "train", rows)
    schema = text_format.Parse(SCHEMA, schema_pb2.Schema())
    task = AnalysisTask([str(folder / "train")], schema, {"code": "", "custom_config": "{}"}, str(folder / "graph"), {})
    statistics = analyze_columns(task, sections(), None)
    shards = TransformShards(task.graph, serialized_schema(), folder / "failed")
    shards.setup()
    columnar = Columnar(sections(), serialized_schema())
    columnar.load(task.graph, statistics)
    learned = sections().to_json(), statistics
    columns = TransformShards(task.graph, serialized_schema(), folder / "failed", learned)
    columns.setup()
    return Both(columnar, shards, AnalyzerInputs(sections(), serialized_schema()), columns)


def assert_same(both: Both, block: RecordBlock) -> None:
    found, by_graph = both.columnar.features(block), both.shards._by_graph(block.serialized())
    assert found is not None
    assert set(found) == set(by_graph) == {*FEATURES, "label", "worth"}
    for name, values in found.items():
        expected = by_graph[name].flatten().to_numpy()
        assert values.dtype == expected.dtype, name
        np.testing.assert_array_equal(values.view(np.uint8), expected.view(np.uint8), err_msg=name)


@given(rows=ROWS)
@settings(deadline=None, max_examples=60)
def test_features_of_columns_are_those_of_the_graph(
    both: Both, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    block = write(tmp_path_factory.getbasetemp() / "rows", rows)
    assert_same(both, block)

    analyzers = both.inputs.analyzers
    analyzed, (numbers, texts) = both.columnar.analyzed(block, analyzers), both.inputs(block.serialized())
    assert analyzed is not None
    assert analyzed[0] is not None
    assert numbers is not None
    np.testing.assert_array_equal(analyzed[0], numbers)
    for own, of_graph in zip(analyzed[1], texts, strict=True):
        assert Counter(filter(None, own.to_pylist())) == Counter(filter(None, of_graph.tolist()))


def test_many_rows_are_the_same_too(both: Both, tmp_path: Path) -> None:
    """So many that TensorFlow computes most of them in vectors, whose logarithms round differently."""
    random = np.random.default_rng(8)
    amounts, counts = (
        random.lognormal(2, 3, 5003).astype(np.float32).tolist(),
        random.integers(-9, 10**7, 5003).tolist(),
    )
    words = [WORDS[place] for place in random.choice(len(WORDS), 5003)]
    rows = [(a, c, w, b"no", 0, a) for a, c, w in zip(amounts, counts, words, strict=True)]
    assert_same(both, write(tmp_path / "rows", rows))


@pytest.mark.parametrize("single", [True, False], ids=["by columns", "by the graph"])
def test_files_of_several_batches_are_those_of_the_graph(both: Both, tmp_path: Path, *, single: bool) -> None:
    random, rows = np.random.default_rng(9), BATCH * BATCHES * 2 + 5
    words = [WORDS[place] for place in random.choice(len(WORDS), rows)]
    amounts = random.lognormal(2, 3, rows).astype(np.float32).tolist()
    counts = random.integers(-9, 99, rows).tolist()
    write(tmp_path / "rows", [(a, c, w, b"no", 1, 1.0) for a, c, w in zip(amounts, counts, words, strict=True)])
    if not single:
        two_words = pa.record_batch({"word": pa.array([[b"taxi", b"7"]]), "label": pa.array([1])})
        with (tmp_path / "rows").open("ab") as file:
            file.write(memoryview(framed_examples(two_words).buffers()[2]))
    for name in ("shards", "columns"):
        written = getattr(both, name)._write_records(str(tmp_path / "rows"), str(tmp_path / name))
        assert written == rows + (not single)
    assert (tmp_path / "columns").read_bytes() == (tmp_path / "shards").read_bytes()


def test_a_column_without_any_value_is_missing_everywhere(both: Both, tmp_path: Path) -> None:
    assert_same(both, write(tmp_path / "rows", [(None, None, None, None, None, None)] * 3))


def test_several_values_of_an_example_go_through_the_graph(both: Both) -> None:
    example = tf.train.Example()
    example.features.feature["amount"].float_list.value.extend([1, 2])
    data = example.SerializeToString()
    block = RecordBlock(data, np.array([0]), np.array([len(data)]))
    assert ExamplesToRecordBatchDecoder().DecodeBatch([data])["amount"].to_pylist() == [[1, 2]]
    assert both.columnar.features(block) is None
    assert block.serialized().numpy().tolist() == [data]


@pytest.mark.parametrize(
    "feature",
    [
        {"column": "vocabulary", "key": "word", "multivalued": True},
        {"column": "text", "key": "word"},
        {"column": "crossed", "keys": ["words", "flag"], "hash_buckets": 5},
        {"column": "crossed", "keys": ["amount", "flag"], "hash_buckets": 5},
        {"column": "datetime", "key": "word", "part": "hour"},
        {"column": "numeric", "key": "word"},
        {"column": "numeric", "key": "absent"},
    ],
)
def test_columns_of_other_kinds_or_types_are_left_to_the_graph(feature: dict[str, Any]) -> None:
    assert Columnar(sections(), serialized_schema()).covers
    others = {"scaled": FEATURES["scaled"], "words": FEATURES["learned"]}
    assert not Columnar(sections(**others, other=feature), serialized_schema()).covers


def test_columns_are_had_by_name_of_rows_in_any_layout(tmp_path: Path) -> None:
    rows = ("a: [1, 2], b: [3]", "b: [4]", "b: [5, 6], a: [7]")
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as file:
        for row in rows:
            example = tf.train.Example()
            for name, values in yaml.safe_load(f"{{{row}}}").items():
                example.features.feature[name].int64_list.value.extend(values)
            file.write(example.SerializeToString())
    (block,) = serialized_blocks(str(tmp_path / "records"), 16)
    assert block.columns is None
    assert block.columns_named({"a"}).column("a").to_pylist() == [[1, 2], None, [7]]
    assert block.columns_named({"c"}).num_rows == len(rows)


def test_blocks_hold_the_records_of_a_file_in_order(tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as file:
        for row in range(70):
            file.write(b"%d" % row * 100_000)
    blocks = list(record_blocks(str(tmp_path / "records"), 16))
    assert [len(block) for block in blocks] == [16, 16, 16, 16, 6]
    rows = [row for block in blocks for row in block.serialized().numpy().tolist()]
    assert rows == [b"%d" % row * 100_000 for row in range(70)]
