"""The registry of components: a gate that would guard nothing is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.configs.schema.components import DECLARATIONS, IDS, Declaration, check_declarations


@pytest.mark.parametrize(
    ("guarded", "why"),
    [
        ("transfrom", 'names "transfrom", .* did you mean "transform"\\?'),
        ("example_gen", 'names "example_gen", .*declared after'),
        ("profile_gate", 'names "profile_gate"'),
    ],
)
def test_gate_guards_only_components_that_are_declared_after_it(guarded: str, why: str) -> None:
    gate = Declaration("mine", before=("transform", guarded))
    names = [*DECLARATIONS]
    place = names.index("transform")
    with pytest.raises(ValueError, match=rf"^Components\.gate: `before` {why}"):
        check_declarations(
            {name: DECLARATIONS[name] for name in names[:place]}
            | {"gate": gate}
            | {name: DECLARATIONS[name] for name in names[place:] if name != "profile_gate"}
        )


def test_gate_whose_output_nothing_reads_guards_what_it_must() -> None:
    assert DECLARATIONS["profile_gate"].before == ("record_blessing", "pusher", "record_training")


def test_every_component_is_built_by_a_function_of_the_dag_or_of_its_own_folder() -> None:
    own = r"headrace\.(pipeline\.dag|components(\.\w+)+)\.\w+"
    assert all(re.fullmatch(own, one.module) for one in DECLARATIONS.values())


def test_the_page_about_the_design_lists_every_component() -> None:
    page = (Path(__file__).parents[2] / "docs" / "design.md").read_text(encoding="utf-8")
    table = page[page.index("| node | does |") :].partition("\n\n")[0]
    listed = ", ".join(re.findall(r"^\| ([A-Z].*?) \|", table, re.MULTILINE)).split(", ")
    assert sorted(listed) == sorted(IDS)
