"""The encoder against TFX's C++ encoder and TensorFlow's own serializer, on whatever hypothesis comes up with.

Names of columns have no NUL here: the C++ encoder ends a name at the first one.
"""

import gzip
import math

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tfx_bsl.coders import example_coder

from components.example_gen.encode import encode, varint, varints
from components.example_gen.tfrecord import frame, gzip_stream

INT64 = st.integers(-(2**63), 2**63 - 1)
COLUMN = st.sampled_from(["int", "float", "string"])
VALUES = {
    "int": INT64 | st.sampled_from([0, 127, 128, -1, 2**63 - 1, -(2**63)]),
    "float": st.floats(allow_nan=True, allow_infinity=True),
    "string": st.text(max_size=300) | st.sampled_from(["", "x" * 127, "x" * 128, "é" * 20_000]),
}
ARROW = {"int": pa.int64(), "float": pa.float64(), "string": pa.string()}
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
NAME = st.text(LETTERS, min_size=1, max_size=8) | st.just("n" * 130)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    names = draw(st.lists(NAME, min_size=1, max_size=5, unique=True))
    rows = draw(st.integers(0, 6))
    columns = []
    for _ in names:
        kind = draw(COLUMN)
        values = st.just(None) if draw(st.booleans()) and draw(st.booleans()) else st.none() | VALUES[kind]
        columns.append(pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), ARROW[kind]))
    return pa.RecordBatch.from_arrays(columns, names=names)


def as_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What TFX's encoder takes: float32 and bytes, each value in a list, a null as a null."""
    types = {pa.string(): pa.binary(), pa.float64(): pa.float32(), pa.int64(): pa.int64()}
    columns = [
        pa.array(
            [None if value is None else [value] for value in column.cast(types[column.type]).to_pylist()],
            pa.list_(types[column.type]),
        )
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def features(records: list[bytes]) -> list[list[tuple[str, bytes]]]:
    """Of each record the features by name; their order on the wire is left to each encoder."""
    examples = [tf.train.Example.FromString(record).features.feature for record in records]
    return [sorted((name, each.SerializeToString(deterministic=True)) for name, each in e.items()) for e in examples]


@settings(max_examples=200, deadline=None)
@given(batches())
def test_any_batch_encodes_as_the_cpp_encoder_does(batch: pa.RecordBatch) -> None:
    ours = encode(batch).to_pylist()
    theirs = example_coder.RecordBatchToExamplesEncoder().encode(as_lists(batch)) if batch.num_rows else []
    assert features(ours) == features(theirs)


def test_a_column_without_a_type_is_a_feature_without_a_kind() -> None:
    records = encode(pa.RecordBatch.from_arrays([pa.nulls(2), pa.array([1, 2])], names=["none", "a"])).to_pylist()
    examples = [tf.train.Example.FromString(record) for record in records]
    assert [example.features.feature["none"].WhichOneof("kind") for example in examples] == [None, None]
    assert [example.features.feature["a"].int64_list.value[:] for example in examples] == [[1], [2]]


def test_only_columns_without_a_type_still_give_a_record_for_each_row() -> None:
    records = encode(pa.RecordBatch.from_arrays([pa.nulls(3)], names=["none"])).to_pylist()
    assert len(records) == 3
    assert "none" in tf.train.Example.FromString(records[2]).features.feature


def test_no_rows_encode_to_no_records() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([], pa.int64()), pa.array([], pa.string())], names=["a", "b"])
    assert len(frame(encode(batch))) == 0


def test_a_slice_encodes_as_its_own_rows() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, None, 3, 4]), pa.array(["a", "bb", None, "d"]), pa.array([1.5, None, math.inf, -0.0])],
        names=["i", "s", "f"],
    )
    assert encode(batch.slice(1, 2)).to_pylist() == encode(batch).to_pylist()[1:3]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_varints_match_one_at_a_time(numbers: list[int]) -> None:
    assert varints(np.array(numbers, np.uint64)).to_pylist() == [varint(number) for number in numbers]


@pytest.mark.parametrize(
    "records", [[b"x"], [b"", b"a" * 300, b"\x00" * 70_000], [bytes([i % 256]) * i for i in range(500)]]
)
def test_framed_records_read_back_through_tensorflow(records: list[bytes], tmp_path: object) -> None:
    path = f"{tmp_path}/r.gz"
    stream = gzip_stream()
    packed = stream.compress(b"".join(frame(pa.array(records, pa.binary())).to_pylist())) + stream.flush()
    with open(path, "wb") as file:
        file.write(packed)
    assert [record.numpy() for record in tf.data.TFRecordDataset(path, compression_type="GZIP")] == records


def test_gzip_carries_no_time_and_no_file_name() -> None:
    stream = gzip_stream()
    packed = stream.compress(b"text") + stream.flush()
    assert packed[3:8] == b"\x00" * 5
    assert gzip.decompress(packed) == b"text"
