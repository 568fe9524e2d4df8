"""From the features of a dataset, and its serialized examples, to columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.example_gen.types import Kind, listed
from headrace.configs.errors import DataError


@dataclass(frozen=True)
class Stored:
    """How a feature lies on disk: what its values are read as, and whether they are bits of uint64."""

    kind: Kind
    unsigned: bool


def stored(name: str, feature: Any, place: str) -> Stored:
    """How a feature lies on disk. Raises DataError for one that is no value and no list of values."""
    import tensorflow_datasets as tfds

    on_disk = feature.get_serialized_info()
    inner = feature.feature if isinstance(feature, tfds.features.Sequence) else feature
    if not isinstance(on_disk, tfds.features.TensorInfo):
        raise _unfit(name, place, "is made of features of its own")
    if len(on_disk.shape) > 1:
        raise _unfit(name, place, f"has the shape {tuple(on_disk.shape)}; a column is a value or one list of values")
    dtype = np.dtype(on_disk.np_dtype)
    kind: Kind
    if dtype.kind in "biu":
        kind = "int"
    elif dtype.kind == "f" or dtype.name == "bfloat16":
        kind = "float"
    elif isinstance(inner, tfds.features.Image):
        kind = "bytes"
    elif np.dtype(inner.np_dtype).kind in "OSU":
        kind = "string"
    else:
        raise _unfit(name, place, f"({type(inner).__name__}) is stored in an encoding of TensorFlow Datasets' own")
    return Stored(listed(kind) if on_disk.shape else kind, dtype == np.uint64)


def column(name: str, lists: pa.Array | None, how: Stored, rows: int, file: str) -> pa.Array:
    """A stored column from the lists of values that serialized examples hold; None where no example has any."""
    is_list = how.kind.endswith(" list")
    if lists is None or pa.types.is_null(lists.type):
        return pa.array([[]] * rows, pa.list_(pa.null())) if is_list else pa.nulls(rows)
    values = lists.flatten()
    if how.unsigned:
        values = pa.array(values.to_numpy(zero_copy_only=False).view(np.uint64))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int32)
    if is_list:
        offsets = np.append(np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32))
        return pa.ListArray.from_arrays(pa.array(offsets), values)
    if lengths.max(initial=0) > 1:
        raise DataError("an example has several values, but the dataset's features tell of one", file=file, column=name)
    places = np.cumsum(lengths) - 1
    return values.take(pa.array(places, mask=lengths == 0))


def columns(batch: pa.RecordBatch, how: Mapping[str, Stored], file: str) -> dict[str, pa.Array]:
    """The stored columns of a batch that tfx_bsl decoded."""
    there = dict(zip(batch.schema.names, batch.columns, strict=True))
    return {name: column(name, there.get(name), own, batch.num_rows, file) for name, own in how.items()}


def _unfit(name: str, place: str, what: str) -> DataError:
    return DataError(
        what, file=place, column=name, hint="`data.columns` can list the features to read without this one"
    )
