"""From YAML on disk, or from Python objects, to the typed config, with every mistake told at once.

config = load("configs/taxi.yaml", profile="kubeflow", overrides=["train.epochs=1"])
config = load({"pipeline": {"name": "trips"}, "data": {...}, "label": {...}, "features": {...}})
loaded = load_with_places("configs/taxi.yaml")
loaded.config.label.key              # "big_tipper"
loaded.place(("label", "key"))       # "configs/taxi.yaml:12"
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from headrace.configs import rules
from headrace.configs.clearing import cleared
from headrace.configs.config import PipelineConfig
from headrace.configs.credential_rules import credentials_in, without_those_of
from headrace.configs.errors import ConfigError, Problem
from headrace.configs.explain import explain
from headrace.configs.files import read_mapping
from headrace.configs.overlay import lay, profile_path, setting, unknown_profile, value_setting
from headrace.configs.passwords import hidden_from_url
from headrace.configs.sound import sound_part
from headrace.configs.tree import Mistake, Place, Tree, Where, at, dotted, plain, tree_of

IN_PYTHON = "config"
"""What stands for the file's name in messages where there is no file."""


@dataclass(frozen=True)
class Loaded:
    """A config, and where each of its settings is written."""

    config: PipelineConfig
    tree: Tree

    def place(self, where: Where) -> str:
        """`configs/taxi.yaml:12`; for a setting that is not written, the place of what would hold it."""
        return str(at(self.tree, where))

    def problems(self, findings: Iterable[tuple[Where, str]]) -> list[Problem]:
        """Findings as (way to the setting, what is wrong with it), placed and in reading order."""
        mistakes = {Mistake(at(self.tree, where), f"{dotted(where)}: {what}") for where, what in findings}
        return [mistake.problem() for mistake in sorted(mistakes)]


ConfigSource = str | PathLike[str] | Mapping[str, Any] | PipelineConfig
"""A config: the path of a file; its settings as Python objects, as the file would have them; or one that is loaded, or
built from the classes in `headrace.configs`.
"""
Override = str | tuple[str, Any]
"""A setting laid over a config: `train.epochs=1` as YAML has it, or a dotted name with a Python object."""


def load(source: ConfigSource, profile: str | None = None, overrides: Sequence[Override] = ()) -> PipelineConfig:
    """The config, with a profile's overlay and `--set` values laid over it. Raises ConfigError."""
    return load_with_places(source, profile, overrides).config


def load_with_places(source: ConfigSource, profile: str | None = None, overrides: Sequence[Override] = ()) -> Loaded:
    """As `load`, keeping where each setting is written."""
    trees, mistakes = _layers(source, profile, overrides)
    if not trees:
        raise _error(mistakes)
    tree, more = _without_refused_nulls(reduce(lay, trees), trees)
    mistakes += more
    typed = _typed(tree)
    if isinstance(typed, PipelineConfig) and not mistakes:
        return Loaded(typed, tree)
    told = {mistake.place for mistake in mistakes}  # a value that could not be read is not refused a second time
    more = [] if isinstance(typed, PipelineConfig) else typed
    mistakes += [mistake for mistake in more if mistake.place not in told]
    values = plain(tree)
    raise _error([Mistake(mistake.place, without_those_of(values, mistake.what)) for mistake in mistakes])


def load_sound_part(
    source: ConfigSource, profile: str | None = None, overrides: Sequence[Override] = ()
) -> Loaded | None:
    """Of a config that `load` refuses, the part with which the data can be checked; None if there is none."""
    trees, mistakes = _layers(source, profile, overrides)
    if not trees or mistakes:
        return None
    tree, _ = _without_refused_nulls(reduce(lay, trees), trees)
    config = sound_part(tree)
    return None if config is None else Loaded(config, tree)


def _layers(
    source: ConfigSource, profile: str | None, overrides: Sequence[Override]
) -> tuple[list[Tree], list[Mistake]]:
    """The config, the overlay and the `--set` values that could be read, lowest first; none if the config could not."""
    config, mistakes = _lowest(source)
    layers = [config]
    if profile is not None:
        overlay, more = _overlay(source, profile)
        layers.append(overlay)
        mistakes += more
    settings = []
    for number, each in enumerate(overrides):
        layer = 2 + number
        tree, more = setting(each, layer) if isinstance(each, str) else value_setting(*each, layer)
        settings += [tree] if tree else []
        mistakes += more
    layers.append(
        reduce(lay, settings) if settings else None
    )  # as one layer: their order then only matters for clashes
    return [tree for tree in layers if tree is not None] if config else [], mistakes


def _lowest(source: ConfigSource) -> tuple[Tree | None, list[Mistake]]:
    if isinstance(source, str) and "://" in source:
        place = Place(0, 0, 0, hidden_from_url(source))
        return None, [Mistake(place, "a URL; a config is read from this machine, so download it first")]
    if isinstance(source, str | PathLike):
        return read_mapping(Path(source), layer=0)
    values = _settings(source) if isinstance(source, PipelineConfig) else source
    if not isinstance(values, Mapping):
        raise TypeError(f"a config is a path, a mapping or a PipelineConfig, not {type(source).__name__}")
    return tree_of(values, IN_PYTHON)


def _settings(config: PipelineConfig) -> dict[str, Any]:
    """What was set: settings that were not are looked for elsewhere, as those of a component in `kubeflow.defaults`."""
    try:
        return config.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings="error")
    except PydanticSerializationError as error:
        raise ConfigError(Problem(IN_PYTHON, f"holds what is no setting: {error}")) from None


def _overlay(source: ConfigSource, profile: str) -> tuple[Tree | None, list[Mistake]]:
    if not isinstance(source, str | PathLike):
        what = "a profile is a file beside the config's file, and this config has none; use overrides"
        return None, [Mistake(Place(1, 0, 0, f"profile {profile!r}"), what)]
    path = Path(source)
    if not path.parent.is_dir():
        return None, []
    unknown = unknown_profile(path, profile)
    return (None, [unknown]) if unknown else read_mapping(profile_path(path, profile), layer=1)


def _without_refused_nulls(tree: Tree, layers: Sequence[Tree]) -> tuple[Tree, list[Mistake]]:
    """As long as nulls of upper layers are refused, the tree without them."""
    mistakes: list[Mistake] = []
    while len(layers) > 1:
        try:
            PipelineConfig.model_validate_json(json.dumps(plain(tree)))
        except ValidationError as error:
            less, more = cleared(tree, error, layers)
            mistakes += more
            if less is tree:
                break
            tree = less
        else:
            break
    return tree, mistakes


def _typed(tree: Tree) -> PipelineConfig | list[Mistake]:
    """The config, or what pydantic and the rules across sections have against it."""
    text = json.dumps(plain(tree))
    try:
        config, mistakes = PipelineConfig.model_validate_json(text), []
        parts = dict(config)
    except ValidationError as error:
        config, mistakes = None, explain(error, tree)
        parts = _valid_parts(plain(tree), {str(item["loc"][0]) for item in error.errors(include_url=False)})
    mistakes += [Mistake(at(tree, where), f"{dotted(where)}: {what}") for where, what in rules.check(parts)]
    refused = {mistake.place for mistake in mistakes}
    found = [(at(tree, where), where, what) for where, what in credentials_in(plain(tree))]
    mistakes += [Mistake(place, f"{dotted(where)}: {what}") for place, where, what in found if place not in refused]
    return config if config is not None and not mistakes else mistakes


def _valid_parts(values: dict[str, object], refused: set[str]) -> dict[str, object]:
    """The sections with nothing wrong in themselves, so that the rules between those still apply."""
    parts: dict[str, object] = {}
    for name, field in PipelineConfig.model_fields.items():
        if name in refused:
            continue
        if name in values:
            parts[name] = TypeAdapter(field.rebuild_annotation()).validate_json(json.dumps(values[name]))
        else:
            parts[name] = field.get_default()
    return parts


def _error(mistakes: list[Mistake]) -> ConfigError:
    return ConfigError(*(mistake.problem() for mistake in sorted(set(mistakes))))
