"""The parser's complaint about text that is not YAML, in plain words, with what usually causes it."""

from __future__ import annotations

import re

from yaml import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError

from headrace.configs.tree import Mistake, Place

_STARTERS = {
    "%": "a text that starts with % needs quotes around it",
    "|": "a text that starts with | needs quotes around it",
    "@": "a text that starts with @ needs quotes around it",
    "`": "a text that starts with ` needs quotes around it",
    "\t": "lines are indented with spaces, and here is a tab; replace it by spaces",
}
_QUOTES = 'needs quotes around it, as in "*.csv"'
_COLON = "a `name:` cannot stand here: the line is indented too far, or a text with `: ` in it needs quotes around it"
_HINTS: tuple[tuple[str, str, str], ...] = (
    # what the parser was doing, its complaint (regular expressions), and what to say
    ("alias", "expected alphabetic", f"a text that starts with * {_QUOTES}"),
    ("anchor", "expected alphabetic", f"a text that starts with & {_QUOTES}"),
    ("tag|directive", ".", "a text that starts with ! or % needs quotes around it"),
    ("block scalar", ".", "a text that starts with | or > needs quotes around it"),
    ("", "mapping values are not allowed", _COLON),
    (
        "",
        "could not find expected ':'",
        "a line that is no `name: value`; its colon, or the space after it, is missing",
    ),
    ("block mapping", "found '<scalar>'", "a second text after the value; quote both together, or look at indentation"),
    ("block mapping", "expected <block end>", "this line is not indented like the settings above it"),
    ("block collection|sequence", "expected <block end>", "this line is not indented like the list items above it"),
    ("flow mapping", ".", "a { is not closed by }, or a comma between its settings is missing"),
    ("flow sequence", ".", "a [ is not closed by ], or a comma between its items is missing"),
    ("flow node|block node", ".", "a value was expected here"),
    ("quoted scalar", "unknown escape", "in \"...\" a backslash starts an escape; write it twice, or use '...'"),
    ("quoted scalar", ".", "a text in quotes is not closed by the same quote"),
    ("", "sequence entries are not allowed", "a list starts on a line of its own; or write it as [first, second]"),
    ("single document", ".", "a config is one document; remove the line `---` or `...` inside it"),
    ("", "second occurrence|duplicate anchor", "two anchors (&name) have one name"),
    ("", "did not find expected", "this line does not fit what stands above it; look at indentation and brackets"),
)


def syntax_mistake(error: YAMLError, text: str, source: str, layer: int, *, one_line: bool) -> Mistake:
    """One mistake, placed at `file:line:column`."""
    line, column, what = _reader(error, text) if isinstance(error, ReaderError) else _marked(error)
    if one_line:
        return Mistake(Place(layer, 0, 0, source), what)
    return Mistake(Place(layer, line, column, source, exact=True), what)


def _reader(error: ReaderError, text: str) -> tuple[int, int, str]:
    before = text[: error.position]
    letter = ord(error.character) if isinstance(error.character, str) else int(error.character)
    what = f"the character U+{letter:04X} cannot stand in YAML; remove it, or write it as an escape in double quotes"
    return before.count("\n") + 1, error.position - before.rfind("\n"), what


def _marked(error: YAMLError) -> tuple[int, int, str]:
    if not isinstance(error, MarkedYAMLError):
        return 1, 1, f"not YAML: {error}"
    mark = error.problem_mark or error.context_mark
    context, problem = error.context or "", error.problem or ""
    opened = error.context_mark
    since = f" (it starts on line {opened.line + 1})" if opened and mark and opened.line != mark.line else ""
    words = f"not YAML: {_hint(context, problem)}{since}"
    return (mark.line + 1, mark.column + 1, words) if mark else (1, 1, words)


def _hint(context: str, problem: str) -> str:
    if undefined := re.search(r"undefined alias '(.*)'", problem):
        return f"*{undefined[1]} refers to an anchor &{undefined[1]} that does not stand before it; {_STAR}"
    if starter := re.search(r"found character (.+) that cannot start", problem):
        return next((said for letter, said in _STARTERS.items() if repr(letter) == starter[1]), problem)
    for doing, complaint, said in _HINTS:
        if re.search(doing, context) and re.search(complaint, problem):
            return said
    return problem


_STAR = "a text that starts with * needs quotes around it"
