"""`train.warm_start`: starting from the weights of an earlier model, as far as they mean the same.

The meaning of weights is stored next to them: which features a layer reads, and which category has which row of a
table. So a later model takes over what means the same, and not what merely has the same shape: after new data a
vocabulary may be as long as before and contain other words, or the same in another order.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import h5py
import keras
import numpy as np
import tensorflow_transform as tft

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import CrossedFeature, Feature, TextFeature, VocabularyFeature
from headrace.trainer.columns.vocabulary import Vocabulary, vocabulary_size
from headrace.trainer.export import WEIGHTS
from headrace.trainer.sections import MODEL_SETTINGS, TrainerSections
from headrace.trainer.weights.sidecar import Sidecar

MAX_LISTED = 8
"""Maximum number of layers that are named in a message; the others are counted."""
VariableName = tuple[str, ...]
"""The names of the layers that contain a variable, the outermost first, and its number."""


@dataclass(frozen=True)
class WeightLayout(Sidecar):
    """What the weights of a model mean."""

    FILE = "assets.extra/layout.json"

    tables: dict[str, list[str]]
    """Layer with rows for the categories of several features → the features, in the order of the rows."""
    reads: dict[str, list[str]]
    """Other layer with weights → the features and layers that it reads, in order."""
    rows: dict[str, int]
    """Categorical feature → its number of categories."""
    vocabularies: dict[str, list[str]]
    """Feature with a vocabulary → its entries, which are the first categories."""
    meanings: dict[str, str]
    """Feature → a digest of what its values mean."""

    @classmethod
    def of(cls, model: keras.Model, sections: TrainerSections, transform_output: tft.TFTransformOutput) -> Self:
        """Describe a model that was built from these sections on this transform graph."""
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


def start_from(model: keras.Model, layout: WeightLayout, base: str | None) -> str:
    """Copy matching weights from the model in the serving directory `base`, and describe what was done.

    Layers are matched by name. Of a table, the rows of categories that both models have are copied. Another layer is
    copied if it has the same shape and reads the same. Raises TrainingError if nothing matches.
    """
    if base is None or not Path(base, WEIGHTS).is_file():
        return "there is no blessed model to start from yet: new weights"
    earlier = WeightLayout.read(Path(base))
    if earlier is None:
        return f"{base} does not describe what its weights mean: new weights"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.weights.h5")
        model.save_weights(file)
        with h5py.File(file, "r+") as ours, h5py.File(Path(base, WEIGHTS), "r") as theirs:
            results = list(_copy_layers(ours, theirs, layout, earlier))
        model.load_weights(file)
    copied = [words for done, words in results if done]
    skipped = [words for done, words in results if not done]
    if not copied:
        raise TrainingError(
            f"train.warm_start: nothing of the latest blessed model fits this one: {_list(skipped)}. Its weights are in"
            f" {base}. Set `train.warm_start: false` to start with new weights"
        )
    return f"from {Path(base).parent}: took {_list(copied)}" + (f"; not {_list(skipped)}" if skipped else "")


def _list(words: list[str]) -> str:
    rest = f" and {len(words) - MAX_LISTED} more" if len(words) > MAX_LISTED else ""
    return ", ".join(words[:MAX_LISTED]) + rest


def _copy_layers(ours: Any, theirs: Any, layout: WeightLayout, earlier: WeightLayout) -> Iterator[tuple[bool, str]]:
    """Yield for each layer whether it was copied, and what of it or why not."""
    found = dict(_variables(theirs))
    by_layer: dict[str, list[tuple[VariableName, Any]]] = {}
    for name, variable in _variables(ours):
        by_layer.setdefault(name[0], []).append((name, variable))
    for layer, variables in by_layer.items():
        if layer in layout.tables:
            yield _copy_rows(layer, variables[0][1], found.get(variables[0][0]), layout, earlier)
        else:
            mismatch = _mismatch(layer, variables, found, layout, earlier)
            if not mismatch:
                for name, variable in variables:
                    variable[...] = found[name][...]
            yield not mismatch, f"{layer} ({mismatch})" if mismatch else layer


def _mismatch(
    layer: str,
    variables: list[tuple[VariableName, Any]],
    found: dict[VariableName, Any],
    new: WeightLayout,
    old: WeightLayout,
) -> str:
    """Why a layer cannot be copied; empty if it can."""
    for name, variable in variables:
        if name not in found:
            return "the earlier model has none"
        if found[name].shape != variable.shape:
            return f"its shape was {list(found[name].shape)} and is {list(variable.shape)}"
    if old.reads.get(layer) != new.reads.get(layer):
        return "it reads other features or layers"
    direct = [name.removeprefix("feature ") for name in new.reads.get(layer, []) if name.startswith("feature ")]
    changed = [name for name in direct if old.meanings.get(name) != new.meanings.get(name)]
    return f"the values of {', '.join(changed)} mean something else" if changed else ""


def _copy_rows(layer: str, ours: Any, theirs: Any, new: WeightLayout, old: WeightLayout) -> tuple[bool, str]:
    """Copy the rows of the categories that are the same; describe how many of how many."""
    if theirs is None or layer not in old.tables:
        return False, f"{layer} (the earlier model has none)"
    if theirs.shape[1:] != ours.shape[1:]:
        return False, f"{layer} (its shape was {list(theirs.shape)} and is {list(ours.shape)})"
    table, before = ours[...], theirs[...]
    starts, start = {}, 0
    for name in old.tables[layer]:
        starts[name], start = start, start + old.rows[name]
    start, copied = 0, 0
    for name in new.tables[layer]:
        if name in starts:
            here, there = _same_categories(name, new, old)
            table[start + here] = before[starts[name] + there]
            copied += len(here)
        start += new.rows[name]
    ours[...] = table
    return bool(copied), f"{layer} ({copied:,} of {len(table):,} rows)"


def _same_categories(name: str, new: WeightLayout, old: WeightLayout) -> tuple[np.ndarray, np.ndarray]:
    """The categories that a feature has in both models: their numbers in the new one, and in the old one."""
    if old.meanings.get(name) == new.meanings.get(name) and old.rows[name] == new.rows[name]:
        return np.arange(new.rows[name]), np.arange(new.rows[name])
    if name not in new.vocabularies or name not in old.vocabularies:
        return np.arange(0), np.arange(0)
    number = {entry: index for index, entry in enumerate(old.vocabularies[name])}
    pairs = [(index, number[entry]) for index, entry in enumerate(new.vocabularies[name]) if entry in number]
    sizes = new.rows[name] - len(new.vocabularies[name]), old.rows[name] - len(old.vocabularies[name])
    if sizes[0] == sizes[1]:  # the out-of-vocabulary buckets, and the category of missing values
        pairs += [(new.rows[name] - back, old.rows[name] - back) for back in range(1, sizes[0] + 1)]
    here, there = np.array(pairs, np.int64).reshape(-1, 2).T
    return here, there


def _variables(group: Any, above: VariableName = ()) -> Iterator[tuple[VariableName, Any]]:
    """The variables in a weights file, as Keras writes it."""
    for key, inner in group.items():
        if isinstance(inner, h5py.Dataset):
            yield (*above, key), inner
        elif key in ("layers", "vars") and not (key == "layers" and above):
            yield from _variables(inner, above)
        else:
            own = inner["vars"].attrs.get("name", key) if "vars" in inner else key
            yield from _variables(inner, (*above, str(own)))


def _inputs(model: keras.Model) -> Iterator[tuple[str, Any]]:
    yield from model.input.items() if isinstance(model.input, dict) else ()


def _is_table(layer: keras.layers.Layer) -> bool:
    return hasattr(layer, "table") and hasattr(layer, "sizes")


def _features(layer: keras.layers.Layer, names: Mapping[int, str]) -> list[str]:
    return [names.get(id(tensor), tensor.name) for tensor in _tensors(layer)]


def _tensors(layer: keras.layers.Layer) -> list[Any]:
    """The tensors on which a layer is called, in its first call."""
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
        elif getattr(above, "weights", ()):  # an operation of keras.ops has none
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
    parts = [feature.model_dump_json(exclude=MODEL_SETTINGS), *vocabularies.get(name, [])]
    if isinstance(feature, CrossedFeature):
        parts += [_meaning(key, features, vocabularies) for key in feature.keys if key in features and key != name]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
