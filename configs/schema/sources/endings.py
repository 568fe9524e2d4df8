"""The kinds of source that the endings of paths name, for commands that take a path without settings.

known_ending("trips/*.csv.gz")                      # ".csv"
kind_of_ending(".csv")                              # "csv"
source_from({"kind": "csv", "path": "trips.csv"})   # CsvSource(...)

Each kind lists its endings in its class, also one of an installed distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from headrace.common.errors import RunError
from headrace.common.names import join_names, join_or
from headrace.configs.schema.sources import SOURCES, SourceBase, SourceConfig

JSON = ".json"
"""The ending of files that are one array, or that have one object on each line: their start says which."""


class _Named(NamedTuple):
    """What an ending stands for. gzipped: whether `.gz` may follow it."""

    kind: str
    gzipped: bool


def known_ending(path: str) -> str | None:
    """The ending of a path that names a kind, without `.gz`; None if it has another."""
    path = path.rstrip("/")
    name = path.removesuffix(".gz")
    ending = max((ending for ending in _by_ending() if name.endswith(ending)), key=len, default=None)
    return None if ending is None or (name != path and not _by_ending()[ending].gzipped) else ending


def kind_of_ending(ending: str) -> str:
    """The kind for a known ending."""
    return _by_ending()[ending].kind


def known_endings() -> str:
    """All of them, for messages."""
    kinds = dict.fromkeys(named.kind for named in _by_ending().values() if named.gzipped)
    return f"{', '.join(_by_ending())}; those of {join_or(kinds)} may be followed by .gz"


def source_from(settings: Mapping[str, Any]) -> SourceConfig:
    """The source with these settings, which were found for a path. Raises RunError if they are not enough, or wrong."""
    try:
        return _adapter().validate_python({**settings})
    except ValidationError as refused:
        errors = refused.errors(include_url=False)
    kind = settings["kind"]
    missing = [str(error["loc"][-1]) for error in errors if error["type"] == "missing"]
    if missing:
        what = f"files of kind {kind} cannot be read by their path alone: `{kind}` needs {join_names(missing)}"
        raise RunError(f"{what}. Write a config with `data.source: {{kind: {kind}, ...}}` (docs/config.md)")
    raise RunError(f"the data cannot be read: {errors[0].get('ctx', {}).get('error', errors[0]['msg'])}")


@cache
def _adapter() -> TypeAdapter[SourceConfig]:
    return TypeAdapter(SourceConfig)


@cache
def _by_ending() -> dict[str, _Named]:
    """In the order of the registry, whose first kind with an ending gets it."""
    found: dict[str, _Named] = {}
    for kind, settings in SOURCES.kinds.items():
        if issubclass(settings, SourceBase):  # not one that cannot be used
            for ending in settings.endings:
                found.setdefault(ending, _Named(kind, settings.gzipped))
    return found
