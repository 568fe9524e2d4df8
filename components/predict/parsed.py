"""What TensorFlow's parser makes of tf.Examples, from the columns that they would hold.

parser = lift_parser(graph)         # the graph now takes what the operation returned that parsed the examples
parser.of_columns(batch)            # this for a batch of columns
parser.of_examples(examples)        # and for serialized examples, by the operation itself

To write tf.Examples, only to parse them again in the same process, would take about half of a prediction's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import is_list, numbers_of, plain, valid_of

_PARSE, _CALLS = "ParseExampleV2", ("PartitionedCall", "StatefulPartitionedCall")
_ARROW = {tf.int64: pa.int64(), tf.float32: pa.float32(), tf.string: pa.binary()}


@dataclass(frozen=True)
class Parser:
    """The columns that a graph reads from tf.Examples, by type. All of them become sparse tensors.

    The graph takes four tensors for each type, with the columns one after the other, and divides them: a call of
    TensorFlow with some tensors for each of hundreds of columns would take longer than the model.
    """

    columns: Mapping[tf.DType, Sequence[str]]

    @property
    def inputs(self) -> list[str]:
        """The placeholders, in the order of the tensors."""
        return [
            f"{_name(part, dtype)}:0" for dtype in self.columns for part in ("values", "indices", "sizes", "shapes")
        ]

    def of_examples(self, examples: tf.Tensor) -> list[tf.Tensor]:
        """The tensors for serialized examples, string [batch]. Raises tf.errors.InvalidArgumentError for others."""
        features = {name: tf.io.VarLenFeature(dtype) for dtype, names in self.columns.items() for name in names}
        found, tensors = tf.io.parse_example(examples, features), list[tf.Tensor]()
        for names in self.columns.values():
            sparse = [found[name] for name in names]
            sizes = tf.stack([tf.size(one.values, tf.int64) for one in sparse])
            indices, shapes = tf.concat([one.indices for one in sparse], 0), [one.dense_shape for one in sparse]
            tensors += [tf.concat([one.values for one in sparse], 0), indices, sizes, tf.stack(shapes)]
        return tensors

    def of_columns(self, batch: pa.RecordBatch) -> list[tf.Tensor] | None:
        """The same for columns, which are what `encode` takes; None if one is of another type than the graph's."""
        columns, tensors = dict(zip(batch.schema.names, batch.columns, strict=True)), list[tf.Tensor]()
        for dtype, names in self.columns.items():
            own = [plain(columns[name]) if name in columns else pa.nulls(batch.num_rows) for name in names]
            runs = [(arrow, list(run)) for arrow, run in groupby(own, key=lambda column: column.type)]
            if not all(_fits(arrow, dtype) for arrow, _ in runs):
                return None
            tensors += _tensors([run for _, run in runs], batch.num_rows, dtype)
        return tensors


def _name(part: str, dtype: tf.DType) -> str:
    return f"parsed_{part}_{dtype.name}"


def _fits(arrow: pa.DataType, dtype: tf.DType) -> bool:
    if is_list(arrow):
        arrow = arrow.value_type
    if pa.types.is_null(arrow):
        return True
    if dtype == tf.float32:
        return bool(pa.types.is_floating(arrow))
    return bool(arrow == pa.int64() if dtype == tf.int64 else arrow in (pa.string(), pa.binary()))


def _tensors(runs: Sequence[Sequence[pa.Array]], rows: int, dtype: tf.DType) -> Iterator[tf.Tensor]:
    """Values, indices, sizes and shapes of columns, which come in runs of the same type."""
    found, count = list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]](), 0
    for run in runs:
        row, place, values = _places(pa.concat_arrays(run))
        found.append((row + count * rows, place, _numpy(values, dtype)))
        count += len(run)
    row, place, values = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    which, row = np.divmod(row, rows)
    shapes = np.zeros((count, 2), np.int64)
    shapes[:, 0] = rows
    np.maximum.at(shapes[:, 1], which, place + 1)
    yield tf.constant(values, dtype)
    yield tf.constant(np.stack([row, place], axis=1))
    yield tf.constant(np.bincount(which, minlength=count), tf.int64)
    yield tf.constant(shapes)


def _places(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """The row of each value and its place in the row, both int64 [values]; and the values."""
    if not is_list(column.type):
        valid = np.zeros(len(column), bool) if pa.types.is_null(column.type) else valid_of(column)
        row = np.arange(len(column)) if valid is None else np.flatnonzero(valid)
        return row, np.zeros(len(row), np.int64), column.drop_null()
    row = np.asarray(pc.list_parent_indices(column), np.int64)
    counts = np.bincount(row, minlength=len(column))
    return row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row], column.flatten()


def _numpy(values: pa.Array, dtype: tf.DType) -> NDArray[Any]:
    if pa.types.is_null(values.type):
        return np.zeros(0, dtype.as_numpy_dtype)
    if dtype == tf.string:
        return np.asarray(values.cast(pa.binary()).to_numpy(zero_copy_only=False), object)
    with np.errstate(over="ignore"):  # what float32 cannot hold was refused before, or is not used as a number
        return numbers_of(values).astype(dtype.as_numpy_dtype)


def lift_parser(graph: tf.compat.v1.GraphDef) -> Parser | None:
    """Take the operation that parses the examples out of a graph or the functions that it calls: placeholders of the
    graph take its place. Returns None, and leaves the graph as it is, unless there is one operation, with sparse
    outputs alone and on a single way through the functions.
    """
    way = _way_to_parser(graph)
    parse = way and next(node for node in way[0].node_def if node.op == _PARSE)
    if not way or not parse or parse.attr["Tdense"].list.type or parse.attr["ragged_value_types"].list.type:
        return None
    names = _constant(way[0], parse.input[2])
    types = [tf.as_dtype(one) for one in parse.attr["sparse_types"].list.type]
    if not names:
        return None
    arguments, columns = dict[str, tuple[str, tf.DType, str]](), dict[tf.DType, list[str]]()
    for place, (key, dtype) in enumerate(zip(names, types, strict=True)):
        number = len(columns.setdefault(dtype, []))
        columns[dtype].append(key.decode())
        for part, own in (("values", dtype), ("indices", tf.int64), ("shapes", tf.int64)):
            source = f"{_name(f'each_{part}', dtype)}:{number}"
            arguments[f"{parse.name}:sparse_{part}:{place}"] = (f"parsed_{part}_{place}", own, source)
    _replace(way[0], parse, {old: name for old, (name, _, _) in arguments.items()})
    for number, function in enumerate(way):
        for name, dtype, _ in arguments.values():
            function.signature.input_arg.add(name=name, type=dtype.as_datatype_enum)
        function.attr.pop("_input_shapes", None)
        nodes, last = (graph.node, True) if number + 1 == len(way) else (way[number + 1].node_def, False)
        (call,) = (node for node in nodes if _called(node) == function.signature.name)
        _pass_on(call, [(source if last else name, dtype) for name, dtype, source in arguments.values()])
    for dtype, own in columns.items():
        _add_inputs(graph, dtype, len(own))
    return Parser(columns)


def _add_inputs(graph: tf.compat.v1.GraphDef, dtype: tf.DType, columns: int) -> None:
    """Add the placeholders of the columns of a type, and what divides them."""
    with tf.Graph().as_default() as added:
        values, indices, sizes, shapes = (
            tf.compat.v1.placeholder(kind, shape, _name(part, dtype))
            for part, kind, shape in (
                ("values", dtype, [None]),
                ("indices", tf.int64, [None, 2]),
                ("sizes", tf.int64, [columns]),
                ("shapes", tf.int64, [columns, 2]),
            )
        )
        tf.raw_ops.SplitV(value=values, size_splits=sizes, axis=0, num_split=columns, name=_name("each_values", dtype))
        tf.raw_ops.SplitV(
            value=indices, size_splits=sizes, axis=0, num_split=columns, name=_name("each_indices", dtype)
        )
        tf.raw_ops.Unpack(value=shapes, num=columns, axis=0, name=_name("each_shapes", dtype))
    graph.node.extend(added.as_graph_def().node)


def _way_to_parser(graph: tf.compat.v1.GraphDef) -> list[Any] | None:
    """The function with the parser, the one that calls it, and so on; the graph calls the last. None if there are
    several ways, or none.
    """
    functions = list(graph.library.function)
    holders = [one for one in functions for node in one.node_def if node.op == _PARSE]
    way: list[Any] = []
    while len(holders) == 1 and holders[0] is not graph:
        way += holders
        name = way[-1].signature.name
        holders = [one for one in functions for node in one.node_def if _names(node, name)]
        holders += [graph for node in graph.node if _names(node, name)]
    calls = [node for node in graph.node if way and _called(node) == way[-1].signature.name]
    return way if len(holders) == 1 and len(calls) == 1 else None


def _names(node: Any, function: str) -> bool:
    attributes = node.attr.values()
    listed = (one.name for value in attributes for one in value.list.func)
    return node.op == function or any(value.func.name == function for value in attributes) or function in listed


def _called(node: Any) -> str | None:
    return node.attr["f"].func.name if node.op in _CALLS else None


def _constant(function: Any, tensor: str) -> list[bytes] | None:
    """The strings of a constant of a function."""
    name = tensor.partition(":")[0]
    node = next((one for one in function.node_def if one.name == name and one.op == "Const"), None)
    return None if node is None else tf.make_ndarray(node.attr["value"].tensor).tolist()


def _replace(function: Any, node: Any, names: dict[str, str]) -> None:
    """Remove a node from a function, whose other nodes take these arguments in place of its outputs."""
    control = f"^{node.name}"
    function.node_def.remove(node)
    for other in function.node_def:
        if any(one in names or one == control for one in other.input):
            kept = [names.get(one, one) for one in other.input if one != control]
            del other.input[:]
            other.input.extend(kept)
    for output, tensor in function.ret.items():
        function.ret[output] = names.get(tensor, tensor)
    for output, operation in list(function.control_ret.items()):
        if operation == control[1:]:
            del function.control_ret[output]


def _pass_on(call: Any, inputs: Sequence[tuple[str, tf.DType]]) -> None:
    """Call a function with further arguments."""
    data = [one for one in call.input if not one.startswith("^")]
    controls = call.input[len(data) :]
    del call.input[:]
    call.input.extend([*data, *(name for name, _ in inputs), *controls])
    call.attr["Tin"].list.type.extend(dtype.as_datatype_enum for _, dtype in inputs)
