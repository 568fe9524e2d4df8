"""The Keras half: what the model gets of each feature, against its weights taken by NumPy."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from pydantic import TypeAdapter

from headrace.configs.schema.features import Feature
from headrace.trainer import columns

pytestmark = pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict")

VOCABULARY = {"learned": 7}

FEATURES: dict[str, dict[str, Any]] = {
    "hour": {"column": "identity", "num_buckets": 24},
    "amount": {"column": "numeric"},
    "learned": {"column": "vocabulary", "oov_buckets": 2},
    "quarter": {"column": "bucketized", "buckets": 4, "missing": 0.0, "embedding": "one_hot"},
    "pair": {"column": "crossed", "keys": ["hour", "quarter"], "hash_buckets": 100},
    "deep_pair": {"column": "crossed", "keys": ["hour", "quarter"], "hash_buckets": 80, "deep": True, "wide": False},
    "word": {"column": "hashed", "hash_buckets": 15, "embedding": 5},
    "odd": {"column": "custom", "function": "a.b", "keys": ["hour"], "num_categories": 2, "wide": False},
    "speed": {"column": "custom", "function": "a.b", "keys": ["amount"]},
    "given": {"column": "vocabulary", "values": ["a", "b"], "missing": "a", "embedding": "one_hot", "wide": False},
}
SIZES = {
    "hour": 25, "learned": 10, "quarter": 4, "pair": 101, "deep_pair": 81, "word": 16, "odd": 2, "given": 3,
}  # fmt: skip


def model_inputs(embedding: Any = "auto", **features: dict[str, Any]) -> columns.ModelInputs:
    parsed = {
        name: TypeAdapter(Feature).validate_json(json.dumps(feature))
        for name, feature in (features or FEATURES).items()
    }
    return columns.ModelInputs(columns.build(parsed), VOCABULARY.__getitem__, embedding)


def shape(part: keras.KerasTensor | None) -> tuple[int | None, ...] | None:
    return None if part is None else part.shape


def batch() -> dict[str, np.ndarray]:
    """Every category of every feature, the last one too."""
    rng = np.random.default_rng(0)
    ids = {name: np.append(rng.integers(0, size, 40), size - 1) for name, size in SIZES.items()}
    return {**ids, "amount": rng.normal(size=41).astype("float32"), "speed": rng.normal(size=41).astype("float32")}


def test_number_of_categories_counts_oov_buckets_and_the_missing_one() -> None:
    assert model_inputs().num_categories == SIZES


def test_inputs_are_named_and_typed_after_the_features() -> None:
    inputs = model_inputs().inputs
    assert list(inputs) == list(FEATURES)
    for name, tensor in inputs.items():
        assert tensor.name == f"{name}_input"
        assert tensor.shape == (None,)
        assert tensor.dtype == ("int64" if name in SIZES else "float32")


def test_deep_is_numbers_then_embeddings_narrow_ones_first_then_one_hot_codes() -> None:
    features = model_inputs()
    model = keras.Model(features.inputs, features.deep())
    values = batch()
    parts = [np.stack([values["amount"], values["speed"]], axis=1)]
    # the number of categories to the power 0.25, rounded up; 81 ** 0.25 is 3 exactly
    for width, names in {2: ["learned", "odd"], 3: ["hour", "deep_pair"], 5: ["word"]}.items():
        layer = model.get_layer(f"embeddings_{width}")
        parts += [layer.rows_of(place)[values[name]] for place, name in enumerate(names)]
    parts += [np.eye(SIZES[name])[values[name]] for name in ("quarter", "given")]
    np.testing.assert_array_equal(model.predict(values, verbose=0), np.concatenate(parts, axis=1, dtype="float32"))
    assert model.count_params() == 2 * (10 + 2) + 3 * (25 + 81) + 5 * 16


def test_models_embedding_counts_where_the_feature_does_not_say() -> None:
    pair = {"a": {"column": "identity", "num_buckets": 3}, "b": {"column": "hashed", "hash_buckets": 4, "embedding": 9}}
    assert shape(model_inputs("one_hot", **pair).deep()) == (None, 9 + 4)
    assert shape(model_inputs(6, **pair).deep()) == (None, 6 + 9)
    assert shape(model_inputs("auto", **pair).deep()) == (None, 2 + 9)


def test_embeddings_start_small_and_differ() -> None:
    features = model_inputs()
    table = np.asarray(keras.Model(features.inputs, features.deep()).get_layer("embeddings_3").table)
    assert 0.04 < np.abs(table).max() <= 0.05
    assert len(np.unique(table)) > 0.9 * table.size


@pytest.mark.parametrize("units", [1, 3])
def test_wide_is_the_sum_of_one_weight_per_category_and_unit(units: int) -> None:
    features = model_inputs()
    model = keras.Model(features.inputs, features.wide(units))
    values, layer = batch(), model.get_layer("wide")
    np.testing.assert_array_equal(model.predict(values, verbose=0), np.zeros((41, units)))
    names = ["hour", "learned", "quarter", "pair", "word"]
    assert layer.table.shape == (sum(SIZES[name] for name in names), units)
    layer.table.assign(np.random.default_rng(1).normal(size=layer.table.shape))
    expected = sum(layer.rows_of(place)[values[name]] for place, name in enumerate(names))
    np.testing.assert_allclose(model.predict(values, verbose=0), expected, rtol=1e-5, atol=1e-6)


def test_part_without_features_is_none() -> None:
    number = {"column": "numeric"}
    cross = {"column": "crossed", "keys": ["x", "y"], "hash_buckets": 9}
    assert model_inputs(a=number).wide(1) is None
    assert shape(model_inputs(a=number).deep()) == (None, 1)
    assert model_inputs(a=cross).deep() is None
    assert shape(model_inputs(a=cross).wide(2)) == (None, 2)


def test_model_saved_by_keras_is_loaded_with_its_tables(tmp_path: Path) -> None:
    features = model_inputs()
    output = keras.layers.Concatenate()([features.deep(), features.wide(2)])
    model = keras.Model(features.inputs, output)
    model.get_layer("wide").table.assign(np.random.default_rng(1).normal(size=model.get_layer("wide").table.shape))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(batch(), verbose=0), model.predict(batch(), verbose=0))
