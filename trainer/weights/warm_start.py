"""`train.warm_start`: beginning with the weights of an earlier model, as far as they mean the same."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from headrace.configs.errors import TrainingError
from headrace.trainer.export import WEIGHTS
from headrace.trainer.weights.layout import Layout

SHOWN = 8
"""Layers that are named of those taken or not; the others are counted."""


def start_from(model: keras.Model, layout: Layout, base: str | None) -> str:
    """Give the model what fits of the weights of the model in the serving directory `base`; what was done, in words.

    Layers go by their names. Of a table, the rows of the categories that both models know are taken. Another layer is
    taken if it has the same shape and reads the same. Raises TrainingError if nothing fits.
    """
    if base is None or not Path(base, WEIGHTS).is_file():
        return "no model is blessed yet that it could begin with: new weights"
    earlier = Layout.read(Path(base))
    if earlier is None:
        return f"{base} does not say what its weights mean: new weights"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.weights.h5")
        model.save_weights(file)
        with h5py.File(file, "r+") as ours, h5py.File(Path(base, WEIGHTS), "r") as theirs:
            told = list(_take_all(ours, theirs, layout, earlier))
        model.load_weights(file)
    taken = [words for done, words in told if done]
    left = [words for done, words in told if not done]
    if not taken:
        raise TrainingError(
            f"train.warm_start: nothing of the latest blessed model fits this one: {_listed(left)}. Its weights are in"
            f" {base}. Set `train.warm_start: false` to begin with new weights"
        )
    return f"from {Path(base).parent}: took {_listed(taken)}" + (f"; not {_listed(left)}" if left else "")


def _listed(words: list[str]) -> str:
    rest = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + rest


Name = tuple[str, ...]
"""Of a variable: the names of the layers that hold it, the outermost first, and its number."""


def _take_all(ours: Any, theirs: Any, layout: Layout, earlier: Layout) -> Iterator[tuple[bool, str]]:
    """For each layer, whether it was taken, and in words what of it or why not."""
    found = dict(_variables(theirs))
    by_layer: dict[str, list[tuple[Name, Any]]] = {}
    for name, variable in _variables(ours):
        by_layer.setdefault(name[0], []).append((name, variable))
    for layer, variables in by_layer.items():
        if layer in layout.tables:
            yield _take_rows(layer, variables[0][1], found.get(variables[0][0]), layout, earlier)
        else:
            why_not = _why_not(layer, variables, found, layout, earlier)
            if not why_not:
                for name, variable in variables:
                    variable[...] = found[name][...]
            yield not why_not, f"{layer} ({why_not})" if why_not else layer


def _why_not(layer: str, variables: list[tuple[Name, Any]], found: dict[Name, Any], new: Layout, old: Layout) -> str:
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


def _take_rows(layer: str, ours: Any, theirs: Any, new: Layout, old: Layout) -> tuple[bool, str]:
    """Copy the rows of the categories that are the same; how many of how many."""
    if theirs is None or layer not in old.tables:
        return False, f"{layer} (the earlier model has none)"
    if theirs.shape[1:] != ours.shape[1:]:
        return False, f"{layer} (its shape was {list(theirs.shape)} and is {list(ours.shape)})"
    table, before = ours[...], theirs[...]
    starts, place = {}, 0
    for name in old.tables[layer]:
        starts[name], place = place, place + old.rows[name]
    place, taken = 0, 0
    for name in new.tables[layer]:
        if name in starts:
            here, there = _same_categories(name, new, old)
            table[place + here] = before[starts[name] + there]
            taken += len(here)
        place += new.rows[name]
    ours[...] = table
    return bool(taken), f"{layer} ({taken:,} of {len(table):,} rows)"


def _same_categories(name: str, new: Layout, old: Layout) -> tuple[np.ndarray, np.ndarray]:
    """The categories that a feature has in both models: their numbers in the new one, and in the old one."""
    if old.meanings.get(name) == new.meanings.get(name) and old.rows[name] == new.rows[name]:
        return np.arange(new.rows[name]), np.arange(new.rows[name])
    if name not in new.vocabularies or name not in old.vocabularies:
        return np.arange(0), np.arange(0)
    number = {entry: place for place, entry in enumerate(old.vocabularies[name])}
    pairs = [(place, number[entry]) for place, entry in enumerate(new.vocabularies[name]) if entry in number]
    sizes = new.rows[name] - len(new.vocabularies[name]), old.rows[name] - len(old.vocabularies[name])
    if sizes[0] == sizes[1]:  # the buckets of other words, and the missing value
        pairs += [(new.rows[name] - back, old.rows[name] - back) for back in range(1, sizes[0] + 1)]
    here, there = np.array(pairs, np.int64).reshape(-1, 2).T
    return here, there


def _variables(group: Any, above: Name = ()) -> Iterator[tuple[Name, Any]]:
    """The variables in a file of weights, as Keras writes it."""
    for key, inner in group.items():
        if isinstance(inner, h5py.Dataset):
            yield (*above, key), inner
        elif key in ("layers", "vars") and not (key == "layers" and above):
            yield from _variables(inner, above)
        else:
            own = inner["vars"].attrs.get("name", key) if "vars" in inner else key
            yield from _variables(inner, (*above, str(own)))
