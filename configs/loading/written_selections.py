"""The entries under `features:`, and the labels, that stand for what is found in the data, as they are written.

written = WrittenSelections(tree)
written.entries                     # ["*", "x*"]
written.outline()                   # the config with a placeholder for each
written.filled(found, ...)          # the config with what was found in place of each
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from headrace.common.digests import digest_text
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.pinned_selection import PinnedSelection, Selected
from headrace.configs.loading.tree import LocatedProblem, Location, Tree, dotted, location_of, plain
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.selection import AUTO, COLUMN_TYPES, Selection, is_pattern

_NOWHERE = Location(0, 0, 0, "")
_PLACEHOLDER = Tree({"column": Tree("numeric", _NOWHERE, _NOWHERE)}, _NOWHERE, _NOWHERE)


@dataclass(frozen=True)
class Filled:
    """A config with what its selections stand for, as far as mistakes leave that certain.

    tree: the config for pydantic, which finds mistakes in a selection in a placeholder of its name; judged: the same
    for rules, with something that pydantic refuses in place of placeholders, or None if there are none; checked: the
    same without them, whose valid part is held against the data; uncertain: what cannot be.
    """

    tree: Tree
    judged: Tree | None
    checked: Tree
    found: PinnedSelection | None = None
    problems: tuple[LocatedProblem, ...] = ()
    uncertain: frozenset[KeyPath] = frozenset()


@dataclass(frozen=True)
class WrittenSelections:
    """The selections as they are written."""

    tree: Tree
    problems: list[LocatedProblem] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """The entries with these problems."""

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
        only_wide = any(not getattr(feature, "deep", True) for feature in config.declared_features.values())
        return self._leaves_the_model and not only_wide

    @property
    def _leaves_the_model(self) -> bool:
        return all(plain(self._section_tree(name)) is None for name in ("model", "tune"))

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
            self.refuse(("features", name, "types"), f'"{unknown[0]}" is not a type; use {", ".join(COLUMN_TYPES)}')
        settings = {key: plain(value) for key, value in entry.value.items() if key not in {"types", "except"}}
        if _is_auto(entry):
            for other in settings.keys() - {"column"}:
                self.refuse(("features", name, other), "is not a setting of `auto`, which has `types` and `except`")
            return Selection(name, None, types, exceptions)
        if "key" in settings:
            self.refuse(("features", name, "key"), "a pattern names the columns; remove `key`")
        return Selection(name, settings, types, exceptions)

    def outline(self) -> Tree:
        """The config with one feature in place of each entry, so that pydantic checks its settings in their place."""
        entries = {name: self._placeholder(name) for name in self.entries}
        return self.replaced(entries, self._undecided_label())

    def _placeholder(self, name: str) -> dict[str, Tree]:
        entry = self.features[name]
        return {name: _PLACEHOLDER if _is_auto(entry) else _without(entry, "types", "except")}

    def _undecided_label(self) -> dict[str, Any]:
        """What stands for `kind: auto` while it is not known what the label is."""
        kind = {"kind": "regression"}
        tasks = {name: kind for name in self.auto_labels if name}
        return {**(kind if "" in self.auto_labels else {}), **({"tasks": tasks} if tasks else {})}

    def _refused(self, name: str) -> dict[str, Tree]:
        return {name: replace(self.features[name], value=AUTO)}

    def unresolved(self, problems: Iterable[LocatedProblem], *uncertain: KeyPath) -> Filled:
        """The config if it cannot be found out what the entries stand for. uncertain: because of what."""
        judged = self._without_model(self.replaced({name: self._refused(name) for name in self.entries}, {}))
        checked = self.replaced({name: {} for name in self.entries}, self._undecided_label())
        return Filled(self.outline(), judged, checked, None, tuple(problems), frozenset(uncertain))

    def filled(
        self, found: PinnedSelection, broken: Collection[str], mistyped: Collection[str], *, label_is_certain: bool
    ) -> Filled:
        """The config with the features of each entry in its place, and with the model if that is left open.

        broken: the entries with mistakes, of which nothing but these is reported; mistyped: columns whose declared type
        is a mistake, so that no rule judges what is inferred of them.
        """
        entries = {
            name: {feature: _tree(settings, self.features[name]) for feature, settings in features.items()}
            for name, features in found.selected.features.items()
        }
        label = (found.selected.label or {}) if label_is_certain else self._undecided_label()
        model = found.selected.model if label_is_certain and found.takes_model else None
        fill = partial(self._with_found, label=label, selected=found.selected, model=model)

        whole = fill({**entries, **{name: self._placeholder(name) for name in broken}})
        if not broken and not mistyped and label_is_certain:
            return Filled(whole, None, whole, found)
        certain = self._refusing(mistyped, entries)
        judged = fill({**certain, **{name: self._refused(name) for name in broken}})
        if not label_is_certain:
            sections = {**self._section_of(judged), "label": self._section_tree("label")}
            judged = self._without_model(replace(judged, value=sections))
        checked = fill({**entries, **{name: {} for name in broken}})
        return Filled(whole, judged, checked, found)

    def _with_found(
        self,
        entries: Mapping[str, Mapping[str, Tree]],
        label: Mapping[str, Any],
        selected: Selected,
        model: Mapping[str, Any] | None,
    ) -> Tree:
        """The config with what was found: features in place of entries, the label, types, which columns are read, and
        the model, if any.
        """
        filled = self.with_types(self.replaced(entries, label), selected.types)
        if selected.columns is not None and "data" in (sections := self._section_of(filled)):
            data = sections["data"]
            settings = {**self._section_of(data), "columns": _tree(selected.columns, data)}
            filled = replace(filled, value={**sections, "data": replace(data, value=settings)})
        if model is None:
            return filled
        chosen = _tree(model, self._section_tree("features"))
        return replace(filled, value={**self._section_of(filled), "model": chosen})

    def _refusing(
        self, columns: Collection[str], entries: Mapping[str, Mapping[str, Tree]]
    ) -> dict[str, dict[str, Tree]]:
        """The entries' features, with something that pydantic refuses in place of those of these columns."""
        return {
            name: {
                feature: self._refused(name)[name] if _column_of(feature, tree) in columns else tree
                for feature, tree in features.items()
            }
            for name, features in entries.items()
        }

    def _without_model(self, tree: Tree) -> Tree:
        """The tree with a model that pydantic refuses, if the kind of model follows from the data."""
        if not self._leaves_the_model:
            return tree
        return replace(tree, value={**self._section_of(tree), "model": replace(tree, value=AUTO)})

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
            self.refuse(("features", name, setting), "must be a name or a list of names")
            return ()
        return tuple(values)

    def problem(self, path: KeyPath, what: str) -> LocatedProblem:
        return LocatedProblem(location_of(self.tree, path), f"{dotted(path)}: {what}")

    def refuse(self, path: KeyPath, what: str) -> None:
        """Report a mistake in an entry."""
        self.problems.append(self.problem(path, what))
        self.refused.add(str(path[1]))

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


def _column_of(feature: str, settings: Tree) -> str:
    """The column of a feature that a selection made: its `key`, if it has one, or its name."""
    key = settings.value.get("key") if isinstance(settings.value, dict) else None
    return feature if key is None else str(key.value or feature)


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
