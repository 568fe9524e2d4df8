"""Columns that a config names and the data does not have.

absent = absent_names(config, columns)
name_violations(absent, columns)    # ("label", "key"), '"tipp" is not a column of the data; did you mean "tip"?'
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from headrace.common.names import did_you_mean, join_names
from headrace.configs.config import PipelineConfig
from headrace.configs.rules.rule import Violation, about
from headrace.configs.schema.features import CrossedFeature, Feature
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.section import KeyPath
from headrace.pipeline.preview.columns import LISTED, rounds


@dataclass(frozen=True)
class EarlierColumns:
    """The columns of the span before the newest, whose files may have lost one.

    newest, before: the names of the two spans.
    """

    columns: Collection[str]
    newest: str
    before: str

    def lost(self, names: Collection[str]) -> str | None:
        """Where these columns are missing and where they still are; None if the span before has not all of them."""
        if not {*names} <= {*self.columns}:
            return None
        them = "it" if len(names) == 1 else "them"
        return f"{self.newest}, the newest span; {self.before} has {them}"


def absent_names(config: PipelineConfig, columns: Collection[str]) -> list[NamedColumn]:
    """The settings that name a column of which the data has none."""
    named = [*_single_names(config), *_feature_names(config.declared_features), *_slice_names(config)]
    named += [
        (("features", "keys", n), key, ())
        for n, key in enumerate((config.preprocessing and config.preprocessing.keys) or ())
    ]
    known = frozenset(columns)
    return [(where, name, also) for where, name, also in named if name not in known and name not in also]


def name_violations(
    absent: Sequence[NamedColumn], columns: Sequence[str], earlier: EarlierColumns | None = None
) -> Iterator[Violation]:
    """Say of absent names what was probably meant, once for all of a section of the config.

    columns: of the data, in its newest span; earlier: those of the span before, if there is one.
    """
    listing = f"; the columns are: {join_names(columns, 30)}"

    before = frozenset(earlier.columns if earlier else ())

    def mistake(each: NamedColumn) -> tuple[object, ...]:
        where, name, also = each
        return where[0], bool(also), name in before

    for group in rounds(absent, mistake, lambda each: each[1]):
        names, also = [name for _, name, _ in group], group[0][2]
        near = {name: did_you_mean(name, [*columns, *also]).removeprefix("; ") for name in names[:LISTED]}
        alike = len({*near.values()}) == 1
        shown = (f'"{name}"' + ("" if alike or not near.get(name) else f" ({near[name]})") for name in names)
        are = "is not a column" if len(names) == 1 else "are not columns"
        what = f"{join_names(shown, LISTED)} {are} of {_data(earlier, names, ' or a feature' if also else '')}"
        what = f"{what}; {near[names[0]]}" if alike and near[names[0]] else what
        if not all(near.values()):
            what, listing = f"{what}{listing}", ""  # only once
        yield about([where for where, _, _ in group], what)


def _data(earlier: EarlierColumns | None, names: Collection[str], nor: str = "") -> str:
    return (earlier and earlier.lost(names)) or f"the data{nor}"


NamedColumn = tuple[KeyPath, str, Sequence[str]]
"""The setting that names a column, the name, and other things that it may name instead."""


def _single_names(config: PipelineConfig) -> Iterator[NamedColumn]:
    yield from _label_names(config.label)
    for number, name in enumerate(config.data.split_keys):
        yield ("data", "split_key", *([number] if isinstance(config.data.split_key, tuple) else ())), name, ()
    if config.data.split_by is not None:
        yield ("data", "split_by"), config.data.split_by, ()
    if config.data.split_column is not None:
        yield ("data", "split_column"), config.data.split_column, ()
    if isinstance(config.data.stratify, str):
        yield ("data", "stratify"), config.data.stratify, ()
    if config.gates.freshness is not None and config.gates.freshness.column is not None:
        yield ("gates", "freshness", "column"), config.gates.freshness.column, ()
    for name in config.data.types:
        yield ("data", "types", name), name, ()
    if isinstance(config.data.columns, tuple):
        for number, name in enumerate(config.data.columns):
            yield ("data", "columns", number), name, ()


def _label_names(label: LabelConfig) -> Iterator[NamedColumn]:
    for name, part in label.parts.items():
        yield (*part.setting(name), "key"), part.key, ()
    if label.weight is not None:
        yield ("label", "weight"), label.weight, ()


def _feature_names(features: dict[str, Feature]) -> Iterator[NamedColumn]:
    for name, feature in features.items():
        others = [*features] if isinstance(feature, CrossedFeature) else ()
        for path, column in feature.column_settings(name).items():
            yield ("features", name, *path), column, others


def _slice_names(config: PipelineConfig) -> Iterator[NamedColumn]:
    for number, entry in enumerate(config.evaluate.slices):
        where: KeyPath = ("evaluate", "slices", number)
        if isinstance(entry, str):
            yield where, entry, ()
        else:
            yield from (((*where, position), name, ()) for position, name in enumerate(entry))
