"""What a plain scalar means: YAML 1.2's core schema, so that `no`, `on`, 12:30 and 2024-01-31 stay the texts they are.

Narrower than the core schema where that would change a text silently: numbers are decimal and have no leading zeros,
so `01` and `0x1F` are texts (think of postcodes in a vocabulary).
"""

from __future__ import annotations

import math
import re

from yaml.nodes import Node
from yaml.resolver import BaseResolver

from headrace.configs.tree import Scalar

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


class Resolver(BaseResolver):
    """Gives plain scalars the tags above."""


for _tag, _pattern in PATTERNS.items():
    Resolver.add_implicit_resolver(PREFIX + _tag, _pattern, FIRST[_tag])


def value(node: Node) -> Scalar:
    """The scalar's value. Raises ValueError, with a reason in plain words, for what no config can hold."""
    kind, text = node.tag.removeprefix(PREFIX), str(node.value)
    if kind in ("str", "merge"):
        return character_text(text)
    if kind not in PATTERNS:
        raise ValueError(f"the tag {tag_as_written(node.tag)} has no meaning in a config; remove it")
    if not PATTERNS[kind].match(text):
        raise ValueError(f'"{text}" is marked !!{kind} but is none; remove the mark')
    if kind == "null":
        return None
    if kind == "bool":
        return text.casefold() == "true"
    return _whole(text) if kind == "int" else _number(text)


def tag_as_written(tag: str) -> str:
    """`!!set` for `tag:yaml.org,2002:set`."""
    return "!!" + tag.removeprefix(PREFIX) if tag.startswith(PREFIX) else tag


def character_text(text: str) -> str:
    """The text itself. Raises ValueError for what no UTF-8 file can hold."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("the text holds half of a surrogate pair, which is no character; write the whole character")
    return text


def _whole(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        shown = text if len(text) <= 30 else f"{text[:30]}..."
        raise ValueError(f"the number {shown} does not fit in 64 bits; if it is meant as a text, put quotes around it")
    return int(text)


def _number(text: str) -> float:
    number = math.inf if text[-1].isalpha() else float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number; only finite ones are allowed")
    return number
