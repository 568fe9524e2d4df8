"""Every text is read and written as UTF-8 by name. Ruff's PLW1514 holds calls whose type it knows; this the rest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("common", "configs", "components", "trainer", "pipeline", "benchmarks", "tools")
BEFORE_ENCODING = {"read_text": 0, "write_text": 1}
"""Methods of paths, and how many arguments stand before `encoding`."""
PROCESSES = {"run", "Popen", "check_output"}


def unnamed(source: str) -> list[str]:
    """The calls that leave a text's encoding to the locale."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [ast.unparse(call) for call in calls if _leaves_it_open(call)]


def _leaves_it_open(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    keywords = {keyword.arg for keyword in call.keywords}
    if "encoding" in keywords:
        return False
    if name in PROCESSES:
        return bool(keywords & {"text", "universal_newlines"})
    if name in BEFORE_ENCODING:
        return len(call.args) <= BEFORE_ENCODING[name]
    return name == "TextIOWrapper" or (name in ("open", "fdopen") and _mode(call) in {"r", "w", "a", "x", "rt", "wt"})


def _mode(call: ast.Call) -> str:
    """A mode that is written out; "" for none and for any other."""
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    modes = (one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return next((mode for mode in modes if set(mode) <= set("rwaxbt+")), "")


@pytest.mark.parametrize("folder", FOLDERS)
def test_sources_name_the_encoding_of_every_text(folder: str) -> None:
    files = {path: unnamed(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py")}
    assert files
    assert {str(path.relative_to(ROOT)): calls for path, calls in files.items() if calls} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("path.read_text()", True),
        ('path.write_text("a")', True),
        ('log.open("w")', True),
        ("run(command, text=True)", True),
        ('path.read_text("utf-8")', False),
        ('path.write_text("a", "utf-8")', False),
        ('log.open("rb")', False),
        ('run(command, text=True, encoding="utf-8")', False),
        ("run(command)", False),
    ],
)
def test_calls_without_an_encoding_are_found(source: str, found: bool) -> None:
    assert unnamed(source) == ([ast.unparse(ast.parse(source, mode="eval").body)] if found else [])
