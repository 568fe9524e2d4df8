"""YAML text to a tree of values with locations. All problems are collected, so that they can be reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable

import yaml
from yaml import MarkedYAMLError, YAMLError
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.scanner import Scanner

from headrace.configs.loading import scalars
from headrace.configs.loading.tree import MAX_DEPTH, LocatedProblem, Location, Scalar, Tree, dotted
from headrace.configs.schema.section import KeyPath

MAX_VALUES = 200_000
_UNLIKE = frozenset("\t\ufeff")
"""Characters that the two parsers treat differently."""
_TOO_DEEP = f"values are nested more than {MAX_DEPTH} deep, or an alias (*name) is inside its own anchor (&name)"
_TOO_MANY = (
    f"more than {MAX_VALUES:,} values, counting the contents of each alias (*name); "
    "put long lists in a file of their own"
)


def read(text: str, source: str, layer: int, *, one_line: bool = False) -> tuple[Tree | None, list[LocatedProblem]]:
    """The tree (None if the text is empty or not YAML) and the problems found.

    one_line: The text comes from the command line, where line numbers have no meaning.
    """
    try:
        node = _composed(text)
    except YAMLError as error:
        return None, [_syntax_problem(error, text, source, layer, one_line=one_line)]
    except RecursionError:
        return None, [LocatedProblem(Location(layer, 0, 0, source), _TOO_DEEP)]
    builder = _NodeTreeBuilder(source, layer, one_line=one_line)
    try:
        tree = None if node is None else builder.tree(node, builder.location(node), ())
    except _LimitError as error:
        return None, [LocatedProblem(error.location, error.what)]
    return tree, list(dict.fromkeys(builder.problems))


class _LimitError(Exception):
    def __init__(self, location: Location, what: str) -> None:
        self.location, self.what = location, what


def _composed(text: str) -> Node | None:
    """The root node; None if the text is empty. Raises YAMLError.

    libyaml composes it, six times as fast as PyYAML's own parser. The latter reads what libyaml refuses, as its errors
    say more; texts with tabs or byte order marks, of which libyaml allows more; and texts with values that are empty,
    for which libyaml gives the location of what follows.
    """
    if _FAST is not None and _UNLIKE.isdisjoint(text):
        try:
            root = _FAST(text).get_single_node()
        except YAMLError:
            pass
        else:
            if root is None or not _has_empty(root, set()):
                return root
    return _Composer(text).get_single_node()


def _has_empty(node: Node, seen: set[int]) -> bool:
    """Whether a value is left empty. seen: ids of nodes, as aliases share them and may be inside their own anchors."""
    if isinstance(node, ScalarNode):
        return node.value == "" and not node.style
    if id(node) in seen:
        return False
    seen.add(id(node))
    if isinstance(node, MappingNode):
        return any(_has_empty(one, seen) for pair in node.value for one in pair)
    return any(_has_empty(one, seen) for one in node.value)


class _Composer(Reader, Scanner, Parser, Composer, scalars.Resolver):
    """PyYAML's own parser."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        scalars.Resolver.__init__(self)


_FAST: Callable[[str], Composer] | None = None
"""None if PyYAML was built without libyaml."""
if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _FastComposer(Composer, CParser, scalars.Resolver):
        """libyaml's parser. Nodes are composed in Python, where values nested too deep do not exhaust the C stack."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            scalars.Resolver.__init__(self)

    _FAST = _FastComposer


class _NodeTreeBuilder:
    """Turns the composer's nodes into a tree, collecting problems."""

    def __init__(self, source: str, layer: int, *, one_line: bool) -> None:
        self.source, self.layer, self.one_line = source, layer, one_line
        self.problems: list[LocatedProblem] = []
        self.values = 0

    def location(self, node: Node) -> Location:
        if self.one_line:
            return Location(self.layer, 0, 0, self.source)
        return Location(self.layer, node.start_mark.line + 1, node.start_mark.column + 1, self.source)

    def add_problem(self, node: Node, path: KeyPath, what: str) -> None:
        where = dotted(path)
        self.problems.append(LocatedProblem(self.location(node), f"{where}: {what}" if where else what))

    def tree(self, node: Node, key_location: Location, path: KeyPath) -> Tree:
        self.values += 1
        if self.values > MAX_VALUES:
            raise _LimitError(self.location(node), _TOO_MANY)
        if len(path) > MAX_DEPTH:
            raise _LimitError(self.location(node), _TOO_DEEP)
        if isinstance(node, MappingNode):
            return Tree(self.mapping(node, path), key_location, self.location(node))
        if isinstance(node, SequenceNode):
            self.check_tag(node, "seq", path)
            items = [self.tree(item, self.location(item), (*path, number)) for number, item in enumerate(node.value)]
            return Tree(items, key_location, self.location(node))
        return Tree(self.scalar(node, path), key_location, self.location(node), str(node.value))

    def scalar(self, node: Node, path: KeyPath) -> Scalar:
        try:
            return scalars.value(node)
        except ValueError as error:
            self.add_problem(node, path, str(error))
            return None

    def mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Tree]:
        self.check_tag(node, "map", path)
        own: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        for key, value in node.value:
            if key.tag == f"{scalars.PREFIX}merge":
                merged = {**self.merge(value, path), **merged}
            elif not isinstance(key, ScalarNode):
                self.add_problem(key, path, "the name of a setting is a string, not a list or a mapping")
            elif (corrected := _with_space(key, value)) is not None:
                self.add_problem(key, path, f"write a space after the colon: {{{corrected}}}")
            else:
                self.add(own, key, value, path)
        return merged | own

    def add(self, own: dict[str, Tree], key: ScalarNode, value: Node, path: KeyPath) -> None:
        name = str(key.value)
        line = self.location(key).line
        if name in own:
            first = own[name].key_location.line
            both = f"on lines {first} and {line}" if first != line else "twice"
            self.add_problem(key, (*path, name), f"set {both}; keep one of them")
        try:
            scalars.checked_text(name)
        except ValueError as error:
            self.add_problem(key, path, str(error))
            return
        own[name] = self.tree(value, self.location(key), (*path, name))

    def merge(self, node: Node, path: KeyPath) -> dict[str, Tree]:
        """The settings from `<<: *alias` or `<<: [*first, *second]`; the first wins."""
        merged: dict[str, Tree] = {}
        for part in node.value if isinstance(node, SequenceNode) else [node]:
            tree = self.tree(part, self.location(part), (*path, "<<"))
            if isinstance(tree.value, dict):
                merged = tree.value | merged
            else:
                self.add_problem(part, (*path, "<<"), "takes a mapping, or a list of mappings")
        return merged

    def check_tag(self, node: Node, allowed: str, path: KeyPath) -> None:
        if node.tag != scalars.PREFIX + allowed:
            what = f"the tag {scalars.tag_as_written(node.tag)} is not supported in a config; remove it"
            self.add_problem(node, path, what)


def _with_space(key: ScalarNode, value: Node) -> str | None:
    """`kind: sgd` for `{kind:sgd}`, which YAML reads as a key without a value; None for any other pair."""
    name, colon, rest = str(key.value).partition(":")
    empty = isinstance(value, ScalarNode) and not value.style and value.value == ""
    return f"{name}: {rest}" if not key.style and colon and rest and empty else None


_RESERVED_FIRST = {
    "%": "a string that starts with % needs quotes around it",
    "|": "a string that starts with | needs quotes around it",
    "@": "a string that starts with @ needs quotes around it",
    "`": "a string that starts with ` needs quotes around it",
    "\t": "found a tab; indent lines with spaces",
}
_QUOTES = 'needs quotes around it, as in "*.csv"'
_STAR = "a string that starts with * needs quotes around it"
_COLON = "`name:` is not allowed here: the line is indented too far, or a string with `: ` in it needs quotes"
_HINTS: tuple[tuple[str, str, str], ...] = (
    # what the parser was doing, its complaint (regular expressions), and our message
    ("alias", "expected alphabetic", f"a string that starts with * {_QUOTES}"),
    ("anchor", "expected alphabetic", f"a string that starts with & {_QUOTES}"),
    ("tag|directive", ".", "a string that starts with ! or % needs quotes around it"),
    ("block scalar", ".", "a string that starts with | or > needs quotes around it"),
    ("", "mapping values are not allowed", _COLON),
    ("", "could not find expected ':'", "the line is not `name: value`: the colon, or the space after it, is missing"),
    ("block mapping", "found '<scalar>'", "a second string after the value; quote both together, or check indentation"),
    ("block mapping", "expected <block end>", "the line is not indented like the settings above it"),
    ("block collection|sequence", "expected <block end>", "the line is not indented like the list items above it"),
    ("flow mapping", ".", "a { is not closed by }, or a comma between its settings is missing"),
    ("flow sequence", ".", "a [ is not closed by ], or a comma between its items is missing"),
    ("flow node|block node", ".", "expected a value here"),
    ("quoted scalar", "unknown escape", "in \"...\" a backslash starts an escape; write it twice, or use '...'"),
    ("quoted scalar", ".", "a quoted string is not closed by the same quote"),
    ("", "sequence entries are not allowed", "a list starts on its own line; or write it as [first, second]"),
    ("single document", ".", "a config is one document; remove the line `---` or `...` inside it"),
    ("", "second occurrence|duplicate anchor", "two anchors (&name) have the same name"),
    ("", "did not find expected", "the line does not fit the lines above it; check indentation and brackets"),
)


def _syntax_problem(error: YAMLError, text: str, source: str, layer: int, *, one_line: bool) -> LocatedProblem:
    """The parser's complaint in plain words with its usual cause, at `file:line:column`."""
    line, column, what = _reader_error(error, text) if isinstance(error, ReaderError) else _marked_error(error)
    if one_line:
        return LocatedProblem(Location(layer, 0, 0, source), what)
    return LocatedProblem(Location(layer, line, column, source, exact=True), what)


def _reader_error(error: ReaderError, text: str) -> tuple[int, int, str]:
    before = text[: error.position]
    letter = ord(error.character) if isinstance(error.character, str) else int(error.character)
    what = f"the character U+{letter:04X} is not allowed in YAML; remove it, or write it as an escape in double quotes"
    return before.count("\n") + 1, error.position - before.rfind("\n"), what


def _marked_error(error: YAMLError) -> tuple[int, int, str]:
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
        return f"*{undefined[1]} refers to an anchor &{undefined[1]} that is not defined before it; {_STAR}"
    if first := re.search(r"found character (.+) that cannot start", problem):
        return next((hint for letter, hint in _RESERVED_FIRST.items() if repr(letter) == first[1]), problem)
    for doing, complaint, hint in _HINTS:
        if re.search(doing, context) and re.search(complaint, problem):
            return hint
    return problem
