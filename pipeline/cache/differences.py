"""Differences between the parts of two cache keys, and between what two runs found to read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.components.spans.manifest import Span, SpanManifest
from headrace.pipeline.cache_key import KeyParts

Kind = Literal["setting", "code", "version", "input", "executor", "image"]
MAX_LENGTH = 60
"""Characters shown of a value."""
LISTING = frozenset({"Spans", "PredictSpans", "ServingLog"})
"""The components that output what there is to read, as a manifest."""
MAX_NAMES = 3
"""Files or spans listed by name."""


@dataclass(frozen=True)
class Difference:
    """One cause of a cache miss. before, now: values as shown, empty if absent; producer: the component that made an
    input.
    """

    kind: Kind
    name: str
    before: str = ""
    now: str = ""
    producer: str = ""

    def __str__(self) -> str:
        if self.kind == "code":
            return f"code {self.name}: {'changed' if self.before and self.now else 'added' if self.now else 'removed'}"
        if self.before and self.now:
            return f"{self.kind} {self.name}: {self.before} → {self.now}"
        if self.now:
            return f"{self.kind} {self.name}: added, {self.now}"
        return f"{self.kind} {self.name}: removed, was {self.before}"


def differences(before: KeyParts, now: KeyParts) -> list[Difference]:
    """Inputs come first, as they are the most common cause, then settings, code and versions."""
    found = list(_inputs(before, now))
    if before.executor != now.executor:
        found.append(Difference("executor", now.executor, before.executor, now.executor))
    found += _values("setting", before.settings, now.settings)
    found += [
        Difference("code", name, before.sources.get(name, ""), now.sources.get(name, ""))
        for name in _unequal(before.sources, now.sources)
    ]
    return found + _values("version", before.versions, now.versions)


def _inputs(before: KeyParts, now: KeyParts) -> Iterator[Difference]:
    for name in sorted(before.inputs.keys() | now.inputs.keys()):
        then, here = before.inputs.get(name), now.inputs.get(name)
        if then is None or here is None or then.identity != here.identity:
            producer = here.producer if here else then.producer if then else ""
            yield Difference("input", name, then.identity if then else "", here.identity if here else "", producer)


def _values(kind: Kind, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    return [
        Difference(kind, name, _shown(before[name]) if name in before else "", _shown(now[name]) if name in now else "")
        for name in _unequal(before, now)
    ]


def _unequal(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    absent = object()
    return [name for name in sorted(before.keys() | now.keys()) if before.get(name, absent) != now.get(name, absent)]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def manifest_changes(before: str, now: str) -> list[str]:
    """The changes between two manifests of spans (JSON); empty if one of them is not a manifest."""
    try:
        then, here = map(SpanManifest.from_json, (before, now))
    except (ValueError, TypeError, KeyError):
        return []
    return list(_span_changes({span.name: span for span in then.spans}, {span.name: span for span in here.spans}))


def _span_changes(before: dict[str, Span], now: dict[str, Span]) -> Iterator[str]:
    new, gone = [name for name in now if name not in before], [name for name in before if name not in now]
    if new:
        yield f"new: {_listed(new)}"
    if gone:
        yield f"no longer read: {_listed(gone)}"
    for name in now.keys() & before.keys():
        yield from _file_changes(before[name], now[name])


def _file_changes(before: Span, now: Span) -> Iterator[str]:
    then, here = ({file.path: file for file in span.files} for span in (before, now))
    new, gone = [path for path in here if path not in then], [path for path in then if path not in here]
    if new:
        yield f"new files: {_listed(new)}"
    if gone:
        yield f"removed files: {_listed(gone)}"
    for path in (path for path in here if path in then and here[path] != then[path]):
        sizes = f"{then[path].size:,} bytes, now {here[path].size:,}"
        yield f"{path} changed ({sizes if then[path].size != here[path].size else 'same size'})"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
