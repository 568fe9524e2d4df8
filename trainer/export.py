"""Writes the SavedModel: the Transform graph and the model combined, behind the signatures of `signatures`.

Of the model, only the variables and tables of the signatures are written, not its layers: the V1 and C++ loaders
(TensorFlow Serving, BulkInferrer) cannot find the variables of a Keras 3 model that `tf.saved_model.save` wrote. Of the
two tables that TFT makes of each vocabulary, the graph reads one. Every loader loads the functions of each.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.saved_model.experimental import TrackableResource

from headrace.trainer.private_api import AutoTrackable, keep_functions
from headrace.trainer.signatures import Signatures

WEIGHTS = "assets.extra/model.weights.h5"
"""The weights in Keras' own format within the SavedModel; a model with the same layers can start from them."""


def export(directory: str, signatures: Signatures, weights: Path) -> None:
    """Write the SavedModel into `directory`, and the file with the model's weights inside it."""
    traced = {
        name: tf.function(function, input_signature=[spec], autograph=False).get_concrete_function()
        for name, (function, spec) in signatures.all().items()
    }
    root = AutoTrackable()  # as a tf.Module, it would not have `variables` once it is loaded
    variables = (variable for function in traced.values() for variable in function.variables)
    root.variables = list({id(variable): variable for variable in variables}.values())
    read = {id(tensor) for function in traced.values() for tensor in function.captured_inputs}
    tables = (*_tables(signatures.model), *_tables(signatures.loaded))
    root.tables = [table for table in tables if id(table.resource_handle) in read]
    for table in root.tables:
        keep_functions(table)
    tf.saved_model.save(root, directory, traced)
    extra = Path(directory, WEIGHTS)
    extra.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(weights, extra)


def _tables(tracked: Any) -> Iterator[TrackableResource]:
    """The lookup tables, and other resources that are not variables, of a model or a loaded graph."""
    return (each for each in tf.train.TrackableView(tracked).descendants() if isinstance(each, TrackableResource))
