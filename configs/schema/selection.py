"""An entry under `features:` that stands for columns of the data: `auto`, or a pattern such as `"x*"`.

Selection("x*", {"column": "numeric"}, exceptions=("x_id",)).takes("x1", "float")      # True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

AUTO = "auto"
COLUMN_TYPES = ("int", "float", "string", "bytes")
PATTERN = r"[*?\[]"
"""A regular expression that finds what makes a name a pattern, as in a shell."""


class Resolved(NamedTuple):
    """What selections, and a label with `kind: auto`, stand for in the present data.

    features: by selection, the settings by name of feature; label: the settings in place of `kind: auto`, None if there
    is not such a label, and those of tasks under `tasks`; model: the settings of the model that suits the data; types:
    `data.types` of columns that need another type than that of their values; left_out: why columns that `auto` would
    take are no features, by column; columns: `data.columns` if some of these cannot even be read, None otherwise.
    """

    features: dict[str, dict[str, dict[str, Any]]]
    label: dict[str, Any] | None
    model: dict[str, Any]
    types: dict[str, str]
    left_out: dict[str, str] = {}
    columns: str | None = None


@dataclass(frozen=True)
class Selection:
    """One entry under `features:` that stands for columns.

    name: a column or a pattern; settings: of the feature of each column, None for `auto`; types: the types of columns
    that it takes, empty for all; exceptions: columns or patterns that it does not take.
    """

    name: str
    settings: Mapping[str, Any] | None
    types: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()

    def takes(self, column: str, column_type: str) -> bool:
        """Whether the entry is about a column of this type."""
        if self.types and column_type.removesuffix(" list") not in self.types:
            return False
        return _matches(column, self.name) and not any(_matches(column, other) for other in self.exceptions)

    @property
    def precision(self) -> tuple[bool, int]:
        """By which it precedes another entry: a name before a pattern, then the pattern with more letters."""
        return not is_pattern(self.name), len(re.sub(r"\[[^]]*\]|[*?]", "", self.name))


def is_pattern(name: str) -> bool:
    """Whether the name of an entry is a pattern."""
    return re.search(PATTERN, name) is not None


def _matches(column: str, pattern: str) -> bool:
    return column == pattern or fnmatchcase(column, pattern)
