"""The label that a row needs in order not to be dropped.

required = RequiredColumn.of(config.label)      # with `missing: drop`, else None
rows = with_value(batch, required)

For one class per row, the first value of a list counts. For several, any value does, and a text is cut at the
separator first, so that `;` and ` ; ` have none; the Transform graph finds the same classes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import is_list, missing_of

_VISIBLE = r"[^ \t\n\v\f\r]"


class Label(Protocol):
    """The settings of `label:` that count here. Its other settings, whose code is in another module, read no data
    again.
    """

    @property
    def key(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def separator(self) -> str | None: ...
    @property
    def missing(self) -> str: ...


@dataclass(frozen=True)
class RequiredColumn:
    """The column without a value in which a row is dropped.

    several: whether a row may have several values; separator: what divides them in a text, None for nothing.
    """

    name: str
    several: bool = False
    separator: str | None = None

    @classmethod
    def of(cls, label: Label) -> RequiredColumn | None:
        """The label's column with `missing: drop`, else None."""
        return cls(label.key, label.kind == "multilabel", label.separator) if label.missing == "drop" else None

    @classmethod
    def from_json(cls, text: str | None) -> RequiredColumn | None:
        """What `to_json` wrote; None for none."""
        return cls(**json.loads(text)) if text else None

    def to_json(self) -> str:
        """The column as the parameter of a component, which is part of its cache key."""
        return json.dumps(asdict(self))

    def missing_in(self, column: pa.Array) -> NDArray[np.bool_]:
        """Which rows have no value: bool [rows]."""
        if not self.several:
            return missing_of(column)
        if not is_list(column.type):
            return self._blank(column)
        present = ~self._blank(column.flatten())  # without the values that a null list may have
        lengths = np.asarray(pc.list_value_length(column).fill_null(0))
        rows = np.repeat(np.arange(len(column)), lengths)
        return np.bincount(rows[present], minlength=len(column)) == 0

    def _blank(self, values: pa.Array) -> NDArray[np.bool_]:
        """Which of these values are missing, or texts that have nothing but separators and white space."""
        missing = missing_of(values)
        if self.separator is None or not _is_text(values.type):
            return missing
        rest = pc.replace_substring(values, self.separator, "")
        visible = pc.match_substring_regex(rest, _VISIBLE).fill_null(False)
        return missing | ~np.asarray(visible, np.bool_)


def with_value(batch: pa.RecordBatch, required: RequiredColumn | None) -> pa.RecordBatch:
    """The rows that have a value in the required column; all of them if there is none."""
    if required is None:
        return batch
    if required.name not in batch.schema.names:
        return batch.slice(0, 0)
    missing = required.missing_in(batch.column(required.name))
    return batch.filter(pa.array(~missing)) if missing.any() else batch


def _is_text(arrow: pa.DataType) -> bool:
    large = pa.types.is_large_string(arrow) or pa.types.is_large_binary(arrow)
    return bool(large or pa.types.is_string(arrow) or pa.types.is_binary(arrow))
