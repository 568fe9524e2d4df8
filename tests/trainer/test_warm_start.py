"""Weights of an earlier model: what means the same is taken, row by row; what does not is left, and said."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from headrace.common.errors import TrainingError
from headrace.trainer import columns, models
from headrace.trainer.export import WEIGHTS
from headrace.trainer.run import run_fn
from headrace.trainer.sections import TrainerSections
from headrace.trainer.weights.sidecar import TrainingOrigin, work_digest
from headrace.trainer.weights.warm_start import WeightLayout, start_from

Prepare = Callable[[str], Any]
HOUR = {"column": "identity", "num_buckets": 5}
FEATURES: dict[str, dict[str, Any]] = {
    "amount": {"column": "numeric"},
    "color": {"column": "vocabulary", "values": ["red", "green", "blue"], "oov_buckets": 2, "embedding": 3},
    "hour": {**HOUR, "embedding": 3},
}


def made(features: dict[str, Any], hidden: tuple[int, ...] = (6,), seed: int = 1) -> tuple[keras.Model, WeightLayout]:
    sections = TrainerSections.from_json(
        json.dumps(
            {
                "label": {"key": "l", "kind": "binary"},
                "features": features,
                "model": {"kind": "wide_and_deep", "hidden": hidden},
            }
        )
    )
    keras.utils.set_random_seed(seed)
    inputs = columns.ModelInputs(columns.build(sections.features), lambda _: 0, sections.model.embedding)
    model = models.build(inputs, sections.label, sections.model)
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(size=weight.shape) for weight in model.get_weights()])
    return model, WeightLayout.of(model, sections, None)


def kept(folder: Path, model: keras.Model, layout: WeightLayout) -> str:
    (folder / WEIGHTS).parent.mkdir(parents=True)
    model.save_weights(folder / WEIGHTS)
    layout.write(folder)
    return str(folder)


def rows(model: keras.Model, layer: str) -> np.ndarray:
    return np.asarray(model.get_layer(layer).table)


def test_same_features_take_every_weight(tmp_path: Path) -> None:
    before, layout = made(FEATURES)
    after, _ = made(FEATURES, seed=2)
    words = start_from(after, layout, kept(tmp_path, before, layout))
    for one, two in zip(before.get_weights(), after.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert "; not" not in words
    assert "embeddings_3 (12 of 12 rows)" in words  # six of color, six of hour


def test_rows_of_a_vocabulary_follow_their_words_and_new_words_keep_their_first_weights(tmp_path: Path) -> None:
    before, layout = made(FEATURES)
    changed = FEATURES | {"color": {**FEATURES["color"], "values": ["blue", "black", "red", "green"]}}
    after, new = made(changed, seed=2)
    first = rows(after, "embeddings_3").copy()
    words = start_from(after, new, kept(tmp_path, before, layout))
    old, found = rows(before, "embeddings_3"), rows(after, "embeddings_3")
    np.testing.assert_array_equal(found[[0, 2, 3]], old[[2, 0, 1]])
    np.testing.assert_array_equal(found[1], first[1])
    np.testing.assert_array_equal(found[4:7], old[3:6])  # other words, and the missing value
    np.testing.assert_array_equal(found[7:], old[6:])  # hour
    assert "embeddings_3 (12 of 13 rows)" in words
    assert "wide (12 of 13 rows)" in words
    np.testing.assert_array_equal(after.get_layer("hidden_1").kernel, before.get_layer("hidden_1").kernel)


def test_vocabulary_of_the_same_length_in_another_order_is_not_taken_as_it_lies(tmp_path: Path) -> None:
    before, layout = made(FEATURES)
    changed = FEATURES | {"color": {**FEATURES["color"], "values": ["green", "blue", "red"]}}
    after, new = made(changed, seed=2)
    start_from(after, new, kept(tmp_path, before, layout))
    np.testing.assert_array_equal(rows(after, "wide")[:3], rows(before, "wide")[[1, 2, 0]])


def test_layer_of_another_shape_or_reading_other_features_is_left_and_said(tmp_path: Path) -> None:
    before, layout = made(FEATURES, hidden=(6, 4))
    base = kept(tmp_path, before, layout)
    wider, new = made(FEATURES | {"weight": {"column": "numeric"}}, hidden=(6, 4), seed=2)
    words = start_from(wider, new, base)
    linear = "wide_numbers (its shape was [1, 1] and is [2, 1])"
    assert words.endswith(f"; not hidden_1 (its shape was [7, 6] and is [8, 6]), {linear}")
    np.testing.assert_array_equal(wider.get_layer("hidden_2").kernel, before.get_layer("hidden_2").kernel)
    renamed = {"weight" if name == "amount" else name: feature for name, feature in FEATURES.items()}
    other, new = made(renamed, hidden=(6, 4), seed=2)
    kernel = np.asarray(other.get_layer("hidden_1").kernel)
    why = "(it reads other features or layers)"
    assert start_from(other, new, base).endswith(f"; not hidden_1 {why}, wide_numbers {why}")
    np.testing.assert_array_equal(other.get_layer("hidden_1").kernel, kernel)


def test_hash_buckets_of_another_number_are_left(tmp_path: Path) -> None:
    before, layout = made(FEATURES)
    after, new = made(FEATURES | {"hour": {**FEATURES["hour"], "missing": 0}}, seed=2)  # other settings, one row less
    first = rows(after, "wide").copy()
    start_from(after, new, kept(tmp_path, before, layout))
    np.testing.assert_array_equal(rows(after, "wide")[6:], first[6:])
    np.testing.assert_array_equal(rows(after, "wide")[:6], rows(before, "wide")[:6])


def test_model_of_which_nothing_fits_is_refused_and_one_that_is_not_there_is_said(tmp_path: Path) -> None:
    before, layout = made({"amount": {"column": "numeric"}}, hidden=(3,))
    after, new = made({"hour": {**HOUR, "embedding": 2}}, hidden=(5,))
    with pytest.raises(TrainingError, match=r"train.warm_start: nothing of the latest blessed model fits .*hidden_1"):
        start_from(after, new, kept(tmp_path / "base", before, layout))
    assert start_from(after, new, str(tmp_path / "none")).endswith("new weights")
    (tmp_path / "base" / "assets.extra" / "layout.json").unlink()
    assert "does not describe what its weights mean" in start_from(after, new, str(tmp_path / "base"))


def test_run_begins_where_the_base_model_ended_and_says_so(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")
    first, second = tmp_path / "first", tmp_path / "second"
    run_fn(data.fn_args(first, epochs=6, early_stopping=None))
    fn_args = data.fn_args(second, epochs=1, warm_start=True, learning_rate=1e-9)
    fn_args.base_model = str(first / "Format-Serving")
    run_fn(fn_args)
    records = [json.loads((folder / "run" / "training.json").read_text()) for folder in (first, second)]
    best = records[0]["epochs"][records[0]["best_epoch"] - 1]["metrics"]["val_loss"]
    assert records[1]["epochs"][0]["metrics"]["val_loss"] == pytest.approx(best, abs=1e-3)
    assert records[1]["chosen"]["warm_start"].startswith(f"from {first}: took ")
    origin = TrainingOrigin.read(second / "Format-Serving")
    assert origin == TrainingOrigin(work_digest(fn_args.custom_config, fn_args.transform_output), str(first))


@pytest.mark.slow
def test_the_default_model_keeps_its_kind_from_night_to_night(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")

    def night(name: str, base: str | None) -> dict[str, Any]:
        fn_args = data.table_args(tmp_path / name, epochs=1, warm_start=True)
        if base:
            fn_args.base_model = str(tmp_path / base / "Format-Serving")
        run_fn(fn_args)
        chosen: dict[str, Any] = json.loads((tmp_path / name / "run" / "training.json").read_text())["chosen"]
        assert chosen["model"] == "wide_and_deep: auto"
        return chosen

    run_fn(data.table_args(tmp_path / "before", epochs=1))  # without a warm start, so an ensemble
    first = night("first", "before")
    assert "; not " in first["warm_start"]
    second = night("second", "first")
    assert second["warm_start"].startswith(f"from {tmp_path / 'first'}: took ")
    assert "; not " not in second["warm_start"]


def test_a_layer_that_reads_an_operation_reads_what_the_operation_does() -> None:
    numbers = keras.Input((2,), name="numbers")
    output = keras.layers.Dense(1, name="top")(keras.ops.relu(keras.layers.Dense(3, name="below")(numbers)))
    model = keras.Model({"numbers": numbers}, output)
    sections = TrainerSections.from_json(
        json.dumps({"label": {"key": "l", "kind": "binary"}, "features": {"hour": HOUR}})
    )
    layout = WeightLayout.of(model, sections, None)
    assert layout.reads["top"] == ["layer below"]
    assert layout.reads["below"] == ["feature numbers"]
