"""What installed distributions add to Headrace, found through their entry points.

Verbs are imported when they are used; the classes of kinds, which are light, whenever a config is read.

    [project.entry-points."headrace.sources"]
    access_log = "access_log.config:AccessLogSource"

The groups are SOURCES, FEATURES, MODELS and VERBS. The name of an entry point is the kind or the verb that it adds. A
group that is none of them, but starts like them, is logged as a warning, because nothing would ever look into it.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.errors import RunError
from headrace.common.names import did_you_mean_or_list

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger(__name__)

SOURCES, FEATURES, MODELS, VERBS = "headrace.sources", "headrace.features", "headrace.models", "headrace.verbs"
GROUPS = (SOURCES, FEATURES, MODELS, VERBS)


@dataclass(frozen=True)
class Addition:
    """One entry point. location: `module:object`; distribution: its name and version."""

    group: str
    name: str
    location: str
    distribution: str

    def __str__(self) -> str:
        return f'entry point "{self.name}" of {self.distribution} (group {self.group})'

    def load(self) -> Any:
        """Import what it names. Raises RunError, which says which distribution to correct, if that fails."""
        from importlib import import_module

        module, _, name = self.location.partition(":")
        try:
            return getattr(import_module(module), name)
        except Exception as error:
            why = f"{self.location} raised {type(error).__name__}: {error}"
            raise RunError(f"{self} cannot be loaded: {why}; correct it, or uninstall the distribution") from error


def additions(group: str) -> dict[str, list[Addition]]:
    """The entry points of a group by name, sorted. Names with more than one are clashes between distributions."""
    found: dict[str, list[Addition]] = {}
    for entry in _installed(tuple(sys.path)).select(group=group):
        addition = _addition(entry)
        if addition not in found.setdefault(entry.name, []):  # a folder may be in the search path twice
            found[entry.name].append(addition)
    return {name: sorted(found[name], key=str) for name in sorted(found)}


@functools.lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> Any:  # noqa: ARG001 - what is installed depends on it
    """All entry points, whose type differs between Python 3.11 and 3.12.

    They are read once, because it takes 0.2 s to look through the files of all distributions.
    """
    from importlib import metadata  # which takes a third of the time of `headrace --help`

    found = metadata.entry_points()
    for group in sorted(found.groups):
        if group.startswith("headrace.") and group not in GROUPS:
            near = did_you_mean_or_list(group, GROUPS, "the groups are")
            for entry in found.select(group=group):
                logger.warning("%s is ignored: there is no such group%s", _addition(entry), near)
    return found


def _addition(entry: EntryPoint) -> Addition:
    distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
    return Addition(entry.group, entry.name, entry.value.replace(" ", ""), distribution)


def why_not_added(name: str, offered: list[Addition], built_in: Container[str]) -> str | None:
    """Explain why a name cannot be added: it is built in, or several distributions have it; None if it can."""
    listed = " and ".join(map(str, offered))
    if name in built_in:
        return f'"{name}" is built in, so {listed} cannot add it; rename it there, or uninstall the distribution'
    if len(offered) > 1:
        return f"{listed} add the same name; uninstall one of the distributions"
    return None
