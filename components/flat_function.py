"""One function in place of those that it calls, with only the nodes that some of its outputs need.

flat = flat_function(function, functions, [0], "name")     # a FunctionDef that returns the first output alone

TensorFlow inlines calls too, at the first call of a function. But before it drops the nodes that no output needs, it
has placed them, and has looked several times through each of the functions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tensorflow.core.framework.function_pb2 import FunctionDef

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_AS_ONE = ("_noinline", "_XlaMustCompile")
"""Attributes of calls, and of functions, that are not inlined."""


def flat_function(
    function: FunctionDef, functions: Mapping[str, FunctionDef], outputs: Sequence[int], name: str
) -> FunctionDef:
    """The function with these of its outputs, with all arguments and side effects. functions: those that are called, by
    name. Operations such as `If` call functions as before.
    """
    flat = FunctionDef()
    flat.signature.name, flat.signature.is_stateful = name, function.signature.is_stateful
    flat.signature.input_arg.extend(function.signature.input_arg)
    flat.signature.output_arg.extend(function.signature.output_arg[number] for number in outputs)
    body = _Body(function, functions, itertools.count())
    waiting = list[tuple[_Body, str]]()
    for result in flat.signature.output_arg:
        place, tensor = body.source(function.ret[result.name])
        flat.ret[result.name] = place.renamed(tensor)
        waiting.append((place, _node(tensor)))
    for place, node in body.effects:
        flat.control_ret[place.renamed(node)] = place.renamed(node)
        waiting.append((place, node))
    flat.signature.control_output.extend(flat.control_ret)
    found = set[str]()
    while waiting:
        place, node = waiting.pop()
        if node in place.nodes and (own := place.renamed(node)) not in found:
            found.add(own)
            waiting += place.copy(node, flat.node_def.add())
    return flat


class _Body:
    """A function's nodes, as a call of it runs them. outer, call: the body that calls it, and the node."""

    def __init__(
        self,
        function: FunctionDef,
        functions: Mapping[str, FunctionDef],
        numbers: Iterator[int],
        outer: _Body | None = None,
        call: str = "",
    ) -> None:
        self._function, self._functions, self._numbers = function, functions, numbers
        self._outer, self._call, self._prefix = outer, call, f"{next(numbers)}/"
        self.nodes = {node.name: node for node in function.node_def}
        given = _data(outer.nodes[call]) if outer else ()
        self._given = dict(zip((one.name for one in function.signature.input_arg), given, strict=False))
        self._inner: dict[str, _Body | None] = {}
        self._first: dict[str, list[tuple[_Body, str]]] = {}

    def renamed(self, tensor: str) -> str:
        """A tensor or node in the flat function; an argument keeps its name."""
        return self._prefix + tensor if _node(tensor) in self.nodes else tensor

    def source(self, tensor: str) -> tuple[_Body, str]:
        """The tensor that an argument of a call is, or one of its results, in the body of its node."""
        node = _node(tensor)
        if node not in self.nodes:
            return self._outer.source(self._given[node]) if self._outer else (self, tensor)
        if inner := self._inlined(node):
            return inner.source(inner.result(int(tensor.rpartition(":")[2])))
        return self, tensor

    def result(self, number: int) -> str:
        return str(self._function.ret[self._function.signature.output_arg[number].name])

    @cached_property
    def effects(self) -> list[tuple[_Body, str]]:
        """The nodes that run whatever outputs are taken."""
        return [*dict.fromkeys(end for node in self._function.control_ret.values() for end in self._ends(node))]

    def copy(self, name: str, copied: Any) -> Iterator[tuple[_Body, str]]:
        """Make `copied` the node of this name. Returns the nodes that lead to it."""
        node = self.nodes[name]
        data = [self.source(tensor) for tensor in _data(node)]
        first = dict.fromkeys([*self._before(name), *(self._enclosing if node.op != "Const" else ())])
        copied.CopyFrom(node)
        copied.name = self.renamed(name)
        del copied.input[:]
        copied.input.extend(place.renamed(tensor) for place, tensor in data)
        copied.input.extend(f"^{place.renamed(other)}" for place, other in first)
        copied.attr.pop("_class", None)  # nodes that it shall share a device with, some of which are left out
        yield from ((place, _node(tensor)) for place, tensor in data)
        yield from first

    def _inlined(self, name: str) -> _Body | None:
        """What a node calls, unless it must stay a call."""
        if name not in self._inner:
            node = self.nodes[name]
            function = self._functions.get(node.attr["f"].func.name) if node.op in CALLS else None
            inline = function is not None and not _stays_a_call(node, function)
            self._inner[name] = _Body(function, self._functions, self._numbers, self, name) if inline else None
        return self._inner[name]

    def _ends(self, name: str) -> Iterator[tuple[_Body, str]]:
        """The nodes that have run when this one has: those of a call, and what it waits for."""
        if name not in self.nodes:
            return
        if inner := self._inlined(name):
            yield from inner.effects
            yield from self._before(name)
        else:
            yield self, name

    def _before(self, name: str) -> list[tuple[_Body, str]]:
        """The nodes that run before this one by its control inputs."""
        if name not in self._first:
            controls = [tensor[1:] for tensor in self.nodes[name].input if tensor.startswith("^")]
            self._first[name] = [*dict.fromkeys(end for control in controls for end in self._ends(control))]
        return self._first[name]

    @cached_property
    def _enclosing(self) -> list[tuple[_Body, str]]:
        """The nodes that run before this body, as its call waits for them."""
        return [*self._outer._before(self._call), *self._outer._enclosing] if self._outer else []


def _stays_a_call(node: Any, function: FunctionDef) -> bool:
    """Whether a call must not be inlined, or has arguments that are several tensors, or types of its own."""
    signature = function.signature
    several = any(one.number_attr or one.type_list_attr for one in (*signature.input_arg, *signature.output_arg))
    marks = (each.attr[name].b for each in (node, function) for name in _AS_ONE if name in each.attr)
    return several or bool(signature.attr) or any(marks)


def _data(node: Any) -> list[str]:
    return [tensor for tensor in node.input if not tensor.startswith("^")]


def _node(tensor: str) -> str:
    return tensor.partition(":")[0]
