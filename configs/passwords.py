"""Passwords in URLs: what must not be in a config, and what no message repeats."""

from __future__ import annotations

import re

_BEFORE_HOST = re.compile(
    r"(://[^:/\s@]*:)"
    r"(?:[^\s/?#\"'<>\\]*|[^\s\"'<>\\]*|[^@\s]+)"  # up to the last at sign before the path, else up to any
    r"(?=@)"
)
"""What readers of URLs disagree on, an at sign or a slash within a password, is hidden by each of their readings."""
_SETTING = re.compile(
    r"([?&;][^=&;\s\"'<>\\]*"
    r"(?:pass(?!file)|pwd|secret|token|signature|credential|(?:api|access|account)[_-]?key|(?<![^?&;_-])sig(?==|%3d))"
    r"[^=&;\s\"'<>\\]*(?:=|%3d)|(?:pwd|password)%3d)[^&;\s\"'<>\\]+",
    re.IGNORECASE,
)


def hides(url: str) -> bool:
    """Whether there is a password in a URL."""
    return hidden(url) != url


def hidden(text: str) -> str:
    """The text with `***` for each password in a URL."""
    return _SETTING.sub(r"\1***", _BEFORE_HOST.sub(r"\1***", text))
