"""Replay: raw examples through the exported model's preprocessing, against what Transform wrote of the same examples.

pairs = read_pairs(examples, transformed, transform_graph, "eval", count=1000)
verdict = replay(pairs, ask)        # ask: serialized examples → the features that the model computes of them, by name

The model in training saw what Transform wrote; in service it sees what the signature computes. A value that differs is
training/serving skew by code: a random operation, a clock, a file that has changed, or an export of another graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from numpy.typing import NDArray
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples, TransformGraph

from headrace.common.names import join_names
from headrace.components.canary.exported_model import ExportedModel
from headrace.components.canary.inputs import texts
from headrace.components.canary.signatures import Inputs
from headrace.components.canary.verdict import ReplayedFeature, ReplayedRow, ReplayVerdict
from headrace.components.examples.tfexample.encode import encode
from headrace.components.transform.shards import records_of_split
from headrace.trainer.input.transformed_columns import column_files, open_columns

TOLERANCE = 1e-4
"""Of numbers, relative to the value or to a typical one of its feature, whichever is larger."""
REQUEST_BYTES, MOST_BYTES = 1 << 24, 1 << 28
"""About how many bytes of raw and transformed examples are compared at once, and in all: images are long."""
REQUEST_ROWS = 1000
SHOWN_ROWS, SHOWN_VALUES = 3, 3
"""Rows of each feature, and values of each row, that the verdict shows."""
_LONGEST = 40

Ask = Callable[[NDArray[Any]], Inputs | str]
"""Serialized examples [n] to features by name, or why there is no answer."""


@dataclass(frozen=True)
class Pairs:
    """Raw examples, and what Transform wrote of each. why_not: why there are none. spec: of the transformed ones."""

    raw: Sequence[bytes] = ()
    transformed: Sequence[bytes] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    why_not: str = ""

    def requests(self) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """The number of the first row, and the raw and transformed examples of one request."""
        first = size = 0
        for row, (raw, transformed) in enumerate(zip(self.raw, self.transformed, strict=True)):
            size += len(raw) + len(transformed)
            if size > REQUEST_BYTES or row + 1 - first == REQUEST_ROWS or row + 1 == len(self.raw):
                yield first, texts(self.raw[first : row + 1]), texts(self.transformed[first : row + 1])
                first, size = row + 1, 0


def read_pairs(
    examples: Examples, transformed: Examples | None, graph: TransformGraph | None, split: str, count: int
) -> Pairs:
    """The first examples of a split, at most `count`, in both forms; Transform keeps shards and order."""
    if transformed is None or graph is None:
        return Pairs(why_not="Transform wrote no transformed examples")
    if split not in artifact_utils.decode_split_names(transformed.split_names):
        return Pairs(why_not=f"Transform did not transform the split {split}")
    if not transformed.has_custom_property("rows"):  # of our Transform alone
        return Pairs(
            why_not="a Transform other than Headrace's wrote the transformed examples, so their order is unknown"
        )
    raw, features, size = [], [], 0
    spec = tft.TFTransformOutput(graph.uri).transformed_feature_spec()
    both = itertools.zip_longest(records_of_split(examples, split), _transformed(transformed, split, spec))
    for one, other in itertools.islice(both, count):
        if one is None or other is None:
            return Pairs(why_not=f"the split {split} has more raw examples than transformed ones, or fewer")
        raw.append(one)
        features.append(other)
        size += len(one) + len(other)
        if size > MOST_BYTES:
            break
    return Pairs(raw, features, spec, "" if raw else f"the split {split} has no examples")


def _transformed(examples: Examples, split: str, spec: Mapping[str, Any]) -> Iterator[bytes]:
    """The transformed examples of a split, serialized, whichever form they are stored in."""
    files = column_files(artifact_utils.get_split_uri([examples], split))
    if not files:
        yield from records_of_split(examples, split)
    for file in files:
        rows = open_columns(file)
        keys = [getattr(spec[name], "value_key", name) for name in rows.column_names]
        schema = pa.schema([(key, _type(kind)) for key, kind in zip(keys, rows.schema.types, strict=True)])
        for batch in rows.rename_columns(keys).to_batches(max_chunksize=REQUEST_ROWS):
            own = batch.take(pa.array(range(batch.num_rows)))  # a cast of lists casts those of the whole file
            yield from encode(own.cast(schema)).to_pylist()


def _type(kind: pa.DataType) -> pa.DataType:
    """The type of a stored column as `encode` takes it."""
    if kind.num_fields:
        return pa.list_(_type(kind.value_type))
    if pa.types.is_int32(kind):
        return pa.int64()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def replay_model(model: ExportedModel, pairs: Pairs, signature: str = "transform_features") -> ReplayVerdict:
    """The verdict on the features that a signature computes of serialized examples."""
    label = None if model.description is None else model.description.label
    labels = () if label is None else (*label.columns, *([label.weight] if label.weight else []))
    return replay(pairs, partial(model.outputs, signature), labels)


def replay(pairs: Pairs, ask: Ask, labels: Collection[str] = ()) -> ReplayVerdict:
    """The verdict. Numbers may differ by TOLERANCE; whole numbers and texts must be equal.

    labels: the label and its weight, which are compared too, but only count as features where they differ.
    """
    if pairs.why_not:
        return ReplayVerdict(skipped=pairs.why_not)
    found: dict[str, _Differences] = {}
    first_answer: Inputs = {}
    for first, raw, transformed in pairs.requests():
        answer = ask(raw)
        if isinstance(answer, str):
            return ReplayVerdict(skipped=answer)
        first_answer = first_answer or answer
        try:
            parsed = tf.io.parse_example(tf.constant(transformed, tf.string), dict(pairs.spec))
        except tf.errors.InvalidArgumentError:
            return ReplayVerdict(skipped="the transformed examples do not fit the specification of Transform's graph")
        if not parsed.keys() & answer.keys():
            returns = f"the signature returns {join_names(answer)}"
            return ReplayVerdict(skipped=f"{returns}, and Transform wrote {join_names(parsed)}: no feature is in both")
        for name in parsed.keys() & answer.keys():
            found.setdefault(name, _Differences()).add(first, _Rows.of(parsed[name]), answer[name])
    differing = {name: one for name, one in found.items() if one.rows}
    random = _random(differing, first_answer, ask, next(pairs.requests())[1]) if differing else set()
    features = [one.verdict(name, name in random) for name, one in differing.items()]
    return ReplayVerdict(
        examples=len(pairs.raw),
        features=len(found.keys() - (set(labels) - differing.keys())),
        differing=tuple(sorted(features, key=lambda one: (-one.rows, one.name))),
        only_transformed=tuple(sorted(pairs.spec.keys() - found.keys())),
        only_served=tuple(sorted(first_answer.keys() - found.keys())),
    )


class _Rows(NamedTuple):
    """A feature's values, one row after the other, and their number in each row. fixed: all rows are equally long."""

    values: NDArray[Any]
    lengths: NDArray[np.int64]
    fixed: bool

    @classmethod
    def of(cls, tensor: tf.Tensor | tf.RaggedTensor | tf.SparseTensor) -> _Rows:
        if isinstance(tensor, tf.SparseTensor):
            lengths = np.bincount(tensor.indices.numpy()[:, 0], minlength=int(tensor.dense_shape[0]))
            return cls(tensor.values.numpy(), lengths, fixed=False)
        if isinstance(tensor, tf.RaggedTensor):
            merged = tensor.merge_dims(1, -1) if (tensor.shape.rank or 2) > 2 else tensor
            return cls(merged.flat_values.numpy(), merged.row_lengths().numpy(), fixed=False)
        array = tensor.numpy()
        return cls(array.ravel(), np.full(len(array), array[:1].size), fixed=True)


class _Differences:
    """What was found of one feature so far."""

    def __init__(self) -> None:
        self.rows = 0
        self._shown: list[ReplayedRow] = []

    def add(self, first: int, transformed: _Rows, served: NDArray[Any]) -> None:
        """Compare the rows of one request. first: the number of its first row."""
        if served.shape[:1] != transformed.lengths.shape:
            served = served[:0]
        rows = len(transformed.lengths)
        served = served.reshape(len(served), -1) if served.size else np.empty([rows, 0], served.dtype)
        width = max(served.shape[1], int(transformed.lengths.max(initial=0)))
        in_transformed = np.arange(width) < transformed.lengths[:, None]
        in_served = np.broadcast_to(np.arange(width) < served.shape[1], in_transformed.shape)
        before = np.zeros([rows, width], transformed.values.dtype)
        before[in_transformed] = transformed.values
        now = np.zeros([rows, width], served.dtype)
        now[:, : served.shape[1]] = served
        padded = in_served & ~in_transformed & (not transformed.fixed) & _is_padding(now)
        same = (in_transformed & in_served & _equal(before, now)) | padded | ~(in_transformed | in_served)
        wrong = np.flatnonzero(~same.all(axis=1))
        self.rows += len(wrong)
        for row in wrong[: SHOWN_ROWS - len(self._shown)]:
            positions = np.flatnonzero(~same[row])[:SHOWN_VALUES]
            self._shown.append(
                ReplayedRow(
                    row=first + int(row) + 1,
                    place=int(positions[0]) + 1 if width > 1 else None,
                    transformed=_text(before[row], in_transformed[row], positions),
                    served=_text(now[row], in_served[row], positions),
                )
            )

    def verdict(self, name: str, random: bool) -> ReplayedFeature:
        return ReplayedFeature(name=name, rows=self.rows, random=random, shown=tuple(self._shown))


def _random(differing: Mapping[str, Any], before: Inputs, ask: Ask, raw: NDArray[Any]) -> set[str]:
    """The features whose values differ between two equal requests."""
    again = ask(raw)
    if isinstance(again, str):
        return set()
    return {
        name
        for name in differing
        if again[name].shape != before[name].shape or not _equal(before[name], again[name]).all()
    }


def _equal(before: NDArray[Any], now: NDArray[Any]) -> NDArray[np.bool_]:
    """Where two arrays of one shape have the same values."""
    if (before.dtype == object) != (now.dtype == object):
        return np.zeros(before.shape, bool)
    if before.dtype == object or not any(np.issubdtype(each.dtype, np.inexact) for each in (before, now)):
        return np.asarray(before == now)
    a, b = before.astype(np.float64), now.astype(np.float64)
    sizes = np.abs(a[np.isfinite(a) & (a != 0)])
    typical = float(np.median(sizes)) if sizes.size else 0.0
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= TOLERANCE * np.maximum(np.maximum(np.abs(a), np.abs(b)), typical)
    finite = np.isfinite(a) & np.isfinite(b)
    return np.where(finite, near, (a == b) | (np.isnan(a) & np.isnan(b)))


def _is_padding(now: NDArray[Any]) -> NDArray[np.bool_]:
    """Where exports pad the values of a shorter row: with -1 or 0, nothing, or NaN."""
    if now.dtype == object:
        return np.asarray(now == b"")
    found = (now == 0) | (now == -1)
    return np.asarray(found | np.isnan(now) if np.issubdtype(now.dtype, np.inexact) else found)


def _text(values: NDArray[Any], there: NDArray[np.bool_], positions: NDArray[np.int64]) -> str:
    shown = [shown_value(values[place]) for place in positions if there[place]]
    return ", ".join(shown) or "no value"


def shown_value(value: Any) -> str:
    """A number or a text of an answer, as a verdict shows it."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        return f'"{text}"' if len(text) <= _LONGEST else f'"{text[:_LONGEST]}..."'
    return f"{value:.7g}" if isinstance(value, np.floating) else str(value)
