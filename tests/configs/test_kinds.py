"""Kinds from installed distributions: which are used, and how those that cannot be used are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from headrace.common.entry_points import additions
from headrace.common.errors import RunError
from headrace.configs.schema.kinds import Kind, OpenUnion
from headrace.configs.schema.sources import SOURCES


class Shape(Kind):
    """The base of the kinds of this test."""


class Square(Shape):
    """A built-in kind."""

    implementation: ClassVar[str] = "math.sqrt"
    kind: Literal["square"]
    side: int = 1


class Square2(Square):
    """A built-in kind that was copied, and keeps the tag."""


class Circle(Shape):
    """A kind that a distribution adds."""

    implementation: ClassVar[str] = "math.pi"
    kind: Literal["circle"]
    radius: int = 1


class Nameless(Shape):
    """A kind without its code."""

    kind: Literal["nameless"]


def install(folder: Path, distribution: str, **entries: str) -> None:
    """Leave what an installer leaves of a distribution."""
    info = folder / f"{distribution}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.0\n")
    lines = [f"{name} = {location}\n" for name, location in entries.items()]
    (info / "entry_points.txt").write_text("".join(["[headrace.shapes]\n", *lines]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def shapes() -> tuple[OpenUnion, TypeAdapter[Any]]:
    union = OpenUnion("headrace.shapes", base=Shape, tag="kind", built_in=(f"{__name__}.Square",))
    return union, TypeAdapter(Annotated[Shape, union])


def refusal(settings: dict[str, Any]) -> str:
    """Why the settings are refused."""
    with pytest.raises(ValidationError) as caught:
        shapes()[1].validate_python(settings)
    (error,) = caught.value.errors()
    assert error["loc"] == (settings["kind"],)
    return error["msg"]


def test_installed_kind_is_chosen_by_its_tag_and_its_settings_are_checked(site: Path) -> None:
    install(site, "round-shapes", circle=f"{__name__}:Circle")
    union, adapter = shapes()
    assert union.installed == {"circle"}
    assert adapter.validate_python({"kind": "circle", "radius": 2}) == Circle(kind="circle", radius=2)
    with pytest.raises(ValidationError, match=r"circle\.radius"):
        adapter.validate_python({"kind": "circle", "radius": "two"})
    assert [branch["$ref"] for branch in adapter.json_schema()["oneOf"]] == ["#/$defs/Square", "#/$defs/Circle"]


@pytest.mark.parametrize(
    ("name", "location", "why"),
    [
        ("triangle", "no_such_module:Triangle", "No module named 'no_such_module'"),
        ("triangle", f"{__name__}:Triangle", "has no attribute 'Triangle'"),
        ("triangle", "json:JSONDecoder", f"is not a class derived from {__name__}.Shape"),
        ("triangle", f"{__name__}:Circle", '`kind: Literal["triangle"]`'),
        ("nameless", f"{__name__}:Nameless", "`implementation`"),
    ],
)
def test_kind_that_cannot_be_used_is_refused_with_its_distribution(
    site: Path, name: str, location: str, why: str
) -> None:
    install(site, "odd-shapes", **{name: location})
    said = refusal({"kind": name})
    assert f'entry point "{name}" of odd-shapes 2.0 (group headrace.shapes)' in said
    assert why in said


def test_built_in_kind_stays_whatever_is_installed(site: Path, log: pytest.LogCaptureFixture) -> None:
    install(site, "odd-shapes", square=f"{__name__}:Circle")
    assert shapes()[1].validate_python({"kind": "square"}) == Square(kind="square")
    assert 'entry point "square" of odd-shapes 2.0' in log.text


def test_two_built_in_classes_of_one_kind_are_both_named() -> None:
    twice = f"{__name__}.Square", f"{__name__}.Square2"
    union = OpenUnion("headrace.shapes", base=Shape, tag="kind", built_in=twice)
    with pytest.raises(RunError, match=r"Square2.*Square.*same `kind`: square"):
        TypeAdapter(Annotated[Shape, union]).validate_python({"kind": "square"})


def test_implementation_is_a_dotted_path() -> None:
    class Short(Circle):
        implementation: ClassVar[str] = "Reader"

    with pytest.raises(RunError, match=r"Short: `implementation` is 'Reader'"):
        Short.load_implementation()


def test_code_of_a_kind_that_cannot_be_imported_is_named_with_its_class() -> None:
    class Lost(Circle):
        implementation: ClassVar[str] = "no_such_module.Reader"

    with pytest.raises(RunError, match=r"Lost: .* no_such_module\.Reader: ModuleNotFoundError"):
        Lost.load_implementation()


def test_kind_that_two_distributions_add_is_refused_with_both_and_others_are_not(site: Path) -> None:
    install(site, "round-shapes", circle=f"{__name__}:Circle")
    install(site, "other-shapes", circle=f"{__name__}:Circle")
    said = refusal({"kind": "circle"})
    assert "round-shapes 2.0" in said
    assert "other-shapes 2.0" in said
    assert shapes()[1].validate_python({"kind": "square"}) == Square(kind="square")


def test_entry_point_in_a_group_that_nothing_reads_is_named(site: Path, log: pytest.LogCaptureFixture) -> None:
    install(site, "misspelled", kafka="json:JSONDecoder")
    info = site / "misspelled-2.0.dist-info" / "entry_points.txt"
    info.write_text(info.read_text(encoding="utf-8").replace("headrace.shapes", "headrace.sorces"), encoding="utf-8")
    for _ in range(2):
        assert additions("headrace.sources") == {}
    (said,) = [message for message in log.messages if "misspelled" in message]
    assert said.startswith('entry point "kafka" of misspelled 2.0 (group headrace.sorces) is ignored: ')
    assert said.endswith('did you mean "headrace.sources"?')


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no_such_module.Square", "ModuleNotFoundError: No module named 'no_such_module'"),
        (f"{__name__}.Sqare", "has no attribute 'Sqare'"),
        ("json.JSONDecoder", "is not a class derived from"),
        (f"{__name__}.Shape", '`kind: Literal["..."]`'),
        (f"{__name__}.Nameless", "the class variable `implementation`"),
    ],
)
def test_line_of_the_registry_with_a_mistake_is_named(line: str, why: str) -> None:
    with pytest.raises(RunError) as caught:
        _ = OpenUnion("headrace.shapes", base=Shape, tag="kind", built_in=(line,)).kinds
    assert f'the line "{line}" in the registry of headrace.shapes' in str(caught.value)
    assert why in str(caught.value)


def test_the_page_about_data_lists_every_built_in_source() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    table = page[page.index("| kind | reads |") :].partition("\n\n")[0]
    listed = [
        kind for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for kind in re.findall(r"`(\w+)`", cell)
    ]
    assert sorted(listed) == sorted(SOURCES.kinds.keys() - SOURCES.installed)
