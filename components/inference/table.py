"""The meaning of all columns of some data, in one look.

table = infer(sample, "tipped")                # raises DataError
table.labels["tipped"].settings                # {"kind": "binary"}
dict(features_of(table.choices[0], {"tipped"}))  # {"miles": {"column": "numeric"}}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headrace.common.names import plain_letters
from headrace.components.inference.columns import LEFT_OUT, Choice, choose
from headrace.components.inference.comments import show_of
from headrace.components.inference.facts import ColumnFacts, facts_of
from headrace.components.inference.images import are_images, may_say_size
from headrace.components.inference.labels import LabelChoice, choose_label, likely_labels
from headrace.components.inference.leaks import determines, suspicion
from headrace.components.inference.sample import Sample

FEW_NUMBERS = 16
"""Numbers behind a name that are tried one by one."""


@dataclass(frozen=True)
class InferredTable:
    """The labels by column, and a choice for each other column, in the data's order. missing: rows without each."""

    labels: dict[str, LabelChoice]
    choices: tuple[Choice, ...]
    missing: dict[str, int]


def infer(sample: Sample, *labels: str) -> InferredTable:
    """The meaning of the columns. Raises DataError if a label cannot be predicted."""
    targets = {label: _facts(sample, label) for label in labels}
    chosen = {label: choose_label(target, partial(sample.spelled, label)) for label, target in targets.items()}
    choices = choose_columns(sample, [name for name in sample.names if name not in targets], *labels)
    return InferredTable(chosen, choices, {label: target.missing for label, target in targets.items()})


def choose_columns(
    sample: Sample, names: Collection[str], *labels: str, fixed: Collection[str] = ()
) -> tuple[Choice, ...]:
    """A choice for each of these columns, in the order of the data. fixed: those whose type cannot be declared, besides
    those of the sample.
    """
    targets, chosen = [_facts(sample, label) for label in labels], frozenset(names)
    fixed = {*fixed, *sample.fixed}
    return tuple(_choice_of_all(sample, name, targets, fixed=name in fixed) for name in sample.names if name in chosen)


def _choice_of_all(sample: Sample, name: str, targets: Sequence[ColumnFacts], *, fixed: bool) -> Choice:
    """A choice for a column, which gives none of the labels away."""
    found = [_choice(sample, name, target, fixed=fixed) for target in targets]
    return next((one for one in found if one.group == LEFT_OUT or one.suspicion), found[0])


def labels_of(sample: Sample) -> list[str]:
    """The columns that could be labels, those with few classes first."""
    return likely_labels(_facts(sample, name) for name in sample.names)


def features_of(choice: Choice, taken: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The features of one column: name and settings. The name is the column's, as far as a tensor may have it."""
    for suffix, settings in choice.features.items():
        name = free_name(choice.column + suffix, taken)
        column, *rest = settings.items()
        key = {} if name == choice.column else {"key": choice.column}
        yield name, dict([column, *key.items(), *rest])


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A name of letters, digits and `_` that is not taken."""
    ascii_name = re.fullmatch(r"[A-Za-z_]\w*", wanted, flags=re.ASCII)
    name = wanted if ascii_name else re.sub(r"\W+", "_", plain_letters(wanted), flags=re.ASCII).strip("_") or "feature"
    name = f"feature_{name}" if name[0].isdigit() else name
    return name if name not in taken else f"{name}_{_free_number(name, taken)}"


def _free_number(name: str, taken: Collection[str]) -> int:
    """The first number from 2 on that makes the name a free one; after a few, one found by halving, as thousands of
    names may have become the same.
    """
    for number in range(2, FEW_NUMBERS):
        if f"{name}_{number}" not in taken:
            return number
    high = FEW_NUMBERS
    while f"{name}_{high}" in taken:
        high *= 2
    low = high // 2 if high > FEW_NUMBERS else FEW_NUMBERS - 1  # is taken
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if f"{name}_{middle}" in taken else (low, middle)
    return high


def _facts(sample: Sample, name: str) -> ColumnFacts:
    return facts_of(name, sample.kinds[name], sample.column(name), of_booleans=name in sample.booleans)


def _choice(sample: Sample, name: str, target: ColumnFacts, *, fixed: bool) -> Choice:
    if may_say_size(name, sample.kinds) and are_images(_facts(sample, "image")):
        return Choice(name, LEFT_OUT, "says only what each file of `image` says itself")
    facts = _facts(sample, name)
    if determines(sample.column(name), sample.column(target.name), facts, target):
        what = f"each value stands for one of {target.name}, such as {show_of(facts, facts.least)}"
        return Choice(name, LEFT_OUT, f"{what}: it gives the answer away")
    found = choose(facts, fixed=fixed)
    what = suspicion(sample.column(name), sample.column(target.name), facts, target)
    if found.group == LEFT_OUT or not what:
        return found
    return replace(found, suspicion=f"{what}; leave it out if it is not known before {target.name}")
