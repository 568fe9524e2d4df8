"""The image model: what it sees, and how images are changed."""

from __future__ import annotations

import json
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from image_models import BATCH, IMAGE, LABELS, RNG, build, predicted, sections

from headrace.common.errors import TrainingError
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import columns, models
from headrace.trainer.columns.image import with_stored_images
from headrace.trainer.model import compile_model
from headrace.trainer.models.image import Augmented
from headrace.trainer.sections import TrainerSections


def names(model: keras.Model) -> set[str]:
    return {layer.name for layer in model.layers}


def test_two_tasks_learn_from_the_same_images() -> None:
    label = {
        "kind": "multitask",
        "tasks": {"bright": {"kind": "regression", "missing": "mask"}, "digit": {"kind": "multiclass", "classes": 3}},
    }
    config = TrainerSections.from_json(
        json.dumps({"label": label, "features": {"image": IMAGE}, "model": {"kind": "image", "filters": [4]}})
    )
    keras.utils.set_random_seed(1)
    inputs = columns.ModelInputs(columns.build(config.features), lambda _: 0, config.model.embedding)
    model = models.build(inputs, config.label, config.model)
    compile_model(model, config.label, TrainConfig.model_validate({"learning_rate": 0.02}), 1)
    y = np.stack([BATCH["image"].mean(axis=(1, 2, 3)) / 255, LABELS], axis=1).astype(np.float32)
    y[::5, 0] = np.nan
    losses = [model.train_on_batch(BATCH, y, return_dict=True)["loss"] for _ in range(12)]
    assert losses[-1] < losses[0]
    p = predicted(model)
    assert p.shape == (48, 4)
    assert p[:, 1:].sum(axis=1) == pytest.approx(np.ones(48), abs=1e-5)


def test_every_convolution_halves_the_image_while_it_can() -> None:
    model = build(filters=[4, 8, 16, 32, 64], pooling="none", hidden=[5])
    shapes = [model.get_layer(f"activation_{position}").output.shape[1:] for position in range(1, 6)]
    assert shapes == [(8, 8, 4), (4, 4, 8), (2, 2, 16), (1, 1, 32), (1, 1, 64)]
    assert "halved_4" not in names(model)
    assert predicted(model).sum(axis=1) == pytest.approx(np.ones(48), abs=1e-5)


@pytest.mark.parametrize(("pooling", "compute"), [("average", np.mean), ("max", np.max)])
def test_pooling_is_over_all_places(pooling: str, compute: Any) -> None:
    model = build(filters=[4], pooling=pooling)
    before, after = (keras.Model(model.input, model.get_layer(name).output) for name in ("halved_1", "pooled"))
    np.testing.assert_allclose(after(BATCH), compute(np.asarray(before(BATCH)), axis=(1, 2)), rtol=1e-5, atol=1e-6)


def test_kept_bytes_are_scaled_to_between_0_and_1() -> None:
    scaled = keras.Model((model := build()).input, model.get_layer("image_input_scaled").output)
    np.testing.assert_allclose(scaled(BATCH), BATCH["image"].astype(np.float32) / 255, rtol=1e-6)


def test_several_images_and_other_features_are_seen_side_by_side() -> None:
    features = {
        "front": IMAGE, "back/side": {**IMAGE, "height": 4, "stored": "float32"}, "price": {"column": "numeric"},
        "shop": {"column": "identity", "num_buckets": 5},
    }  # fmt: skip
    model = build(features, filters=[4], hidden=[3])
    assert {"front_convolution_1", "back_slash_side_convolution_1"} <= names(model)
    assert model.get_layer("hidden_1").kernel.shape == (4 + 4 + 1 + 2, 3)
    assert model.input["back/side"].dtype == "float32"


CHANGES = [
    {"flip": "horizontal"}, {"flip": "vertical"}, {"flip": "both"}, {"rotate": 45}, {"translate": 0.3}, {"zoom": 0.3},
    {"crop": 0.6}, {"contrast": 0.5}, {"brightness": 0.3},
]  # fmt: skip


@pytest.mark.parametrize("augment", CHANGES, ids=str)
def test_images_change_in_training_and_never_at_inference(augment: dict[str, Any]) -> None:
    layer = Augmented(augment)
    images = tf.constant(RNG.uniform(0.2, 0.8, (16, 8, 8, 1)), tf.float32)
    for call in (layer(images), layer(images, training=False)):
        np.testing.assert_array_equal(call, images)
    first, second = (np.asarray(layer(images, training=True)) for _ in range(2))
    assert np.abs(first - images).max() > 0.05
    assert np.abs(first - second).max() > 0.05
    assert first.min() >= 0
    assert first.max() <= 1
    assert first.shape == images.shape
    copy = Augmented.from_config(layer.get_config())
    assert [type(change) for change in copy.changes] == [type(change) for change in layer.changes]


@pytest.mark.parametrize(
    ("flip", "mirrored"),
    [("horizontal", [(), (1,)]), ("vertical", [(), (0,)]), ("both", [(), (0,), (1,), (0, 1)])],
)
def test_flips_are_mirror_images(flip: str, mirrored: list[tuple[int, ...]]) -> None:
    images = RNG.uniform(0, 1, (64, 8, 8, 1)).astype(np.float32)
    changed = np.asarray(Augmented({"flip": flip})(images, training=True))
    pairs = list(zip(images, changed, strict=True))
    found = [[axes for axes in mirrored if (np.flip(old, axes) == new).all()] for old, new in pairs]
    assert {len(axes) for axes in found} == {1}
    assert {axes for (axes,) in found} == set(mirrored)


@pytest.mark.parametrize("jit", [False, True])
def test_a_random_part_is_interpolated_between_its_corners(jit: bool) -> None:
    """The first two channels hold the place of each pixel, by which TensorFlow's own operation finds the third."""
    number, height, width = 64, 7, 12
    y, x = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    images = np.stack([np.stack([y, x, RNG.random((height, width))], axis=-1) for _ in range(number)])
    layer = Augmented({"crop": 0.4})
    found = np.asarray(
        tf.function(lambda given: layer(given, training=True), jit_compile=jit)(images.astype("float32"))
    )
    boxes = np.concatenate([found[:, 0, 0, :2], found[:, -1, -1, :2]], axis=1)
    expected = tf.image.crop_and_resize(images, boxes, range(number), (height, width))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    shares = boxes[:, 2:] - boxes[:, :2]
    np.testing.assert_allclose(shares[:, 0], shares[:, 1], atol=1e-6)
    assert shares.min() > 0.4 - 1e-6
    assert shares.max() <= 1 + 1e-6
    assert (shares.min() < 0.5, shares.max() > 0.9) == (True, True)  # 64 of them
    spare = 1 - shares
    np.testing.assert_allclose((boxes[:, :2] / spare).mean(axis=0), 0.5, atol=0.15)
    assert not np.allclose(boxes[:, 0] / spare[:, 0], boxes[:, 1] / spare[:, 1])


def test_an_image_of_one_row_can_be_cropped() -> None:
    images = np.broadcast_to(np.linspace(0, 1, 9, dtype=np.float32)[:, None], (4, 1, 9, 1))
    found = np.asarray(Augmented({"crop": 0.5})(images, training=True))
    assert found.shape == (4, 1, 9, 1)
    assert np.all(np.ptp(found, axis=2) >= 0.5 - 1e-6)


def test_what_a_change_leaves_empty_is_black() -> None:
    images = np.ones((64, 8, 8, 1), np.float32)
    changed = np.asarray(Augmented({"translate": 0.5})(images, training=True))
    assert changed.min() == 0
    assert (changed[:, 3:5, 3:5] > 0.99).mean() > 0.5


def test_without_augment_there_is_no_layer_for_it() -> None:
    assert "augmented" not in names(build())
    assert "augmented" in names(build(augment={"flip": "both"}))


def test_keras_finds_nothing_to_warn_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_stored_images(build(augment={"flip": "both", "rotate": 20}), columns.build(sections().features))


def test_without_an_image_it_is_refused() -> None:
    with pytest.raises(TrainingError, match="needs a feature with `column: image`"):
        build({"price": {"column": "numeric"}})
