"""Whether two SavedModels hold the same graph, whatever their nodes are called and in which order they stand.

TensorFlow Transform numbers nodes in an order that differs from run to run, and writes its temporary folder into the
names of tables, or how many things the process had made before; so two equal graphs are not equal in bytes. A node is
known here by its operation, its attributes and the nodes that feed it, and a function by the nodes in it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import saved_model_pb2

TEMPORARY = re.compile(rb"[^' ]*/tftransform_tmp/[0-9a-f]+/")
NUMBERED = re.compile(rb"\d+")
"""The name of a table whose values the graph holds: a number that says when the process made it."""
NAMES = frozenset({"_gradient_op_type", "_class", "config_proto", "_user_specified_name"})
"""Attributes that hold names of nodes, or settings of the machine."""


def same_graph(ours: Path, theirs: Path) -> bool:
    """Whether two `saved_model.pb` hold the same graph."""
    return _digests(ours) == _digests(theirs)


def _digests(path: Path) -> Counter[str]:
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    found: Counter[str] = Counter()
    for meta in model.meta_graphs:
        graph = meta.graph_def
        functions = _functions(graph.library.function)
        found.update(_nodes(graph.node, functions))
        found.update(functions.values())
    return found


def _functions(functions: Iterable[Any]) -> dict[str, str]:
    """Name to digest; a function comes after those that it calls."""
    named = {function.signature.name: function for function in functions}
    calls = {name: _called(function, named) for name, function in named.items()}
    digests: dict[str, str] = {}
    for name in TopologicalSorter(calls).static_order():
        digests[name] = _digest(sorted(_nodes(named[name].node_def, digests)))
    return digests


def _called(function: Any, named: Mapping[str, Any]) -> set[str]:
    values = [value for node in function.node_def for value in node.attr.values()]
    listed = [one.name for value in values for one in value.list.func]
    return {name for name in [*(value.func.name for value in values), *listed] if name in named}


def _nodes(nodes: Iterable[Any], functions: Mapping[str, str]) -> list[str]:
    named = {node.name: node for node in nodes}
    feeds = {name: {_source(one) for one in node.input} & named.keys() for name, node in named.items()}
    digests: dict[str, str] = {}
    for name in TopologicalSorter(feeds).static_order():
        node = named[name]
        inputs = [digests.get(_source(one), "an argument") + one.partition(":")[2] for one in node.input]
        told = [key for key in sorted(node.attr) if key not in NAMES and not _is_numbered(key, node.attr[key])]
        attributes = [(key, _attribute(node.attr[key], functions)) for key in told]
        digests[name] = _digest([node.op, inputs, attributes])
    return list(digests.values())


def _is_numbered(key: str, value: Any) -> bool:
    return key == "shared_name" and NUMBERED.fullmatch(value.s) is not None


def _source(name: str) -> str:
    """The node that an input comes from."""
    return name.removeprefix("^").partition(":")[0]


def _attribute(value: Any, functions: Mapping[str, str]) -> str:
    called = [value.func.name, *(one.name for one in value.list.func)]
    if any(called):
        return _digest([functions.get(name, name) for name in called])
    return _digest([TEMPORARY.sub(b"", value.SerializeToString(deterministic=True)[_length(value) :])])


def _length(value: Any) -> int:
    """Bytes before a text: they say how long it is, and so how long the name of the temporary folder is."""
    return len(value.SerializeToString()) - len(value.s) if value.s else 0


def _digest(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
