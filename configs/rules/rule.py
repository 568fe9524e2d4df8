"""What a rule across sections is, and how rules are applied.

A rule is a generator function whose parameters are the sections it needs, by name, so that it applies even if another
section is invalid. It yields violations: the path of the setting, and a message. Of a section with mistakes it gets the
valid part, and ends where it reads a setting that was refused; so it yields a violation only once it is certain.

Every public function of a module of rules that returns `Iterator[Violation]` is one.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType

from headrace.configs.schema.section import KeyPath, RefusedSettingError

Violation = tuple[KeyPath, str]
Rule = Callable[..., Iterator[Violation]]


class ViolationMessage(str):
    """The message of a violation whose settings are more than one, or whose mistake other settings may have too.

    others: the settings besides the one that the violation names; their lines follow when it is located.
    mistake: the same for the same mistake of another feature, column or task, whatever names and values its message
    has; None if it is of this violation alone. A message that is a plain string is its own mistake.
    own: the value of this setting, shown beside its name if that of the first one is another.
    """

    __slots__ = ("mistake", "others", "own")
    others: tuple[KeyPath, ...]
    mistake: Hashable
    own: str

    def __new__(
        cls, what: str, *, others: Iterable[KeyPath] = (), mistake: Hashable = None, own: str = ""
    ) -> ViolationMessage:
        found = super().__new__(cls, what)
        found.others, found.mistake, found.own = tuple(others), mistake, own
        return found


def about(settings: Sequence[KeyPath], what: str) -> Violation:
    """A message about these settings, at the first of them."""
    return settings[0], ViolationMessage(what, others=settings[1:])


def named(what: str, *mistake: Hashable, own: str = "") -> ViolationMessage:
    """A message that names a feature, a column or a value, of a mistake that is the same for others."""
    return ViolationMessage(what, mistake=mistake, own=own)


def settings_of(violation: Violation) -> tuple[KeyPath, ...]:
    """All settings that it is about."""
    where, what = violation
    return where, *others_of(what)


def others_of(what: str) -> tuple[KeyPath, ...]:
    """The settings of a message besides that of its violation."""
    return what.others if isinstance(what, ViolationMessage) else ()


def mistake_of(what: str) -> Hashable:
    """The same for the same mistake; None if it is of its violation alone."""
    return what.mistake if isinstance(what, ViolationMessage) else what


def own_of(what: str) -> str:
    """The value of the setting with this message; empty if it does not matter, or is not shown."""
    return what.own if isinstance(what, ViolationMessage) else ""


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
