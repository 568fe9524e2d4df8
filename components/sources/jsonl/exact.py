"""Lines of JSON read one by one: slowly, but with a location for each error, and with numbers exactly as written.

Whatever `fast` accepts is accepted here too, with the same values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from headrace.common.exact_integers import EXACT_IN_FLOAT64
from headrace.components.sources.nested import JsonObject, KnownPaths, flat_members, objects_in
from headrace.components.sources.types import LIST, Kind, listed, widest, with_article

_INT64 = range(-(2**63), 2**63)

ARRAY_HINT = "If the file is one JSON array of objects, set `kind: json` instead of `jsonl`"
LINE_HINT = "Each line must be one object: {...}"


class BadLineError(Exception):
    """A line that cannot be read: what is wrong with it, in which column, and what to do about it.

    data_hint: as of `BadRecordError`.
    """

    def __init__(self, what: str, column: str | None = None, hint: str = "", *, data_hint: str = "") -> None:
        self.what, self.column, self.hint, self.data_hint = what, column, hint, data_hint
        super().__init__(what)


class ConflictError(BadLineError):
    """A line that contradicts other lines, so that skipping it would not help.

    readable_as: the type by which the column of both can be read.
    """

    def __init__(self, what: str, column: str | None = None, hint: str = "", readable_as: str | None = None) -> None:
        super().__init__(what, column, hint)
        self.readable_as = readable_as


class ObjectError(BadLineError):
    """An object where other lines have a value."""


class NestedListError(BadLineError):
    """A list of lists, which no feature can hold: its column can be left out."""


class _Number(str):
    """A number with the digits that the file has, which a float may lose."""


class _Constant(str):
    """NaN, Infinity or -Infinity."""


@dataclass
class LineParser:
    """Parses lines and collects their values.

    declared: the kinds that values must fit; names: the columns to read, None for all; known: the paths of objects
    and of values; one_kind: reject numbers and strings in one column; kinds: the kinds found in the columns that are
    not declared; objects: the paths of the objects found; rows: the lines parsed so far.
    """

    declared: Mapping[str, Kind]
    names: Collection[str] | None = None
    known: KnownPaths = field(default_factory=KnownPaths)
    one_kind: bool = True
    kinds: dict[str, Kind] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, line: bytes) -> None:
        """Parse a line. If it raises BadLineError, nothing has changed."""
        members, objects = self._members(line)
        row, kinds = {}, {}
        for name, value in members.items():
            kind = self.declared.get(name)
            if kind is None:
                row[name] = value
                kinds[name] = self._joined(name, _kind(value, name))
            else:
                row[name] = as_kind(value, kind, name)
        self.kinds |= kinds
        self.objects |= objects
        self.rows.append(row)

    def note_kinds(self, line: bytes) -> None:
        """Take note of the kinds in a line, as far as it can be parsed."""
        try:
            members, objects = self._members(line)
        except BadLineError:
            return
        self.objects |= objects
        for name, value in members.items():
            self.kinds.setdefault(name, "missing")
            with suppress(BadLineError):
                self.kinds[name] = self._joined(name, _kind(value, name))

    def columns(self) -> dict[str, tuple[Kind, list[Any]]]:
        """The kind and the values of each column: one value per line, None where it is missing."""
        kinds = {**self.kinds, **self.declared}
        return {
            name: (
                kind,
                [
                    as_kind(row.get(name), kind, name) if name not in self.declared else row.get(name)
                    for row in self.rows
                ],
            )
            for name, kind in kinds.items()
        }

    def _members(self, line: bytes) -> tuple[dict[str, Any], frozenset[str]]:
        """The members to read, and the paths of objects. Raises BadLineError for a repeated key, and for an object in
        the place of a value.
        """
        members: dict[str, Any] = {}
        found = parse_line(line)
        if (column := self.known.value_among(found.objects)) is not None:
            raise ObjectError("is an object here, but not in other records", column)
        for name, value in found.members:
            if self.names is None:
                _check_name(name)
            if name in self.known.objects and (value is None or value == []):
                continue
            if self.names is None or name in self.names:
                if name in members:
                    raise BadLineError("the key occurs twice", name)
                members[name] = value
        return members, found.objects

    def _joined(self, name: str, kind: Kind) -> Kind:
        before = self.kinds.get(name, "missing")
        inner = {one.removesuffix(LIST) for one in (kind, before)} - {"missing"}
        if self.one_kind and "string" in inner and len(inner) > 1:
            what = ("a string", "a number") if kind.startswith("string") else ("a number", "a string")
            raise ConflictError(
                f"is {what[0]} here, but {what[1]} in other records",
                name,
                "Set `data.types.{column}: string` to read both as text",
                "string list" if kind.endswith(LIST) or before.endswith(LIST) else "string",
            )
        return widest([kind, before])


class ParsedLine(NamedTuple):
    """The one object on a line: the names of its columns and their values, and the paths of the objects in it."""

    members: list[tuple[str, Any]]
    objects: frozenset[str]


def parse_line(line: bytes) -> ParsedLine:
    """Parse the one object on a line. Raises BadLineError."""
    try:
        found = json.loads(
            line.decode(),
            object_pairs_hook=JsonObject,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Constant,
        )
        if isinstance(found, JsonObject):
            return ParsedLine([*flat_members(found)], frozenset(objects_in(found)))
    except UnicodeDecodeError:
        hint = "Convert the file to UTF-8, for example: iconv -f LATIN1 -t UTF-8"
        raise BadLineError("the text is not UTF-8", hint=hint) from None
    except json.JSONDecodeError as error:
        zeros = "; it contains zero bytes: is it UTF-16?" if b"\0" in line else ""
        hint = ARRAY_HINT if line.lstrip().startswith(b"[") else ""
        what = f"is not one JSON object: {error.msg} at character {error.pos + 1}{zeros}"
        raise BadLineError(what, hint=hint) from None
    except RecursionError:
        raise BadLineError("is nested too deeply") from None
    hint = ARRAY_HINT if isinstance(found, list) else LINE_HINT
    raise BadLineError(f"is not a JSON object, but {_type_name(found)}", hint=hint)


def _check_name(name: str) -> None:
    if not name.strip() or not _is_text(name):
        raise ConflictError(f"has a key that cannot name a column: {json.dumps(name)[:80]}", hint="Rename it")


def as_kind(value: Any, kind: Kind, name: str) -> Any:
    """The value as a Python object of that kind. Raises BadLineError if it does not fit."""
    if not isinstance(value, list) or isinstance(value, JsonObject):
        one = None if value is None else _scalar(value, kind.removesuffix(LIST), name)
        return [one] if one is not None and kind.endswith(LIST) else one
    if kind.endswith(LIST):
        return [_scalar(item, kind.removesuffix(LIST), name, "a list with ") for item in value]
    if value:
        data_hint = f"set `data.types.{{column}}: {listed(kind)}`" if kind != "missing" else ""
        raise BadLineError(f"is a list, not {with_article(kind)}", name, data_hint=data_hint)
    return None


def _kind(value: Any, name: str) -> Kind:
    """The kind of a value whose column has no declared type."""
    if isinstance(value, list) and not isinstance(value, JsonObject):
        inner = widest([*{_scalar_kind(item, name, "a list with ") for item in value}])
        mixed = {_scalar_kind(item, name, "") for item in value}
        if "string" in mixed and len(mixed) > 1:
            hint = "Set `data.types.{column}: string list` to read all of them as text"
            raise ConflictError("is a list of strings and other values", name, hint, "string list")
        return listed(inner) if inner != "missing" else inner
    return "missing" if value is None else _scalar_kind(value, name, "")


def _scalar_kind(value: Any, name: str, within: str) -> Kind:
    if isinstance(value, bool):
        return "int"
    if isinstance(value, _Number):
        return "float" if _number(value, name) is None else "int"
    if isinstance(value, str) and not isinstance(value, _Constant):
        _text(value, name)
        return "string"
    raise _unsupported(value, name, within)


def _scalar(value: Any, kind: str, name: str, within: str = "") -> Any:
    """The value as a Python object of a kind other than a list."""
    if value is None or isinstance(value, list | _Constant) or kind == "missing":
        raise _unsupported(value, name, within)
    if kind in {"string", "bytes"}:
        text = json.dumps(value) if isinstance(value, bool) else _text(str(value), name)
        return text.encode() if kind == "bytes" else text
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, _Number):
        found = _whole(value)
        if kind == "float":
            _number(value, name)
            return _float(value, name)
        if found is None:
            found = _of_float(value)
        if found is not None and found in _INT64:
            return found
    shown = value if isinstance(value, _Number) else json.dumps(value)
    what, fits = f"{within}{_shortened(shown)} is not {with_article(kind)}", isinstance(value, _Number)
    data_hint = f"set `data.types.{{column}}: {'float' if fits else 'string'}`"
    raise BadLineError(what, name, "Correct the value", data_hint=data_hint)


def _number(text: _Number, name: str) -> int | None:
    """The number if it is an int64; None if it is written as a float, or as an integer that a float holds exactly."""
    found = _whole(text)
    if found is None or found in _INT64:
        if found is None:
            _float(text, name)
        return found
    if Decimal(repr(_float(text, name))) != Decimal(text):
        raise BadLineError(
            f"{_shortened(text)} is beyond int64, and as a float it would lose digits",
            name,
            "Write it as a string",
            data_hint="set `data.types.{column}: string`",
        )
    return None


def _whole(text: _Number) -> int | None:
    """The integer that the text stands for, or None. An integer beyond int64 may become another one beyond int64."""
    if any(letter in text for letter in ".eE"):
        return None
    return int(text) if len(text) < 25 else int(text[:25])  # int() rejects thousands of digits


def _of_float(text: _Number) -> int | None:
    """The integer that is written as a float, such as `12345.0`, if a float holds it and its neighbors; else None."""
    found = float(text)
    return int(found) if found.is_integer() and abs(found) < EXACT_IN_FLOAT64 else None


def _float(text: _Number, name: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise BadLineError(f"{_shortened(text)} is beyond the largest float", name)
    return found


def _text(text: str, name: str) -> str:
    if not _is_text(text):
        raise BadLineError(f"{json.dumps(text)[:80]} contains half of a surrogate pair", name)
    return text


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text) if not text.isascii() else True


def _unsupported(value: Any, name: str, within: str) -> BadLineError:
    if isinstance(value, _Constant):
        return BadLineError(f"{within}{value} is not a JSON number", name, "Write null for a missing value")
    hint = "Only numbers, strings, booleans, null, objects, and lists of one of these, but not of lists or with null,"
    hint += " can be read; `data.columns` can exclude the rest"
    nested = within and isinstance(value, list) and not isinstance(value, JsonObject)
    return (NestedListError if nested else BadLineError)(f"is {within}{_type_name(value)}", name, hint)


def _type_name(value: Any) -> str:
    kinds = (
        (JsonObject, "an object"),
        (list, "a list"),
        (bool, "a boolean"),
        (_Constant, "a constant"),
        (_Number, "a number"),
    )
    return next((words for kind, words in kinds if isinstance(value, kind)), "null" if value is None else "a string")


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
