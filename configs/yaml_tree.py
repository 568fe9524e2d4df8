"""YAML text to a tree of values with places. Every mistake is kept, so that all can be told at once."""

from __future__ import annotations

from yaml import YAMLError
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from configs import scalars
from configs.tree import Mistake, Place, Scalar, Tree
from configs.yaml_errors import syntax_mistake

MAX_DEPTH = 40
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
_KEY = "the name of a setting is a text, not a list or a mapping"


class _TooMuchError(Exception):
    def __init__(self, place: Place, what: str) -> None:
        self.place, self.what = place, what


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

    def tree(self, node: Node, key_place: Place, above: tuple[str, ...]) -> Tree:
        self.values += 1
        if self.values > MAX_VALUES:
            raise _TooMuchError(self.place(node), _TOO_MANY)
        if len(above) > MAX_DEPTH:
            raise _TooMuchError(self.place(node), _TOO_DEEP)
        if isinstance(node, MappingNode):
            return Tree(self.mapping(node, above), key_place, self.place(node))
        if isinstance(node, SequenceNode):
            self.refuse_tag(node, "seq")
            items = [self.tree(item, self.place(item), (*above, f"[{i}]")) for i, item in enumerate(node.value)]
            return Tree(items, key_place, self.place(node))
        return Tree(self.scalar(node), key_place, self.place(node), str(node.value))

    def scalar(self, node: Node) -> Scalar:
        try:
            return scalars.value(node)
        except ValueError as error:
            self.mistakes.append(Mistake(self.place(node), str(error)))
            return None

    def mapping(self, node: MappingNode, above: tuple[str, ...]) -> dict[str, Tree]:
        self.refuse_tag(node, "map")
        own: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        for key, value in node.value:
            if key.tag == f"{scalars.PREFIX}merge":
                merged = {**self.merge(value, above), **merged}
            elif not isinstance(key, ScalarNode):
                self.mistakes.append(Mistake(self.place(key), _KEY))
            else:
                self.add(own, key, value, above)
        return merged | own

    def add(self, own: dict[str, Tree], key: ScalarNode, value: Node, above: tuple[str, ...]) -> None:
        name = str(key.value)
        if name in own:
            first = own[name].key_place
            both = f"on lines {first.line} and {key.start_mark.line + 1}" if not self.one_line else "twice"
            where = ".".join((*above, name)).replace(".[", "[")
            self.mistakes.append(Mistake(self.place(key), f"{where}: given {both}; keep one of them"))
        own[name] = self.tree(value, self.place(key), (*above, name))

    def merge(self, node: Node, above: tuple[str, ...]) -> dict[str, Tree]:
        """What `<<: *alias` or `<<: [*first, *second]` brings in; the first wins."""
        merged: dict[str, Tree] = {}
        for part in node.value if isinstance(node, SequenceNode) else [node]:
            tree = self.tree(part, self.place(part), (*above, "<<"))
            if isinstance(tree.value, dict):
                merged = tree.value | merged
            else:
                self.mistakes.append(Mistake(self.place(part), "<<: takes a mapping, or a list of mappings"))
        return merged

    def refuse_tag(self, node: Node, allowed: str) -> None:
        if node.tag != scalars.PREFIX + allowed:
            what = f"the tag {scalars.tag_as_written(node.tag)} has no meaning in a config; remove it"
            self.mistakes.append(Mistake(self.place(node), what))
