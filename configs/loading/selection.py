"""Features that stand for columns of the data: `auto`, and patterns such as `"x*"`, under `features:`.

chosen = select(tree)
chosen.tree                                   # the config's tree with the features that they stand for
chosen.problems                               # mistakes in the selections
chosen.found.pin()                            # from now on, the same ones, whatever the data becomes

What they stand for follows from the data, so it is found once, and stored beside the pipeline's runs. It is found again
if what is written under `features:` and `label:` changes. The code that looks at the data is above this floor, so it is
imported by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from os import PathLike
from pathlib import Path

from headrace.common.errors import DataError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.alike import merge_errors
from headrace.configs.loading.pinned_selection import FILE_NAME, PinnedSelection, Selected, stored_selection
from headrace.configs.loading.tree import Tree
from headrace.configs.loading.valid_part import Paths, accepted_part, rows_are_certain, touches, types_are_certain
from headrace.configs.loading.written_selections import Filled, WrittenSelections
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.selection import Resolved, Selection
from headrace.configs.schema.sources.base import source_setting

RESOLVER = "headrace.components.inference.selection", "resolve"


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


def select(tree: Tree) -> Filled:
    """The config with what its selections stand for. Mistakes elsewhere in it leave that certain, unless they concern
    the label or the rows that are read.
    """
    written = WrittenSelections(tree)
    if not written.entries and not written.auto_labels:
        return Filled(tree, None, tree)
    selections = [written.selection(name) for name in written.entries]
    part = accepted_part(written.outline())
    if part is None or ("label",) in part.uncertain or not _is_resolvable(part.uncertain):
        return written.unresolved(written.problems)
    label_is_certain = not touches(part.uncertain, ("label",))
    try:
        auto_labels = written.auto_labels if label_is_certain else []
        found, mistyped = _found_of_types(part.config, written, selections, auto_labels)
    except DataError as error:
        where = _label_key(part.config, error.column) or source_setting(part.config.data.source)
        problem = written.problem(where, str(error))
        return written.unresolved([*written.problems, problem], ("label",) if where[0] == "label" else where[:2])
    features = found.selected.features
    for name in written.entries:
        if not features.get(name) and name not in written.refused:
            written.refuse(("features", name), "stands for no column of the data that can be a feature")
    problems = tuple(written.problems)
    broken = {path[1] for path in part.uncertain if path[:1] == ("features",) and len(path) > 1} | written.refused
    problems += tuple(written.problem(source_setting(part.config.data.source), what) for what in merge_errors(mistyped))
    own = [name for name in written.entries if name in broken]
    filled = written.filled(found, own, mistyped, label_is_certain=label_is_certain)
    return replace(filled, problems=problems, uncertain=frozenset(("data", "types", name) for name in mistyped))


def _is_resolvable(uncertain: Paths) -> bool:
    """Whether it is certain which columns the data has, and of which kinds they are."""
    return rows_are_certain(uncertain) and types_are_certain(uncertain)


def _label_key(config: PipelineConfig, column: str | None) -> KeyPath | None:
    """Where the config names a column as a label: in `key`, or by the name of a task; None if it does not."""
    for name, part in config.label.parts.items():
        if part.key == column:
            named_by_task = config.label.tasks is not None and config.label.tasks[name].key is None
            return part.setting(name) if named_by_task else (*part.setting(name), "key")
    return None


def _found_of_types(
    config: PipelineConfig, written: WrittenSelections, selections: list[Selection], auto_labels: list[str]
) -> tuple[PinnedSelection, dict[str, str]]:
    """What is found, and what is wrong with columns that are not of their declared type, which then count as if none
    were declared. Raises DataError for other data that cannot be read.
    """
    mistyped: dict[str, str] = {}
    while True:
        types = {name: kind for name, kind in config.data.types.items() if name not in mistyped}
        typed = config.model_copy(update={"data": config.data.model_copy(update={"types": types})})
        try:
            return _found(typed, written, selections, auto_labels), mistyped
        except DataError as error:
            if error.column not in types or error.column in config.label.columns:
                raise
            mistyped[error.column] = str(error)


def _found(
    config: PipelineConfig, written: WrittenSelections, selections: list[Selection], auto_labels: list[str]
) -> PinnedSelection:
    """The stored selection, if it is of the same text, or a new one. Raises DataError."""
    file = Path(config.pipeline.root) / config.pipeline.name / FILE_NAME
    for_config = written.digest
    takes_model = written.leaves_the_model(config)
    stored = stored_selection(file)
    if stored is not None and stored.for_config == for_config:
        return PinnedSelection(file, stored, pinned=True, takes_model=takes_model)
    module, name = RESOLVER
    resolver: Resolver = getattr(import_module(module), name)
    resolved = resolver(config, selections, auto_labels)
    selected = Selected(for_config=for_config, **resolved._asdict())
    return PinnedSelection(file, selected, pinned=False, takes_model=takes_model)
