"""The comparison of the predictions of new data in a local run with those in a run as compiled.

Both files have the same rows in the same order. A model that was trained twice predicts almost the same, so columns of
floats are compared as numbers, and all others must be equal.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import tensorflow as tf

from headrace.pipeline.kubeflow.verify.predictions import PredictionComparison


def compare_tables(local: Path, cluster: Path, tolerance: float) -> PredictionComparison:
    """Compare two artifacts with predictions. tolerance: relative, and absolute below 1."""
    (ours, theirs) = (sorted(folder.iterdir()) if folder.is_dir() else [] for folder in (local, cluster))
    if not ours or not theirs:
        return PredictionComparison(not ours and not theirs, f"{len(ours)} files here, {len(theirs)} there")
    one, other = _read(ours[0]), _read(theirs[0])
    if (one.column_names, one.num_rows) != (other.column_names, other.num_rows):
        return PredictionComparison(
            False, f"{one.num_rows:,} rows here, {other.num_rows:,} there; columns {one.column_names} here"
        )
    unequal = [name for name in one.column_names if _distance(one[name], other[name]) > tolerance]
    if unequal:
        return PredictionComparison(False, f"columns differ: {', '.join(unequal)}")
    largest = max((_distance(one[name], other[name]) for name in one.column_names), default=0.0)
    return PredictionComparison(True, f"{one.num_rows:,} rows within {largest:.1g}")


def _distance(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> float:
    """The largest difference of two numbers; infinite if other values, or the places of missing ones, differ."""
    if ours.equals(theirs):
        return 0.0
    if not (pa.types.is_floating(ours.type) and ours.is_null().equals(theirs.is_null())):
        return np.inf
    one, other = (column.drop_null().to_numpy().astype(np.float64) for column in (ours, theirs.cast(ours.type)))
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return np.inf
    finite = np.isfinite(one)
    return float(np.max(np.abs(one - other)[finite] / np.maximum(1, np.abs(one[finite])), initial=0.0))


def _read(file: Path) -> pa.Table:
    """The file as columns. Both files are read alike, so types need not be those that were written."""
    name = file.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        return pq.read_table(file)
    if name.endswith(".csv"):
        return pa_csv.read_csv(file)
    if name.endswith(".jsonl"):
        return pa_json.read_json(file)
    return pa.Table.from_pylist([_features(record.numpy()) for record in _records(file)])


def _records(file: Path) -> tf.data.TFRecordDataset:
    return tf.data.TFRecordDataset(str(file), "GZIP" if file.suffix == ".gz" else "")


def _features(example: bytes) -> dict[str, object]:
    """The values of an example by column: lists, but of numbers that are alone the number itself."""
    found: dict[str, object] = {}
    for name, feature in sorted(tf.train.Example.FromString(example).features.feature.items()):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        is_float = kind in (None, "float_list") and len(values) < 2
        found[name] = next(iter(values), None) if is_float else values
    return found
