"""Passwords in URLs: what must not be in a config, and what no message repeats.

A value that is a URL is read as a whole, so nothing within its password can hide it. Within a message a URL ends where
it seems to, and what follows it stays as it is.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_STARS = "***"
URL_START = re.compile(r"[a-z][a-z0-9+.-]+(?::[/\\]+|[/\\]{2,})", re.IGNORECASE)
"""Also with one slash, with backslashes or without the colon. A single letter is a drive of Windows."""
_USER_AND_PASSWORD = re.compile(r"([^:/@\\]*:).+(?=@)", re.DOTALL)
"""At the start of what follows the slashes."""
_USER_WITH_SLASH = re.compile(r"([^@]*?:)[^/\\@]+(?=@)(?!@sha256:[0-9a-f]{64})")
"""The digest of an image may follow its tag: `docker://registry.example/image:tag@sha256:...`."""

_BEFORE_HOST = re.compile(
    r"(://[^:/\s@]*:)"
    r"(?:[^\s/?#\"'<>\\]*|[^\s\"'<>\\]*|[^@\s]+)"  # up to the last at sign before the path, else up to any
    r"(?=@)"
)
"""What readers of URLs disagree on, an at sign or a slash within a password, is hidden by each of their readings."""
_WITH_SPACES = re.compile(
    r"(://[^:/\s@\"'<>\\\[]*:)(?=\S)(?!\d{1,5}(?![\w%-]))"  # no port, and no message that follows a bucket's name
    r"(?:(?!://)[^\n\"'<>\\@])+(?=@)"
)
_BELOW_A_SLASH = re.compile(r"(://[^\s@\"'<>]{1,200}?:)[^\s/@\"'<>\\]{1,200}(?=@)(?!@sha256:[0-9a-f]{64})")
_ENCODED = re.compile(r"(://[^\s/@?#\"'<>]*?%(?:25)*3a)[^\s/@?#\"'<>]+?(?=%(?:25)*40)", re.IGNORECASE)
_SETTING = re.compile(
    r"([?&;][^=&;\s\"'<>\\]*"
    r"(?:pass(?!file)|pwd|secret|token|signature|credential|(?:api|access|account)[_-]?key|(?<![^?&;_-])sig(?==|%3d))"
    r"[^=&;\s\"'<>\\]*(?:=|%3d)|(?:pwd|password)%3d)[^&;\s\"'<>\\]+",
    re.IGNORECASE,
)


def hides(url: str) -> bool:
    """Whether there is a password in a URL."""
    return hidden_in_url(url) != url


def hidden(text: str) -> str:
    """The text with `***` for each password in a URL."""
    for password in (_BEFORE_HOST, _WITH_SPACES, _BELOW_A_SLASH, _ENCODED, _SETTING):
        text = password.sub(rf"\1{_STARS}", text)
    return text


def hidden_in_url(url: str) -> str:
    """The same of a text that is one URL, whatever letters its user, password and host hold, escaped ones too."""
    start = URL_START.match(url.lstrip())
    if not start:
        return hidden(url)
    rest = url.lstrip()[start.end() :]
    host = re.split(r"[/\\?#]", rest, maxsplit=1)[0]
    for spelled in (rest, unquote(unquote(host)) + rest[len(host) :]):
        for login in (_USER_AND_PASSWORD, _USER_WITH_SLASH):
            if found := login.match(spelled):
                return hidden(f"{start[0]}{found[1]}{_STARS}{spelled[found.end() :]}")
    return hidden(url)


def hidden_from_url(text: str) -> str:
    """The same of a text that ends with a URL, such as an option and its value."""
    start = URL_START.search(text)
    return text[: start.start()] + hidden_in_url(text[start.start() :]) if start else hidden(text)
