"""The model as a `.tflite` file beside the pushed version: one run with every kind of feature column and an image.

What the file predicts is compared with the pushed SavedModel, which is asked with the raw examples.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from browsing import assert_accessible
from command import Finished, headrace

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")]

ROWS, SIDE, WORDS = 400, 4, ["red", "green", "blue", "fast", "slow"]
CONFIG = """\
pipeline: {name: devices}
data: {source: {kind: arrays, function: rows.read}, types: {picture: bytes}, splits: {train: 3, eval: 1}}
label: {key: y, kind: multiclass, classes: [low, middle, high]}
features:
  amount: {column: numeric}
  place: {column: bucketized, buckets: 4}
  hour: {column: identity, num_buckets: 24}
  shop: {column: vocabulary}
  firm: {column: hashed, hash_buckets: 8}
  tags: {column: vocabulary, multivalued: true, separator: "|"}
  shares: {column: hashed, multivalued: true, hash_buckets: 8, separator: "|", embedding: one_hot}
  text: {column: text}
  numbers: {column: vector, size: 3}
  when: {column: datetime, part: weekday}
  flag: {column: boolean}
  cross: {column: crossed, keys: [shop, hour], hash_buckets: 16, deep: true}
  picture: {column: image, size_keys: [side, side, one], height: 4, width: 4, channels: 1}
model: {kind: image, filters: [4], hidden: [256]}
train: {epochs: 2, batch_size: 64}
evaluate: {split: eval, metrics: [accuracy], better_than_constant: false}
deploy: {canary: null, lite: {examples: 60, representative: 50, max_difference: 0.5}}
"""
READ = f"""\
import datetime
import numpy as np

def read():
    random = np.random.default_rng(7)
    n, words = {ROWS}, np.array({WORDS!r})
    texts = [" ".join(random.choice(words, random.integers(0, 6))) for _ in range(n)]
    amount = random.normal(5, 2, n).astype("float32")
    start = datetime.datetime(2026, 1, 1)
    return dict(
        amount=amount, place=random.uniform(40, 42, n).astype("float32"), hour=random.integers(0, 24, n),
        shop=random.choice(["a", "b", "c"], n), firm=random.choice(["p", "q", "r", "s"], n),
        tags=np.array([text.replace(" ", "|") for text in texts]), shares=random.choice(["x|y", "y", ""], n),
        text=np.array(texts), numbers=random.normal(size=(n, 3)).astype("float32"),
        when=np.array([(start + datetime.timedelta(hours=7 * i)).isoformat() for i in range(n)]),
        flag=random.integers(0, 2, n), side=np.full(n, {SIDE}), one=np.ones(n, int),
        picture=np.array([random.bytes({SIDE * SIDE}).replace(b"\\0", b"\\1") for _ in range(n)]),
        y=np.array(["low", "middle", "high"])[np.clip(amount // 3, 0, 2).astype(int)],
    )
"""
_LINES = CONFIG.partition("features:\n")[2].partition("model:")[0].splitlines()
FEATURES = [line.split(":", maxsplit=1)[0].strip() for line in _LINES]


@dataclass(frozen=True)
class Lite:
    """A `.tflite` file in the interpreter, and its report."""

    folder: Path

    @cached_property
    def report(self) -> dict[str, Any]:
        return json.loads((self.folder / "report.json").read_text())

    def __call__(self, features: dict[str, np.ndarray]) -> np.ndarray:
        interpreter = tf.lite.Interpreter(model_path=str(self.folder / "model.tflite"))
        taken = {one["name"]: features[one["name"]] for one in self.report["inputs"]}
        return interpreter.get_signature_runner()(**taken)["predictions"]


def versions(folder: Path) -> list[str]:
    """Those in `deploy.push`, beside the folder `lite`."""
    return sorted({path.name for path in (folder / "serving" / "devices").iterdir()} - {"lite"})


@dataclass(frozen=True)
class Story:
    """Runs with float32, with int8, and with a limit that int8 exceeds."""

    folder: Path
    whole: Finished
    float32: Lite
    after_first: list[str]
    small: Finished
    refused: Finished

    @property
    def int8(self) -> Lite:
        return Lite(self.folder / "serving" / "devices" / "lite" / versions(self.folder)[-1])

    @cached_property
    def saved_model(self) -> Any:
        return tf.saved_model.load(str(self.folder / "serving" / "devices" / self.after_first[-1]))

    @cached_property
    def examples(self) -> list[bytes]:
        pattern = self.whole.uri("ExampleGen", "examples") / "Split-eval" / "*"
        files = tf.io.gfile.glob(str(pattern))
        return [record.numpy() for record in tf.data.TFRecordDataset(sorted(files), "GZIP")]

    def features(self, examples: list[bytes]) -> dict[str, np.ndarray]:
        """As a device would be given them: images as pixels."""
        found = self.saved_model.signatures["transform_features"](examples=tf.constant(examples))
        arrays = {name: tensor.numpy() for name, tensor in found.items()}
        pixels = [np.frombuffer(content, np.uint8) for content in arrays["picture"]]
        return {**arrays, "picture": np.reshape(pixels, (-1, SIDE, SIDE, 1))}

    def predictions(self, examples: list[bytes]) -> np.ndarray:
        served = self.saved_model.signatures["serving_default"](examples=tf.constant(examples))
        return served["predictions"].numpy()


@pytest.fixture(scope="session")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("devices")
    (folder / "devices.yaml").write_text(CONFIG)
    (folder / "rows.py").write_text(READ)
    whole = headrace(folder, "run", "devices.yaml")
    assert whole.code == 0, whole.out + whole.err
    after = versions(folder)
    kept = folder / "float32"
    (folder / "serving" / "devices" / "lite" / after[-1]).rename(kept)
    small = headrace(folder, "run", "devices.yaml", "--set", "deploy.lite.precision=int8")
    limit = ("--set", "deploy.lite={precision: int8, max_difference: 0.0000001, min_agreement: 1.0, examples: 60}")
    return Story(folder, whole, Lite(kept), after, small, headrace(folder, "run", "devices.yaml", *limit))


@pytest.mark.parametrize("feature", FEATURES)
def test_each_kind_of_column_moves_the_file_as_it_moves_the_saved_model(story: Story, feature: str) -> None:
    """Two examples that differ in one feature alone."""
    features = story.features(story.examples)
    first = {name: array[:1] for name, array in features.items()}
    other = next(row for row in range(1, len(story.examples)) if (features[feature][row] != first[feature][0]).any())
    changed = {**first, feature: features[feature][other : other + 1]}
    served = story.saved_model.signatures["serving_transformed"]
    answers = []
    for given in (first, changed):
        stored = {**given, "picture": np.array([given["picture"].tobytes()], object)}
        names = served.structured_input_signature[1]
        answers.append(served(**{name: tf.constant(stored[name]) for name in names})["predictions"].numpy())
        np.testing.assert_allclose(story.float32(given), answers[-1], rtol=1e-5, atol=1e-6)
    assert np.abs(answers[0] - answers[1]).max() > 1e-6


def test_file_predicts_what_is_served_for_raw_examples(story: Story) -> None:
    expected, found = story.predictions(story.examples), story.float32(story.features(story.examples))
    assert expected.shape == (len(story.examples), 3)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_inputs_in_the_report_are_the_transformed_features(story: Story) -> None:
    inputs = {one["name"]: (one["dtype"], one["shape"]) for one in story.float32.report["inputs"]}
    assert sorted(inputs) == sorted(set(FEATURES))
    assert inputs["amount"] == ("float32", [])
    assert inputs["shop"] == ("int64", [])
    assert inputs["tags"] == inputs["text"] == ("int64", [None])
    assert inputs["numbers"] == ("float32", [3])
    assert inputs["picture"] == ("uint8", [SIDE, SIDE, 1])


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_report_has_the_differences_that_the_interpreter_shows(story: Story, precision: str) -> None:
    lite = story.float32 if precision == "float32" else story.int8
    expected = story.predictions(story.examples[:60])
    apart = np.abs(lite(story.features(story.examples[:60])) - expected) / expected.max()
    report = lite.report
    assert (report["precision"], report["examples"], report["split"], report["outputs"]) == (precision, 60, "eval", 3)
    assert report["size"] == (lite.folder / "model.tflite").stat().st_size
    assert report["difference"] == pytest.approx(apart.max(), abs=2e-4)
    assert report["mean_difference"] == pytest.approx(apart.mean(), abs=1e-4)
    same = lite(story.features(story.examples[:60])).argmax(1) == expected.argmax(1)
    assert report["agreement"] == pytest.approx(same.mean(), abs=0.02)


def test_smaller_numbers_run_the_conversion_alone_and_replace_the_file_beside_the_same_version(story: Story) -> None:
    assert story.small.ran() >= {"Lite", "Pusher"}
    assert not story.small.ran() & {"Trainer", "Evaluator", "Transform"}
    assert versions(story.folder) == story.after_first
    assert story.int8.report["size"] < story.float32.report["size"]
    assert story.int8.report["representative"] == 50
    assert story.small.ending("lite").startswith("passed: int8, ")


def test_file_that_differs_too_much_is_refused_and_the_one_in_service_stays(story: Story) -> None:
    done = story.refused
    assert (done.code, versions(story.folder)) == (0, story.after_first)
    assert done.ending("blessing").startswith("not blessed: lite: the predictions of the int8 file differ")
    assert "deploy.lite.max_difference allows 1e-07" in done.out
    assert story.int8.report["max_difference"] == 0.5
    page = (done.folder / "report.html").read_text()
    assert 'id="lite"' in page
    assert "deploy.lite.max_difference allows 1e-07" in page


def test_report_of_a_refused_file_passes_axe(story: Story, browser: Browser) -> None:
    assert_accessible(browser, (story.refused.folder / "report.html").as_uri())


def test_models_lists_the_verdict_and_json_has_the_report(story: Story) -> None:
    table = headrace(story.folder, "models", "devices.yaml")
    assert "no: its LiteRT file differs" in table.out
    assert table.out.splitlines()[0].endswith("LITE")
    (model,) = json.loads(headrace(story.folder, "models", "devices.yaml", "--json").out)
    assert model["lite"]["precision"] == "int8"
    assert model["lite"]["reasons"]
