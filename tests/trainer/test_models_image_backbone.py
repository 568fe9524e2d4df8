"""Trained networks of TensorFlow Hub's form in an image model: how they learn, and how they are downloaded."""

from __future__ import annotations

import hashlib
import io
import itertools
import shutil
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from command import wait_until
from image_models import BATCH, IMAGE, LABELS, build, predicted, sections
from messages import says

from headrace.common.errors import TrainingError
from headrace.trainer import columns
from headrace.trainer.columns.image import with_stored_images
from headrace.trainer.pretrained import Backbone, local_folder


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


def fitted(model: keras.Model, epochs: int = 2) -> keras.Model:
    model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy")
    model.fit(BATCH, LABELS, epochs=epochs, verbose=0)
    return model


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
    assert says(message, f"model.backbone.saved_model: {hub} …(9, 8, 1); set")
    assert "float32 [batch, 8, 8, 1]" in message
    assert "\n" not in message
    assert "\x1b" not in message


def test_a_folder_without_a_saved_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no SavedModel in nowhere: no file saved_model.pb \("):
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


def test_of_two_downloads_at_once_the_first_stays(hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model of another process may be reading its files."""
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    content, both, order, first = packed(hub), threading.Barrier(2), itertools.count(), list[int]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            both.wait()
            if next(order):
                wait_until(lambda: any((tmp_path / "cache").glob("[!.]*/saved_model.pb")))
                first.extend(path.stat().st_ino for path in (tmp_path / "cache").glob("[!.]*/saved_model.pb"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(3) as threads:
        threads.submit(server.serve_forever, 0.01)
        found = [*threads.map(lambda _: local_folder(f"http://127.0.0.1:{server.server_port}/a", "a"), range(2))]
        server.shutdown()
    assert [Path(folder, "saved_model.pb").stat().st_ino for folder in found] == 2 * first
    assert len([*(tmp_path / "cache").iterdir()]) == 1


@pytest.mark.parametrize("name", ["absent", "broken", *HOSTILE])
def test_a_download_that_fails_leaves_nothing(served: tuple[str, list[str]], tmp_path: Path, name: str) -> None:
    with pytest.raises(TrainingError, match=r"cannot be downloaded: .*Download it by hand"):
        Backbone(served[0] + name)
    assert list((tmp_path / "cache").iterdir()) == []
