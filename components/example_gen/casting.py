"""A column of a known type as the kind that the config declares for it."""

from __future__ import annotations

import pyarrow as pa

from headrace.components.example_gen.types import ARROW, Kind
from headrace.configs.errors import DataError


def cast_declared(column: pa.Array, kind: Kind, name: str) -> pa.Array:
    """The column as `kind`. Raises DataError, which names the setting, if a value does not fit."""
    try:
        return column.cast(ARROW[kind])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        hint = f"Declare another type in `data.types.{name}`"
        raise DataError(f"cannot be read as {kind}: {error}", column=name, hint=hint) from None
