"""The settings of several runs side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HYPERPARAMETERS = ("model", "train")
"""The sections that training looks at."""
_MOST = 2


@dataclass(frozen=True)
class Row:
    """One setting; a value for each run, None where it has none of that name."""

    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """Between the runs."""
        return len(set(self.values)) > 1

    def own(self, number: int) -> bool:
        """Whether no other run has the value of this one."""
        return self.values.count(self.values[number]) == 1


def flattened(tree: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Dotted names to values in words, in order: {"model.hidden": "[128, 64]"}."""
    found: dict[str, str] = {}
    for key, value in tree.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            found |= flattened(value, f"{name}.")
        else:
            found[name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return found


def rows(settings: Sequence[Mapping[str, str]]) -> list[Row]:
    """Every setting of any run, in the order of the first that has it, with its neighbours."""
    names: list[str] = []
    for run in settings:
        place = 0
        for name in run:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return [Row(name, tuple(run.get(name) for run in settings)) for name in names]


def differing(settings: Sequence[Mapping[str, str]]) -> list[Row]:
    """Those that are not the same in all runs."""
    return [row for row in rows(settings) if row.differs]


def hyperparameters(settings: Sequence[Mapping[str, str]]) -> list[Row]:
    """Those of the model and of training."""
    return [row for row in rows(settings) if row.name.partition(".")[0] in HYPERPARAMETERS]


def telling(differences: Sequence[Row], number: int) -> str:
    """What tells a run from the others in a few words: `hidden [32], dropout 0.2`.

    First the setting that fewest others share, then the one that those share least; of several alike, a hyperparameter.
    None is told that the runs share which are not told apart yet, unless no other at all has it.
    """
    left = sorted(differences, key=lambda row: row.name.partition(".")[0] not in HYPERPARAMETERS)
    left = [row for row in left if row.values[number] is not None]
    alike, told = set(range(len(left[0].values) if left else 0)), list[str]()
    while left and len(told) < _MOST:
        row = max(left, key=lambda row: sum(row.values[other] != row.values[number] for other in alike))
        alike = {other for other in alike if row.values[other] == row.values[number]}
        left.remove(row)
        told.append(f"{row.name.rpartition('.')[2]} {row.values[number]}")
        left = [
            row for row in left if {row.values[other] for other in alike} != {row.values[number]} or row.own(number)
        ]
    return ", ".join([*told, "…"] if left else told)
