"""The meaning of plain scalars: YAML 1.2's core schema, in which `no`, `on`, 12:30 and 2024-01-31 stay strings.

It is narrower than the core schema where that would silently change a string: numbers are decimal and have no leading
zeros, so `01` and `0x1F` are strings (as postcodes in a vocabulary should be).
"""

from __future__ import annotations

import math
import re

from yaml.nodes import Node
from yaml.resolver import BaseResolver

from headrace.configs.loading.tree import Scalar

PREFIX = "tag:yaml.org,2002:"
PATTERNS = {
    "null": re.compile(r"^(?:~|null|Null|NULL|)$"),
    "bool": re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
    "int": re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"),
    "float": re.compile(
        r"^(?:[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    "merge": re.compile(r"^<<$"),
}
FIRST = {"null": ["~", "n", "N", ""], "bool": list("tTfF"), "merge": ["<"]}
FIRST["int"] = FIRST["float"] = list("-+.0123456789")
"""The first characters of each kind of scalar, by which PyYAML finds the patterns."""


class Resolver(BaseResolver):
    """Assigns the tags above to plain scalars."""


for _tag, _pattern in PATTERNS.items():
    Resolver.add_implicit_resolver(PREFIX + _tag, _pattern, FIRST[_tag])


def value(node: Node) -> Scalar:
    """The scalar's value. Raises ValueError with a message for the user if a config cannot contain it."""
    kind, text = node.tag.removeprefix(PREFIX), str(node.value)
    if kind in ("str", "merge"):
        return checked_text(text)
    if kind not in PATTERNS:
        raise ValueError(f"the tag {tag_as_written(node.tag)} is not supported in a config; remove it")
    if not PATTERNS[kind].match(text):
        raise ValueError(f'"{text}" is tagged !!{kind} but is not one; remove the tag')
    if kind == "null":
        return None
    if kind == "bool":
        return text.casefold() == "true"
    return _integer(text) if kind == "int" else _number(text)


def tag_as_written(tag: str) -> str:
    """`!!set` for `tag:yaml.org,2002:set`."""
    return "!!" + tag.removeprefix(PREFIX) if tag.startswith(PREFIX) else tag


def checked_text(text: str) -> str:
    """The text itself. Raises ValueError if it cannot be encoded as UTF-8."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("the string contains half of a surrogate pair, not a character; write the whole character")
    return text


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        shown = text if len(text) <= 30 else f"{text[:30]}..."
        raise ValueError(f"the number {shown} does not fit in 64 bits; quote it if it is meant as a string")
    return int(text)


def _number(text: str) -> float:
    number = math.inf if text[-1].isalpha() else float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
