"""What differs between the parts of two cache keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.pipeline.cache.parts import KeyParts

Kind = Literal["setting", "code", "version", "input", "executor", "image"]
LONGEST = 60
"""Characters of a value that are shown."""


@dataclass(frozen=True)
class Difference:
    """One thing that decided a miss. `before` and `now`: as they are shown; empty for what is not there."""

    kind: Kind
    name: str
    before: str = ""
    now: str = ""
    producer: str = ""
    """Of an input: the component that made it."""

    def __str__(self) -> str:
        if self.kind == "code":
            return f"code {self.name}: {'changed' if self.before and self.now else 'added' if self.now else 'removed'}"
        if self.before and self.now:
            return f"{self.kind} {self.name}: {self.before} → {self.now}"
        if self.now:
            return f"{self.kind} {self.name}: new, {self.now}"
        return f"{self.kind} {self.name}: gone, {self.before}"


def differences(before: KeyParts, now: KeyParts) -> list[Difference]:
    """Inputs first, as they are mostly the cause, then settings, code and versions."""
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
        Difference(kind, name, shown(before[name]) if name in before else "", shown(now[name]) if name in now else "")
        for name in _unequal(before, now)
    ]


def _unequal(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    nowhere = object()
    return [name for name in sorted(before.keys() | now.keys()) if before.get(name, nowhere) != now.get(name, nowhere)]


def shown(value: Any) -> str:
    """A value in a few words."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
