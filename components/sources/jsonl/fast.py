"""Blocks of JSON lines read by pyarrow, as long as its result is certain to be what the lines say.

pyarrow accepts multiple objects on a line, objects that span lines, NaN, and integers beyond int64, which become
floats; it reads strings that look like times as times; it may drop nulls from lists; and it overflows the stack on
deeply nested values. Blocks where any of this is possible are left to `exact`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from headrace.common.exact_integers import EXACT_IN_FLOAT64
from headrace.common.record_batches import in_one_batch
from headrace.common.utf8 import is_utf8
from headrace.components.examples.arrow_columns import stacks_or_columns
from headrace.components.sources.nested import (
    DOT,
    KnownPaths,
    flat_columns,
    object_paths,
    parents_of,
    settled_type,
    with_text_for_times,
)
from headrace.components.sources.types import ARROW, LIST, Kind, listed

_NULL_IN_LIST = re.compile(rb"[\[,]\s*null")
NOTHING_KNOWN = KnownPaths()
_NEWLINE = 10
_MAX_DEPTH = 500
_FLOATS = {"float", "float" + LIST}
_SCALARS: Mapping[pa.DataType, Kind] = {
    pa.null(): "missing",
    pa.bool_(): "int",
    pa.int64(): "int",
    pa.float64(): "float",
    pa.string(): "string",
    pa.binary(): "bytes",
}


class BlockReader:
    """Reads block after block, each with the types of the earlier ones.

    kinds: the known kinds of columns; names: the columns to read, None for all; known: the paths of objects and of
    values; only: whether no other columns than those with a known kind are read. `objects` are the paths of the
    objects in the blocks that were read.
    """

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        names: Collection[str] | None = None,
        known: KnownPaths = NOTHING_KNOWN,
        *,
        only: bool = False,
    ) -> None:
        self._kinds, self._names, self._known = kinds, names, known
        self.objects: frozenset[str] = frozenset()
        self._keys = None if names is None else {*names, *parents_of(names)}
        self._only = only and not any(DOT in name for name in kinds)
        top = {name: kind for name, kind in kinds.items() if kind != "missing" and DOT not in name}
        self._types = {name: ARROW[kind] for name, kind in top.items()}

    def read(self, text: bytes) -> pa.RecordBatch | None:
        """The columns of a block with the types that pyarrow finds; None unless they are certain to be right."""
        try:
            return self._read_flat(text)
        except RecursionError:  # of types that are nested hundreds of times
            return None

    def _read_flat(self, text: bytes) -> pa.RecordBatch | None:
        text = _tidy(text)
        rows = text.count(b"\n") + (not text.endswith(b"\n"))
        if not _plain(text):
            return None
        batch = self._read(text, self._types, "ignore" if self._only else "infer")
        if batch is None:
            batch = self._read(text, {}, "infer")
        if batch is None or batch.num_rows != rows:
            return None
        flat = self._flat(batch)
        if flat is None or not self._certain(flat, holds_lists=_may_hold_lists(batch), text=text):
            return None
        types = ((field.name, settled_type(field.type)) for field in batch.schema)
        self._types.update({name: arrow for name, arrow in types if arrow is not None})
        self.objects |= object_paths(batch.schema)
        return flat

    def _read(self, text: bytes, types: Mapping[str, pa.DataType], others: str) -> pa.RecordBatch | None:
        """Read with these types, except that what looks like a time is a string."""
        batch = _parse(text, types, others)
        if batch is None:
            return None
        if self._keys is not None:
            batch = batch.select([name for name in batch.schema.names if name in self._keys])
        texts = {field.name: with_text_for_times(field.type) for field in batch.schema if _may_hold_times(field.type)}
        times = {name: arrow for name, arrow in texts.items() if arrow != batch.schema.field(name).type}
        return self._read(text, {**types, **times}, others) if times else batch

    def _flat(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The values in objects as columns; None if a name occurs twice, or an object takes the place of a value."""
        if not any(map(pa.types.is_nested, batch.schema.types)) and not self._known.objects:
            return batch
        if self._known.value_among(object_paths(batch.schema)) is not None:
            return None
        names, columns = flat_columns(batch, self._known.objects)
        if self._names is not None:
            wanted = [place for place, name in enumerate(names) if name in self._names]
            names, columns = [names[place] for place in wanted], [columns[place] for place in wanted]
        return batch_of(names, columns, batch.num_rows) if len({*names}) == len(names) else None

    def _certain(self, batch: pa.RecordBatch, *, holds_lists: bool, text: bytes) -> bool:
        kinds = [kind_of(field.type) for field in batch.schema]
        if holds_lists and _NULL_IN_LIST.search(text):
            return False
        floats = [number for number, kind in enumerate(kinds) if kind in _FLOATS]
        if (
            None in kinds
            or any(_is_suspect(stack.values) for stack in stacks_or_columns(batch.select(floats)))
            or not all(map(str.strip, batch.schema.names))
        ):
            return False
        return all(
            name not in self._kinds or _fits(kind, self._kinds[name]) or _holds_integers(column, self._kinds[name])
            for name, kind, column in zip(batch.schema.names, kinds, batch.columns, strict=True)
        )


def batch_of(names: Sequence[str], columns: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
    """The columns as a batch, which has rows even without columns."""
    if not names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(list(columns), list(names))


def kind_of(arrow: pa.DataType) -> Kind | None:
    """The kind of a column as pyarrow found it; None if no example can hold its values."""
    if not pa.types.is_list(arrow):
        return _SCALARS.get(arrow)
    inner = _SCALARS.get(arrow.value_type)
    return inner if inner in {None, "missing"} else listed(inner)


def cast_column(column: pa.Array, kind: Kind) -> pa.Array:
    """Cast a column from `BlockReader` to a kind that holds all its values."""
    if column.type == ARROW[kind]:
        return column
    if kind == "missing" or (pa.types.is_list(column.type) and not kind.endswith(LIST)):
        return pa.nulls(len(column), ARROW[kind])  # lists without values
    if kind.endswith(LIST) and not pa.types.is_list(column.type):
        valid = np.asarray(column.is_valid())
        offsets = np.concatenate([[0], np.cumsum(valid)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), column.drop_null())
        column = pc.if_else(column.is_valid(), lists, pa.scalar(None, lists.type))
    return column.cast(ARROW[kind], safe=False)  # integers beyond 2^53 as floats, as pyarrow reads them


def _parse(text: bytes, types: Mapping[str, pa.DataType], others: str) -> pa.RecordBatch | None:
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior=others
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    if not table.num_columns:
        return batch_of([], [], table.num_rows)
    return in_one_batch(table)


def _tidy(text: bytes) -> bytes:
    """The text without blank lines and without white space around lines."""
    letters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(letters == _NEWLINE)
    starts = np.concatenate([[0], ends + 1])
    starts = starts[starts < len(text)]
    if (letters[starts] == ord("{")).all() and b"\r" not in text:
        return text
    return b"\n".join(line for line in (raw.strip(b" \t\r") for raw in text.split(b"\n")) if line)


def _plain(text: bytes) -> bool:
    """Whether every line starts and ends like an object, and the text is UTF-8 without NUL and without deep nesting."""
    if not text or b"\0" in text:
        return False
    letters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(letters == _NEWLINE)
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    starts = np.concatenate([[0], ends[:-1] + 1])
    if not ((letters[starts] == ord("{")).all() and (letters[ends - 1] == ord("}")).all()):
        return False
    if text.count(b"[") + text.count(b"{") - len(ends) > _MAX_DEPTH:
        opening = (letters == ord("[")) | (letters == ord("{"))
        if np.add.reduceat(opening, starts, dtype=np.int32).max() > _MAX_DEPTH:
            return False
    return text.isascii() or is_utf8(text)


def _is_suspect(column: pa.Array) -> bool:
    """Whether a column has floats that JSON cannot express or that may have been integers beyond int64."""
    values = column.values if pa.types.is_list(column.type) else column
    if not pa.types.is_floating(values.type):
        return False
    numbers = values.drop_null().to_numpy(zero_copy_only=False)
    return not bool((np.abs(numbers) < 2.0**63).all())


def _fits(kind: Kind | None, declared: Kind) -> bool:
    if kind == "missing":
        return True
    if kind is None or declared == "missing" or (kind.endswith(LIST) and not declared.endswith(LIST)):
        return False
    own, wanted = kind.removesuffix(LIST), declared.removesuffix(LIST)
    return wanted in {"int": ("int", "float"), "float": ("float",), "string": ("string", "bytes")}.get(own, ("bytes",))


def _holds_integers(column: pa.Array, declared: Kind) -> bool:
    """Whether a column of floats is declared as integers, and all are: `12345.0`."""
    if declared != "int" or not pa.types.is_floating(column.type):
        return False
    whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), EXACT_IN_FLOAT64))
    return pc.all(whole).as_py() is not False


def _may_hold_times(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_nested(arrow) or pa.types.is_temporal(arrow))


def _may_hold_lists(batch: pa.RecordBatch) -> bool:
    return any(map(pa.types.is_nested, batch.schema.types))
