"""Odd inputs: what clients send to a model server by mistake, made of real requests.

for odd in odd_inputs(real, rows=10_000):
    caller.ask(signature.tensors(odd.inputs), fetches)

A model may answer or refuse them. It must not take the server down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.components.canary.signatures import Inputs, RealInputs

MANY = 10_000
"""Rows of the largest request."""
MANY_GENERATED = 1_000
"""The same if it generates texts: it holds the probabilities of all words for each row, in several orders."""
MANY_BYTES = 1 << 24
"""About how many bytes the largest request has at most: images are long."""
HUGE = 1_000_000
"""Letters of a huge text."""
SEVERAL = 1_000
"""Values in a feature with too many of them."""
_MANY_SECONDS, _MANY_VALUES = 20.0, 1 << 24
"""The largest request has fewer rows if it would take longer, or return more numbers."""


class OddInput(NamedTuple):
    """One odd input of a signature. what: in a few words, such as `an empty batch`."""

    what: str
    inputs: Inputs


def odd_inputs(made: RealInputs, rows: int) -> Iterator[OddInput]:
    """The odd inputs of a signature. made: its inputs for one real example or more; rows: of the largest request."""
    real = made.inputs
    yield OddInput("an empty batch", rows_of(real, slice(0)))
    yield OddInput(f"{rows:,} rows", {name: _repeated(array, rows) for name, array in real.items()})
    first = next(iter(real))
    if made.serialized:
        for what, change in _CHANGES.items():
            changed = [example for text in real[first][:2] for example in change(text)]
            yield OddInput(what, {first: texts(changed)})
        return
    yield OddInput("missing features", {name: array for name, array in real.items() if name != first})
    yield OddInput("wrong types", {name: _other_type(array) for name, array in real.items()})
    yield OddInput("features of different lengths", {**real, first: _repeated(real[first], len(real[first]) + 1)})
    if any(array.dtype == object for array in real.values()):
        huge = {name: _huge_texts(array) for name, array in rows_of(real, slice(1)).items()}
        yield OddInput("huge strings", huge)
    if any(not array.ndim for array in real.values()):
        for what, value in _ODD_OPTIONS.items():
            yield OddInput(what, {name: _other_option(array, value) for name, array in real.items()})


def rows_of(real: Inputs, rows: slice) -> Inputs:
    """Some rows of a request. An input of rank 0, such as a temperature, is for all of them."""
    return {name: array[rows] if array.ndim else array for name, array in real.items()}


def texts(values: Sequence[bytes]) -> NDArray[Any]:
    """Texts as an array [n] with dtype object."""
    made = np.empty(len(values), object)
    made[:] = values
    return made


def rows_of_many(made: RealInputs, seconds: float, width: int) -> int:
    """How many rows the largest request has: MANY, or fewer if they are large or slow.

    seconds: that the model takes for `made`; width: the numbers that it returns for each row.
    """
    real = made.inputs
    rows = len(next(iter(real.values())))
    size = sum(len(b"".join(array.ravel())) if array.dtype == object else array.nbytes for array in real.values())
    many = MANY_GENERATED if made.generates else MANY
    most = min(many, MANY_BYTES * rows // max(size, 1), int(_MANY_SECONDS * rows / max(seconds, 1e-9)))
    return max(1, min(most, _MANY_VALUES // max(width, 1)))


def _repeated(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """An array with more rows, or one without any as it is."""
    if not array.ndim:
        return array
    return np.asarray(np.resize(array, [rows, *array.shape[1:]]))


def _other_type(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == object:
        return np.zeros(array.shape, np.float32)
    return np.full(array.shape, b"text", object)


def _other_option(array: NDArray[Any], value: float) -> NDArray[Any]:
    """A number that is for all rows, with another value if its type has that."""
    fits = not array.ndim and (array.dtype.kind == "f" or (array.dtype.kind == "i" and float(value).is_integer()))
    return np.asarray(value, array.dtype) if fits else array


def _huge_texts(array: NDArray[Any]) -> NDArray[Any]:
    return np.full(array.shape, b"x" * HUGE, object) if array.dtype == object else array


def _empty(_: bytes) -> list[bytes]:
    return [b""]


def _each_left_out(text: bytes) -> list[bytes]:
    """One example for each feature, without that feature."""
    names = [*tf.train.Example.FromString(text).features.feature]
    return [_without(text, name) for name in names]


def _without(text: bytes, name: str) -> bytes:
    example = tf.train.Example.FromString(text)
    del example.features.feature[name]
    return bytes(example.SerializeToString())


def _other_kinds(text: bytes) -> list[bytes]:
    number, word = ("float_list", [1.5]), ("bytes_list", [b"x"])
    return [_changed(text, {"bytes_list": number, "float_list": word, "int64_list": word})]


def _huge(text: bytes) -> list[bytes]:
    return [_changed(text, {"bytes_list": ("bytes_list", [b"x" * HUGE])})]


def _many_values(text: bytes) -> list[bytes]:
    return [_changed(text, {kind: (kind, values * SEVERAL) for kind, values in _SOME.items()})]


def _extreme(text: bytes) -> list[bytes]:
    return [_changed(text, {kind: (kind, [value]) for kind, value in values.items()}) for values in _EXTREMES]


def _broken(text: bytes) -> list[bytes]:
    return [text[: len(text) // 2], b"not an example"]


def _changed(text: bytes, new: Mapping[str, tuple[str, list[Any]]]) -> bytes:
    """An example with other values. new: of each kind of feature that changes, the new kind and values."""
    example = tf.train.Example.FromString(text)
    for feature in example.features.feature.values():
        if (before := feature.WhichOneof("kind")) in new:
            kind, values = new[before]
            feature.Clear()
            getattr(feature, kind).value.extend(values)
    return bytes(example.SerializeToString())


_ODD_OPTIONS = {"options of 0": 0, "negative options": -1, "huge options": 2**31 - 1, "options that are NaN": np.nan}
"""The name and value of an option of `generate`, such as its length."""
_EXTREMES: tuple[dict[str, Any], ...] = (
    {"float_list": np.nan, "int64_list": np.iinfo(np.int64).min},
    {"float_list": np.inf, "int64_list": np.iinfo(np.int64).max},
    {"float_list": np.finfo(np.float32).min, "int64_list": -1},
)
_SOME: dict[str, list[Any]] = {"bytes_list": [b"x"], "float_list": [1.0], "int64_list": [1]}
_CHANGES: dict[str, Callable[[bytes], list[bytes]]] = {
    "no features at all": _empty,
    "missing features": _each_left_out,
    "wrong types": _other_kinds,
    "huge strings": _huge,
    "1,000 values in each feature": _many_values,
    "extreme numbers": _extreme,
    "broken examples": _broken,
}
