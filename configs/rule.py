"""What a rule across sections is, and how rules are asked.

A rule takes the sections it speaks of, by the names of their parameters, so that it applies even where another section
is broken. It yields what it finds wrong: the way to the setting, and what to say of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping

from headrace.configs.tree import Where

Finding = tuple[Where, str]
Rule = Callable[..., Iterator[Finding]]


def ask(rules: Iterable[Rule], parts: Mapping[str, object]) -> list[Finding]:
    """What the rules find in the sections given; one that needs a section not given is left out."""
    findings: list[Finding] = []
    for rule in rules:
        needs = inspect.signature(rule).parameters
        if needs.keys() <= parts.keys():
            findings += rule(**{name: parts[name] for name in needs})
    return findings
