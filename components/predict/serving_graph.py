"""One signature of a SavedModel, loaded as TensorFlow Serving loads it: without Python's objects for its operations.

predict = load(folder, call)          # None if only `tf.saved_model.load` can load it
predict(tf.constant(examples))        # string [batch] → the predictions, as the signature shapes them
predict.of_columns(batch)             # the same for what the examples would hold; None if it needs the examples

`tf.saved_model.load` makes a Python object for each operation of all functions of all signatures, which takes longer
than predicting some thousand rows. Here the functions that the signature calls go to TensorFlow's runtime as they are
in the file. What is left is the small graph around them, which creates, restores and fills the variables and tables.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from headrace.components.predict.call_size import values_per_row
from headrace.components.predict.parsed import lift_parser
from headrace.trainer.private_api import add_function, call_flat, remove_function
from headrace.trainer.served_model import ModelCall, takes_features

_INIT = "__saved_model_init_op"
"""The signature that names the operation that fills the tables."""
_NUMBERS = itertools.count()


def load(folder: Path, call: ModelCall) -> LoadedSignature | None:
    """Load the signature that `call` names. Its variables and tables are freed with the result.

    Returns None for a folder without a SavedModel that has one graph, for a signature that takes anything but
    serialized examples, and for functions that name other variables than those that are restored, as those of a Keras 3
    model do that `tf.saved_model.save` wrote. Raises tf.errors.OpError if the variables cannot be read.
    """
    meta = _only_graph(folder)
    signature = meta and _of_examples(meta.signature_def, call)
    if not signature:
        return None
    ends = _Ends(
        next(one.name for one in signature.inputs.values()),
        signature.outputs[call.output_name(signature.outputs)].name,
        meta.saver_def.filename_tensor_name,
        meta.saver_def.restore_op_name,
        [one.name for one in meta.signature_def[_INIT].outputs.values()] if _INIT in meta.signature_def else [],
        {one.tensor_info.name: str(folder / "assets" / one.filename) for one in meta.asset_file_def},
    )
    graph = _part(meta.graph_def, ends.all)
    if any(node.op == "VarHandleOp" for function in graph.library.function for node in function.node_def):
        return None
    found = LoadedSignature(graph, ends, str(folder / "variables" / "variables"))
    return found if found.is_restored else None


@dataclass(frozen=True)
class _Ends:
    """The tensors and operations of a graph by which it is used, by name.

    examples, predictions: of the signature; variables: takes the path of the files with the variables, from which the
    operation `restore` reads; fill: the operations that fill the tables; assets: the file of each tensor with a path.
    """

    examples: str
    predictions: str
    variables: str
    restore: str
    fill: Sequence[str]
    assets: Mapping[str, str]

    @property
    def all(self) -> list[str]:
        return [self.examples, self.predictions, self.variables, self.restore, *self.fill, *self.assets]


class LoadedSignature:
    """Predictions by a graph whose functions are in TensorFlow's runtime, and whose variables are in memory."""

    values_per_row: int | None
    """In the widest tensor of the model, if that is known."""

    def __init__(self, graph: tf.compat.v1.GraphDef, ends: _Ends, variables: str) -> None:
        self.values_per_row = values_per_row(_part(graph, [ends.predictions]))
        self._parser = lift_parser(graph)
        _rename(graph, f"_predict_{next(_NUMBERS)}")
        functions = [function.signature.name for function in graph.library.function]
        for function in graph.library.function:
            add_function(function)
        graph.ClearField("library")
        self._whole = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph, name=""), [])
        resources = [tensor.name for tensor in self._resources()]
        handles = self._prune([], resources)() if resources else []
        # Without them, each call would look for all variables and tables by name.
        self._fixed = [*handles, *(tf.constant(path) for path in ends.assets.values())]
        self._names = [*resources, *ends.assets]
        weakref.finalize(self, _free, handles, functions).atexit = False
        self._prune([ends.variables], [ends.variables, ends.restore])(tf.constant(variables), *self._fixed)
        if ends.fill:
            self._prune([], ends.fill)(*self._fixed)
        self._predict = self._prune([ends.examples, *(self._parser.inputs if self._parser else ())], [ends.predictions])

    def __call__(self, examples: tf.Tensor) -> tf.Tensor:
        """The predictions for serialized examples, string [batch]."""
        return self._of(examples, self._parser.of_examples(examples) if self._parser else [])

    def of_columns(self, batch: pa.RecordBatch) -> tf.Tensor | None:
        """The predictions for columns; None if they must be written as examples."""
        parsed = None if self._parser is None else self._parser.of_columns(batch)
        return None if parsed is None else self._of(tf.fill([batch.num_rows], ""), parsed)

    def _of(self, examples: tf.Tensor, parsed: Sequence[tf.Tensor]) -> tf.Tensor:
        (found,) = call_flat(self._predict, [examples, *parsed, *self._fixed])
        return found

    @property
    def is_restored(self) -> bool:
        """Whether all variables have values."""
        operations = (self._whole.graph.as_graph_element(name).op.type for name in self._names)
        variables = (one for one, kind in zip(self._fixed, operations, strict=True) if kind == "VarHandleOp")
        return all(tf.raw_ops.VarIsInitializedOp(resource=one).numpy() for one in variables)

    def _resources(self) -> Iterator[tf.Tensor]:
        """What makes the variables and tables."""
        for operation in self._whole.graph.get_operations():
            if not any(tensor.dtype == tf.resource for tensor in operation.inputs):
                yield from (tensor for tensor in operation.outputs if tensor.dtype == tf.resource)

    def _prune(self, feeds: Sequence[str], fetches: Sequence[str]) -> Any:
        """The function from `feeds`, and once they are known the resources and assets, to `fetches`."""
        graph = self._whole.graph
        known = getattr(self, "_names", ())
        return self._whole.prune(
            [graph.as_graph_element(name) for name in (*feeds, *known)],
            [graph.as_graph_element(name) for name in fetches],
        )


def _free(handles: Iterable[tf.Tensor], functions: Iterable[str]) -> None:
    for handle in handles:
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
    for name in functions:
        remove_function(name)


def read_signatures(folder: Path) -> dict[str, Any]:
    """The SignatureDef of each signature of a SavedModel, by name, in order; empty for a folder without one."""
    meta = _only_graph(folder)
    found = {} if meta is None else dict(meta.signature_def)
    return {name: found[name] for name in sorted(found.keys() - {_INIT})}


def _only_graph(folder: Path) -> Any:
    try:
        saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    except (OSError, DecodeError):
        return None  # tf.saved_model.load says what is wrong
    return saved.meta_graphs[0] if len(saved.meta_graphs) == 1 else None


def _of_examples(signatures: Mapping[str, Any], call: ModelCall) -> Any:
    """The signature, if it takes examples and returns what `call` names."""
    if call.signature_name not in signatures:
        return None
    signature, features = signatures[call.signature_name], call.preprocessing_function_name
    inputs = {name: tf.as_dtype(one.dtype) for name, one in signature.inputs.items()}
    if [*inputs.values()] != [tf.string]:
        return None
    if features in signatures and takes_features(inputs, signatures[features].outputs):
        return None
    return signature if call.output_name(signature.outputs) in signature.outputs else None


def _part(graph: Any, ends: Iterable[str]) -> tf.compat.v1.GraphDef:
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
