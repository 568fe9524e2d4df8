"""Images through Transform, training and export: against Pillow and NumPy, and serving against training, row by row."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import beam_here
import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format
from image_rows import FEATURES, ROWS, SCHEMA, expected, make_rows, serialized
from messages import says
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types import artifact_utils, standard_artifacts

from headrace.common.errors import TrainingError
from headrace.components.transform.component import Executor
from headrace.components.transform.example_errors import short_message
from headrace.components.transform.record_blocks import BATCH_BYTES
from headrace.components.transform.shards import read_records
from headrace.trainer import columns
from headrace.trainer.columns.image import stored_image_loader, with_stored_images
from headrace.trainer.model import build_model
from headrace.trainer.pretrained import Backbone
from headrace.trainer.run import run_fn
from headrace.trainer.sections import TrainerSections

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Done:
    """What Transform and Trainer made of the rows."""

    rows: list[dict[str, Any]]
    stored: dict[str, list[bytes]]
    """The bytes of each feature as Transform wrote them, row by row."""
    sections: TrainerSections
    output: tft.TFTransformOutput
    model: keras.Model
    exported: str

    @property
    def serialized(self) -> list[bytes]:
        return [serialized(row) for row in self.rows]

    def pixels(self, name: str) -> np.ndarray:
        """A feature as training sees it."""
        read = stored_image_loader(columns.build(self.sections.features))
        assert read is not None
        return np.asarray(read({one: tf.constant(values) for one, values in self.stored.items()})[name])

    def predicted(self) -> np.ndarray:
        """What the trained model gives for the features as Transform wrote them."""
        return np.asarray(self.model({name: self.pixels(name) for name in FEATURES}, training=False))

    @cached_property
    def loaded(self) -> Any:
        return tf.saved_model.load(self.exported)

    def signature(self, name: str) -> Any:
        return self.loaded.signatures[name]


def all_features(**more: dict[str, Any]) -> TrainerSections:
    config = {"label": {"key": "dark", "kind": "binary"}, "features": {**FEATURES, **more}}
    return TrainerSections.from_json(json.dumps(config))


def transformed(folder: Path, rows: list[dict[str, Any]], **more: dict[str, Any]) -> None:
    """Run the Transform component over the rows, as train and as eval split. more: further features."""
    for split in ("train", "eval"):
        (folder / "examples" / f"Split-{split}").mkdir(parents=True)
        path = folder / "examples" / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz"
        with tf.io.TFRecordWriter(str(path), "GZIP") as file:
            for row in rows:
                file.write(serialized(row))
    (folder / "schema").mkdir()
    schema = text_format.Parse(SCHEMA, schema_pb2.Schema())
    (folder / "schema" / "schema.pbtxt").write_text(text_format.MessageToString(schema))
    examples, schemas = standard_artifacts.Examples(), standard_artifacts.Schema()
    examples.uri, schemas.uri = str(folder / "examples"), str(folder / "schema")
    examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
    examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    graph, written = standard_artifacts.TransformGraph(), standard_artifacts.Examples()
    graph.uri, written.uri = str(folder / "graph"), str(folder / "transformed")
    context = Executor.Context(make_beam_pipeline_fn=beam_here.pipeline)
    Executor(context).Do(
        {"examples": [examples], "schema": [schemas]},
        {"transform_graph": [graph], "transformed_examples": [written]},
        {
            "preprocessing_fn": "headrace.trainer.preprocessing.preprocessing_fn",
            "custom_config": json.dumps({"config": all_features(**more).to_json()}),
            "disable_statistics": 1,
            "force_tf_compat_v1": 0,
        },
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder, rows = tmp_path_factory.mktemp("images"), make_rows()
    transformed(folder, rows)
    (path,) = (folder / "transformed" / "Split-eval").iterdir()
    written = [tf.train.Example.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path), "GZIP")]
    stored = {name: [row.features.feature[name].bytes_list.value[0] for row in written] for name in FEATURES}
    config = {
        "label": {"key": "dark", "kind": "binary"},
        "features": FEATURES,
        "model": {"kind": "image", "filters": [2], "hidden": [8], "augment": {"flip": "both", "rotate": 20}},
        "train": {"epochs": 3, "batch_size": 16},
    }
    sections = TrainerSections.from_json(json.dumps(config))
    run_fn(
        SimpleNamespace(
            custom_config={"config": sections.to_json()},
            transform_output=str(folder / "graph"),
            train_files=[str(folder / "transformed" / "Split-train" / "*")],
            eval_files=[str(folder / "transformed" / "Split-eval" / "*")],
            serving_model_dir=str(folder / "model"),
            model_run_dir=str(folder / "run"),
        )
    )
    output = tft.TFTransformOutput(str(folder / "graph"))
    model = build_model(sections, output)
    model.load_weights(folder / "run" / "best.weights.h5")
    return Done(rows, stored, sections, output, model, str(folder / "model"))


class Brightness(tf.__internal__.tracking.AutoTrackable):
    """A network of TensorFlow Hub's form for images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable([[1.0, -1.0, 0.5]], name="kernel")
        self.variables = self.trainable_variables = [self.kernel]

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, None])])
    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(images, [1, 2, 3])[:, tf.newaxis] @ self.kernel


@pytest.mark.parametrize("fine_tune", [False, True])
def test_trained_network_learns_and_serves_image_files_without_its_folder(
    done: Done, tmp_path: Path, fine_tune: bool
) -> None:
    tf.saved_model.save(Brightness(), str(tmp_path / "network"))
    backbone = {"saved_model": str(tmp_path / "network"), "fine_tune": fine_tune}
    changed = {
        "model": {"kind": "image", "hidden": [8], "backbone": backbone},
        "train": {"epochs": 6, "batch_size": 16, "learning_rate": 0.03, "early_stopping": None},
    }
    config = json.dumps({**json.loads(done.sections.to_json()), **changed})
    there = Path(done.exported).parent
    run_fn(
        SimpleNamespace(
            custom_config={"config": config, "checkpoints": str(tmp_path / "checkpoints")},
            transform_output=str(there / "graph"),
            train_files=[str(there / "transformed" / "Split-train" / "*")],
            eval_files=[str(there / "transformed" / "Split-eval" / "*")],
            serving_model_dir=str(tmp_path / "model"),
            model_run_dir=str(tmp_path / "run"),
        )
    )
    model = build_model(TrainerSections.from_json(config), done.output)
    model.load_weights(tmp_path / "run" / "best.weights.h5")
    kernels = [np.array(layer.network.kernel) for layer in model.layers if isinstance(layer, Backbone)]
    assert kernels
    assert any(np.abs(kernel - [[1, -1, 0.5]]).max() > 0.001 for kernel in kernels) == fine_tune
    trained = Done(done.rows, done.stored, done.sections, done.output, model, str(tmp_path / "model"))
    shutil.rmtree(tmp_path / "network")
    served = trained.signature("serving_default")(examples=tf.constant(done.serialized))["predictions"].numpy()
    np.testing.assert_allclose(served, trained.predicted(), rtol=1e-4, atol=1e-5)
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert record["epochs"][-1]["metrics"]["val_auc"] > 0.8  # dark from bright


@pytest.mark.parametrize("name", FEATURES)
def test_the_pixels_are_those_of_pillow(done: Done, name: str) -> None:
    scale, rounding = (255, 0.01) if FEATURES[name].get("stored") else (1, 0.51)
    pixels = done.pixels(name).astype(np.float64) * scale
    assert pixels.shape == (ROWS, FEATURES[name]["height"], FEATURES[name]["width"], FEATURES[name].get("channels", 3))
    for number, row in enumerate(done.rows):
        jpeg = name != "raw" and (row["picture"] or b"").startswith(b"\xff\xd8")
        least = 6 if jpeg else rounding  # decoders of JPEG differ by a few levels
        np.testing.assert_allclose(pixels[number], expected(row, name), atol=least, err_msg=f"row {number}")


def test_an_image_of_the_wanted_size_is_kept_to_the_bit() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (10, 6, 3)).astype(np.uint8)
    column = columns.build(all_features().features)["color"]
    batch = columns.Batch({"picture": tf.constant([[tf.io.encode_png(pixels).numpy()]])}, {})
    assert column.transform(batch).numpy()[0] == pixels.tobytes()


def test_the_kept_bytes_are_as_many_as_the_pixels(done: Done) -> None:
    assert {name: {len(one) for one in values} for name, values in done.stored.items()} == {
        "small": {64}, "color": {180}, "exact": {720}, "padded": {243}, "cropped": {96}, "large": {6000}, "raw": {432},
    }  # fmt: skip


def test_no_example_gives_no_image(done: Done) -> None:
    assert done.signature("serving_default")(examples=tf.zeros([0], tf.string))["predictions"].shape == (0, 1)
    empty = with_stored_images(done.model, columns.build(done.sections.features))
    assert empty({name: tf.zeros([0], tf.string) for name in FEATURES}).shape == (0, 1)


def test_serving_sees_the_pixels_of_training_for_each_row(done: Done) -> None:
    features = done.signature("transform_features")(examples=tf.constant(done.serialized))
    for name in FEATURES:
        assert features[name].numpy().tolist() == done.stored[name], name


def test_serialized_examples_predict_as_training_does(done: Done) -> None:
    serve = done.signature("serving_default")
    served = serve(examples=tf.constant(done.serialized))["predictions"]
    np.testing.assert_allclose(served, done.predicted(), rtol=1e-5, atol=1e-6)
    each = [serve(examples=tf.constant([one]))["predictions"] for one in done.serialized]
    np.testing.assert_allclose(np.concatenate(each), done.predicted(), rtol=1e-5, atol=1e-6)


def test_raw_bytes_and_sizes_by_name_predict_the_same(done: Done) -> None:
    absent = np.iinfo(np.int64).min
    tensors = {
        "picture": tf.constant([row["picture"] or b"" for row in done.rows]),
        "raw": tf.constant([row.get("raw", b"") for row in done.rows]),
        **{key: tf.constant([row.get(key, absent) for row in done.rows], tf.int64) for key in ("high", "wide", "deep")},
    }
    served = done.signature("serving_raw")(**tensors)["predictions"]
    np.testing.assert_allclose(served, done.predicted(), rtol=1e-5, atol=1e-6)


def test_kept_bytes_predict_the_same(done: Done) -> None:
    tensors = {name: tf.constant(done.stored[name]) for name in FEATURES}
    served = done.signature("serving_transformed")(**tensors)["predictions"]
    np.testing.assert_allclose(served, done.predicted(), rtol=1e-5, atol=1e-6)


def test_v1_loader_as_in_cpp_predicts_the_same(done: Done) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.loader.load(session, ["serve"], done.exported).signature_def[
            "serving_default"
        ]
        served = session.run(
            signature.outputs["predictions"].name, {signature.inputs["examples"].name: done.serialized}
        )
    np.testing.assert_allclose(served, done.predicted(), rtol=1e-5, atol=1e-6)


NO_IMAGE = "features.small: …'picture' …not a JPEG or PNG image"


def test_run_over_something_else_than_an_image_names_the_feature(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        transformed(tmp_path, [{"dark": 0, "picture": b"hello"}])
    assert any(says(str(caught.value), NO_IMAGE.replace("small", name)) for name in ("small", "color", "exact"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("picture", "message"),
    [(b"hello", r"^features\.\w+: .*'picture' .*not a JPEG or PNG image$"),
     (b"\x89PNG\r\n\x1a\n", r"^an example cannot be transformed: [^\n]*Invalid PNG[^\n]*$")],
    ids=["no image", "cut off"],
)  # fmt: skip
def test_it_is_reported_alike_where_the_analysis_meets_it(tmp_path: Path, picture: bytes, message: str) -> None:
    """With a feature whose mean is computed, images pass the graph while it is analyzed."""
    with pytest.raises(TrainingError, match=message):
        transformed(tmp_path, [{"dark": 0, "high": 3, "picture": picture}], high={"column": "numeric"})


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("small", {"picture": b"\x00"}, NO_IMAGE),
        ("small", {"picture": tf.io.encode_png(np.zeros((2, 2, 1), np.uint8)).numpy()[:30]}, "…Invalid PNG"),
        (
            "raw",
            {"raw": b"12345", "high": 2, "wide": 2, "deep": 1},
            "features.raw: …'raw' …high times wide times deep",
        ),
    ],
    ids=["no image", "cut off", "wrong size"],
)
def test_what_cannot_be_decoded_is_reported_on_one_line(name: str, row: dict[str, Any], message: str) -> None:
    column = columns.build(all_features().features)[name]
    tensors = {key: tf.constant([[value]], tf.int64 if isinstance(value, int) else None) for key, value in row.items()}
    compute = tf.function(lambda raw: column.transform(columns.Batch(raw, {})))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        compute(tensors)
    reported = short_message(caught.value)
    assert says(reported, message)
    assert "\n" not in reported


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"picture": tf.constant([1.0])}, "'picture' holds numbers"),
        ({}, "no data column 'picture'"),
    ],
)
def test_columns_of_another_type_are_refused(tensors: dict[str, tf.Tensor], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        columns.build(all_features().features)["small"].transform(columns.Batch(tensors, {}))


def test_long_examples_pass_the_graph_in_smaller_batches(tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "long")) as file:
        for _ in range(20):
            file.write(bytes(BATCH_BYTES // 8))
    assert [len(batch) for batch in read_records(str(tmp_path / "long"))] == [8, 8, 4]
