"""The image model: what it sees and how images are changed; and trained networks of TensorFlow Hub's form in it."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import columns, models
from headrace.trainer.columns.image import with_stored_images
from headrace.trainer.model import compile_model
from headrace.trainer.models.image import Augmented
from headrace.trainer.pretrained import Backbone
from headrace.trainer.sections import TrainerSections

IMAGE = {"column": "image", "height": 8, "width": 8, "channels": 1}
DIGIT = {"key": "digit", "kind": "multiclass", "classes": 3}
RNG = np.random.default_rng(1)
BATCH = {"image": RNG.integers(0, 256, (48, 8, 8, 1)).astype(np.uint8)}
LABELS = RNG.integers(0, 3, 48)


def sections(features: dict[str, Any] | None = None, **model: Any) -> TrainerSections:
    config = {"label": DIGIT, "features": features or {"image": IMAGE}, "model": {"kind": "image", **model}}
    return TrainerSections.from_json(json.dumps(config))


def build(features: dict[str, Any] | None = None, **model: Any) -> keras.Model:
    config = sections(features, **model)
    keras.utils.set_random_seed(1)
    inputs = columns.ModelInputs(columns.build(config.features), lambda _: 0, config.model.embedding)
    return models.build(inputs, config.label, config.model)


def fitted(model: keras.Model, epochs: int = 2) -> keras.Model:
    model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy")
    model.fit(BATCH, LABELS, epochs=epochs, verbose=0)
    return model


def predicted(model: keras.Model) -> np.ndarray:
    return np.asarray(model(BATCH, training=False))


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


class Network(tf.__internal__.tracking.AutoTrackable):
    """A network of TensorFlow Hub's form: callable, with `variables`, `trainable_variables` and penalties; it counts
    how often it was trained, and looks something up in a table, so that there is a resource that is no variable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.random.stateless_normal([3, 3, 1, 6], [1, 2]), name="stem/kernel")
        self.trained = tf.Variable(0, trainable=False, name="trained", dtype=tf.int64)
        self.variables = [self.kernel, self.trained]
        self.trainable_variables = [self.kernel]
        self.regularization_losses = [tf.function(lambda: 0.01 * tf.reduce_sum(self.kernel**2), input_signature=[])]
        entries = tf.lookup.KeyValueTensorInitializer(tf.constant([0], tf.int64), tf.constant([0.5]))
        self.table = tf.lookup.StaticHashTable(entries, 0.0)
        for training in (False, True):
            self.__call__.get_concrete_function(tf.TensorSpec([None, 8, 8, 1], tf.float32), training=training)

    @tf.function
    def __call__(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        if training:
            self.trained.assign_add(1)
        maps = tf.nn.relu(tf.nn.conv2d(images, self.kernel, 1, "SAME"))
        return tf.reduce_mean(maps, [1, 2]) * self.table.lookup(tf.constant(0, tf.int64))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("hub") / "network")
    tf.saved_model.save(Network(), folder)
    return folder


def kernel(model: keras.Model) -> np.ndarray:
    return np.array(model.get_layer("backbone").network.kernel)


def test_a_frozen_network_is_kept_as_it_is(hub: str) -> None:
    model = build(backbone={"saved_model": hub})
    before = kernel(model)
    fitted(model)
    np.testing.assert_array_equal(kernel(model), before)
    backbone = model.get_layer("backbone")
    assert (len(backbone.trainable_weights), len(backbone.weights), int(backbone.network.trained)) == (0, 2, 0)
    network = Network()
    np.testing.assert_allclose(
        backbone(BATCH["image"] / np.float32(255)), network(BATCH["image"] / np.float32(255)), rtol=1e-5
    )


def test_a_fine_tuned_network_learns_in_training_mode_with_its_penalties(hub: str) -> None:
    model = build(backbone={"saved_model": hub, "fine_tune": True})
    before = kernel(model)
    penalties = 0.01 * np.sum(before**2)
    model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy")
    with_penalties = model.train_on_batch(BATCH, LABELS)
    assert with_penalties > penalties + 0.5
    fitted(model)
    assert np.abs(kernel(model) - before).max() > 0.01
    assert int(model.get_layer("backbone").network.trained) == 5


@pytest.mark.parametrize("fine_tune", [False, True])
def test_weights_are_saved_and_the_export_needs_nothing_else(hub: str, fine_tune: bool, tmp_path: Path) -> None:
    network = shutil.copytree(hub, tmp_path / "network")
    settings = {"saved_model": str(network), "fine_tune": fine_tune}
    model = fitted(build(backbone=settings, augment={"flip": "both"}))
    model.save_weights(tmp_path / "model.weights.h5")
    again = build(backbone=settings, augment={"flip": "both"})
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(predicted(again), predicted(model), rtol=1e-6)
    stored = with_stored_images(model, columns.build(sections().features))
    archive = keras.export.ExportArchive()
    archive.track(stored)
    serve = tf.function(lambda image: {"predictions": stored({"image": image}, training=False)}, autograph=False)
    archive.add_endpoint("serving_default", serve, input_signature=[tf.TensorSpec([None], tf.string, name="image")])
    archive.write_out(str(tmp_path / "exported"), verbose=False)
    shutil.rmtree(network)
    pixels = [image.tobytes() for image in BATCH["image"]]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # as C++ loads it
        loaded = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(tmp_path / "exported"))
        signature = loaded.signature_def["serving_default"]
        served = session.run(signature.outputs["predictions"].name, {signature.inputs["image"].name: pixels})
    np.testing.assert_allclose(served, predicted(model), rtol=1e-5, atol=1e-6)


def test_pixels_are_given_on_the_networks_own_scale(hub: str) -> None:
    model = build(backbone={"saved_model": hub, "pixels": [-1, 1]})
    given = keras.Model(model.input, model.get_layer("backbone_pixels").output)(BATCH)
    np.testing.assert_allclose(given, BATCH["image"] / np.float32(127.5) - 1, atol=1e-6)


def saved(folder: Path, call: Any, **attributes: Any) -> str:
    """A SavedModel that may be called, or not."""
    module = tf.__internal__.tracking.AutoTrackable()
    if call is not None:
        module.__call__ = tf.function(call, input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32)])
    for name, value in attributes.items():
        setattr(module, name, value)
    tf.saved_model.save(module, str(folder))
    return str(folder)


def test_a_network_without_lists_of_variables_can_only_be_frozen(tmp_path: Path) -> None:
    folder = saved(tmp_path, lambda images: tf.reduce_mean(images, [1, 2]))
    assert predicted(build(backbone={"saved_model": folder})).shape == (48, 3)
    with pytest.raises(TrainingError, match="lists no `trainable_variables`"):
        build(backbone={"saved_model": folder, "fine_tune": True})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (None, "is a SavedModel that cannot be called"),
        (lambda images: images, r"not vectors of shape \[batch, n\]"),
        (lambda images: {"a": images}, r"not vectors of shape \[batch, n\]"),
    ],
    ids=["not callable", "maps", "several"],
)
def test_another_form_is_refused(tmp_path: Path, call: Any, message: str) -> None:
    folder = saved(tmp_path, call)
    with pytest.raises(TrainingError, match=message):
        build(backbone={"saved_model": folder})


def test_another_size_is_refused_with_what_to_set(hub: str) -> None:
    with pytest.raises(TrainingError) as refused:
        build({"image": {**IMAGE, "height": 9}}, backbone={"saved_model": hub})
    message = str(refused.value)
    assert message.startswith(f"model.backbone.saved_model: {hub} does not take images of the shape (9, 8, 1); set")
    assert "float32 [batch, 8, 8, 1]" in message
    assert "\n" not in message
    assert "\x1b" not in message


def test_a_folder_without_a_saved_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"there is no SavedModel in nowhere: no file saved_model.pb \(looked for"):
        Backbone("nowhere")
    (tmp_path / "saved_model.pb").write_bytes(b"no such thing")
    with pytest.raises(TrainingError, match="is not a SavedModel"):
        Backbone(str(tmp_path))


def member(name: str, type_: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = type_, target
    return found


HOSTILE = {
    "above": member("variables/../../outside"),
    "absolute": member("/tmp/outside"),
    "link": member("link", tarfile.SYMTYPE, "/etc"),
    "hard-link": member("link", tarfile.LNKTYPE, "saved_model.pb"),
    "device": member("device", tarfile.CHRTYPE),
}
"""What no archive of a model has."""


def packed(folder: str, further: tarfile.TarInfo | None = None) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.add(folder, arcname=".")
        if further:
            archive.addfile(further)
    return content.getvalue()


@pytest.fixture
def served(hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """A server of handles, and the requests that it gets."""
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    archives = {name: packed(hub, member) for name, member in HOSTILE.items()}
    whole = packed(hub)
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = archives.get(self.path.partition("?")[0].strip("/"), whole)
            self.send_response(404 if "absent" in self.path else 200)
            self.end_headers()
            if "absent" not in self.path:
                self.wfile.write(content[: len(content) // 2] if "broken" in self.path else content)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_handle_is_downloaded_once_to_where_tensorflow_hub_keeps_it(
    served: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, asked = served
    handle = f"{address}network/1?lite=no"
    for _ in range(2):
        assert predicted(build(backbone={"saved_model": handle})).shape == (48, 3)
    assert asked == ["/network/1?lite=no&tf-hub-format=compressed"]
    (folder,) = (tmp_path / "cache").iterdir()
    assert folder.name == hashlib.sha1(handle.encode()).hexdigest()


@pytest.mark.parametrize("name", ["absent", "broken", *HOSTILE])
def test_a_download_that_fails_leaves_nothing(served: tuple[str, list[str]], tmp_path: Path, name: str) -> None:
    with pytest.raises(TrainingError, match=r"cannot be downloaded: .*Download it by hand"):
        Backbone(served[0] + name)
    assert list((tmp_path / "cache").iterdir()) == []
