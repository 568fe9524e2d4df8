"""Rows of Arrow in one record batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.common.record_batches import concatenated, in_one_batch

SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "text": pa.string(),
        "lists": pa.list_(pa.float32()),
        "vector": pa.list_(pa.float32(), 2),
        "code": pa.dictionary(pa.int32(), pa.string()),
        "nested": pa.struct({"a": pa.int8()}),
    }
).with_metadata({"of": "a test"})
ROWS = [
    {"number": 1, "text": "a", "lists": [1, 2], "vector": [3, 4], "code": "x", "nested": {"a": 5}},
    {"number": None, "text": "", "lists": None, "vector": None, "code": None, "nested": None},
    {"number": 3, "text": "é", "lists": [], "vector": [0, 1], "code": "y", "nested": {"a": None}},
]


@pytest.mark.parametrize("lengths", [[3], [1, 2], [0, 1, 0, 2], [0], [0, 0], []])
def test_a_table_becomes_one_batch_of_its_rows_and_schema(lengths: list[int]) -> None:
    rows = iter(ROWS)
    given = [[next(rows) for _ in range(length)] for length in lengths]
    batches = [pa.RecordBatch.from_pylist(some, SCHEMA) for some in given]
    found = [in_one_batch(pa.Table.from_batches(batches, SCHEMA)), *([concatenated(batches)] if batches else [])]
    for batch in found:
        batch.validate(full=True)
        assert batch.schema.equals(SCHEMA, check_metadata=True)
        assert batch.to_pylist() == [row for some in given for row in some]


def test_rows_without_columns_are_counted() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert concatenated([batch, batch.slice(1)]).num_rows == 3
