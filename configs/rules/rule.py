"""What a rule across sections is, and how rules are applied.

A rule is a generator function whose parameters are the sections it needs, by name, so that it applies even if another
section is invalid. It yields violations: the path of the setting, and a message. Of a section with mistakes it gets the
valid part, and ends where it reads a setting that was refused; so it yields a violation only once it is certain.

Every public function of a module of rules that returns `Iterator[Violation]` is one.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType

from headrace.configs.schema.section import KeyPath, RefusedSettingError

Violation = tuple[KeyPath, str]
Rule = Callable[..., Iterator[Violation]]


class SharedMessage(str):
    """The message of a violation about all settings with a mistake. Their lines follow when it is located.

    others: the settings besides the one that the violation names.
    """

    __slots__ = ("others",)
    others: tuple[KeyPath, ...]

    def __new__(cls, what: str, others: Iterable[KeyPath]) -> SharedMessage:
        found = super().__new__(cls, what)
        found.others = tuple(others)
        return found


def about(settings: Sequence[KeyPath], what: str) -> Violation:
    """A message about these settings, at the first of them."""
    return settings[0], SharedMessage(what, settings[1:])


def settings_of(violation: Violation) -> tuple[KeyPath, ...]:
    """All settings that it is about."""
    where, what = violation
    return where, *others_of(what)


def others_of(what: str) -> tuple[KeyPath, ...]:
    """The settings of a message besides that of its violation."""
    return what.others if isinstance(what, SharedMessage) else ()


def rules_of(*modules: ModuleType) -> tuple[Rule, ...]:
    """The rules in these modules, in order."""
    return tuple(
        each
        for module in modules
        for name, each in vars(module).items()
        if isinstance(each, FunctionType) and each.__module__ == module.__name__ and not name.startswith("_")
        if each.__annotations__.get("return") == "Iterator[Violation]"
    )


def apply_rules(rules: Iterable[Rule], sections: Mapping[str, object]) -> list[Violation]:
    """The violations of the rules in these sections. A rule that needs any other section is skipped.

    A rule that reads a refused setting ends there.
    """
    violations: list[Violation] = []
    for rule in rules:
        needs = inspect.signature(rule).parameters
        if needs.keys() <= sections.keys():
            with contextlib.suppress(RefusedSettingError):
                for violation in rule(**{name: sections[name] for name in needs}):
                    violations.append(violation)  # noqa: PERF402 - `extend` would lose them all if the rule ends early
    return violations
