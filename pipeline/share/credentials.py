"""Passwords, keys and tokens: what a page that others see must not repeat.

A config has no business holding any, and what is read here has been through that check; but a user's own options may
hold anything.
"""

from __future__ import annotations

from typing import Any

from headrace.configs.credentials import HIDDEN, HIDEABLE, without


def stripped(value: Any) -> Any:
    """A tree of mappings and lists `without` credentials; also `***` for what stands under a name such as `api_key`.

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
