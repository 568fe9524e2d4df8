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
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from headrace.components.flat_function import CALLS, flat_function
from headrace.trainer.private_api import add_function, call_function, remove_function

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
        self._graph, self._functions = graph, {one.signature.name: one for one in graph.library.function}
        self._added, handles = list[str](), list[tf.Tensor]()
        free = weakref.finalize(self, _free, handles, self._added)
        free.atexit = False
        try:
            self._load(ends, handles)
        except BaseException:
            free()
            raise

    def _load(self, ends: GraphEnds, handles: list[tf.Tensor]) -> None:
        """Append what is in the runtime to `handles`, also if it fails."""
        nodes = tf.compat.v1.GraphDef(node=self._graph.node, versions=self._graph.versions)
        self._whole = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(nodes, name=""), [])
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
        self._add(_called(_leading_to(self._graph, fetches), self._functions))
        graph = self._whole.graph
        return self._whole.prune(
            [graph.as_graph_element(name) for name in (*feeds, *self._names)],
            [graph.as_graph_element(name) for name in fetches],
        )

    def part(self, ends: Iterable[str]) -> tf.compat.v1.GraphDef:
        """The nodes that lead to `ends`, with the functions that they call."""
        return part_of(self._graph, ends)

    def function(self, outputs: Sequence[str]) -> ServedFunction:
        """The function that computes these outputs of one call, and runs no operation that only others need."""
        nodes = {node.name: node for node in self._graph.node}
        call = nodes[_node(outputs[0])]
        function = self._functions[call.attr["f"].func.name]
        name = f"{function.signature.name}_{next(_NUMBERS)}"
        flat = flat_function(function, self._functions, [int(_number(output)) for output in outputs], name)
        self._add(_called(flat.node_def, self._functions))
        self._added.append(name)
        add_function(flat)
        known = dict(zip(self._names, self.fixed, strict=True))
        with tf.init_scope():  # it may be called while a function is traced
            for tensor in call.input:
                if (node := nodes[_node(tensor)]).op == "Const":
                    known.setdefault(_tensor(tensor), tf.constant(tf.make_ndarray(node.attr["value"].tensor)))
        types = [tf.as_dtype(one.type) for one in flat.signature.output_arg]
        return ServedFunction(name, [_tensor(tensor) for tensor in call.input], known, types)

    def _add(self, names: Iterable[str]) -> None:
        """Put functions into the runtime that are not there yet."""
        for name in set(names).difference(self._added):
            self._added.append(name)
            add_function(self._functions[name])


def call_as_it_is(function: Any, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Call a concrete function with its inputs in order, without the captured ones, whose graph is not rewritten.

    To rewrite a graph takes longer than to predict ten thousand rows.
    """
    name, inputs = function.name.decode(), [*tensors, *function.captured_inputs]
    return call_function(name, inputs, len(function.outputs), _AS_THEY_ARE)


class ServedFunction(NamedTuple):
    """A function in the runtime. inputs: the tensors of the graph that it takes; known: those that are not inputs of a
    signature; types: of the outputs.
    """

    name: str
    inputs: Sequence[str]
    known: Mapping[str, tf.Tensor]
    types: Sequence[tf.DType]

    def __call__(self, given: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """given: the other tensors of `inputs`."""
        tensors = [given[name] if name in given else self.known[name] for name in self.inputs]
        if tf.executing_eagerly():
            return call_function(self.name, tensors, len(self.types), _AS_THEY_ARE)
        return list(tf.raw_ops.StatefulPartitionedCall(args=tensors, Tout=self.types, f=self.name))


@dataclass(frozen=True)
class ServedSignature:
    """A signature, called as that of a model that `tf.saved_model.load` returns: tensors by name to tensors by name.

    definition: its SignatureDef; names: of the outputs that are computed.
    """

    model: ServedGraph
    definition: Any
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

    @property
    def graph(self) -> tf.compat.v1.GraphDef:
        """What it calls, with the functions."""
        return self.model.part(self._outputs)

    @property
    def _outputs(self) -> list[str]:
        return [self.definition.outputs[name].name for name in self.names]

    @cached_property
    def _function(self) -> ServedFunction:
        return self.model.function(self._outputs)

    def __call__(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        given = {self.definition.inputs[name].name: tensor for name, tensor in inputs.items()}
        return dict(zip(self.names, self._function(given), strict=True))


@dataclass(frozen=True)
class ServedModel:
    """Signatures of a SavedModel, by name."""

    signatures: Mapping[str, ServedSignature]


def served_model(folder: Path, names: Collection[str]) -> ServedModel | None:
    """Load those of these signatures that a SavedModel has.

    Returns None for a folder without a SavedModel of TensorFlow 2 that has one graph, for signatures that are not the
    call of a function or whose inputs or outputs are not tensors, and for functions that name other variables than
    those that are restored, as those of a Keras 3 model do that `tf.saved_model.save` wrote. Raises tf.errors.OpError
    if the variables cannot be read.
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
    if names_variables(graph) or not all(_is_call(one, graph) for one in definitions.values()):
        return None
    model = ServedGraph(graph, ends)
    signatures = {name: ServedSignature(model, one, tuple(sorted(one.outputs))) for name, one in definitions.items()}
    return ServedModel(signatures) if model.is_restored else None


def _is_call(signature: Any, graph: tf.compat.v1.GraphDef) -> bool:
    """Whether the outputs are those of one call of a function, which takes inputs, variables, tables and constants."""
    nodes = {node.name: node for node in graph.node}
    inputs = {_node(one.name) for one in signature.inputs.values()}
    calls = [nodes[name] for name in {_node(one.name) for one in signature.outputs.values()}]
    if len(calls) != 1 or calls[0].op not in CALLS:
        return False
    further = [tensor for tensor in calls[0].input if _node(tensor) not in inputs]
    made_of = {node.name for node in _leading_to(graph, further)}
    return made_of.isdisjoint(inputs) and not any(tensor.startswith("^") for tensor in further)


def _fill_after_restore(graph: tf.compat.v1.GraphDef, ends: GraphEnds) -> None:
    """Let the tables be filled once the variables are restored, as both happen in one call."""
    restoring = {node.name for node in _leading_to(graph, [ends.variables, ends.restore])}
    filling = {node.name for node in _leading_to(graph, ends.fill)}
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
    functions = {function.signature.name: function for function in graph.library.function}
    nodes = _leading_to(graph, ends)
    called = _called(nodes, functions)
    part = tf.compat.v1.GraphDef(versions=graph.versions, node=nodes)
    part.library.function.extend(functions[name] for name in functions if name in called)
    return part


def _leading_to(graph: Any, ends: Iterable[str]) -> list[Any]:
    """The nodes that lead to `ends`, in order."""
    nodes = {node.name: node for node in graph.node}
    kept = _closure(map(_node, ends), lambda name: map(_node, nodes[name].input))
    return [node for node in graph.node if node.name in kept]


def _called(nodes: Iterable[Any], functions: Mapping[str, Any]) -> set[str]:
    """The functions that nodes call, and those that these call."""
    called = {name for node in nodes for name in _calls(node, functions)}
    return _closure(called, lambda name: (o for node in functions[name].node_def for o in _calls(node, functions)))


def _node(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def _number(tensor: str) -> str:
    """Which of a node's outputs it is."""
    return tensor.partition(":")[2] or "0"


def _tensor(tensor: str) -> str:
    """Its name in full."""
    return f"{_node(tensor)}:{_number(tensor)}"


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
