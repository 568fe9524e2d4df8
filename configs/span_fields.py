"""Placeholders for spans in the paths of the data."""

from __future__ import annotations

import re
from collections.abc import Iterable

PLACEHOLDER = re.compile(r"\{(?P<name>SPAN|VERSION|YYYY|MM|DD)(?::(?P<width>[1-9]))?\}")
DATE = frozenset({"YYYY", "MM", "DD"})


def placeholders(paths: str | Iterable[str]) -> frozenset[str]:
    """The names of the placeholders in a path, or in several."""
    paths = [paths] if isinstance(paths, str) else paths
    return frozenset(found["name"] for path in paths for found in PLACEHOLDER.finditer(path))


def what_is_wrong(path: str) -> str | None:
    """What is wrong with the placeholders of a path; None if nothing is."""
    names = placeholders(path)
    unknown = re.search(r"\{[^}]*\}?", PLACEHOLDER.sub("", path))
    if unknown:
        return f"`{unknown[0]}` is no placeholder; there are {{SPAN}}, {{VERSION}}, {{YYYY}}, {{MM}} and {{DD}}"
    if names & DATE and "SPAN" in names:
        return "has both {SPAN} and a date; one of them counts the spans"
    if names & DATE and not names >= DATE:
        missing = ", ".join(f"{{{name}}}" for name in ("YYYY", "MM", "DD") if name not in names)
        return f"the date lacks {missing}"
    if names == {"VERSION"}:
        return "{VERSION} is the version of a span: {SPAN} or a date is missing"
    return None
