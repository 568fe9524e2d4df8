"""What a rule across sections is, and how rules are applied.

A rule is a generator function whose parameters are the sections it needs, by name, so that it applies even if another
section is invalid. It yields violations: the path of the setting, and a message.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping

from headrace.configs.schema.section import KeyPath

Violation = tuple[KeyPath, str]
Rule = Callable[..., Iterator[Violation]]


def apply_rules(rules: Iterable[Rule], sections: Mapping[str, object]) -> list[Violation]:
    """The violations of the rules in these sections. A rule that needs any other section is skipped."""
    violations: list[Violation] = []
    for rule in rules:
        needs = inspect.signature(rule).parameters
        if needs.keys() <= sections.keys():
            violations += rule(**{name: sections[name] for name in needs})
    return violations
