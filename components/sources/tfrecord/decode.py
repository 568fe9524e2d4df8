"""Records decoded to columns: by the project's decoder or tfx_bsl's, and record by record where these give up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder

from headrace.components.examples.decode import decode
from headrace.components.examples.skips import Skips
from headrace.components.sources.tfrecord.frames import Frames
from headrace.components.sources.tfrecord.kinds import LENGTHS

_LISTS = "feature lists of a tf.SequenceExample"
_ARROW: Mapping[str, pa.DataType] = {"int": pa.int64(), "float": pa.float32(), "bytes": pa.binary()}
_EMPTY = pa.large_list(pa.null())


@dataclass(frozen=True)
class DecodedRecords:
    """Some records as columns, each a list array, or of type null if no record has a kind for it.

    frames: the records that could be decoded; lists: the names of the columns that come from feature lists; lengths:
    for each of these, under the name with the suffix LENGTHS, the number of values of each step.
    """

    frames: Frames
    columns: Mapping[str, pa.Array]
    lists: Collection[str] = ()
    lengths: Mapping[str, pa.Array] = field(default_factory=dict)

    def select(self, names: Collection[str] | None) -> DecodedRecords:
        """The columns with these names; None: all columns."""
        if names is None:
            return self
        columns = {name: column for name, column in self.columns.items() if name in names}
        lengths = {name: column for name, column in self.lengths.items() if name in names}
        return replace(self, columns=columns, lengths=lengths)


class Decoder:
    """Decodes tf.Examples, or tf.SequenceExamples. `skips`: counts undecodable records; None: they are errors."""

    def __init__(self, *, sequence: bool, skips: Skips | None) -> None:
        self._sequence, self._skips = sequence, skips
        self._examples = ExamplesToRecordBatchDecoder()
        self._sequences = SequenceExamplesToRecordBatchDecoder(_LISTS)

    def decode(self, frames: Frames, may_mix: Callable[[str], bool]) -> DecodedRecords:
        """Decode some records. Raises DataError for a column that mixes numbers and bytes, unless it may.

        may_mix: whether a column may have numbers in some records and bytes in others; then all of them become texts.
        """
        found = None if self._sequence else decode(frames.data, frames.starts, frames.ends)
        if found is None:
            try:
                coder = self._sequences if self._sequence else self._examples
                found = coder.DecodeBatch(frames.records())
            except RuntimeError:
                return self._one_by_one(frames, may_mix)
        columns = {name: found.column(name) for name in found.schema.names if name != _LISTS}
        if _LISTS not in found.schema.names:
            return DecodedRecords(frames, columns)
        lists = found.column(_LISTS)
        by_name = {lists.type.field(number).name: lists.field(number) for number in range(lists.type.num_fields)}
        return _with_lists(frames, columns, {name: _flattened_steps(column) for name, column in by_name.items()})

    def _one_by_one(self, frames: Frames, may_mix: Callable[[str], bool]) -> DecodedRecords:
        messages = [self._message(record) for record in frames.records()]
        valid = np.array([message is not None for message in messages])
        for index in np.flatnonzero(~valid):
            name = "tf.SequenceExample" if self._sequence else "tf.Example"
            error = partial(frames.error, int(index), f"is not a {name}")
            if self._skips is None:
                raise error()
            self._skips.add(error)
        frames = frames.filter(valid)
        rows = [message for message in messages if message is not None]
        if not self._sequence:
            return DecodedRecords(frames, _gather(frames, [row.features.feature for row in rows], may_mix))
        columns = _gather(frames, [row.context.feature for row in rows], may_mix)
        steps, lengths = _gather_steps([row.feature_lists.feature_list for row in rows])
        values = _gather(frames, steps, may_mix)
        return _with_lists(frames, columns, {name: (values[name], lengths[name]) for name in values})

    def _message(self, record: bytes) -> Any:
        import tensorflow as tf  # slow, and needed for few files

        try:
            return (tf.train.SequenceExample if self._sequence else tf.train.Example).FromString(record)
        except DecodeError:
            return None


def _with_lists(
    frames: Frames, context: Mapping[str, pa.Array], lists: Mapping[str, tuple[pa.Array, pa.Array]]
) -> DecodedRecords:
    """The context features and the feature lists, which are given as (values, lengths), as columns."""
    columns = {**context, **{name: values for name, (values, _) in lists.items()}}
    lengths = {name + LENGTHS: counts for name, (_, counts) in lists.items()}
    for name in (*lists, *lengths):
        others = context if name in lists else columns
        if name in others and not pa.types.is_null(others[name].type):
            what = "or one after it has two features that would become columns of the same name"
            hint = "A feature list becomes a column of its name and one with the suffix `.lengths`"
            raise frames.error(0, what, column=name, hint=hint).stopping()
    return DecodedRecords(frames, columns, lists, lengths)


def _flattened_steps(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The values of all steps of each record in one list, and the number of values of each step."""
    steps = column.flatten()
    counts = pa.nulls(len(steps)) if pa.types.is_null(steps.type) else pc.list_value_length(steps)
    lengths = _lists_like(column, counts.cast(pa.int64()).fill_null(0))
    if pa.types.is_null(steps.type):
        return pc.if_else(column.is_valid(), pa.scalar([], _EMPTY), pa.scalar(None, _EMPTY)), lengths
    each = np.concatenate([[0], np.cumsum(counts.fill_null(0).to_numpy(zero_copy_only=False))])
    offsets = pa.array(each[np.asarray(lengths.offsets)])
    mask = column.is_null() if column.null_count else None
    return pa.LargeListArray.from_arrays(offsets, steps.flatten(), mask=mask), lengths


def _lists_like(like: pa.Array, values: pa.Array) -> pa.Array:
    """Lists of these values, with the lengths of the lists in another column."""
    counts = pc.list_value_length(like).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=like.is_null() if like.null_count else None)


def _gather_steps(rows: list[Any]) -> tuple[list[dict[str, list[Any]]], dict[str, pa.Array]]:
    """The steps of each feature list of each record, and the numbers of their values."""
    gathered = [{name: list(steps.feature) for name, steps in row.items()} for row in rows]
    names = list(dict.fromkeys(name for row in gathered for name in row))
    lengths = {
        name: pa.array(
            [[len(_values(step)) for step in row[name]] if name in row else None for row in gathered],
            pa.large_list(pa.int64()),
        )
        for name in names
    }
    return gathered, lengths


def _gather(frames: Frames, rows: list[Any], may_mix: Callable[[str], bool]) -> dict[str, pa.Array]:
    """A list array for each name. Each row maps its names to a Feature, or to multiple ones to concatenate."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: _column(frames, name, [_features(row, name) for row in rows], may_mix) for name in sorted(names)}


def _features(row: Any, name: str) -> list[Any] | None:
    if name not in row:
        return None
    if isinstance(row[name], list):
        return row[name]
    return [row[name]] if row[name].WhichOneof("kind") else None


def _column(frames: Frames, name: str, rows: list[list[Any] | None], may_mix: Callable[[str], bool]) -> pa.Array:
    kinds = [_kinds(row) for row in rows]
    every = set().union(*kinds)
    if "bytes" in every and len(every) > 1 and not may_mix(name):
        first = next(kind for kind in kinds if kind)
        index = next(number for number, kind in enumerate(kinds) if kind - first or len(kind) > 1)
        raise mixed_error(frames, index, name)
    kind = "bytes" if "bytes" in every else next(iter(every), None)
    if kind is None and all(row is None for row in rows):
        return pa.nulls(len(rows))
    values = [_row(row, as_text=kind == "bytes") for row in rows]
    if every == {"int", "float"}:
        # The nearest double of an integer beyond 2^53, which pyarrow would refuse, as for JSON lines.
        values = [None if row is None else list(map(float, row)) for row in values]
        return pa.array(values, pa.large_list(pa.float64()))
    return pa.array(values, pa.large_list(_ARROW[kind or "bytes"]))


def _kinds(row: list[Any] | None) -> set[str]:
    """The kinds of the values of a row; features without values do not count."""
    names = (feature.WhichOneof("kind") for feature in row or () if _values(feature))
    return {name.removesuffix("_list").replace("int64", "int") for name in names}


def _row(row: list[Any] | None, *, as_text: bool) -> list[Any] | None:
    if row is None:
        return None
    return [
        value if isinstance(value, bytes) or not as_text else _text(value)
        for feature in row
        for value in _values(feature)
    ]


def _text(number: float) -> bytes:
    return (str(number) if isinstance(number, int) else str(np.float32(number))).encode()


def _values(feature: Any) -> Any:
    kind = feature.WhichOneof("kind")
    return getattr(feature, kind).value if kind else ()


def mixed_error(frames: Frames, index: int, name: str) -> Exception:
    """The error for the first record that mixes numbers and texts with the earlier ones."""
    return frames.error(
        index,
        "has a number where earlier records have bytes, or bytes where they have a number",
        column=name,
        hint="Set `data.types.{column}: string` to read both as text",
    ).stopping()
