"""`says` fails for another place, another key word and another order."""

from __future__ import annotations

import pytest
from messages import says

MESSAGE = "c.yaml:2: a: set on lines 1 and 2;\n  keep one of them (a.b)"


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("c.yaml:2: a: …lines 1 and 2…keep one", True),
        ("…keep one", True),
        ("…(a.b)", True),
        ("c.yaml:3: a: …keep one", False),
        (".yaml:2: a: ", False),
        ("c.yaml:2: a: …lines 2 and 3", False),
        ("…keep one…lines 1", False),
        ("…(a-b)", False),
    ],
)
def test_place_and_key_words_are_found_in_order(expected: str, found: bool) -> None:
    assert says(MESSAGE, expected) is found
