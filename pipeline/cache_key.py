"""Cache keys of local runs, and the readable parts that they are made of.

A key is a digest. Its parts (settings, source modules, package versions and inputs) are stored with each run in
`runs/<run>/keys/<node>.json`, to be compared with those of other runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from headrace.common.digests import digest_text

FOLDER = "keys"
PREFIXES = ("custom_config.config.", "custom_config.")
"""Prefixes dropped from the names of settings, as they only say how the settings are passed to a component."""


@dataclass(frozen=True)
class KeyInput:
    """One input. identity: what represents it in the key, either its URI or a digest of its content."""

    producer: str
    output: str
    identity: str
    uri: str


@dataclass(frozen=True)
class KeyParts:
    """The parts of the key of one component in one run.

    settings: dotted name to value; sources: module to a digest of its meaning; versions: package to version; cacheable:
    whether the component may be reused; reuse: whether the run used the cache at all.
    """

    key: str
    executor: str
    settings: Mapping[str, Any]
    sources: Mapping[str, str]
    versions: Mapping[str, str]
    inputs: Mapping[str, KeyInput] = field(default_factory=dict)
    cacheable: bool = True
    reuse: bool = True

    def write(self, run_dir: Path, node: str) -> None:
        """Store them with a run."""
        folder = run_dir / FOLDER
        folder.mkdir(exist_ok=True)
        (folder / f"{node}.json").write_text(json.dumps(asdict(self), sort_keys=True), encoding="utf-8")

    @classmethod
    def read(cls, run_dir: Path, node: str) -> Self | None:
        """Read those of a run; None if there are none, as in runs of earlier versions."""
        try:
            fields = json.loads((run_dir / FOLDER / f"{node}.json").read_text(encoding="utf-8"))
            inputs = {key: KeyInput(**one) for key, one in fields.pop("inputs").items()}
            return cls(**fields, inputs=inputs)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def cache_key(node: str, digest: str, inputs: Mapping[str, list[str]], outside: str | None = None) -> str:
    """The cache key of a component in a local run.

    digest: `Node.digest`; inputs: input key to identities; outside: a digest of what it reads besides them.
    """
    return digest_text(node, digest, json.dumps(inputs, sort_keys=True), *(() if outside is None else (outside,)))


def flatten(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties by dotted names. Strings that hold JSON are parsed at any depth."""
    return {_short(".".join(names)): value for names, value in _leaves(properties, ())}


def _leaves(value: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    parsed = _parsed(value)
    if isinstance(parsed, Mapping) and parsed:
        for name, inner in parsed.items():
            yield from _leaves(inner, (*names, str(name)))
    elif isinstance(parsed, list) and any(isinstance(_parsed(item), Mapping | list) for item in parsed):
        for number, inner in enumerate(parsed):
            yield from _leaves(inner, (*names, str(number)))
    else:
        yield names, parsed


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _short(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name)
