"""The settings of runs: without credentials, by dotted names, and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.common.credentials import MASK, REDACTED_FIELD, redact

HYPERPARAMETERS = ("model", "train")
"""The sections of the config that training uses."""
_MOST = 2


@dataclass(frozen=True)
class SettingRow:
    """One setting with its value in each run; None for a run that does not have the setting."""

    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1

    def unique(self, number: int) -> bool:
        """Whether no other run has the value of this run."""
        return self.values.count(self.values[number]) == 1


def flattened(tree: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Dotted names to values as text, in order: `{"model.hidden": "[128, 64]"}`."""
    flat: dict[str, str] = {}
    for key, value in tree.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, f"{name}.")
        else:
            flat[name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return flat


def rows(settings: Sequence[Mapping[str, str]]) -> list[SettingRow]:
    """Every setting of any run, in the order of the first run that has it and after the same neighbor."""
    names: list[str] = []
    for run in settings:
        position = 0
        for name in run:
            if name in names:
                position = names.index(name) + 1
            else:
                names.insert(position, name)
                position += 1
    return [SettingRow(name, tuple(run.get(name) for run in settings)) for name in names]


def differing(settings: Sequence[Mapping[str, str]]) -> list[SettingRow]:
    """The settings in which the runs differ."""
    return [row for row in rows(settings) if row.differs]


def hyperparameters(settings: Sequence[Mapping[str, str]]) -> list[SettingRow]:
    """The settings of the model and of training."""
    return [row for row in rows(settings) if row.name.partition(".")[0] in HYPERPARAMETERS]


def distinguish(differences: Sequence[SettingRow], number: int) -> str:
    """Name the settings that distinguish a run from the others: `hidden [32], dropout 0.2`.

    The first is the setting whose value the fewest other runs share, the second the one whose value the fewest of those
    share; hyperparameters win ties. A value that all runs still in question share is not named, unless it is unique.
    """
    left = sorted(differences, key=lambda row: row.name.partition(".")[0] not in HYPERPARAMETERS)
    left = [row for row in left if row.values[number] is not None]
    alike, named = set(range(len(left[0].values) if left else 0)), list[str]()
    while left and len(named) < _MOST:
        row = max(left, key=lambda row: sum(row.values[other] != row.values[number] for other in alike))
        alike = {other for other in alike if row.values[other] == row.values[number]}
        left.remove(row)
        named.append(f"{row.name.rpartition('.')[2]} {row.values[number]}")
        left = [
            row for row in left if {row.values[other] for other in alike} != {row.values[number]} or row.unique(number)
        ]
    return ", ".join([*named, "…"] if left else named)


def stripped(value: Any) -> Any:
    """A tree of mappings and lists without credentials.

    A config that was loaded has passed the check for credentials, but the options of a user's own model can hold
    anything. So texts lose what looks like a credential, and what stands under a name such as `api_key` becomes `***`.
    Features are exempt: they bear the names of columns.
    """
    if isinstance(value, dict):
        return {
            redact(key) if isinstance(key, str) else key: _hidden(item)
            if REDACTED_FIELD.search(str(key)) and not (isinstance(item, dict) and "column" in item)
            else stripped(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [stripped(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def _hidden(value: Any) -> Any:
    """Hide a value except whether it is set, and the names in a mapping."""
    if isinstance(value, dict):
        return {redact(key) if isinstance(key, str) else key: _hidden(item) for key, item in value.items()}
    return MASK if value and value is not True else value
