"""How images are named, as the distribution specification has it, and its reference implementation what may be before
the repository.
"""

from __future__ import annotations

import re

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
"""Of a registry, after its host."""
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
HOST = re.compile(
    r"(?:localhost|(?=[^/]*[.:])[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?"
)
"""A first part is a registry's host only where it has a dot or a colon, or is `localhost`."""
DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9A-Fa-f]{32,}")


def is_image(text: str) -> bool:
    """Whether it names an image: `registry.example:5000/team/headrace:1`, or `headrace@sha256:...`."""
    name, at, digest = text.partition("@")
    host, slash, path = name.partition("/")
    rest = path if slash and HOST.fullmatch(host) else name
    repository, colon, tag = rest.partition(":")
    return bool(
        REPOSITORY.fullmatch(repository) and (not colon or TAG.fullmatch(tag)) and (not at or DIGEST.fullmatch(digest))
    )
