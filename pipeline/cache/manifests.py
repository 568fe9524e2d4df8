"""What changed between what two runs found to read."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.components.example_gen.manifest import Manifest, Span

TOLD = 3
"""Files or spans that are named."""


def changes(before: str, now: str) -> list[str]:
    """Between two outputs of Spans; empty if one of them is none."""
    try:
        then, here = map(Manifest.from_json, (before, now))
    except (ValueError, TypeError, KeyError):
        return []
    return list(_changes({span.name: span for span in then.spans}, {span.name: span for span in here.spans}))


def _changes(before: dict[str, Span], now: dict[str, Span]) -> Iterator[str]:
    new, gone = [name for name in now if name not in before], [name for name in before if name not in now]
    if new:
        yield f"new: {_named(new)}"
    if gone:
        yield f"no longer read: {_named(gone)}"
    for name in now.keys() & before.keys():
        yield from _files(before[name], now[name])


def _files(before: Span, now: Span) -> Iterator[str]:
    then, here = ({file.path: file for file in span.files} for span in (before, now))
    new, gone = [path for path in here if path not in then], [path for path in then if path not in here]
    if new:
        yield f"new files: {_named(new)}"
    if gone:
        yield f"files gone: {_named(gone)}"
    for path in (path for path in here if path in then and here[path] != then[path]):
        sizes = f"{then[path].size:,} bytes, now {here[path].size:,}"
        yield f"{path} changed ({sizes if then[path].size != here[path].size else 'same size'})"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return ", ".join(names[:TOLD]) + more
