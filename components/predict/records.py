"""The rows of a request as the columns that a model reads, without the scan that a table of unknown types needs.

batch = record_batch([{"trip_miles": 3.2}, {}], description)        # None if a value needs a conversion
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.components.examples.arrow_columns import is_list
from headrace.components.predict.reading import READ_AS
from headrace.components.sources.types import ARROW
from headrace.trainer.description import ModelDescription


def record_batch(records: Sequence[Mapping[str, Any]], model: ModelDescription) -> pa.RecordBatch | None:
    """The features of the model, of its types, [rows]; what a row lacks is missing.

    Returns None unless each value, or each one in a list, is of the column's type as it stands or an integer among
    floats: for text where the model reads numbers, for example. Whoever converts such values says what is wrong with
    them, and the model itself refuses a list where it reads one value.
    """
    try:
        rows = pa.array([*records, dict.fromkeys(model.features)])  # so that no column is absent
    except (pa.ArrowException, ValueError, OverflowError):
        return None
    rows, columns = rows.slice(0, len(records)), dict[str, pa.Array]()
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        columns[field.name] = column
    found = [_of_type(columns[name], ARROW[READ_AS[model.types[name]]]) for name in model.features]
    if any(column is None for column in found):
        return None
    return pa.RecordBatch.from_arrays(found, names=list(model.features))


def _of_type(column: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    found = column.type
    if found == wanted:
        return column
    if is_list(found):
        return column if found.value_type == wanted and not column.flatten().null_count else None
    if pa.types.is_null(found) or (pa.types.is_integer(found) and pa.types.is_floating(wanted)):
        return column.cast(wanted, safe=False)
    return None
