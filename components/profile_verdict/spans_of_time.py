"""Sets of moments, as sorted (begin, end) pairs that do not touch."""

from __future__ import annotations

from collections.abc import Iterable

Spans = list[tuple[int, int]]


def union(*parts: Iterable[tuple[int, int]]) -> Spans:
    """The moments that are in any."""
    merged: Spans = []
    for begin, end in sorted(span for part in parts for span in part):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def both(first: Spans, second: Spans) -> Spans:
    """The moments that are in both."""
    found, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin < end:
            found.append((begin, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(first: Spans, second: Spans) -> Spans:
    """The moments that are in the first and not in the second."""
    if not first:
        return []
    edges = [first[0][0], *(edge for span in second for edge in span), max(first[-1][1], first[0][0])]
    gaps = [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end]
    return both(first, gaps)


def length(spans: Spans) -> int:
    """How long they are together."""
    return sum(end - begin for begin, end in spans)
