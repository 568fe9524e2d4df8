"""YAML text to a tree of values with places. Every mistake is kept, so that all can be told at once."""

from __future__ import annotations

from yaml import YAMLError
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from headrace.configs import scalars
from headrace.configs.tree import MAX_DEPTH, Mistake, Place, Scalar, Tree, Where, dotted
from headrace.configs.yaml_errors import syntax_mistake

MAX_VALUES = 200_000


def read(text: str, source: str, layer: int, *, one_line: bool = False) -> tuple[Tree | None, list[Mistake]]:
    """The tree (None: nothing in the text, or not YAML) and the mistakes met.

    one_line: the text comes from the command line, where line numbers mean nothing.
    """
    try:
        node = _Composer(text).get_single_node()
    except YAMLError as error:
        return None, [syntax_mistake(error, text, source, layer, one_line=one_line)]
    except RecursionError:
        return None, [Mistake(Place(layer, 0, 0, source), _TOO_DEEP)]
    builder = _Builder(source, layer, one_line=one_line)
    try:
        tree = None if node is None else builder.tree(node, builder.place(node), ())
    except _TooMuchError as error:
        return None, [Mistake(error.place, error.what)]
    return tree, list(dict.fromkeys(builder.mistakes))


_TOO_DEEP = f"values are nested more than {MAX_DEPTH} deep, or an alias (*name) stands inside its anchor (&name)"
_TOO_MANY = (
    f"more than {MAX_VALUES:,} values, counting what each alias (*name) stands for; "
    "put long lists in a file of their own"
)


class _TooMuchError(Exception):
    def __init__(self, place: Place, what: str) -> None:
        self.place, self.what = place, what


def _glued(key: ScalarNode, value: Node) -> str | None:
    """`kind: sgd` for `{kind:sgd}`, which to YAML is a name without a value; None for any other pair."""
    name, colon, rest = str(key.value).partition(":")
    alone = isinstance(value, ScalarNode) and value.style is None and value.value == ""
    return f"{name}: {rest}" if key.style is None and colon and rest and alone else None


class _Composer(Reader, Scanner, Parser, Composer, scalars.Resolver):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        scalars.Resolver.__init__(self)


class _Builder:
    """Turns the composer's nodes into a tree, collecting mistakes."""

    def __init__(self, source: str, layer: int, *, one_line: bool) -> None:
        self.source, self.layer, self.one_line = source, layer, one_line
        self.mistakes: list[Mistake] = []
        self.values = 0

    def place(self, node: Node) -> Place:
        if self.one_line:
            return Place(self.layer, 0, 0, self.source)
        return Place(self.layer, node.start_mark.line + 1, node.start_mark.column + 1, self.source)

    def mistake(self, node: Node, above: Where, what: str) -> None:
        where = dotted(above)
        self.mistakes.append(Mistake(self.place(node), f"{where}: {what}" if where else what))

    def tree(self, node: Node, key_place: Place, above: Where) -> Tree:
        self.values += 1
        if self.values > MAX_VALUES:
            raise _TooMuchError(self.place(node), _TOO_MANY)
        if len(above) > MAX_DEPTH:
            raise _TooMuchError(self.place(node), _TOO_DEEP)
        if isinstance(node, MappingNode):
            return Tree(self.mapping(node, above), key_place, self.place(node))
        if isinstance(node, SequenceNode):
            self.refuse_tag(node, "seq", above)
            items = [self.tree(item, self.place(item), (*above, number)) for number, item in enumerate(node.value)]
            return Tree(items, key_place, self.place(node))
        return Tree(self.scalar(node, above), key_place, self.place(node), str(node.value))

    def scalar(self, node: Node, above: Where) -> Scalar:
        try:
            return scalars.value(node)
        except ValueError as error:
            self.mistake(node, above, str(error))
            return None

    def mapping(self, node: MappingNode, above: Where) -> dict[str, Tree]:
        self.refuse_tag(node, "map", above)
        own: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        for key, value in node.value:
            if key.tag == f"{scalars.PREFIX}merge":
                merged = {**self.merge(value, above), **merged}
            elif not isinstance(key, ScalarNode):
                self.mistake(key, above, "the name of a setting is a text, not a list or a mapping")
            elif (glued := _glued(key, value)) is not None:
                self.mistake(key, above, f"write a space after the colon: {{{glued}}}")
            else:
                self.add(own, key, value, above)
        return merged | own

    def add(self, own: dict[str, Tree], key: ScalarNode, value: Node, above: Where) -> None:
        name = str(key.value)
        line = self.place(key).line
        if name in own:
            first = own[name].key_place.line
            both = f"on lines {first} and {line}" if first != line else "twice"
            self.mistake(key, (*above, name), f"given {both}; keep one of them")
        try:
            scalars.character_text(name)
        except ValueError as error:
            self.mistake(key, above, str(error))
            return
        own[name] = self.tree(value, self.place(key), (*above, name))

    def merge(self, node: Node, above: Where) -> dict[str, Tree]:
        """What `<<: *alias` or `<<: [*first, *second]` brings in; the first wins."""
        merged: dict[str, Tree] = {}
        for part in node.value if isinstance(node, SequenceNode) else [node]:
            tree = self.tree(part, self.place(part), (*above, "<<"))
            if isinstance(tree.value, dict):
                merged = tree.value | merged
            else:
                self.mistake(part, (*above, "<<"), "takes a mapping, or a list of mappings")
        return merged

    def refuse_tag(self, node: Node, allowed: str, above: Where) -> None:
        if node.tag != scalars.PREFIX + allowed:
            self.mistake(
                node, above, f"the tag {scalars.tag_as_written(node.tag)} has no meaning in a config; remove it"
            )
