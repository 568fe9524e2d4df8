"""The exported model as a function of dense tensors, which LiteRT can run: the graph behind Transform, without ragged
tensors and without the bytes of images.

device = DeviceModel.of(serving_dir)
device.inputs["image"]                      # TensorSpec([None, 8, 8, 1], tf.uint8)
device.function(**device.feeds(features))   # float32 [batch, outputs]

The signature `serving_transformed` takes the values of a multivalued feature as [batch, values], padded with -1, makes
a ragged tensor of them, and pads it again where a layer takes a dense one; and it takes an image as the bytes of its
pixels. LiteRT has operations for neither. So here each layer is given the padded input itself, and the pixels as a
tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from headrace.components.canary.signatures import TRANSFORMED
from headrace.trainer.served_model import PREDICTIONS

Arrays = Mapping[str, NDArray[Any]]
_PIXELS = "/pixels"
"""Suffix of the placeholder that replaces one for the bytes of images."""


class NotConvertedError(Exception):
    """The model cannot be converted. `str(error)` says why."""


@dataclass(frozen=True)
class DeviceModel:
    """The function, and its inputs by the names of the features.

    function: takes them as keyword arguments and returns the predictions under their name; owner: keeps it alive.
    """

    function: Any
    owner: tf.Module
    inputs: Mapping[str, tf.TensorSpec]
    images: frozenset[str] = frozenset()

    @classmethod
    def of(cls, loaded: Any) -> DeviceModel:
        """The function of a loaded SavedModel. Raises NotConvertedError if it lacks the signature."""
        if TRANSFORMED not in loaded.signatures:
            raise NotConvertedError(f"it has no signature {TRANSFORMED}, which takes transformed features")
        graph = _Graph(loaded.signatures[TRANSFORMED])
        owner = tf.Module()
        owner.function = tf.function(graph.predict, autograph=False).get_concrete_function(**graph.inputs)
        return cls(owner.function, owner, graph.inputs, frozenset(graph.images))

    def feeds(self, features: Arrays) -> dict[str, NDArray[Any]]:
        """The inputs for features as the signature `serving_transformed` takes them."""
        return {
            name: _pixels(features[name], spec) if name in self.images else features[name]
            for name, spec in self.inputs.items()
        }


class _Graph:
    """The graph of the signature with its weights as constants, cut where LiteRT has no operation."""

    def __init__(self, signature: Any) -> None:
        frozen = convert_variables_to_constants_v2(signature, lower_control_flow=False)
        self._graph = frozen.graph.as_graph_def()
        self._nodes = {node.name: node for node in self._graph.node}
        self._inputs_above: dict[str, frozenset[str]] = {}
        specs = signature.structured_input_signature[1]
        self._features = {spec.name: name for name, spec in specs.items()}
        outputs = sorted(signature.structured_outputs)
        self._output = frozen.outputs[outputs.index(PREDICTIONS)].name
        self.images: dict[str, str] = {}
        """Feature to the placeholder of its pixels."""
        self._replace(dict(self._replaced()))
        self._graph = tf.compat.v1.graph_util.extract_sub_graph(self._graph, [_node(self._output)])

    @cached_property
    def inputs(self) -> dict[str, tf.TensorSpec]:
        """The inputs that the predictions depend on."""
        found = {}
        for node in self._graph.node:
            if node.op == "Placeholder" and (name := self._feature(node.name)):
                dtype, shape = tf.as_dtype(node.attr["dtype"].type), tf.TensorShape(node.attr["shape"].shape)
                found[name] = tf.TensorSpec(shape, dtype, name=name)
        return dict(sorted(found.items()))

    def predict(self, **tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        placeholders = {self._feature(node.name): node.name for node in self._graph.node if node.op == "Placeholder"}
        given = {f"{placeholders[name]}:0": tensor for name, tensor in tensors.items()}
        (found,) = tf.graph_util.import_graph_def(
            self._graph, input_map=given, return_elements=[self._output], name="model"
        )
        return {PREDICTIONS: found}

    def _feature(self, placeholder: str) -> str | None:
        return self._features.get(placeholder.removesuffix(_PIXELS))

    def _replaced(self) -> Iterator[tuple[str, str]]:
        """Nodes, each with the placeholder that gives the same."""
        for node in list(self._graph.node):
            if node.op == "RaggedTensorToTensor" and len(above := self._above(node.name)) == 1:
                yield node.name, next(iter(above))
            elif node.op == "DecodePaddedRaw" and len(above := self._above(node.name)) == 1:
                yield from self._pixels_of(node, next(iter(above)))

    def _pixels_of(self, decoded: Any, placeholder: str) -> Iterator[tuple[str, str]]:
        """The images that are made of decoded bytes, [batch, height, width, channels]."""
        for node in list(self._graph.node):
            if node.op != "Reshape" or _node(node.input[0]) != decoded.name:
                continue
            _, *shape = tf.make_ndarray(self._nodes[_node(node.input[1])].attr["value"].tensor).tolist()
            pixels = f"{placeholder}{_PIXELS}"
            if pixels not in self._nodes:
                made = self._graph.node.add(name=pixels, op="Placeholder")
                made.attr["dtype"].type = decoded.attr["out_type"].type
                made.attr["shape"].shape.CopyFrom(tf.TensorShape([None, *shape]).as_proto())
                self._nodes[pixels] = made
            self.images[self._features[placeholder]] = pixels
            yield node.name, pixels

    def _replace(self, replaced: Mapping[str, str]) -> None:
        """Let the consumers of the nodes read the placeholders. Without the assertions, which LiteRT does not have."""
        for node in self._graph.node:
            inputs = [replaced.get(_node(name), name) for name in node.input if not name.startswith("^")]
            del node.input[:]
            node.input.extend(inputs)

    def _above(self, name: str) -> frozenset[str]:
        """The placeholders that a node depends on. Without recursion, as graphs are deep."""
        waiting = [name]
        while waiting:
            node = self._nodes[waiting[-1]]
            parents = [_node(one) for one in node.input if not one.startswith("^")]
            unknown = [one for one in parents if one not in self._inputs_above]
            if unknown:
                waiting += unknown
                continue
            own = frozenset([node.name]) if node.op == "Placeholder" else frozenset()
            self._inputs_above[waiting.pop()] = own.union(*(self._inputs_above[one] for one in parents))
        return self._inputs_above[name]


def _node(tensor: str) -> str:
    """The name of the node that a tensor comes from."""
    return tensor.removeprefix("^").partition(":")[0]


def _pixels(images: NDArray[Any], spec: tf.TensorSpec) -> NDArray[Any]:
    """Bytes of pixels [batch] as images."""
    shape = (len(images), *spec.shape[1:])
    return np.frombuffer(b"".join(images), spec.dtype.as_numpy_dtype).reshape(shape)
