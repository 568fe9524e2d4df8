"""The worked example of images, and the same images from a folder of PNG files as raw bytes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import yaml
from browsing import assert_accessible
from command import ROOT, Finished, headrace, versions
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from headrace.configs.digits import images
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

GOOD = 0.95
CONFIG = ROOT / "configs" / "digits.yaml"
FOLDER = """\
pipeline: {name: pictures}
data:
  source: {kind: images, path: pictures, decode: true}
label: {key: label, kind: multiclass, classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}
features:
  image: {column: image, size_keys: [height, width, channel], height: 8, width: 8, channels: 1, stored: float32}
model: {kind: image, filters: [32, 64], pooling: none, hidden: [64], augment: {translate: 0.1}}
train: {epochs: 10, batch_size: 64, learning_rate: 0.002}
evaluate: {thresholds: {accuracy: {min: 0.95}}}
deploy: {push: serving}
"""


@dataclass(frozen=True)
class Story:
    """A run, and what it left."""

    folder: Path
    done: Finished

    @cached_property
    def pushed(self) -> Any:
        (version,) = (self.folder / "serving").rglob("saved_model.pb")
        return tf.saved_model.load(str(version.parent))

    def examples(self, node: str, output: str, split: str) -> list[tf.train.Example]:
        files = [str(path) for path in (self.done.uri(node, output) / f"Split-{split}").iterdir()]
        return [tf.train.Example.FromString(row.numpy()) for row in tf.data.TFRecordDataset(files, "GZIP")]

    @cached_property
    def test_split(self) -> list[tf.train.Example]:
        """The raw examples that the model was not trained on, nor chosen by."""
        return self.examples("ExampleGen", "examples", "test")

    def accuracy(self, digits: np.ndarray) -> float:
        """Of the pushed model on the test split, by its signature for serialized examples."""
        examples = tf.constant([example.SerializeToString() for example in self.test_split])
        predicted = self.pushed.signatures["serving_default"](examples=examples)["predictions"]
        return float(np.mean(np.argmax(predicted, axis=1) == digits))


@pytest.fixture(scope="session")
def digits(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("digits")
    return Story(folder, headrace(folder, "run", str(CONFIG)))


@pytest.fixture(scope="session")
def pictures(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("pictures")
    data = images()
    for number, (image, digit) in enumerate(zip(data["image"], data["digit"], strict=True)):
        file = folder / "pictures" / str(digit) / f"{number:04d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(image)
    (folder / "pictures.yaml").write_text(FOLDER)
    return Story(folder, headrace(folder, "run", "pictures.yaml"))


def shown(example: tf.train.Example) -> int:
    return int(example.features.feature["digit"].int64_list.value[0])


def test_the_model_is_blessed_and_pushed(digits: Story) -> None:
    assert (digits.done.code, digits.done.err) == (0, "")
    assert set(digits.done.statuses().values()) == {"done"}
    assert digits.done.ending("blessing").startswith("blessed: accuracy is 0.9")
    assert len(versions(digits.folder)) == 1


def test_it_is_far_better_than_guessing(digits: Story) -> None:
    truth = np.array([shown(example) for example in digits.test_split])
    accuracy, most_frequent = digits.accuracy(truth), max(Counter(truth.tolist()).values()) / len(truth)
    assert accuracy >= GOOD
    assert most_frequent < 0.2
    reported = float(digits.done.ending("blessing").split()[3].rstrip(";"))
    assert reported == pytest.approx(accuracy, abs=1e-4)


def test_it_reads_png_files_as_a_client_sends_them(digits: Story) -> None:
    data = images()
    predicted = digits.pushed.signatures["serving_raw"](image=tf.constant(data["image"].tolist()))["predictions"]
    assert np.mean(np.argmax(predicted, axis=1) == data["digit"]) >= GOOD
    np.testing.assert_allclose(np.sum(predicted, axis=1), 1, rtol=1e-5)


def test_training_kept_one_byte_for_each_pixel(digits: Story) -> None:
    raw = digits.examples("ExampleGen", "examples", "eval")
    (file,) = (digits.done.uri("Transform", "transformed_examples") / "Split-eval").iterdir()
    kept = pa.ipc.open_file(file).read_all()["image"].to_pylist()
    for before, after in zip(raw, kept, strict=True):
        pixels = tf.io.decode_png(before.features.feature["image"].bytes_list.value[0]).numpy()
        assert after == pixels.tobytes()


def test_the_report_shows_each_digit_and_no_bytes(digits: Story) -> None:
    page = (digits.done.folder / "report.html").read_text()
    assert "By digit" in page
    assert "8 x 8 pixels, grayscale" in page
    assert "BYTES_VALUE" not in page
    shown = page.partition("</style>")[2].replace("PNG files", "").replace("a JPEG or PNG image", "")
    assert "PNG" not in shown


def test_the_report_with_its_confusion_matrix_passes_axe(digits: Story, browser: Browser) -> None:
    assert_accessible(browser, (digits.done.folder / "report.html").as_uri())


def test_record_of_the_training_describes_the_model(digits: Story) -> None:
    record = json.loads((digits.done.uri("Trainer", "model_run") / "training.json").read_text())
    assert record["examples"]["train"] > 1400
    assert record["parameters"] < 50_000


def test_it_compiles_for_kubeflow() -> None:
    text = compile_pipeline(load(CONFIG, overrides=["kubeflow.image=registry.example/headrace:1"]), {})
    pipeline = next(yaml.safe_load_all(text))
    specification = json_format.ParseDict(pipeline, pipeline_spec_pb2.PipelineSpec())
    assert "trainer" in {name.lower() for name in specification.root.dag.tasks}


def test_a_folder_of_images_decoded_by_the_source_does_as_well(pictures: Story) -> None:
    assert (pictures.done.code, pictures.done.err) == (0, "")
    assert pictures.done.ending("blessing").startswith("blessed: accuracy is 0.9")
    truth = np.array([int(one.features.feature["label"].bytes_list.value[0]) for one in pictures.test_split])
    assert pictures.accuracy(truth) >= GOOD


def test_its_raw_bytes_are_served_by_name(pictures: Story) -> None:
    feature = pictures.test_split[0].features.feature
    sizes = {
        name: tf.constant([feature[name].int64_list.value[0]], tf.int64) for name in ("height", "width", "channel")
    }
    image = tf.constant([feature["image"].bytes_list.value[0]])
    predicted = pictures.pushed.signatures["serving_raw"](image=image, **sizes)["predictions"]
    assert np.argmax(predicted) == int(feature["label"].bytes_list.value[0])
