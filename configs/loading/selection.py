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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any

from headrace.common.errors import ContradictionError, DataError, HeaderError, UnreachableError, UnreadableColumnError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.alike import ColumnMistake, merge_columns
from headrace.configs.loading.pinned_selection import FILE_NAME, PinnedSelection, Selected, stored_selection
from headrace.configs.loading.tree import LocatedProblem, Tree
from headrace.configs.loading.valid_part import Paths, accepted_part, rows_are_certain, touches, types_are_certain
from headrace.configs.loading.written_selections import Filled, WrittenSelections
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.selection import Resolved, Selection
from headrace.configs.schema.sources.base import header_mistake, read_otherwise, source_setting

RESOLVER = "headrace.components.inference.selection", "resolve"
READABLE_RESOLVER = "headrace.components.inference.selection", "resolve_readable"


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
    auto_labels = written.auto_labels if label_is_certain else []
    mistakes = _DataMistakes()
    try:
        found = _found_readable(part.config, written, selections, auto_labels, mistakes)
    except DataError as error:
        where = _label_key(part.config, error) or source_setting(part.config.data.source)
        is_misread = mistakes.is_of_guessed_encoding and not (error.column or "").isascii()
        mistakes.violations += [] if is_misread else [(where, str(error))]
        unread = isinstance(error, UnreachableError) or is_misread
        uncertain = ("label",) if where[0] == "label" else ("data", "source")
        problems = [*written.problems, *mistakes.located(written, part.config)]
        return written.unresolved(problems, *([uncertain] if unread or where[0] == "label" else []))
    features = found.selected.features
    for name in written.entries:
        is_misread = mistakes.is_of_guessed_encoding and not name.isascii()
        if not features.get(name) and name not in written.refused and not is_misread:
            written.refuse(("features", name), "stands for no column of the data that can be a feature")
    problems = [*written.problems, *mistakes.located(written, part.config)]
    broken = {path[1] for path in part.uncertain if path[:1] == ("features",) and len(path) > 1} | written.refused
    own, mistyped = [name for name in written.entries if name in broken], mistakes.mistyped
    filled = written.filled(found, own, mistyped, label_is_certain=label_is_certain)
    return replace(filled, problems=tuple(problems), uncertain=frozenset(("data", "types", name) for name in mistyped))


@dataclass
class _DataMistakes:
    """What is wrong with the data that leaves it certain what the entries stand for.

    mistyped: columns that are not of their declared type, which then count as if none were declared; violations: a
    header, and records, that cannot be read; is_of_guessed_encoding: whether the names of columns are.
    """

    mistyped: dict[str, ColumnMistake] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    is_of_guessed_encoding: bool = False

    def without_contradiction(self, config: PipelineConfig, error: ContradictionError) -> PipelineConfig:
        """The config by which the column can be read all the same."""
        column, data = str(error.column), config.data
        self.mistyped[column] = ColumnMistake.of(error)
        types = {**data.types, column: error.readable_as}
        return config.model_copy(update={"data": data.model_copy(update={"types": types})})

    def located(self, written: WrittenSelections, config: PipelineConfig) -> Iterator[LocatedProblem]:
        where = source_setting(config.data.source)
        for path, what in [*((where, what) for what in merge_columns(self.mistyped)), *self.violations]:
            yield written.problem(path, what)


def _is_resolvable(uncertain: Paths) -> bool:
    """Whether it is certain which columns the data has, and of which kinds they are."""
    return rows_are_certain(uncertain) and types_are_certain(uncertain)


def _label_key(config: PipelineConfig, error: DataError) -> KeyPath | None:
    """Where the config names a column as a label: in `key`, or by the name of a task; None if it does not, or if the
    mistake is in a record.
    """
    for name, part in config.label.parts.items():
        if part.key == error.column and error.file is None:
            named_by_task = config.label.tasks is not None and config.label.tasks[name].key is None
            return part.setting(name) if named_by_task else (*part.setting(name), "key")
    return None


def _found_readable(
    config: PipelineConfig,
    written: WrittenSelections,
    selections: list[Selection],
    auto_labels: list[str],
    mistakes: _DataMistakes,
) -> PinnedSelection:
    """What is found, as far as the data can be read. Raises DataError if it cannot be."""
    while True:
        data = config.data
        try:
            return _found(config, written, partial(_imported(RESOLVER), config, selections, auto_labels))
        except HeaderError as error:
            source = read_otherwise(data.source, error)
            if source is None:
                raise
            mistakes.violations.append(header_mistake(data.source, error))
            mistakes.is_of_guessed_encoding |= error.setting is not None and error.setting[0] == "encoding"
            update: dict[str, object] = {"source": source}
        except DataError as error:
            if error.column in data.types and error.column not in config.label.columns:
                mistakes.mistyped[error.column] = ColumnMistake.of(error)
                update = {"types": {name: kind for name, kind in data.types.items() if name != error.column}}
            elif isinstance(error, ContradictionError) and _is_readable(error, config):
                config = mistakes.without_contradiction(config, error)
                continue
            elif error.file is None or isinstance(error, UnreadableColumnError):
                raise
            else:
                try:
                    found = _imported(READABLE_RESOLVER)(config, selections, auto_labels, error)
                except ContradictionError as other:
                    config = mistakes.without_contradiction(config, other)
                    continue
                mistakes.violations.append((source_setting(data.source), found[1]))
                return _found(config, written, partial(itemgetter(0), found))
        config = config.model_copy(update={"data": data.model_copy(update=update)})


def _is_readable(error: ContradictionError, config: PipelineConfig) -> bool:
    """Whether a type of its column lets the others be looked at."""
    column, data = error.column, config.data
    return error.readable_as is not None and column not in {*data.types, *config.label.columns}


def _imported(path: tuple[str, str]) -> Any:
    module, name = path
    return getattr(import_module(module), name)


def _found(config: PipelineConfig, written: WrittenSelections, resolve: Callable[[], Resolved]) -> PinnedSelection:
    """The stored selection, if it is of the same text, or a new one. Raises DataError."""
    file = Path(config.pipeline.root) / config.pipeline.name / FILE_NAME
    for_config = written.digest
    takes_model = written.leaves_the_model(config)
    stored = stored_selection(file)
    if stored is not None and stored.for_config == for_config:
        return PinnedSelection(file, stored, pinned=True, takes_model=takes_model)
    selected = Selected(for_config=for_config, **resolve()._asdict())
    return PinnedSelection(file, selected, pinned=False, takes_model=takes_model)
