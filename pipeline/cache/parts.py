"""What a cache key is made of, in the open: settings, source files, versions of packages, inputs.

The key itself is a digest. So its parts are kept beside each run, in `runs/<run>/keys/<node>.json`, to be held against
those of other runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from headrace.pipeline.digest import digest_text

FOLDER = "keys"
DROPPED = ("custom_config.config.", "custom_config.")
"""Starts of the names of settings that only say how they travel."""


@dataclass(frozen=True)
class Input:
    """One input. `identity`: what stands for it in the key, its URI or a digest of its content."""

    producer: str
    output: str
    identity: str
    uri: str


@dataclass(frozen=True)
class KeyParts:
    """One component in one run. `settings`: dotted name to value; `sources`: module to a digest of its meaning.

    reuse: whether the run looked into the cache at all; cacheable: whether the component may be reused.
    """

    key: str
    executor: str
    settings: Mapping[str, Any]
    sources: Mapping[str, str]
    versions: Mapping[str, str]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    cacheable: bool = True
    reuse: bool = True

    def write(self, run_dir: Path, node: str) -> None:
        """Keep them with a run."""
        folder = run_dir / FOLDER
        folder.mkdir(exist_ok=True)
        (folder / f"{node}.json").write_text(json.dumps(asdict(self), sort_keys=True), encoding="utf-8")

    @classmethod
    def read(cls, run_dir: Path, node: str) -> Self | None:
        """Those kept with a run; None where there are none, as in runs of earlier versions."""
        try:
            told = json.loads((run_dir / FOLDER / f"{node}.json").read_text(encoding="utf-8"))
            inputs = {key: Input(**one) for key, one in told.pop("inputs").items()}
            return cls(**told, inputs=inputs)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def key_of(node: str, digest: str, inputs: Mapping[str, list[str]]) -> str:
    """The cache key of a local run. digest: `Node.digest`; inputs: what stands for each."""
    return digest_text(node, digest, json.dumps(inputs, sort_keys=True))


def flat(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties as dotted names; texts that hold JSON are opened, whatever their depth."""
    return {_short(".".join(names)): value for names, value in _leaves(properties, ())}


def _leaves(value: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    opened = _opened(value)
    if isinstance(opened, Mapping) and opened:
        for name, inner in opened.items():
            yield from _leaves(inner, (*names, str(name)))
    elif isinstance(opened, list) and any(isinstance(_opened(item), Mapping | list) for item in opened):
        for number, inner in enumerate(opened):
            yield from _leaves(inner, (*names, str(number)))
    else:
        yield names, opened


def _opened(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _short(name: str) -> str:
    return next((name.removeprefix(start) for start in DROPPED if name.startswith(start)), name)
