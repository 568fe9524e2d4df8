"""What a message says, whatever its wording: the place, and the key words.

assert says("c.yaml:2: a: set on lines 1 and 2; keep one of them", "c.yaml:2: a: …lines 1 and 2…keep")
"""

from __future__ import annotations

import re


def says(message: str, expected: str) -> bool:
    """Whether the message starts with the first part of `expected` and then has the others in this order.

    expected: parts between `…`; with `…` in front, the first may be anywhere too.
    """
    return re.match(".*".join(map(re.escape, expected.split("…"))), message, re.DOTALL) is not None
