"""The transform function on disk, in TFT's layout: traced once and saved once.

    <folder>/transform_fn/                    a SavedModel with the function `transform_fn`, and the vocabularies
    <folder>/transformed_metadata/            schema.pbtxt of what it returns, and asset_map: files of vocabularies

TFT itself traces a function about ten times, and writes a SavedModel in which the results of analyzers are placeholders
before the one in which they are constants.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from tensorflow.python.trackable.resource import ResourceTracker, resource_tracker_scope
from tensorflow_transform import (
    analyzer_nodes,
    annotators,
    graph_context,
    impl_helper,
    schema_inference,
    tf2_utils,
)
from tensorflow_transform.tf_metadata import metadata_io

TransformFn = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Data columns by name to features by name."""

RANGES = "tft_schema_override_tensor"
"""The collection in which TFT notes the tensors of a graph whose range is known."""
ANNOTATIONS = (
    "tft_schema_override_annotation_tensor", "annotated_sparse_shape_tensors", "annotated_truely_sparse_tensors",
)  # fmt: skip
"""Those in which it notes what else a function says about the schema."""


def write_transform_fn(function: TransformFn, specs: Mapping[str, tf.TypeSpec], folder: str) -> None:
    """Trace a function without analyzers, and write it into the folder of a transform graph."""
    module = tf.Module()
    context = graph_context.TFGraphContext(module_to_export=module)
    annotated = False

    def in_context(inputs: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal annotated
        with context:
            outputs = function(inputs)
        annotated = _is_annotated(outputs)
        return outputs

    traced = tf.function(in_context, input_signature=[dict(specs)], autograph=False)
    concrete = _trace_into(module, traced)
    # without signatures, or TensorFlow would trace the function again for one that TFT's graphs do not have
    tf.saved_model.save(module, f"{folder}/{tft.TFTransformOutput.TRANSFORM_FN_DIR}", signatures={})
    metadata_fn = _metadata_fn(function, concrete) if annotated else dict
    outputs = concrete.structured_outputs
    schema = schema_inference.infer_feature_schema_v2(outputs, metadata_fn, evaluate_schema_overrides=True)
    metadata = f"{folder}/{tft.TFTransformOutput.TRANSFORMED_METADATA_DIR}"
    metadata_io.write_metadata(tft.DatasetMetadata(schema), metadata)
    if assets := annotators.get_asset_annotations(concrete.graph):
        Path(metadata, tft.TFTransformOutput.ASSET_MAP).write_text(json.dumps(assets), encoding="utf-8")


def traces_analyzers(function: TransformFn, specs: Mapping[str, tf.TypeSpec], temporary: str) -> bool:
    """Whether a function calls TFT's analyzers."""
    graph, _, _ = impl_helper.trace_preprocessing_function(
        function, dict(specs), use_tf_compat_v1=False, base_temp_dir=temporary
    )
    return bool(graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS))


def _trace_into(module: tf.Module, function: Any) -> Any:
    """Trace a function, and make it and what it uses attributes of a module, as TFT does.

    TFT also prunes the traced function, which takes longer than tracing: what it removes are the operations that a
    phase of the analysis does not need, and here there is one phase.
    """
    resources, objects, variables = ResourceTracker(), annotators.ObjectTracker(), list[tf.Variable]()

    def created(next_creator: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
        variables.append(next_creator(**arguments))
        return variables[-1]

    with (
        resource_tracker_scope(resources),
        annotators.object_tracker_scope(objects),
        tf.variable_creator_scope(created),
    ):
        concrete = function.get_concrete_function()
    module.transform_fn = concrete
    module.created_variables = variables
    module.resources = resources.resources
    module.trackable_objects = objects.trackable_objects
    module.initializers = [one._initializer for one in resources.resources if hasattr(one, "_initializer")]
    assets = concrete.graph.get_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS)
    module.assets = [tf.saved_model.Asset(path) for path in assets]
    return concrete


def _metadata_fn(function: TransformFn, concrete: Any) -> Callable[[], Any]:
    """What a function says about its outputs, for which TFT traces it again.

    Without ranges and annotations of outputs there would be nothing to find.
    """
    inputs = tf2_utils.get_structured_inputs_from_func_graph(concrete.graph)
    context = graph_context.TFGraphContext(module_to_export=tf.Module())
    return schema_inference.get_traced_metadata_fn(function, inputs, context, evaluate_schema_overrides=True)


def _is_annotated(outputs: Mapping[str, Any]) -> bool:
    graph = tf.compat.v1.get_default_graph()
    if any(graph.get_collection(name) for name in ANNOTATIONS):
        return True
    flat = {tensor.name for tensor in tf.nest.flatten(dict(outputs), expand_composites=True)}
    return any(tensor.name in flat for tensor in graph.get_collection(RANGES))
