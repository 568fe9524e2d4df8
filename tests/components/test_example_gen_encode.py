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

from headrace.components.examples.compression import Compression
from headrace.components.examples.tfexample.encode import encode
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.examples.tfexample.wire import varint, varints

INT64 = st.integers(-(2**63), 2**63 - 1)
COLUMN = st.sampled_from(["int", "float", "float32", "string", "bytes"])
VALUES = {
    "int": INT64 | st.sampled_from([0, 127, 128, -1, 2**63 - 1, -(2**63)]),
    "float": st.floats(allow_nan=True, allow_infinity=True),
    "float32": st.floats(allow_nan=True, allow_infinity=True, width=32),
    "bytes": st.binary(max_size=300),
    "string": st.text(max_size=300) | st.sampled_from(["", "x" * 127, "x" * 128, "é" * 20_000]),
}
ARROW = {"int": pa.int64(), "float": pa.float64(), "float32": pa.float32(), "string": pa.string(), "bytes": pa.binary()}
LISTS = {False: lambda arrow: arrow, True: pa.list_, "large": pa.large_list}
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
NAME = st.text(LETTERS, min_size=1, max_size=8) | st.just("n" * 130)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    names = draw(st.lists(NAME, min_size=1, max_size=5, unique=True))
    rows = draw(st.integers(0, 6))
    columns = []
    for _ in names:
        kind = draw(COLUMN)
        listed = draw(st.sampled_from(list(LISTS)))
        value = st.lists(VALUES[kind], max_size=40) if listed else VALUES[kind]
        values = st.just(None) if draw(st.booleans()) and draw(st.booleans()) else st.none() | value
        columns.append(pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), LISTS[listed](ARROW[kind])))
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    return batch.slice(draw(st.integers(0, rows)))


def values_of(value: object) -> list | None:
    return value if value is None or isinstance(value, list) else [value]


def as_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What TFX's encoder takes: float32 and bytes, each value in a list, a null as a null."""
    types = {pa.string(): pa.binary(), pa.float64(): pa.float32()}
    columns = []
    for column in batch.columns:
        inner = column.type.value_type if hasattr(column.type, "value_type") else column.type
        rows = [values_of(value) for value in column.to_pylist()]
        columns.append(pa.array(rows, pa.list_(inner)).cast(pa.list_(types.get(inner, inner))))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def one_by_one(batch: pa.RecordBatch) -> list[bytes]:
    """Each row as a tf.train.Example, value by value."""
    examples = []
    for row in as_lists(batch).to_pylist():
        example = tf.train.Example()
        for name, values in row.items():
            feature = example.features.feature[name]
            inner = batch.schema.field(name).type
            inner = getattr(inner, "value_type", inner)
            kind = (
                feature.int64_list
                if inner == pa.int64()
                else feature.float_list
                if pa.types.is_floating(inner)
                else feature.bytes_list
            )
            if values is not None:
                kind.SetInParent()
                kind.value.extend(values)
        examples.append(example.SerializeToString())
    return examples


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


@settings(max_examples=200, deadline=None)
@given(batches())
def test_any_batch_encodes_as_a_row_at_a_time_does(batch: pa.RecordBatch) -> None:
    assert features(encode(batch).to_pylist()) == features(one_by_one(batch))


def test_lists_of_numbers_are_packed_as_protobuf_packs_them() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([[1, 300, -1], []]), pa.array([[1.5, math.nan], None])], names=["a", "b"]
    )
    sizes = [len(record) for record in encode(batch).to_pylist()]
    assert sizes == [len(record) for record in one_by_one(batch)]


def test_a_null_in_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match="holds a null"):
        encode(pa.RecordBatch.from_arrays([pa.array([[1, None]])], names=["a"]))


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
    assert (len(encode(batch)), len(framed_examples(batch))) == (0, 0)


def test_a_slice_encodes_as_its_own_rows() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, None, 3, 4]), pa.array(["a", "bb", None, "d"]), pa.array([1.5, None, math.inf, -0.0])],
        names=["i", "s", "f"],
    )
    assert encode(batch.slice(1, 2)).to_pylist() == encode(batch).to_pylist()[1:3]


@given(st.data(), st.sampled_from([7, 14, 21, 28, 29, 64]))
def test_varints_match_one_at_a_time(data: st.DataObject, bits: int) -> None:
    numbers = data.draw(st.lists(st.integers(0, 2**bits - 1) | st.sampled_from([127, 2**bits - 1]), max_size=20))
    given = np.array(numbers, np.uint64)
    assert varints(given).to_pylist() == [varint(number) for number in numbers]
    valid = data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    expected = [varint(number) if has else b"" for number, has in zip(numbers, valid, strict=True)]
    assert varints(given, np.array(valid, np.bool_)).to_pylist() == expected


@pytest.mark.parametrize(
    "values", [[b"x"], [b"", b"a" * 300, b"\x00" * 70_000], [bytes([i % 256]) * i for i in range(500)]]
)
def test_framed_examples_read_back_through_tensorflow(values: list[bytes], tmp_path: object) -> None:
    path = f"{tmp_path}/r.gz"
    compressor = Compression().compressor()
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["a"])
    packed = bytes(compressor.compress(b"".join(framed_examples(batch).to_pylist()))) + compressor.flush()
    with open(path, "wb") as file:
        file.write(packed)
    read = [record.numpy() for record in tf.data.TFRecordDataset(path, compression_type="GZIP")]
    assert read == encode(batch).to_pylist()
    examples = map(tf.train.Example.FromString, read)
    assert [example.features.feature["a"].bytes_list.value[:] for example in examples] == [[value] for value in values]


def test_gzip_carries_no_time_and_no_file_name() -> None:
    compressor = Compression().compressor()
    packed = bytes(compressor.compress(b"text")) + compressor.flush()
    assert packed[3:8] == b"\x00" * 5
    assert gzip.decompress(packed) == b"text"
