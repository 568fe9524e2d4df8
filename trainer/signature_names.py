"""Names that TensorFlow takes for the inputs of a signature."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable


def signature_names(names: Iterable[str]) -> dict[str, str]:
    """The name of each column as an input: the same if it is made of letters, digits and `_` and starts with a letter.

    Any other character becomes `_`, another start gets `x_` before it, and what is then another column's name, or is
    `self` or a keyword of Python, gets `_` behind it: `pickup area (km)` is `pickup_area__km_`.
    """
    columns = list(names)
    spelled = {name: _spelled(name) for name in columns}
    taken = {name for name in columns if spelled[name] == name}
    inputs: dict[str, str] = {}
    for name in columns:
        plain = spelled[name]
        while plain != name and (plain in taken or _reserved(plain)):
            plain += "_"
        taken.add(plain)
        inputs[name] = plain
    return inputs


def _spelled(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    plain = plain if plain[:1].isalpha() else f"x_{plain}"
    return f"{plain}_" if _reserved(plain) else plain


def _reserved(name: str) -> bool:
    return keyword.iskeyword(name) or name == "self"
