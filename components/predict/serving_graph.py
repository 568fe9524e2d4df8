"""One signature of a SavedModel, loaded as TensorFlow Serving loads it: without Python's objects for its operations.

predict = load(folder, call)          # None if only `tf.saved_model.load` can load it
predict(tf.constant(examples))        # string [batch] → the predictions, as the signature shapes them
predict.of_columns(batch)             # the same for what the examples would hold; None if it needs the examples

`tf.saved_model.load` makes a Python object for each operation of all functions of all signatures, which takes longer
than predicting some thousand rows. Here the functions that the signature calls go to TensorFlow's runtime as they are
in the file. What is left is the small graph around them, which creates, restores and fills the variables and tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import tensorflow as tf

from headrace.components.predict.call_size import values_per_row
from headrace.components.predict.parsed import lift_parser
from headrace.components.served_graph import INIT, GraphEnds, ServedGraph, names_variables, only_graph, part_of
from headrace.trainer.private_api import call_flat
from headrace.trainer.served_model import ModelCall, takes_features


def load(folder: Path, call: ModelCall) -> LoadedSignature | None:
    """Load the signature that `call` names. Its variables and tables are freed with the result.

    Returns None for a folder without a SavedModel that has one graph, for a signature that takes anything but
    serialized examples, and for functions that name other variables than those that are restored, as those of a Keras 3
    model do that `tf.saved_model.save` wrote. Raises tf.errors.OpError if the variables cannot be read.
    """
    meta = only_graph(folder)
    signature = meta and _of_examples(meta.signature_def, call)
    if not signature:
        return None
    examples = next(one.name for one in signature.inputs.values())
    predictions = signature.outputs[call.output_name(signature.outputs)].name
    ends = GraphEnds.of(meta, folder)
    graph = part_of(meta.graph_def, [examples, predictions, *ends.all])
    if names_variables(graph):
        return None
    found = LoadedSignature(graph, examples, predictions, ends)
    return found if found.is_restored else None


class LoadedSignature:
    """Predictions by a graph whose functions are in TensorFlow's runtime, and whose variables are in memory."""

    values_per_row: int | None
    """In the widest tensor of the model, if that is known."""

    def __init__(self, graph: tf.compat.v1.GraphDef, examples: str, predictions: str, ends: GraphEnds) -> None:
        """examples, predictions: the tensors of the signature, by name."""
        self.values_per_row = values_per_row(part_of(graph, [predictions]))
        self._parser = lift_parser(graph)
        self._graph = ServedGraph(graph, ends)
        self._predict = self._graph.prune([examples, *(self._parser.inputs if self._parser else ())], [predictions])

    def __call__(self, examples: tf.Tensor) -> tf.Tensor:
        """The predictions for serialized examples, string [batch]."""
        return self._of(examples, self._parser.of_examples(examples) if self._parser else [])

    def of_columns(self, batch: pa.RecordBatch) -> tf.Tensor | None:
        """The predictions for columns; None if they must be written as examples."""
        parsed = None if self._parser is None else self._parser.of_columns(batch)
        return None if parsed is None else self._of(tf.fill([batch.num_rows], ""), parsed)

    def _of(self, examples: tf.Tensor, parsed: Sequence[tf.Tensor]) -> tf.Tensor:
        (found,) = call_flat(self._predict, [examples, *parsed, *self._graph.fixed])
        return found

    @property
    def is_restored(self) -> bool:
        """Whether all variables have values."""
        return self._graph.is_restored


def read_signatures(folder: Path) -> dict[str, Any]:
    """The SignatureDef of each signature of a SavedModel, by name, in order; empty for a folder without one."""
    meta = only_graph(folder)
    found = {} if meta is None else dict(meta.signature_def)
    return {name: found[name] for name in sorted(found.keys() - {INIT})}


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
