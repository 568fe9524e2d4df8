"""Features that stand for columns of the data: `auto`, and patterns such as `"x*"`, under `features:`.

tree, selected, problems = select(tree)       # a config's tree with the features that they stand for
selected.pin()                                # from now on, the same ones, whatever the data becomes

What they stand for follows from the data, so it is found once, and stored beside the pipeline's runs. It is found again
if what is written under `features:` and `label:` changes. The code that looks at the data is above this floor, so it is
imported by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from headrace.common.checksums import with_checksum
from headrace.common.digests import digest_text
from headrace.common.durable import write_text
from headrace.common.errors import DataError
from headrace.common.records import parse_record
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.problems import explain
from headrace.configs.loading.tree import LocatedProblem, Location, Tree, dotted, location_of, plain
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.selection import AUTO, COLUMN_TYPES, Resolved, Selection, is_pattern

RESOLVER = "headrace.components.inference.selection", "resolve"
FILE_NAME = "features.json"
"""In the pipeline's folder: what the patterns stand for."""
_NOWHERE = Location(0, 0, 0, "")
_PLACEHOLDER = Tree({"column": Tree("numeric", _NOWHERE, _NOWHERE)}, _NOWHERE, _NOWHERE)


class Selected(BaseModel, extra="forbid", frozen=True):
    """What the entries stand for, as `Resolved` describes it. for_config: identifies what was written."""

    for_config: str
    features: dict[str, dict[str, dict[str, Any]]]
    label: dict[str, Any] | None = None
    model: dict[str, Any] | None = None
    types: dict[str, str] = {}


@dataclass(frozen=True)
class PinnedSelection:
    """What was selected, and the file in which it is stored. pinned: whether it was read from there; takes_model:
    whether the config leaves the model to the selection.
    """

    file: Path
    selected: Selected
    pinned: bool
    takes_model: bool

    def pin(self) -> None:
        """Store it, for later runs."""
        if not self.pinned:
            write_text(self.file, with_checksum(self.selected.model_dump_json()))


def named(tree: Tree, source: object) -> Tree:
    """The tree with a name for the pipeline, after the file of the config, if `pipeline:` is not written, or null."""
    if not isinstance(source, str | PathLike) or not isinstance(tree.value, dict):
        return tree
    written = tree.value.get("pipeline")
    if written is not None and written.value is not None:
        return tree
    name = re.sub(r"[^a-z0-9]+", "-", Path(source).stem.lower()).strip("-")[:63].strip("-")
    section = replace(tree, value={"name": replace(tree, value=name, text=name)})
    return replace(tree, value={**tree.value, "pipeline": section}) if name else tree


Resolver = Callable[[PipelineConfig, list[Selection], list[str]], Resolved]


def select(tree: Tree) -> tuple[Tree, PinnedSelection | None, list[LocatedProblem]]:
    """The tree with what its selections stand for; or with placeholders for them, and the problems."""
    written = _Written(tree)
    if not written.entries and not written.auto_labels:
        return tree, None, []
    outline = written.outline()
    selections = [written.selection(name) for name in written.entries]
    problems = list(written.problems)
    try:
        config = PipelineConfig.model_validate_json(json.dumps(plain(outline)))
    except ValidationError as error:
        return outline, None, [*problems, *explain(error, outline)]
    if problems:
        return outline, None, problems
    try:
        found = _found(config, written, selections)
    except DataError as error:
        where = _label_key(config, error.column) or ("data", "source", "path")
        return outline, None, [LocatedProblem(location_of(tree, where), f"{dotted(where)}: {error}")]
    empty = [name for name, features in found.selected.features.items() if not features]
    for name in empty:
        what = "stands for no column of the data that can be a feature"
        problems.append(LocatedProblem(location_of(tree, ("features", name)), f"features.{name}: {what}"))
    return written.filled(found.selected, with_model=found.takes_model), found, problems


def _label_key(config: PipelineConfig, column: str | None) -> KeyPath | None:
    """Where the config names a column as a label: in `key`, or by the name of a task; None if it does not."""
    for name, part in config.label.parts.items():
        if part.key == column:
            named_by_task = config.label.tasks is not None and config.label.tasks[name].key is None
            return part.setting(name) if named_by_task else (*part.setting(name), "key")
    return None


def _found(config: PipelineConfig, written: _Written, selections: list[Selection]) -> PinnedSelection:
    """The stored selection, if it is of the same text, or a new one. Raises DataError."""
    file = Path(config.pipeline.root) / config.pipeline.name / FILE_NAME
    for_config = written.digest
    takes_model = written.leaves_the_model(config)
    stored = _stored(file)
    if stored is not None and stored.for_config == for_config:
        return PinnedSelection(file, stored, pinned=True, takes_model=takes_model)
    module, name = RESOLVER
    resolver: Resolver = getattr(import_module(module), name)
    resolved = resolver(config, selections, written.auto_labels)
    selected = Selected(for_config=for_config, **resolved._asdict())
    return PinnedSelection(file, selected, pinned=False, takes_model=takes_model)


def _stored(file: Path) -> Selected | None:
    """Raises DataError if the file is damaged."""
    try:
        return parse_record(Selected, file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        hint = "Restore the file; or delete it, and the features are chosen by the present data"
        raise DataError(f"the stored features cannot be read: {error}", file=str(file), hint=hint) from None


@dataclass(frozen=True)
class _Written:
    """The selections as they are written."""

    tree: Tree
    problems: list[LocatedProblem] = field(default_factory=list)

    @cached_property
    def features(self) -> dict[str, Tree]:
        """The entries of `features:`; empty if a function computes the features."""
        section = self._section("features")
        function = section.get("function")
        return {} if function is not None and not isinstance(function.value, dict | None) else section

    @cached_property
    def entries(self) -> list[str]:
        """The names of the entries that stand for columns."""
        return [name for name, entry in self.features.items() if is_pattern(name) or _is_auto(entry)]

    @cached_property
    def auto_labels(self) -> list[str]:
        """The tasks with `kind: auto`; "" for the label itself."""
        label = self._section("label")
        tasks = self._section_of(label["tasks"]) if "tasks" in label else {}
        every = {"": self._section_tree("label"), **tasks}
        kinds = {name: self._section_of(one).get("kind") for name, one in every.items()}
        return [name for name, kind in kinds.items() if kind is not None and kind.value == AUTO]

    def leaves_the_model(self, config: PipelineConfig) -> bool:
        """Whether the kind of model follows from the data: nothing is written about it, and any kind would do."""
        said = [name for name in ("model", "tune") if plain(self._section_tree(name)) is not None]
        only_wide = any(not getattr(feature, "deep", True) for feature in config.declared_features.values())
        return not said and not only_wide

    @property
    def digest(self) -> str:
        """Identifies everything that decides what the entries stand for, except the data."""
        sections = [plain(self._section_tree(name)) for name in ("features", "label")]
        data = {name: plain(value) for name, value in self._section("data").items() if name in _DECISIVE}
        return digest_text(json.dumps([*sections, data], sort_keys=True))

    def selection(self, name: str) -> Selection:
        """The entry of this name. Mistakes in it become problems."""
        entry = self.features[name]
        if not isinstance(entry.value, dict):
            return Selection(name, None)
        types, exceptions = (self._names(name, entry, setting) for setting in ("types", "except"))
        unknown = [one for one in types if one not in COLUMN_TYPES]
        if unknown:
            self._refuse(("features", name, "types"), f'"{unknown[0]}" is not a type; use {", ".join(COLUMN_TYPES)}')
        settings = {key: plain(value) for key, value in entry.value.items() if key not in {"types", "except"}}
        if _is_auto(entry):
            for other in settings.keys() - {"column"}:
                self._refuse(("features", name, other), "is not a setting of `auto`, which has `types` and `except`")
            return Selection(name, None, types, exceptions)
        if "key" in settings:
            self._refuse(("features", name, "key"), "a pattern names the columns; remove `key`")
        return Selection(name, settings, types, exceptions)

    def outline(self) -> Tree:
        """The config with one feature in place of each entry, so that pydantic checks its settings in their place."""
        entries = {
            name: {name: _PLACEHOLDER if _is_auto(entry) else _without(entry, "types", "except")}
            for name, entry in self.features.items()
            if name in self.entries
        }
        kind = {"kind": "regression"}
        tasks = {name: kind for name in self.auto_labels if name}
        return self.replaced(
            entries, {**(kind if "" in self.auto_labels else {}), **({"tasks": tasks} if tasks else {})}
        )

    def filled(self, selected: Selected, *, with_model: bool) -> Tree:
        """The config with the features of each entry in its place, and with the model if that is left open."""
        entries = {
            name: {feature: _tree(settings, self.features[name]) for feature, settings in features.items()}
            for name, features in selected.features.items()
        }
        filled = self.with_types(self.replaced(entries, selected.label or {}), selected.types)
        if selected.model is None or not with_model:
            return filled
        model = _tree(selected.model, self._section_tree("features"))
        return replace(filled, value={**self._section_of(filled), "model": model})

    def with_types(self, tree: Tree, types: Mapping[str, str]) -> Tree:
        """The config with these types under `data:`, beside those that are written there."""
        sections = dict(self._section_of(tree))
        if not types or "data" not in sections:
            return tree
        data = sections["data"]
        written = self._section("data").get("types")
        declared = _tree({**types, **({} if written is None else plain(written) or {})}, data)
        sections["data"] = replace(data, value={**self._section_of(data), "types": declared})
        return replace(tree, value=sections)

    def replaced(self, entries: Mapping[str, Mapping[str, Tree]], label: Mapping[str, Any]) -> Tree:
        """The config with other features in place of entries, and other settings in place of the label's `auto`."""
        sections = dict(self._section_of(self.tree))
        features: dict[str, Tree] = {}
        for name, entry in self.features.items():
            features |= entries.get(name, {name: entry})
        if self.features:
            sections["features"] = replace(sections["features"], value=features)
        if self.auto_labels:
            sections["label"] = self._with_settings(sections["label"], label)
        return replace(self.tree, value=sections)

    def _with_settings(self, label: Tree, found: Mapping[str, Any]) -> Tree:
        """The label, or a task, with what was found in place of `auto`; that of tasks is in `tasks`.

        A setting that is written beside `auto`, such as `missing`, stays.
        """
        written = self._section_of(label)
        settings = {name: _tree(value, written["kind"]) for name, value in found.items() if name != "tasks"}
        if "tasks" in found:
            tasks = self._section_of(written["tasks"])
            own = {name: self._with_settings(tasks[name], each) for name, each in found["tasks"].items()}
            settings["tasks"] = replace(written["tasks"], value={**tasks, **own})
        stays = written.keys() - {"kind", "tasks"}
        return replace(label, value={**written, **{name: one for name, one in settings.items() if name not in stays}})

    def _names(self, name: str, entry: Tree, setting: str) -> tuple[str, ...]:
        """A list of strings, or one string."""
        given = self._section_of(entry).get(setting)
        values = [] if given is None else plain(given)
        values = [values] if isinstance(values, str) else values
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self._refuse(("features", name, setting), "must be a name or a list of names")
            return ()
        return tuple(values)

    def _refuse(self, path: KeyPath, what: str) -> None:
        self.problems.append(LocatedProblem(location_of(self.tree, path), f"{dotted(path)}: {what}"))

    def _section(self, name: str) -> dict[str, Tree]:
        section = self._section_of(self.tree).get(name)
        return {} if section is None else self._section_of(section)

    def _section_tree(self, name: str) -> Tree:
        return self._section_of(self.tree).get(name, replace(self.tree, value=None))

    @staticmethod
    def _section_of(tree: Tree) -> dict[str, Tree]:
        return tree.value if isinstance(tree.value, dict) else {}


_DECISIVE = frozenset({"types", "columns", "schema", "split_key", "split_column"})
"""Settings of `data:` that decide, besides the data, what the entries stand for."""


def _is_auto(entry: Tree) -> bool:
    value = entry.value.get("column") if isinstance(entry.value, dict) else entry
    return value is not None and value.value == AUTO


def _without(entry: Tree, *names: str) -> Tree:
    inner = entry.value if isinstance(entry.value, dict) else {}
    return replace(entry, value={name: child for name, child in inner.items() if name not in names}) if inner else entry


def _tree(value: Any, like: Tree) -> Tree:
    """A value as a tree, at the location of another."""
    if isinstance(value, dict):
        return replace(like, value={name: _tree(child, like) for name, child in value.items()}, text="")
    if isinstance(value, list | tuple):
        return replace(like, value=[_tree(child, like) for child in value], text="")
    return replace(like, value=value, text=json.dumps(value, ensure_ascii=False))
