"""The names in serialized tf.Examples and tf.SequenceExamples, read without TensorFlow, which takes seconds to load.

Example {Features features = 1}; SequenceExample {Features context = 1; FeatureLists feature_lists = 2}; both maps are
repeated entries {string key = 1; Feature or FeatureList value = 2}; a FeatureList holds Features in field 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.components.example_gen.types import Kind

_KINDS: dict[int, Kind] = {1: "bytes", 2: "float", 3: "int"}
_FIXED = {1: 8, 5: 4}


class WireError(Exception):
    """Bytes that are no such message."""


@dataclass(frozen=True)
class Seen:
    """The features of a record, with the kind that their values are stored in; `lists`: whether it has feature lists;
    `uneven`: those lists of which a step has no value, or several.
    """

    context: dict[str, Kind]
    lists: dict[str, Kind]
    uneven: frozenset[str]


def look(record: bytes) -> Seen:
    """What is in a record. Raises WireError."""
    context: dict[str, Kind] = {}
    lists: dict[str, Kind] = {}
    uneven = set()
    for number, part in _fields(record):
        for entry in _of(part, 1):
            name, value = _entry(entry)
            if number == 1:
                context[name] = _feature(value)[0]
            elif number == 2:
                steps = [_feature(step) for step in _of(value, 1)]
                lists[name] = next((kind for kind, _ in steps if kind != "missing"), "missing")
                if any(count != 1 for _, count in steps):
                    uneven.add(name)
    return Seen(context, lists, frozenset(uneven))


def _entry(entry: bytes) -> tuple[str, bytes]:
    try:
        return b"".join(_of(entry, 1)).decode(), b"".join(_of(entry, 2))
    except UnicodeDecodeError as error:
        raise WireError(str(error)) from None


def _feature(feature: bytes) -> tuple[Kind, int]:
    """The kind of a feature's values, and how many there are."""
    kind: Kind = "missing"
    count = 0
    for number, values in _fields(feature):
        kind = _KINDS.get(number, kind)
        for _, value in _fields(values):
            packed = {"float": len(value) // 4, "int": sum(byte < 128 for byte in value)}
            count += packed.get(kind, 1) if value is not None else 1
    return (kind if count else "missing"), count


def _of(message: bytes, number: int) -> list[bytes]:
    return [value for own, value in _fields(message) if own == number]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Each field's number, and its bytes; those of a number that stands alone are its four bytes, or one byte."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        if tag & 7 == 0:
            _, place = _varint(message, place)
            yield tag >> 3, b"\0"
            continue
        length, place = _varint(message, place) if tag & 7 == 2 else (_FIXED.get(tag & 7), place)
        if length is None or place + length > len(message):
            raise WireError("a field does not end")
        yield tag >> 3, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    total = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        total |= (byte & 127) << shift
        if byte < 128:
            return total, place
    raise WireError("a number does not end")
