"""Framed tf.Examples against TensorFlow's encoder and google_crc32c, and rows laid side by side against their columns.

Batches are so long that values repeat: then columns are encoded value by value.
"""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from google_crc32c import value as google_crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.components.example_gen.shards.spill import to_columns, to_rows
from headrace.components.examples.tfexample.encode import encode
from headrace.components.examples.tfexample.framing import framed_examples

ROWS = 2500
KINDS: dict[str, Callable[[np.random.Generator], Any]] = {
    "few ints": lambda random: random.integers(0, 30, ROWS),
    "far ints": lambda random: random.choice([-(2**63), -1, 0, 127, 128, 2**40, 2**63 - 1], ROWS),
    "many ints": lambda random: random.integers(0, 1 << 20, ROWS),
    "long ints": lambda random: random.integers(1 << 29, 1 << 30, ROWS),
    "floats": lambda random: random.choice([np.nan, np.inf, -0.0, 1e300, 1.5], ROWS) * random.random(ROWS),
    "texts": lambda random: random.choice(["", "a", "é" * 70, "x" * 200], ROWS),
    "short texts": lambda random: [str(number) for number in random.integers(0, 1 << 30, ROWS)],
    "long texts": lambda random: [str(number) * 5 for number in random.integers(0, 1 << 30, ROWS)],
    "missing": lambda _: [None] * ROWS,
}


def column(kind: str, nulls: float, random: np.random.Generator) -> pa.Array:
    values = KINDS[kind](random)
    return pa.array(values, mask=random.random(ROWS) < nulls) if kind != "missing" else pa.nulls(ROWS)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=8))
    arrays = [column(kind, draw(st.sampled_from([0, 0, 0.1, 1])), random) for kind in kinds]
    return pa.RecordBatch.from_arrays(arrays, names=[f"{i} {kind}" for i, kind in enumerate(kinds)]).slice(
        draw(st.integers(0, 20))
    )


def one_by_one(batch: pa.RecordBatch) -> list[tf.train.Example]:
    found = []
    for row in batch.to_pylist():
        example = tf.train.Example()
        for name, value in row.items():
            feature = example.features.feature[name]
            if isinstance(value, int):
                feature.int64_list.value.append(value)
            elif isinstance(value, float):
                with np.errstate(over="ignore"):
                    feature.float_list.value.append(np.float32(value))
            elif value is not None:
                feature.bytes_list.value.append(value.encode())
        found.append(example)
    return found


def records_of(framed: pa.BinaryArray) -> list[bytes]:
    """The records, after a look at every length and checksum."""
    records = []
    for text in framed.to_pylist():
        (size,), record = struct.unpack("<Q", text[:8]), text[12:-4]
        assert size == len(record)
        assert text[8:12] == masked(text[:8])
        assert text[-4:] == masked(record)
        records.append(record)
    return records


def masked(text: bytes) -> bytes:
    crc = google_crc32c(text)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


@settings(max_examples=25, deadline=None)
@given(batches())
def test_long_batches_are_framed_as_a_row_at_a_time_is(batch: pa.RecordBatch) -> None:
    records = records_of(framed_examples(batch))
    assert records == encode(batch).to_pylist()
    for record, expected in zip(records, one_by_one(batch), strict=True):
        found = tf.train.Example.FromString(record)
        assert found.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=40) | st.binary(min_size=200, max_size=300), min_size=1, max_size=20))
def test_values_of_any_bytes_are_framed(records: list[bytes]) -> None:
    framed = framed_examples(pa.RecordBatch.from_arrays([pa.array(records, pa.binary())], names=["a"]))
    found = [tf.train.Example.FromString(record) for record in records_of(framed)]
    assert [example.features.feature["a"].bytes_list.value[:] for example in found] == [[record] for record in records]


@settings(max_examples=25, deadline=None)
@given(batches(), st.integers(0, 2**32))
def test_rows_side_by_side_are_the_same_examples(batch: pa.RecordBatch, seed: int) -> None:
    order = pa.array(np.random.default_rng(seed).permutation(len(batch))[:100])
    taken = to_columns(to_rows(batch).take(order).slice(3))
    assert encode(taken).to_pylist() == encode(batch.take(order).slice(3)).to_pylist()


def test_columns_of_other_types_stay_beside_the_numbers() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([[1], None]), pa.array([1, None]), pa.nulls(2), pa.array(["a", None]), pa.array([2.5, None])],
        names=["list", "int", "none", "text", "float"],
    )
    rows = to_rows(batch)
    assert len(rows.schema) == 4
    assert to_columns(rows).select(batch.schema.names).to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("names", [["a"], []])
def test_a_batch_with_less_than_two_columns_of_numbers_stays_as_it_is(names: list[str]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]) for _ in names] + [pa.array(["x", "y"])], names=[*names, "s"])
    assert to_columns(to_rows(batch)).equals(batch)
