"""What the weights of a model mean: which features a layer reads, and which category has which row of a table.

Written beside the weights, so that a later model takes over what means the same, not what merely has the same shape:
after new data a vocabulary may be as long as before and hold other words, or the same in another order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import keras
import tensorflow_transform as tft

from headrace.configs.features import CrossedFeature, Feature, TextFeature, VocabularyFeature
from headrace.trainer.columns.lookup import Vocabulary, vocabulary_size
from headrace.trainer.sections import TrainerSections
from headrace.trainer.weights.beside import Beside

_OF_THE_MODEL = {"embedding", "deep", "wide", "combiner"}


@dataclass(frozen=True)
class Layout(Beside):
    """Of one model."""

    FILE = "assets.extra/layout.json"

    tables: dict[str, list[str]]
    """Layers with rows for the categories of several features, one after another: the features."""
    reads: dict[str, list[str]]
    """Other layers with weights: what they read, features and layers, in order."""
    rows: dict[str, int]
    """Categorical features: how many categories they have."""
    vocabularies: dict[str, list[str]]
    """Features with a vocabulary: its entries, which are the first categories."""
    meanings: dict[str, str]
    """For each feature, a digest of what its values mean."""

    @classmethod
    def of(cls, model: keras.Model, sections: TrainerSections, transform_output: tft.TFTransformOutput) -> Self:
        """Of a model that was built of these sections on this transform graph."""
        names = {id(tensor): name for name, tensor in _inputs(model)}
        tables = {layer.name: _features(layer, names) for layer in model.layers if _is_table(layer)}
        reads = {
            layer.name: list(dict.fromkeys(_read(layer, names)))
            for layer in model.layers
            if layer.weights and not _is_table(layer)
        }
        sized = {layer.name: layer.sizes for layer in model.layers if _is_table(layer)}
        rows = {name: size for table, sizes in sized.items() for name, size in zip(tables[table], sizes, strict=True)}
        learned = {
            name: _vocabulary(name, feature, transform_output)
            for name, feature in sections.features.items()
            if isinstance(feature, VocabularyFeature) or (isinstance(feature, TextFeature) and not feature.hash_buckets)
        }
        meanings = {name: _meaning(name, sections.features, learned) for name in sections.features}
        return cls(tables, reads, rows, {name: learned[name] for name in rows if name in learned}, meanings)


def _inputs(model: keras.Model) -> Iterator[tuple[str, Any]]:
    yield from model.input.items() if isinstance(model.input, dict) else ()


def _is_table(layer: keras.layers.Layer) -> bool:
    return hasattr(layer, "table") and hasattr(layer, "sizes")


def _features(layer: keras.layers.Layer, names: Mapping[int, str]) -> list[str]:
    return [names.get(id(tensor), tensor.name) for tensor in _tensors(layer)]


def _tensors(layer: keras.layers.Layer) -> list[Any]:
    """What a layer is called on, in its first call."""
    nodes = getattr(layer, "_inbound_nodes", [])
    return list(nodes[0].input_tensors) if nodes else []


def _read(layer: keras.layers.Layer, names: Mapping[int, str]) -> Iterator[str]:
    """The features and layers with weights that a layer reads, through tables and layers without weights."""
    for tensor in _tensors(layer):
        above = tensor._keras_history.operation
        if id(tensor) in names:
            yield f"feature {names[id(tensor)]}"
        elif _is_table(above):
            yield from (f"{above.name} of {name}" for name in _features(above, names))
        elif above.weights:
            yield f"layer {above.name}"
        else:
            yield from _read(above, names)


def _vocabulary(
    name: str, feature: VocabularyFeature | TextFeature, transform_output: tft.TFTransformOutput
) -> list[str]:
    given = Vocabulary(name, name, feature).given()
    if given is not None:
        return list(given)
    if not vocabulary_size(transform_output)(name):
        return []
    return [entry.decode(errors="replace") for entry in transform_output.vocabulary_by_name(name)]


def _meaning(name: str, features: Mapping[str, Feature], vocabularies: Mapping[str, list[str]]) -> str:
    """A digest of a feature's settings and vocabulary, and of the features that it is made of."""
    feature = features[name]
    parts = [feature.model_dump_json(exclude=_OF_THE_MODEL), *vocabularies.get(name, [])]
    if isinstance(feature, CrossedFeature):
        parts += [_meaning(key, features, vocabularies) for key in feature.keys if key in features and key != name]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
