"""Decoding rows all at once, reading files in pieces, and counting values in bounded memory."""

import struct
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.common.errors import DataError
from headrace.components.examples.arrow_columns import MANY_COLUMNS
from headrace.components.examples.decode import decode
from headrace.components.examples.tfexample.encode import encode
from headrace.components.examples.tfexample.wire import varint
from headrace.components.statistics import categories, read
from headrace.components.statistics.categories import Categories, ValueCounts, add_values, text_statistics
from headrace.pipeline.report.statistics import read_statistics

COLUMN = st.sampled_from(
    [
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float32(), st.floats(width=32)),
        (pa.binary(), st.binary(max_size=300)),
        (pa.null(), st.none()),
    ]
)
LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
"""Of names: tfx_bsl cuts them off at a zero byte."""


@st.composite
def tables(draw: st.DrawFn) -> pa.RecordBatch:
    """Columns with gaps, as ExampleGen's encoder takes them."""
    rows, names = draw(st.integers(1, 9)), draw(st.lists(st.text(LETTERS, max_size=200), unique=True, max_size=5))
    columns = []
    for _ in names:
        kind, values = draw(COLUMN)
        columns.append(pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind))
    return pa.RecordBatch.from_arrays(columns, names)


@st.composite
def wide_tables(draw: st.DrawFn) -> pa.RecordBatch:
    """Columns again and again, under enough names to be decoded together."""
    table = draw(tables().filter(lambda table: table.num_columns))
    count = draw(st.integers(MANY_COLUMNS, MANY_COLUMNS + 8))
    prefix = draw(st.text(LETTERS, max_size=150))
    names = [prefix + str(place * 7919 % 1000) for place in range(count)]
    return pa.RecordBatch.from_arrays([table.column(place % table.num_columns) for place in range(count)], names)


def decoded(
    examples: list[bytes], before: bytes = b"", after: bytes = b"", wanted: Collection[str] | None = None
) -> pa.RecordBatch | None:
    data, starts = bytearray(), []
    for example in examples:
        starts.append(len(data) + len(before))
        data += before + example + after
    places = np.array(starts, np.int64)
    return decode(bytes(data), places, places + np.array([*map(len, examples)], np.int64), wanted)


def assert_same_batch(left: pa.RecordBatch, right: pa.RecordBatch) -> None:
    assert left.num_rows == right.num_rows
    assert left.schema.equals(right.schema), (left.schema.names, right.schema.names)
    for mine, other in zip(left.columns, right.columns, strict=True):
        mine.validate(full=True)
        assert str(mine.to_pylist()) == str(other.to_pylist())  # as text, so that NaN is NaN


@given(tables() | wide_tables(), st.data())
@settings(deadline=None)
def test_what_example_gen_encodes_is_decoded_as_tfx_bsl_does(table: pa.RecordBatch, data: st.DataObject) -> None:
    if not table.num_columns:
        return
    examples = encode(table).to_pylist()
    batch = decoded(examples, b"length", b"crc")
    assert batch is not None
    expected = ExamplesToRecordBatchDecoder().DecodeBatch(examples)
    assert_same_batch(batch, expected)
    wanted = data.draw(st.lists(st.sampled_from([*table.schema.names, "absent"]), unique=True))
    part = decoded(examples, b"length", b"crc", wanted)
    assert part is not None
    assert_same_batch(part, expected.select([name for name in expected.schema.names if name in wanted]))


@given(tables() | wide_tables(), st.data())
@settings(deadline=None, max_examples=200)
def test_a_damaged_byte_gives_what_tfx_bsl_gives_or_nothing(table: pa.RecordBatch, data: st.DataObject) -> None:
    examples = [bytearray(example) for example in encode(table).to_pylist()] if table.num_columns else []
    if not examples:
        return
    row = data.draw(st.integers(0, len(examples) - 1))
    examples[row][data.draw(st.integers(0, len(examples[row]) - 1))] = data.draw(st.integers(0, 255))
    damaged = [bytes(example) for example in examples]
    batch = decoded(damaged)
    if batch is not None:
        assert_same_batch(batch, ExamplesToRecordBatchDecoder().DecodeBatch(damaged))


def test_many_features_are_read_in_whatever_order_all_rows_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.components.examples.decode.VALUES", 20)  # several pieces
    rows = []
    for row in range(3):
        entries = [
            encode(pa.RecordBatch.from_pydict({f"c{place * 7919 % 41}": [place * 10**row]})).to_pylist()[0]
            for place in range(41)
        ]
        features = b"".join(entry[2:] for entry in entries)
        rows.append(features)
    examples = [b"\x0a" + varint(len(features)) + features for features in rows]
    batch = decoded(examples)
    assert batch is not None
    assert_same_batch(batch, ExamplesToRecordBatchDecoder().DecodeBatch(examples))
    assert batch["c0"].to_pylist() == [[0], [0], [0]]
    other = b"".join(encode(pa.RecordBatch.from_pydict({name: [1]})).to_pylist()[0][2:] for name in batch.schema.names)
    assert decoded([examples[0], b"\x0a" + varint(len(other)) + other]) is None


@pytest.mark.parametrize(
    "text",
    [
        'feature { key: "a" value { int64_list { value: [1, 2] } } }',
        'feature { key: "a" value { bytes_list { value: ["1", "2"] } } }',
        'feature { key: "a" value { float_list { } } }',
        'feature { key: "b" value { int64_list { value: 1 } } }',
        'feature { key: "a" value { int64_list { value: 1 } } } feature { key: "b" value { } }',
        'feature { key: "a" value { float_list { value: 1 } } }',
        "",
    ],
)
def test_rows_of_another_layout_are_left_to_tfx_bsl(text: str) -> None:
    from google.protobuf import text_format

    regular = "features { feature { key: 'a' value { int64_list { value: 1 } } } }"
    rows = [text_format.Parse(each, tf.train.Example()) for each in (regular, f"features {{ {text} }}")]
    assert decoded([row.SerializeToString(deterministic=True) for row in rows]) is None


def test_batches_are_the_same_wherever_the_pieces_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["x" * (7 * number % 50) for number in range(40)]
    file = str(tmp_path / "shard.gz")
    with tf.io.TFRecordWriter(file, "GZIP") as writer:
        for example in encode(pa.RecordBatch.from_pydict({"text": texts})).to_pylist():
            writer.write(example)
    for size in (1, 13, 100, 1 << 20):
        monkeypatch.setattr(read, "BYTES", size)
        batches = list(read.batches(file))
        assert [value for batch in batches for (value,) in batch["text"].to_pylist()] == [t.encode() for t in texts]
    assert len(batches) == 1


def test_a_file_that_ends_inside_a_record_is_an_error(tmp_path: Path) -> None:
    import gzip

    file = tmp_path / "shard.gz"
    file.write_bytes(gzip.compress(struct.pack("<Q", 100) + b"crc.and no more"))
    with pytest.raises(DataError, match=r"shard\.gz: .*ends inside a record"):
        list(read.batches(str(file)))


@given(st.lists(st.lists(st.binary(max_size=2)), max_size=6), st.integers(0, 6), st.integers(1, 5))
@settings(deadline=None)
def test_counts_are_exact_and_ordered_as_in_tfdv(batches: list[list[bytes]], cut: int, number: int) -> None:
    left, right = ValueCounts(), ValueCounts()
    for place, values in enumerate(batches):
        (left if place < cut else right).add(pa.array(values, pa.binary()))
    left.merge(right)
    left.settle()
    counter = Counter(value for values in batches for value in values)
    expected = sorted(((count, value) for value, count in counter.items()), reverse=True)[:number]
    assert [(found.count, found.feature_value) for found in left.most_frequent(number)] == expected
    assert left.number() == len(counter)


def test_many_distinct_values_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(categories, "LIMIT", 2000)
    rng, batch, batches = np.random.default_rng(2), 5000, 60
    parts = [ValueCounts(), ValueCounts(), ValueCounts()]
    truth: Counter[bytes] = Counter()
    for number in range(batches):
        frequent = rng.zipf(1.5, batch // 2) % 50
        values = [b"f%d" % value for value in frequent] + [
            b"%x" % value for value in rng.integers(0, 2**40, batch // 2)
        ]
        truth.update(values)
        parts[number % 3].add(pa.array(values, pa.binary()))
        assert parts[number % 3].table.num_rows <= categories.LIMIT
        assert parts[number % 3].pending_bytes < 1 << 19
    total = parts[0]
    for part in parts[1:]:
        total.merge(part)
    total.settle()
    error = 2 * batch * batches / categories.LIMIT
    found = {each.feature_value: each.count for each in total.most_frequent(10)}
    assert set(found) == {value for value, _ in truth.most_common(10)}
    assert 0 < total.lowered <= error
    for value, count in found.items():
        assert truth[value] - total.lowered <= count <= truth[value]
    assert total.number() == pytest.approx(len(truth), rel=0.02)


@pytest.mark.parametrize("large_first", [True, False])
def test_the_number_of_distinct_values_survives_a_merge_with_a_small_part(
    monkeypatch: pytest.MonkeyPatch, large_first: bool
) -> None:
    monkeypatch.setattr(categories, "LIMIT", 2000)
    large, small = ValueCounts(), ValueCounts()
    large.add(pa.array([b"%d" % number for number in range(10_000)], pa.binary()))
    small.add(pa.array([b"other %d" % number for number in range(5)], pa.binary()))
    large.settle()
    left, right = (large, small) if large_first else (small, large)
    left.merge(right)
    left.settle()
    assert left.number() == pytest.approx(10_005, rel=0.02)


def test_long_values_count_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(categories, "BYTES", 1 << 20)
    counts = ValueCounts()
    for number in range(100):
        counts.add(pa.array([b"often", b"often", bytes([number]) * 100_000], pa.binary()))
    counts.settle()
    assert counts.table.nbytes <= categories.BYTES
    assert counts.most_frequent(1)[0].feature_value == b"often"
    assert counts.number() == 101


@pytest.mark.parametrize("unique", [True, False])
def test_the_report_calls_estimates_so_and_names_no_value_as_frequent_that_may_not_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unique: bool
) -> None:
    monkeypatch.setattr(categories, "LIMIT", 2000)
    rng = np.random.default_rng(3)
    names = [f"id-{number}" for number in rng.permutation(50_000)] + ([] if unique else ["often"] * 5000)
    counts: Categories = {}
    for chunk in np.array_split(rng.permutation(names), 40):
        lists = pa.array([[name.encode()] for name in chunk.tolist()], pa.list_(pa.binary()))
        add_values(counts, pa.record_batch([lists], names=["id"]))
    found = DatasetFeatureStatisticsList(datasets=[text_statistics(counts)])
    found.datasets[0].features[0].string_stats.common_stats.tot_num_values = len(names)
    file = tmp_path / "Split-train" / "FeatureStats.pb"
    file.parent.mkdir()
    file.write_bytes(found.SerializeToString())
    column = read_statistics(tmp_path)["train"].columns["id"]
    assert column.too_low is not None
    assert [bar.label for bar in column.top] == ([] if unique else ["often"])
    assert all(bar.count <= 5000 <= bar.count + column.too_low for bar in column.top)
    assert column.distinct == pytest.approx(len(set(names)), rel=0.02)
    assert 1 <= 2 * column.too_low < 200
