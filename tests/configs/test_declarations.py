"""The registry of components: a gate that would guard nothing is refused."""

from __future__ import annotations

import re

import pytest

from headrace.configs.schema.components import DECLARATIONS, Declaration, check_declarations


@pytest.mark.parametrize(
    ("guarded", "why"),
    [
        ("transfrom", 'names "transfrom", .* did you mean "transform"\\?'),
        ("example_gen", 'names "example_gen", which is no component that is declared after it'),
        ("profile_gate", 'names "profile_gate"'),
    ],
)
def test_gate_guards_only_components_that_are_declared_after_it(guarded: str, why: str) -> None:
    gate = Declaration("Gate", "mine.gate", before=("transform", guarded))
    names = [*DECLARATIONS]
    place = names.index("transform")
    with pytest.raises(ValueError, match=rf"^Components\.gate: `before` {why}"):
        check_declarations(
            {name: DECLARATIONS[name] for name in names[:place]}
            | {"gate": gate}
            | {name: DECLARATIONS[name] for name in names[place:] if name != "profile_gate"}
        )


def test_every_gate_of_ours_guards_something() -> None:
    guarding = {name for name, declared in DECLARATIONS.items() if declared.before}
    assert guarding == {"profile_gate"}
    assert all(re.fullmatch(r"headrace\.pipeline\.dag\.\w+\.\w+", one.make) for one in DECLARATIONS.values())
