"""The features of serialized tf.Examples and tf.SequenceExamples, parsed without TensorFlow, which loads slowly.

Example {Features features = 1}; SequenceExample {Features context = 1; FeatureLists feature_lists = 2}; both maps are
repeated entries {string key = 1; Feature or FeatureList value = 2}; a FeatureList holds Features in field 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.components.sources.types import Kind

_KINDS: dict[int, Kind] = {1: "bytes", 2: "float", 3: "int"}
_FIXED = {1: 8, 5: 4}


class WireError(Exception):
    """Bytes that are not a serialized message."""


@dataclass(frozen=True)
class RecordFeatures:
    """The features of a record with the kinds in which their values are stored.

    context: the features of a tf.Example, or the context features of a tf.SequenceExample; lists: the feature lists;
    ragged: the feature lists with a step that does not have exactly one value.
    """

    context: dict[str, Kind]
    lists: dict[str, Kind]
    ragged: frozenset[str]


def parse_features(record: bytes) -> RecordFeatures:
    """Parse a record. Raises WireError."""
    context: dict[str, Kind] = {}
    lists: dict[str, Kind] = {}
    ragged = set()
    for number, part in _fields(record):
        for entry in _of(part, 1):
            name, value = _entry(entry)
            if number == 1:
                context[name] = _feature(value)[0]
            elif number == 2:
                steps = [_feature(step) for step in _of(value, 1)]
                lists[name] = next((kind for kind, _ in steps if kind != "missing"), "missing")
                if any(count != 1 for _, count in steps):
                    ragged.add(name)
    return RecordFeatures(context, lists, frozenset(ragged))


def _entry(entry: bytes) -> tuple[str, bytes]:
    try:
        return b"".join(_of(entry, 1)).decode(), b"".join(_of(entry, 2))
    except UnicodeDecodeError as error:
        raise WireError(str(error)) from None


def _feature(feature: bytes) -> tuple[Kind, int]:
    """The kind and the number of a feature's values."""
    kind: Kind = "missing"
    count = 0
    for number, values in _fields(feature):
        kind = _KINDS.get(number, kind)
        for _, value in _fields(values):
            packed = {"float": len(value) // 4, "int": sum(byte < 128 for byte in value)}
            count += packed.get(kind, 1) if value is not None else 1
    return (kind if count else "missing"), count


def _of(message: bytes, number: int) -> list[bytes]:
    return [value for field, value in _fields(message) if field == number]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each field: for a fixed-width number its bytes, for a varint one byte."""
    offset = 0
    while offset < len(message):
        tag, offset = _varint(message, offset)
        if tag & 7 == 0:
            _, offset = _varint(message, offset)
            yield tag >> 3, b"\0"
            continue
        length, offset = _varint(message, offset) if tag & 7 == 2 else (_FIXED.get(tag & 7), offset)
        if length is None or offset + length > len(message):
            raise WireError("a field is truncated")
        yield tag >> 3, message[offset : offset + length]
        offset += length


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """The varint at an offset, and the offset after it."""
    total = 0
    for shift in range(0, 70, 7):
        if offset >= len(message):
            break
        byte = message[offset]
        offset += 1
        total |= (byte & 127) << shift
        if byte < 128:
            return total, offset
    raise WireError("a varint is truncated")
