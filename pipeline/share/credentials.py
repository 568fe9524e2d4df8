"""Passwords, keys and tokens: what a page that others see must not repeat.

A config has no business holding any, and what is read here has been through that check; but a user's own options may
hold anything.
"""

from __future__ import annotations

import re
from typing import Any

from configs.credentials import HIDEABLE, KEYS
from configs.passwords import hidden

HIDDEN = "***"
_BEARER = re.compile(r"(?<=\bBearer )[0-9A-Za-z._~+/-]{16,}=*")


def without(text: str) -> str:
    """The text with `***` for passwords in URLs, and for what has the form of a key or a token."""
    text = hidden(text)
    for shape in (*KEYS.values(), _BEARER):
        text = shape.sub(HIDDEN, text)
    return text


def stripped(value: Any) -> Any:
    """The same of a tree of mappings and lists; also `***` for what stands under a name such as `api_key`.

    A feature is a column's, which may have any name: what is said of it is shown.
    """
    if isinstance(value, dict):
        return {
            without(key) if isinstance(key, str) else key: _hidden(item)
            if HIDEABLE.search(str(key)) and not (isinstance(item, dict) and "column" in item)
            else stripped(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [stripped(item) for item in value]
    return without(value) if isinstance(value, str) else value


def _hidden(value: Any) -> Any:
    """Nothing of it but whether it is set, and the names of a mapping."""
    if isinstance(value, dict):
        return {without(key) if isinstance(key, str) else key: _hidden(item) for key, item in value.items()}
    return HIDDEN if value and value is not True else value
