"""Names that TensorFlow takes for the inputs of a signature."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable


def signature_names(names: Iterable[str]) -> dict[str, str]:
    """The name of each column as an input: the same if it is made of letters, digits and `_` and starts with a letter.

    Any other character becomes `_`, another start gets `x_` before it, and a name that is taken or is a word of Python
    gets `_` behind it: `pickup area (km)` is `pickup_area__km_`.
    """
    inputs: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = plain if plain[:1].isalpha() else f"x_{plain}"
        while plain in inputs.values() or keyword.iskeyword(plain) or plain == "self":
            plain += "_"
        inputs[name] = plain
    return inputs
