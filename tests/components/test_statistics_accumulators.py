"""Accumulators as Arrow: what is read back gives the statistics that the accumulators themselves give."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from column_batches import batches
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx_bsl.sketches import KmvSketch, QuantilesSketch

from headrace.components.statistics import categories
from headrace.components.statistics.accumulators import from_bytes, to_bytes
from headrace.components.statistics.combine import Accumulator, StatisticsCombiner

STATISTICS = StatisticsCombiner()


def summed(of: Sequence[pa.RecordBatch]) -> Accumulator:
    total = STATISTICS.create_accumulator()
    for batch in (pa.RecordBatch.from_arrays([], []), *of):
        total = STATISTICS.add_input(total, batch)
    return STATISTICS.compact(total)


def merged(accumulators: Sequence[Accumulator]) -> DatasetFeatureStatisticsList:
    total = STATISTICS.create_accumulator()
    for one in accumulators:
        total = STATISTICS.merge_accumulators([total, one])
    return STATISTICS.extract_output(total)


def state(found: Any) -> Any:
    """All that an object holds, down to plain values: each attribute of TFDV's classes, whichever there are."""
    parts: Any = str(found)  # so that NaN equals itself, and a NumPy number the same number of Python's
    if isinstance(found, QuantilesSketch):
        parts = found.__getstate__()
    elif isinstance(found, KmvSketch):
        parts = found.Serialize()
    elif isinstance(found, categories.ValueCounts):
        parts = state([found.table.to_pydict(), found.pending, found.distinct, found.lowered])
    elif isinstance(found, dict):
        parts = {name: state(value) for name, value in found.items()}
    elif isinstance(found, np.ndarray):
        parts = found.tobytes()
    elif isinstance(found, list | tuple):
        parts = [state(value) for value in found]
    elif not isinstance(found, np.generic):
        names = getattr(found, "__slots__", None) or getattr(found, "__dict__", None)
        parts = {name: state(getattr(found, name, "unset")) for name in names} if names else parts
    return parts


@given(st.lists(st.lists(batches(), max_size=2), min_size=1, max_size=4))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_read_back_is_what_was_written(spans: list[list[pa.RecordBatch]]) -> None:
    accumulators = [summed(span) for span in spans]
    copies = [from_bytes(to_bytes(one)) for one in accumulators]
    assert list(map(state, copies)) == list(map(state, accumulators))
    independent = pickle.loads(pickle.dumps(accumulators))
    expected = merged(independent)
    assert merged(copies) == expected
    assert expected.datasets[0].num_examples == sum(batch.num_rows for span in spans for batch in span)


def test_counts_of_several_columns_keep_to_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them with a sketch of the values that it dropped, and one without any value."""
    monkeypatch.setattr(categories, "LIMIT", 50)
    many = pa.array([[f"{number}".encode()] for number in range(200)], pa.large_list(pa.large_binary()))
    few = pa.array([[b"a"], [b"b"]] * 100, pa.large_list(pa.large_binary()))
    none = pa.array([[]] * 200, pa.large_list(pa.large_binary()))
    accumulator = summed([pa.RecordBatch.from_arrays([few, none, many, few], ["few", "none", "many", "again"])])
    counts = from_bytes(to_bytes(accumulator)).categories
    assert counts["few"].table.to_pydict() == {"values": [b"a", b"b"], "counts": [100, 100]}
    assert counts["again"].table == counts["few"].table
    assert counts["none"].table.num_rows == 0
    assert counts["few"].distinct is None
    assert counts["many"].number() == 200
    assert state(from_bytes(to_bytes(accumulator))) == state(accumulator)


@pytest.fixture(scope="module")
def content() -> bytes:
    ints = pa.array([[1], [2, 3], None], pa.large_list(pa.int64()))
    texts = pa.array([[b"x"], [b"y"], [b"x"]], pa.large_list(pa.large_binary()))
    return to_bytes(summed([pa.RecordBatch.from_arrays([ints, texts], ["ints", "texts"])]))


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_part_of_the_content_is_refused(content: bytes, part: float) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        from_bytes(content[: int(part * len(content))])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("shortest", [None] * 2),
        ("quantiles", [b"x"] * 2),
        ("name", [None] * 2),
        ("name", ["twice"] * 2),
        ("mean", [None] * 2),
        ("distinct_counts", [[1]] * 2),
        ("distinct_values", [[None, b"x"]] * 2),
        ("counts_distinct", [b"x"] * 2),
    ],
)
def test_table_with_wrong_values_is_refused(content: bytes, column: str, value: list[Any]) -> None:
    with pa.ipc.open_stream(content) as stream:
        table, schema = stream.read_next_batch(), stream.schema
    changed = table.set_column(schema.get_field_index(column), column, pa.array(value, schema.field(column).type))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(changed)
    with pytest.raises(ValueError, match=r"\S"):
        from_bytes(sink.getvalue().to_pybytes())


def test_table_of_other_columns_is_refused() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("path", pa.string())])) as stream:
        stream.write_batch(pa.RecordBatch.from_pydict({"path": ["a"]}))
    with pytest.raises(ValueError, match="accumulators"):
        from_bytes(sink.getvalue().to_pybytes())
