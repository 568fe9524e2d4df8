"""From YAML on disk, or from Python objects, to the typed config, with every problem reported at once.

config = load("configs/taxi.yaml", profile="kubeflow", overrides=["train.epochs=1"])
config = load({"pipeline": {"name": "trips"}, "data": {...}, "label": {...}, "features": {...}})
loaded = load_with_locations("configs/taxi.yaml")
loaded.config.label.key                 # "big_tipper"
loaded.location(("label", "key"))       # "configs/taxi.yaml:12"
reading = read_config("configs/taxi.yaml")
reading.problems                        # every mistake; the valid part is in reading.loaded
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from headrace.common.credentials import redact_trailing_url
from headrace.common.errors import ConfigError, Problem
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.alike import located_alike
from headrace.configs.loading.config_file import read_file
from headrace.configs.loading.overlays import (
    merge,
    parse_setting,
    profile_path,
    profile_source,
    remove_refused_nulls,
    setting_from_object,
    unknown_profile,
)
from headrace.configs.loading.pinned_selection import PinnedSelection
from headrace.configs.loading.secrets import redact_url_credentials
from headrace.configs.loading.selection import named, select
from headrace.configs.loading.tree import (
    LocatedProblem,
    Location,
    Tree,
    location_of,
    paths_at,
    plain,
    tree_from_objects,
)
from headrace.configs.loading.valid_part import rows_are_certain, valid_part
from headrace.configs.loading.validation import validate
from headrace.configs.rules.rule import Rule, Violation
from headrace.configs.schema.section import KeyPath

PYTHON_SOURCE = "config"
"""Stands for the file's name in messages about a config without a file."""


@dataclass(frozen=True)
class RowsSeen:
    """How many rows a check of the data looked at.

    splits: those with data of their own, or "" for undivided data. by_split: the rows of those that were looked at.
    whole: the splits of which these are all rows. span: the name of the newest of `spans` spans, whose rows these are.
    why: the reason if no rows were, as far as there is one.
    """

    splits: tuple[str, ...] = ()
    by_split: Mapping[str, int] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    span: str = ""
    spans: int = 1
    why: str = ""


@dataclass(frozen=True)
class LoadedConfig:
    """A config, the location of each of its settings, and what its `auto` and patterns stand for."""

    config: PipelineConfig
    tree: Tree
    selection: PinnedSelection | None = None
    data_key: str | None = None
    """Of a check that found no mistake (pipeline/checked_data.py); None if the next run has to check again."""
    data_checked: bool = False
    """Whether an earlier run checked this data by this config and this code, so that it was not checked again."""
    data_notes: tuple[Violation, ...] = ()
    """What the check noted of the data that a run accepts."""
    rows_seen: RowsSeen = field(default_factory=RowsSeen)

    @property
    def inferred_labels(self) -> frozenset[str]:
        """The tasks whose label has `kind: auto`, "" for the only label."""
        label = self.selection.selected.label if self.selection is not None else None
        return frozenset() if label is None else frozenset(label.get("tasks", {""}))

    def pin_selection(self) -> None:
        """From now on, `auto` and patterns stand for the same columns, whatever the data becomes."""
        if self.selection is not None:
            self.selection.pin()

    def location(self, path: KeyPath) -> str:
        """`configs/taxi.yaml:12`; for a setting that is not written, the location of the section for it."""
        return str(location_of(self.tree, path))

    def problems(self, violations: Iterable[Violation]) -> list[Problem]:
        """Violations with their locations, in reading order."""
        return [each.problem() for each in sorted(self.located(violations))]

    def located(self, violations: Iterable[Violation]) -> set[LocatedProblem]:
        """Violations with locations that sort in reading order."""
        return {*located_alike(self.tree, violations)}


@dataclass(frozen=True)
class Reading:
    """A config as far as it is valid.

    problems: every mistake in it; loaded: the config, or, with mistakes, its valid part, and None if that is too
    little; uncertain: the settings with mistakes, and those that a misspelled one may stand for.
    """

    problems: tuple[LocatedProblem, ...]
    loaded: LoadedConfig | None
    uncertain: frozenset[KeyPath] = frozenset()

    @property
    def data_is_certain(self) -> bool:
        """Whether the mistakes leave it certain which rows are read."""
        return self.loaded is not None and rows_are_certain(self.uncertain)

    def checked(self, further: Iterable[LocatedProblem] = ()) -> LoadedConfig:
        """The config. Raises ConfigError if it has mistakes, or further ones were found in what it names."""
        if (found := {*self.problems, *further}) or self.loaded is None:
            raise ConfigError(*(problem.problem() for problem in sorted(_distinct(found))))
        return self.loaded


def _distinct(problems: Collection[LocatedProblem]) -> list[LocatedProblem]:
    """The problems without those of which another one at the same place says the same and more: of the same record,
    which other records have been found beside, or in which split it is.
    """
    return [each for each in problems if not any(_says_more(other, each) for other in problems)]


def _says_more(one: LocatedProblem, other: LocatedProblem) -> bool:
    if one.location != other.location or len(one.what) <= len(other.what):
        return False
    mistakes = (each.what.partition("\n")[0].partition(": ") for each in (one, other))
    (setting, _, mistake), (same, _, known) = mistakes
    return setting == same and mistake.endswith(known)


ConfigSource = str | PathLike[str] | Mapping[str, Any] | PipelineConfig
"""A config: the path of a file; its settings as Python objects, nested as in the file; or a PipelineConfig that was
loaded, or built from the classes in `headrace.configs`.
"""
Override = str | tuple[str, Any]
"""A setting over a config: `train.epochs=1`, whose value is YAML, or a dotted name with a Python object.

Messages about a `CommandOption` name `--set`.
"""


def load(source: ConfigSource, profile: str | None = None, overrides: Sequence[Override] = ()) -> PipelineConfig:
    """The config, with a profile's overlay and overrides over it. Raises ConfigError."""
    return load_with_locations(source, profile, overrides).config


def load_with_locations(
    source: ConfigSource,
    profile: str | None = None,
    overrides: Sequence[Override] = (),
    rules: Sequence[Rule] = (),
) -> LoadedConfig:
    """Like `load`, with the location of each setting. rules: further rules, such as those of Kubeflow."""
    return read_config(source, profile, overrides, rules).checked()


def read_config(
    source: ConfigSource,
    profile: str | None = None,
    overrides: Sequence[Override] = (),
    rules: Sequence[Rule] = (),
) -> Reading:
    """Like `load_with_locations`, without raising ConfigError, so that what a config names can be checked too."""
    trees, unreadable = _layers(source, profile, overrides)
    if not trees:
        return Reading(tuple(unreadable), None)
    merged, more = _merged(trees)
    unreadable += more
    chosen = select(named(merged, source))
    validated = validate(chosen.tree, rules, chosen.judged)
    before = [*unreadable, *chosen.problems]
    if isinstance(validated, PipelineConfig) and not before:
        return Reading((), LoadedConfig(validated, chosen.tree, chosen.found))
    known = {place for problem in before for place in problem.places}  # an unreadable value is not reported again
    refused = [] if isinstance(validated, PipelineConfig) else validated
    problems = _redacted(
        chosen.tree, [*before, *(problem for problem in refused if not known.issuperset(problem.places))]
    )
    part = valid_part(chosen.checked)
    if part is None:
        return Reading(problems, None)
    uncertain = (
        part.uncertain
        | chosen.uncertain
        | paths_at(merged, {place for problem in unreadable for place in problem.places})
    )
    return Reading(problems, LoadedConfig(part.config, chosen.tree, chosen.found), uncertain)


def _redacted(tree: Tree, problems: Iterable[LocatedProblem]) -> tuple[LocatedProblem, ...]:
    """The problems without the credentials in the URLs of the config."""
    values = plain(tree)
    return tuple(replace(each, what=redact_url_credentials(values, each.what)) for each in problems)


def _layers(
    source: ConfigSource, profile: str | None, overrides: Sequence[Override]
) -> tuple[list[Tree], list[LocatedProblem]]:
    """The readable ones of config, overlay and overrides, lowest first; none if the config is not readable."""
    config, problems = _read_source(source)
    layers = [config]
    if profile is not None:
        overlay, more = _read_overlay(source, profile)
        layers.append(overlay)
        problems += more
    settings = []
    for number, each in enumerate(overrides):
        layer = 2 + number
        tree, more = parse_setting(each, layer) if isinstance(each, str) else setting_from_object(*each, layer)
        settings += [tree] if tree else []
        problems += more
    # As one layer, so that the order of overrides only matters where they set the same name.
    layers.append(reduce(merge, settings) if settings else None)
    return [tree for tree in layers if tree is not None] if config else [], problems


def _read_source(source: ConfigSource) -> tuple[Tree | None, list[LocatedProblem]]:
    if isinstance(source, str) and "://" in source:
        location = Location(0, 0, 0, redact_trailing_url(source))
        return None, [LocatedProblem(location, "this is a URL, but configs are local files; download it first")]
    if isinstance(source, str | PathLike):
        return read_file(Path(source), layer=0)
    values = _settings(source) if isinstance(source, PipelineConfig) else source
    if not isinstance(values, Mapping):
        raise TypeError(f"a config is a path, a mapping or a PipelineConfig, not {type(source).__name__}")
    return tree_from_objects(values, PYTHON_SOURCE)


def _settings(config: PipelineConfig) -> dict[str, Any]:
    """The settings that were set. Unset ones may come from elsewhere, such as `kubeflow.defaults`."""
    try:
        return config.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings="error")
    except PydanticSerializationError as error:
        raise ConfigError(Problem(PYTHON_SOURCE, f"contains a value that is not a setting: {error}")) from None


def _read_overlay(source: ConfigSource, profile: str) -> tuple[Tree | None, list[LocatedProblem]]:
    if not isinstance(source, str | PathLike):
        what = "a profile is a file next to the config's file, and this config has no file; use overrides"
        return None, [LocatedProblem(Location(1, 0, 0, profile_source(profile)), what)]
    path = Path(source)
    if not path.parent.is_dir():
        return None, []
    unknown = unknown_profile(path, profile)
    return (None, [unknown]) if unknown else read_file(profile_path(path, profile), layer=1)


def _merged(layers: Sequence[Tree]) -> tuple[Tree, list[LocatedProblem]]:
    """The layers as one tree, without the nulls of upper layers that only remove what is below."""
    tree = reduce(merge, layers)
    problems: list[LocatedProblem] = []
    while len(layers) > 1:
        try:
            PipelineConfig.model_validate_json(json.dumps(plain(tree)))
        except ValidationError as error:
            smaller, more = remove_refused_nulls(tree, error, layers)
            problems += more
            if smaller is tree:
                break
            tree = smaller
        else:
            break
    return tree, problems
