"""Passwords in URLs: what must not be in a config, and what no message repeats."""

from __future__ import annotations

import re

_BEFORE_HOST = re.compile(r"(://[^:/\s]*:)[^@\s]+(?=@)")
"""As SQLAlchemy takes a URL apart: a password reaches from the first colon to an at sign."""
_SETTING = re.compile(
    r"([?&;][^=&;\s]*(?:pass(?!file)|pwd|secret|token)[^=&;\s]*(?:=|%3d)|(?:pwd|password)%3d)[^&;\s]+", re.IGNORECASE
)


def hides(url: str) -> bool:
    """Whether there is a password in a URL."""
    return hidden(url) != url


def hidden(text: str) -> str:
    """The text with `***` for each password in a URL."""
    return _SETTING.sub(r"\1***", _BEFORE_HOST.sub(r"\1***", text))
