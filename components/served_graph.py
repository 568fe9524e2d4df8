"""A part of a SavedModel's graph in TensorFlow's runtime, loaded as TensorFlow Serving loads it.

model = served_model(folder, ["serving_default"])               # None if only `tf.saved_model.load` can load it
model.signatures["serving_default"](examples=texts)             # string [batch] → tensors by the names of the outputs

`tf.saved_model.load` makes a Python object for each operation of all functions of all signatures, which takes longer
than predicting some thousand rows. Here the functions that a signature calls go to TensorFlow's runtime as they are
in the file. What is left is the small graph around them, which creates, restores and fills the variables and tables.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from headrace.trainer.private_api import add_function, remove_function

INIT = "__saved_model_init_op"
"""The signature that names the operation that fills the tables."""
_AS_THEY_ARE = tf.compat.v1.ConfigProto()
_AS_THEY_ARE.graph_options.rewrite_options.disable_meta_optimizer = True
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class GraphEnds:
    """The tensors and operations of a graph by which it is loaded, by name.

    variables: takes the path of the files with the variables, from which the operation `restore` reads; path: this
    path; fill: the operations that fill the tables; assets: the file of each tensor with a path.
    """

    variables: str
    restore: str
    path: str
    fill: Sequence[str]
    assets: Mapping[str, str]

    @classmethod
    def of(cls, meta: Any, folder: Path) -> GraphEnds:
        return cls(
            meta.saver_def.filename_tensor_name,
            meta.saver_def.restore_op_name,
            str(folder / "variables" / "variables"),
            [one.name for one in meta.signature_def[INIT].outputs.values()] if INIT in meta.signature_def else [],
            {one.tensor_info.name: str(folder / "assets" / one.filename) for one in meta.asset_file_def},
        )

    @property
    def all(self) -> list[str]:
        return [self.variables, self.restore, *self.fill, *self.assets]


class ServedGraph:
    """A graph whose functions are in TensorFlow's runtime, and whose variables are in memory until it is freed."""

    def __init__(self, graph: tf.compat.v1.GraphDef, ends: GraphEnds) -> None:
        """graph: is changed. Raises tf.errors.OpError if the variables cannot be read."""
        _rename(graph, f"_served_{next(_NUMBERS)}")
        _fill_after_restore(graph, ends)
        handles, functions = list[tf.Tensor](), list[str]()
        free = weakref.finalize(self, _free, handles, functions)
        free.atexit = False
        try:
            self._load(graph, ends, handles, functions)
        except BaseException:
            free()
            raise

    def _load(
        self, graph: tf.compat.v1.GraphDef, ends: GraphEnds, handles: list[tf.Tensor], functions: list[str]
    ) -> None:
        """Append what is in the runtime to `handles` and `functions`, also if it fails."""
        for function in graph.library.function:
            add_function(function)
            functions.append(function.signature.name)
        graph.ClearField("library")
        self._whole = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph, name=""), [])
        self._names = list(ends.assets)
        resources = [tensor.name for tensor in self._resources()]
        load = self.prune([ends.variables], [*resources, ends.variables, ends.restore, *ends.fill])
        paths = [tf.constant(path) for path in ends.assets.values()]
        try:
            handles += call_as_it_is(load, [tf.constant(ends.path), *paths])[: len(resources)]
        except tf.errors.OpError:
            handles += call_as_it_is(self.prune([], resources), paths)  # of what the call made before it failed
            raise
        # Without them, each call would look for all variables and tables by name.
        self.fixed = [*handles, *paths]
        self._names = [*resources, *ends.assets]

    @property
    def is_restored(self) -> bool:
        """Whether all variables have values."""
        operations = (self._whole.graph.as_graph_element(name).op.type for name in self._names)
        variables = (one for one, kind in zip(self.fixed, operations, strict=True) if kind == "VarHandleOp")
        return all(tf.raw_ops.VarIsInitializedOp(resource=one).numpy() for one in variables)

    def _resources(self) -> Iterator[tf.Tensor]:
        """What makes the variables and tables."""
        for operation in self._whole.graph.get_operations():
            if not any(tensor.dtype == tf.resource for tensor in operation.inputs):
                yield from (tensor for tensor in operation.outputs if tensor.dtype == tf.resource)

    def prune(self, feeds: Sequence[str], fetches: Sequence[str]) -> Any:
        """The function from `feeds`, followed by what `fixed` has, to `fetches`."""
        graph = self._whole.graph
        return self._whole.prune(
            [graph.as_graph_element(name) for name in (*feeds, *self._names)],
            [graph.as_graph_element(name) for name in fetches],
        )


def call_as_it_is(function: Any, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Call a concrete function with its inputs in order, without the captured ones, whose graph is not rewritten.

    To rewrite a graph takes longer than to predict ten thousand rows.
    """
    found = tf.raw_ops.StatefulPartitionedCall(
        args=[*tensors, *function.captured_inputs],
        Tout=[one.dtype for one in function.outputs],
        f=function,
        config_proto=_AS_THEY_ARE.SerializeToString(),
    )
    return list(found)


@dataclass(frozen=True)
class ServedSignature:
    """A signature, called as that of a model that `tf.saved_model.load` returns: tensors by name to tensors by name.

    definition: its SignatureDef; graph: what it calls, with the functions; names: of the outputs that are computed.
    """

    model: ServedGraph
    definition: Any
    graph: tf.compat.v1.GraphDef
    names: tuple[str, ...]

    def of(self, names: Collection[str]) -> ServedSignature:
        """The same with only these outputs, as far as it has them."""
        return replace(self, names=tuple(name for name in self.names if name in names))

    @cached_property
    def inputs(self) -> dict[str, tf.TensorSpec]:
        return _specs(self.definition.inputs)

    @property
    def structured_input_signature(self) -> tuple[tuple[()], dict[str, tf.TensorSpec]]:
        return (), self.inputs

    @cached_property
    def structured_outputs(self) -> dict[str, tf.TensorSpec]:
        return _specs(self.definition.outputs)

    @cached_property
    def _function(self) -> Any:
        inputs, outputs = self.definition.inputs, self.definition.outputs
        return self.model.prune(
            [inputs[name].name for name in self.inputs],
            [outputs[name].name for name in self.names],
        )

    def __call__(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        given = [inputs[name] for name in self.inputs]
        return dict(zip(self.names, call_as_it_is(self._function, [*given, *self.model.fixed]), strict=True))


@dataclass(frozen=True)
class ServedModel:
    """Signatures of a SavedModel, by name."""

    signatures: Mapping[str, ServedSignature]


def served_model(folder: Path, names: Collection[str]) -> ServedModel | None:
    """Load those of these signatures that a SavedModel has.

    Returns None for a folder without a SavedModel of TensorFlow 2 that has one graph, for signatures whose inputs or
    outputs are not tensors, and for functions that name other variables than those that are restored, as those of a
    Keras 3 model do that `tf.saved_model.save` wrote. Raises tf.errors.OpError if the variables cannot be read.
    """
    meta = only_graph(folder)
    if meta is None or not meta.HasField("object_graph_def") or not meta.saver_def.restore_op_name:
        return None
    definitions = {name: meta.signature_def[name] for name in names if name in meta.signature_def}
    tensors = {name: [*one.inputs.values(), *one.outputs.values()] for name, one in definitions.items()}
    if any(one.WhichOneof("encoding") != "name" for own in tensors.values() for one in own):
        return None
    ends = GraphEnds.of(meta, folder)
    graph = part_of(meta.graph_def, [*ends.all, *(one.name for own in tensors.values() for one in own)])
    parts = {name: part_of(graph, [one.name for one in own]) for name, own in tensors.items()}
    if names_variables(graph):
        return None
    model = ServedGraph(graph, ends)
    signatures = {
        name: ServedSignature(model, one, parts[name], tuple(sorted(one.outputs))) for name, one in definitions.items()
    }
    return ServedModel(signatures) if model.is_restored else None


def _fill_after_restore(graph: tf.compat.v1.GraphDef, ends: GraphEnds) -> None:
    """Let the tables be filled once the variables are restored, as both happen in one call."""
    restoring = {node.name for node in part_of(graph, [ends.variables, ends.restore]).node}
    filling = {node.name for node in part_of(graph, ends.fill).node}
    for node in graph.node:
        if node.input and node.name in filling - restoring:
            node.input.append(f"^{ends.restore}")


def _specs(tensors: Mapping[str, Any]) -> dict[str, tf.TensorSpec]:
    return {
        name: tf.TensorSpec(tf.TensorShape(tensors[name].tensor_shape), tf.as_dtype(tensors[name].dtype))
        for name in sorted(tensors)
    }


def names_variables(graph: tf.compat.v1.GraphDef) -> bool:
    """Whether functions of a graph name variables themselves."""
    return any(node.op == "VarHandleOp" for function in graph.library.function for node in function.node_def)


def _free(handles: Iterable[tf.Tensor], functions: Iterable[str]) -> None:
    for handle in handles:
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
    for name in functions:
        remove_function(name)


def only_graph(folder: Path) -> Any:
    """The MetaGraphDef of a SavedModel that has one; None if there is no such SavedModel."""
    try:
        saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    except (OSError, DecodeError):
        return None  # tf.saved_model.load says what is wrong
    return saved.meta_graphs[0] if len(saved.meta_graphs) == 1 else None


def part_of(graph: Any, ends: Iterable[str]) -> tf.compat.v1.GraphDef:
    """The nodes that lead to `ends`, with the functions that they call."""
    nodes = {node.name: node for node in graph.node}
    functions = {function.signature.name: function for function in graph.library.function}
    kept = _closure(map(_node, ends), lambda name: map(_node, nodes[name].input))
    called = {name for kept_node in kept for name in _calls(nodes[kept_node], functions)}
    called = _closure(called, lambda name: (o for node in functions[name].node_def for o in _calls(node, functions)))
    part = tf.compat.v1.GraphDef(versions=graph.versions)
    part.node.extend(node for node in graph.node if node.name in kept)
    part.library.function.extend(functions[name] for name in functions if name in called)
    return part


def _node(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def _closure(first: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    found, waiting = set[str](), set(first)
    while waiting:
        found.add(name := waiting.pop())
        waiting |= set(following(name)) - found
    return found


def _calls(node: Any, functions: Mapping[str, Any]) -> Iterator[str]:
    if node.op in functions:
        yield node.op
    yield from (one.name for one in _function_attributes(node))


def _function_attributes(node: Any) -> Iterator[Any]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func
        yield from value.list.func


def _rename(graph: tf.compat.v1.GraphDef, suffix: str) -> None:
    """Give functions, variables and tables names that no other loaded model has."""
    functions = {function.signature.name for function in graph.library.function}
    for function in graph.library.function:
        _rename_nodes(function.node_def, functions, suffix, function.signature.name)
        function.signature.name += suffix
    _rename_nodes(graph.node, functions, suffix, "")


def _rename_nodes(nodes: Iterable[Any], functions: set[str], suffix: str, place: str) -> None:
    for node in nodes:
        if node.op in functions:
            node.op += suffix
        for one in _function_attributes(node):
            one.name += suffix
        if _is_shared(node.op):
            name = node.attr["shared_name"].s or f"{place}/{node.name}".encode()
            node.attr["shared_name"].s = name + suffix.encode()


@cache
def _is_shared(operation: str) -> bool:
    """Whether an operation makes a resource that others find by its `shared_name`."""
    function = getattr(tf.raw_ops, operation, None)
    return function is not None and "shared_name" in inspect.signature(function).parameters
