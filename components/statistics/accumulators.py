"""Serializes an accumulator of statistics as an Arrow table with a row for each column of the data.

content = to_bytes(AccumulatorCombiner().compact(accumulator))  # an Arrow IPC stream, for `pyarrow.ipc.open_stream`
accumulator = from_bytes(content)                               # for `StatisticsCombiner.merge_accumulators`

The table holds only numbers, text and the states of sketches, so reading a file never executes anything in it. It
covers what `StatisticsCombiner` computes: no weights, and no statistics of features that a schema declares as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from tensorflow_data_validation.statistics.generators import basic_stats_generator as tfdv
from tensorflow_data_validation.types import FeaturePath
from tfx_bsl.sketches import KmvSketch, QuantilesSketch

from headrace.components.statistics.categories import ValueCounts

_LEVEL_COUNTS = (
    "num_non_missing",
    "min_num_values",
    "max_num_values",
    "total_num_values",
    "min_innermost_num_values",
    "max_innermost_num_values",
)
_LEVEL_SKETCHES = ("num_values_summary", "innermost_num_values_summary")
_NUMERIC_COUNTS = ("num_zeros", "num_nan")
_EXTREMES = ("min", "max", "finite_min", "finite_max")
_STRING_COUNTS = ("total_bytes_length", "invalid_utf8_count")
_NUMBERS: dict[str, Any] = {"int64": pa.int64(), "float32": pa.float32()}
"""The types of extremes by NumPy's names: merging and histograms depend on the type."""
_LEVEL = pa.struct(
    [
        ("is_top_nested", pa.bool_()),
        *((name, pa.int64()) for name in _LEVEL_COUNTS),
        *((name, pa.binary()) for name in _LEVEL_SKETCHES),
    ]
)
_ROWS = pa.schema(
    [
        ("path", pa.list_(pa.string())),
        ("type", pa.int32()),
        ("levels", pa.list_(_LEVEL)),
        *((name, pa.int64()) for name in _NUMERIC_COUNTS),
        *((f"extremes_{name}", pa.list_(type_)) for name, type_ in _NUMBERS.items()),
        ("pos_inf_count", pa.float64()),
        ("quantiles_summary", pa.binary()),
        ("count", pa.int64()),
        ("mean", pa.float64()),
        ("variance", pa.float64()),
        *((name, pa.int64()) for name in _STRING_COUNTS),
        ("counts_lowered", pa.int64()),
        ("counts_distinct", pa.binary()),
    ]
)
"""`counts_lowered` is null if the column has no `ValueCounts`."""
_VALUES = pa.schema([("values", pa.large_list(pa.large_binary())), ("counts", pa.large_list(pa.int64()))])
_SCHEMA = pa.schema([*_ROWS, *_VALUES])
_EXAMPLES = b"num_examples"
"""Key in the table's metadata: the number of examples, in decimal digits."""

_COMPRESSION = "zstd"
"""A sketch of numbers has four doubles for each of up to some thousand values, three of them nearly regular.
Compression shrinks it to a fifth, in a third of the time that making the table takes."""
_READ_ERRORS = (
    ArithmeticError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    pa.ArrowException,
)
"""What Arrow, tfx_bsl's sketches and conversions raise for wrong content, besides ValueError."""


def to_bytes(accumulator: list[Any]) -> bytes:
    """A compacted accumulator of `StatisticsCombiner` as an Arrow IPC stream."""
    basic, categories = accumulator
    counted = [categories.get(path) for path in basic]
    rows = [_row(path, stats, counts) for (path, stats), counts in zip(basic.items(), counted, strict=True)]
    without_counts = pa.RecordBatch.from_pylist(rows, schema=_ROWS)
    schema = _SCHEMA.with_metadata({_EXAMPLES: str(basic.num_examples).encode()})
    table = pa.RecordBatch.from_arrays(
        [*without_counts.columns, *map(_count_lists, _VALUES, [counted] * 2)], schema=schema
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=_COMPRESSION)) as stream:
        stream.write_batch(table)
    return bytes(sink.getvalue().to_pybytes())


def is_accumulator(content: bytes) -> bool:
    """Whether bytes start like the output of `to_bytes`."""
    try:
        with pa.ipc.open_stream(content) as stream:
            return bool(stream.schema.equals(_SCHEMA)) and _EXAMPLES in (stream.schema.metadata or {})
    except (OSError, pa.ArrowException):
        return False


def from_bytes(content: bytes) -> list[Any]:
    """The accumulator in the output of `to_bytes`. Raises ValueError for other bytes.

    The states of sketches are not validated, so compare a checksum of the content first.
    """
    if not is_accumulator(content):
        raise ValueError("not a table of accumulators")
    try:
        with pa.ipc.open_stream(content) as stream:
            table = stream.read_next_batch()
        table.validate(full=True)
        return _accumulator(table)
    except _READ_ERRORS as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _accumulator(table: pa.RecordBatch) -> list[Any]:
    basic, categories = tfdv._BasicAcctype(), {}
    basic.num_examples = int(table.schema.metadata[_EXAMPLES])
    for number, row in enumerate(table.select(_ROWS.names).to_pylist()):
        path = FeaturePath(row["path"])
        basic[path] = _basic_stats(row)
        if row["counts_lowered"] is not None:
            values, counts = (table[name][number].values for name in _VALUES.names)
            if values.null_count or counts.null_count:
                raise ValueError("a value or its count is missing")
            distinct = row["counts_distinct"]
            sketch = None if distinct is None else KmvSketch.Deserialize(distinct)
            found = pa.table([values, counts], ValueCounts().table.schema)
            categories[path] = ValueCounts(found, distinct=sketch, lowered=row["counts_lowered"])
    return [basic, categories]


def _row(path: FeaturePath, stats: Any, counts: ValueCounts | None) -> dict[str, Any]:
    common, numeric, moments = stats.common_stats, stats.numeric_stats, stats.numeric_stats.mean_var_accumulator
    return {
        "path": path.steps(),
        "type": common.type,
        "levels": [_level(level) for level in common.presence_and_valency_stats],
        **{name: getattr(numeric, name) for name in _NUMERIC_COUNTS},
        **_extremes(numeric),
        "pos_inf_count": numeric.pos_inf_count,
        "quantiles_summary": _state(numeric.quantiles_summary),
        "count": moments.count,
        "mean": moments.mean,
        "variance": moments.variance,
        **{name: getattr(stats.string_stats, name) for name in _STRING_COUNTS},
        "counts_lowered": None if counts is None else counts.lowered,
        "counts_distinct": None if counts is None or counts.distinct is None else counts.distinct.Serialize(),
    }


def _level(level: Any) -> dict[str, Any]:
    return {
        "is_top_nested": level.is_top_nested,
        **{name: getattr(level, name) for name in _LEVEL_COUNTS},
        **{name: _state(getattr(level, name)) for name in _LEVEL_SKETCHES},
    }


def _extremes(numeric: Any) -> dict[str, Any]:
    """The extremes by their type; none if the column has no numbers, as they are then infinite."""
    values = [getattr(numeric, name) for name in _EXTREMES]
    name = next((value.dtype.name for value in values if isinstance(value, np.generic)), None)
    if name is not None and name not in _NUMBERS:
        raise TypeError(f"numbers in tf.Examples are {' or '.join(_NUMBERS)}, not {name}")
    return {f"extremes_{name}": values} if name else {}


def _basic_stats(row: Mapping[str, Any]) -> Any:
    stats = tfdv._PartialBasicStats(has_weights=False, make_quantiles_sketch_fn=lambda: None)
    stats.common_stats.type = row["type"]
    stats.common_stats.presence_and_valency_stats = [_presence(level) for level in row["levels"]]
    numeric, moments = stats.numeric_stats, stats.numeric_stats.mean_var_accumulator
    _set_counts(numeric, _NUMERIC_COUNTS, row)
    for type_ in _NUMBERS:
        if (values := row[f"extremes_{type_}"]) is not None:
            for name, value in zip(_EXTREMES, np.array(values, type_), strict=True):
                setattr(numeric, name, value)
    numeric.pos_inf_count = float(row["pos_inf_count"])
    numeric.quantiles_summary = _sketch(row["quantiles_summary"])
    moments.count, moments.mean, moments.variance = int(row["count"]), float(row["mean"]), float(row["variance"])
    _set_counts(stats.string_stats, _STRING_COUNTS, row)
    return stats


def _presence(row: Mapping[str, Any]) -> Any:
    level = tfdv._PresenceAndValencyStats(lambda: None, bool(row["is_top_nested"]))
    _set_counts(level, _LEVEL_COUNTS, row)
    for name in _LEVEL_SKETCHES:
        setattr(level, name, _sketch(row[name]))
    return level


def _set_counts(target: Any, names: tuple[str, ...], row: Mapping[str, Any]) -> None:
    for name in names:
        setattr(target, name, int(row[name]))


def _count_lists(field: pa.Field, counted: list[ValueCounts | None]) -> pa.Array:
    """One column of all tables of counts, as one list for each table."""
    tables = [(counts or ValueCounts()).table for counts in counted]
    offsets = np.cumsum([0, *(table.num_rows for table in tables)])
    chunks = [chunk for table in tables for chunk in table[field.name].chunks]
    inner = field.type.value_type
    values = pa.concat_arrays(chunks) if chunks else pa.array([], inner)
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, type=field.type)


def _state(sketch: Any) -> bytes | None:
    return None if sketch is None else sketch.__getstate__()


def _sketch(state: bytes | None) -> Any:
    """The sketch with a state. Raises RuntimeError if the bytes are not a state."""
    if state is None:
        return None
    sketch = QuantilesSketch.__new__(QuantilesSketch)  # tfx_bsl restores a state only through __setstate__
    sketch.__setstate__(state)
    return sketch
