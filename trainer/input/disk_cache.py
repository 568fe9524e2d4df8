"""Parsed examples on disk, as columns: written once, and then read as those that Transform writes.

rows = cached_on_disk(batches, packing, feature_spec)     # raises TrainingError if the disk is full
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer.input.mapped import MappedRows
from headrace.trainer.input.packing import Feature, Packing
from headrace.trainer.input.reading import without_autotune
from headrace.trainer.input.transformed_columns import ColumnsWriter, columns_schema, file_name

BLOCK = 4096
"""Examples that stay together when an epoch reads them in random order, before it shuffles them."""


def write_parsed(folder: Path, batches: tf.data.Dataset, packing: Packing) -> list[str]:
    """Write packed batches as columns; the files, which `map_parsed` opens. Raises OSError if the disk is full."""
    file, schema = str(folder / file_name(0, 1)), columns_schema(packing.parsed)
    if schema is None:
        raise AssertionError("Packing has features that are no columns")
    with ColumnsWriter(file, schema) as writer:
        for packed in without_autotune(batches):
            writer.add({name: _array(column) for name, column in packing.columns(packed).items()})
    return [file]


def map_parsed(files: list[str], feature_spec: Mapping[str, Feature]) -> MappedRows:
    """Map what `write_parsed` wrote."""
    return MappedRows(files, feature_spec, block=BLOCK, copy=True)


def cached_on_disk(batches: tf.data.Dataset, packing: Packing, feature_spec: Mapping[str, Feature]) -> MappedRows:
    """Write packed batches to a file of this process, and map it.

    The file has no name any more when this returns: the system frees it when it is not mapped any more, however the
    process ends. Raises TrainingError if the disk is full.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-input-", ignore_cleanup_errors=True) as folder:
        try:
            return map_parsed(write_parsed(Path(folder), batches, packing), feature_spec)
        except OSError as error:
            raise TrainingError(
                f"the parsed examples cannot be stored on the disk that holds {tempfile.gettempdir()}: {error}. Set"
                " `train.input.cache: none`, or set TMPDIR to a folder on a larger disk"
            ) from error


def _array(column: tf.Tensor | tf.RaggedTensor) -> pa.Array:
    """A column as ColumnsWriter takes it."""
    if isinstance(column, tf.RaggedTensor):
        return pa.LargeListArray.from_arrays(pa.array(column.row_splits.numpy()), _flat(column.values))
    values = _flat(column)
    size = math.prod(column.shape[1:])
    return pa.FixedSizeListArray.from_arrays(values, size) if column.shape.rank > 1 else values


def _flat(values: tf.Tensor) -> pa.Array:
    """All values: strings as large_binary, numbers without a copy."""
    flat: Any = values.numpy().reshape(-1)
    return pa.array(flat, pa.large_binary() if values.dtype == tf.string else None)
