"""Numbers whose digits float32 loses, from `headrace init` over two days of data to predictions and Kubeflow.

The label depends on digits that float32 does not have. The expected features are worked out by NumPy in float64.
"""

from __future__ import annotations

import base64
import csv
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import yaml
from command import Finished, headrace

import headrace as library
from headrace.components.evaluation.result import read_evaluation
from headrace.pipeline.predict.models import ChosenModel
from headrace.pipeline.serve.rest import PredictRequest
from headrace.pipeline.serve.server import LoadedModel

pytestmark = pytest.mark.slow

ROWS, START = 3000, 1_700_000_000
DAYS = ("2026-11-20", "2026-11-21")
QUICK = ("--set", "model.kind=dnn", "--set", "train.epochs=4", "--set", "train.batch_size=64")
MORE = """\
  at_quarter: {column: bucketized, key: at, buckets: 4}
  at_bounds: {column: bucketized, key: at, boundaries: [1700000002.5, 1700000007.25], missing: 1700000002.5}
  lat_range: {column: numeric, key: lat, normalize: min_max}
"""


def numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times within ten seconds, latitudes within a meter, and the label."""
    random = np.random.default_rng(4)
    at = START + random.integers(0, 10_000, ROWS) / 1000
    lat = np.round(47.12345678 + random.integers(0, 1000, ROWS) / 1e8, 8)
    late, north = (at - START - 5) / 3, (lat - 47.12346178) / 3e-6
    return at, lat, (late + north + random.normal(0, 0.3, ROWS) > 0).astype(int)


@dataclass(frozen=True)
class Story:
    """What the commands made of the data. config: that which was run; exported: the SavedModel."""

    folder: Path
    made: Finished
    done: Finished

    @property
    def exported(self) -> Path:
        return next((self.folder / "serving").glob("*/*"))

    @property
    def text(self) -> str:
        return (self.folder / "c.yaml").read_text()


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("float64")
    rows = list(zip(*(column.tolist() for column in numbers()), strict=True))
    rows = [(f"{at:.3f}" if number % 50 else "", f"{lat:.8f}", y) for number, (at, lat, y) in enumerate(rows)]
    for day, part in zip(DAYS, (rows[::2], rows[1::2]), strict=True):
        with (folder / f"{day}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("at", "lat", "y"), *part])
    made = headrace(folder, "init", "{YYYY}-{MM}-{DD}.csv", "--label", "y", "-o", "c.yaml")
    assert made.code == 0, made.err
    text = (folder / "c.yaml").read_text()
    (folder / "c.yaml").write_text(re.sub(r"(  lat: .*\n)", rf"\1{MORE}", text).replace("min: 0.55", "min: 0.9"))
    return Story(folder, made, headrace(folder, "run", "c.yaml", *QUICK))


def test_init_declares_what_float32_would_lose_and_says_why(story: Story) -> None:
    config = yaml.safe_load(story.text)
    assert config["data"]["types"] == {"at": "float64", "lat": "float64"}
    assert "is stored as 1700000000.0" in story.text
    assert "is stored as 47.1234" in story.text


def test_a_model_learns_what_only_the_lost_digits_tell(story: Story) -> None:
    assert len(np.unique(np.float32(numbers()[0]))) == 1
    assert len(np.unique(np.float32(numbers()[1]))) < 6
    assert story.done.code == 0, story.done.out + story.done.err
    assert story.done.ending("blessing").startswith("blessed: auc is 0.9")
    assert story.done.ending("replay").startswith("passed: 5 features")
    assert "4 signatures answered" in story.done.ending("canary")
    assert "loses digits" not in story.done.out + story.done.err


def test_an_unchanged_run_computes_nothing(story: Story) -> None:
    assert headrace(story.folder, "run", "c.yaml", *QUICK).ran() == set()


def example(at: float | None, lat: float) -> bytes:
    """As a client writes it in any language: the number, and its bits."""
    found = tf.train.Example()
    for name, value in (("at", at), ("lat", lat)):
        if value is not None:
            found.features.feature[name].float_list.value.append(value)
            bits = struct.unpack("<q", struct.pack("<d", value))
            found.features.feature[f"{name}:float64"].int64_list.value.extend(bits)
    return found.SerializeToString()


def in_train(story: Story) -> tuple[np.ndarray, np.ndarray]:
    """The times and latitudes of the train split, as its examples have them."""
    found: dict[str, list[float]] = {"at": [], "lat": []}
    for shard in story.done.uri("ExampleGen", "examples").glob("Split-train/*"):
        for record in tf.data.TFRecordDataset(str(shard), "GZIP").as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            for name, values in found.items():
                bits = np.array(features[f"{name}:float64"].int64_list.value, np.int64)
                values.extend(bits.view(np.float64).tolist())
    return np.array(found["at"]), np.array(found["lat"])


@pytest.fixture(scope="module")
def served(story: Story) -> tuple[Any, tf.Tensor, np.ndarray]:
    """The signatures, the examples of all rows, and their predictions."""
    at, lat, _ = numbers()
    given = [example(t if number % 50 else None, x) for number, (t, x) in enumerate(zip(at, lat, strict=True))]
    model = tf.saved_model.load(str(story.exported))
    examples = tf.constant(given)
    return model, examples, model.signatures["serving_default"](examples=examples)["predictions"].numpy()


def test_features_are_those_of_numpy_in_float64(story: Story, served: Any) -> None:
    (at, lat, _), (train_at, train_lat) = numbers(), in_train(story)
    assert set(train_at) <= set(at)
    assert set(train_lat) <= set(lat)
    there = np.arange(ROWS) % 50 > 0
    filled = np.where(there, at, train_at.mean())
    features = {name: x.numpy() for name, x in served[0].signatures["transform_features"](examples=served[1]).items()}
    np.testing.assert_allclose(features["at"], (filled - train_at.mean()) / train_at.std(), atol=5e-7)
    np.testing.assert_allclose(features["lat"], (lat - train_lat.mean()) / train_lat.std(), atol=5e-6)
    np.testing.assert_allclose(features["lat_range"], (lat - lat.min()) / np.ptp(lat), atol=0.02)
    bounds = np.where(there, at, 1_700_000_002.5)
    np.testing.assert_array_equal(features["at_bounds"], np.searchsorted([START + 2.5, START + 7.25], bounds, "right"))
    shares = np.bincount(features["at_quarter"], minlength=5) / ROWS
    np.testing.assert_allclose(shares, [0.245] * 4 + [0.02], atol=0.02)


def test_importance_is_that_of_the_digits(story: Story, served: Any) -> None:
    files = sorted(map(str, story.done.uri("ExampleGen", "examples").glob("Split-test/*")))
    parsed = map(tf.train.Example.FromString, tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator())
    given = [{name: feature.int64_list.value for name, feature in one.features.feature.items()} for one in parsed]
    bits = {name: [row[f"{name}:float64"] for row in given] for name in ("at", "lat")}
    values = {name: [np.array(own, np.int64).view(np.float64) for own in rows] for name, rows in bits.items()}
    columns = {name: [float(own[0]) if len(own) else None for own in rows] for name, rows in values.items()}
    labels = np.array([row["y"][0] for row in given])

    def loss(**changed: list[float | None]) -> float:
        rows = zip(*{**columns, **changed}.values(), strict=True)
        examples = tf.constant([example(at, lat or 0.0) for at, lat in rows])
        p = served[0].signatures["serving_default"](examples=examples)["predictions"].numpy()[:, 0]
        return float(-np.log(np.where(labels == 1, p, 1 - p)).mean())

    explanation = read_evaluation(story.done.uri("Evaluator", "evaluation")).explanation
    assert explanation.examples == len(labels) > 200
    assert {one.column for one in explanation.importance} == {*columns}
    random, base = np.random.default_rng(0), loss()
    for one in explanation.importance:
        own = columns[one.column]
        grown = [loss(**{one.column: [own[row] for row in random.permutation(len(own))]}) - base for _ in range(20)]
        assert one.increase == pytest.approx(np.mean(grown), abs=2 * float(np.std(grown)))  # of 5 and 20 permutations
        assert one.increase > 0.5


def test_named_tensors_are_float64_and_mean_the_same_as_examples(served: Any) -> None:
    at, lat, _ = numbers()
    at = np.where(np.arange(ROWS) % 50, at, np.nan)
    raw = served[0].signatures["serving_raw"]
    assert {spec.dtype for spec in raw.structured_input_signature[1].values()} == {tf.float64}
    found = raw(at=tf.constant(at), lat=tf.constant(lat))["predictions"]
    np.testing.assert_allclose(found, served[2], atol=1e-6)


def rows(count: int) -> pd.DataFrame:
    at, lat, _ = numbers()
    return pd.DataFrame({"at": np.where(np.arange(ROWS) % 50, at, np.nan), "lat": lat})[:count]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_files_are_predicted_from_the_numbers_that_are_in_them(story: Story, served: Any, kind: str) -> None:
    new, frame = story.folder / f"new.{kind}", rows(400)
    match kind:
        case "csv":
            frame.to_csv(new, index=False)
        case "parquet":
            pq.write_table(pa.Table.from_pandas(frame), new)
        case "jsonl":
            new.write_text(frame.to_json(orient="records", lines=True, double_precision=15))
    output = story.folder / "out.parquet"
    done = headrace(story.folder, "predict", "c.yaml", "--input", new.name, "--output", str(output))
    assert done.code == 0, done.err
    found = pq.read_table(output)
    np.testing.assert_allclose(found["probability_1"], served[2][:400, 0], atol=1e-6)
    np.testing.assert_array_equal(found["lat"].to_numpy(), frame["lat"])


def test_a_table_in_python_and_records_over_http_are_predicted_alike(story: Story, served: Any) -> None:
    frame = rows(40)
    found = library.predict(str(story.exported), frame)
    assert isinstance(found, pa.Table)
    np.testing.assert_allclose(found["probability_1"], served[2][:40, 0], atol=1e-6)
    records = [{name: value for name, value in row.items() if not np.isnan(value)} for row in frame.to_dict("records")]
    body = PredictRequest.parse(json.dumps({"instances": records}).encode())
    answer = LoadedModel(ChosenModel(story.exported, "x")).predict(body)["predictions"]
    np.testing.assert_allclose([one["probability_1"] for one in answer], served[2][:40, 0], atol=1e-6)


def test_a_server_loads_the_other_signatures_once_one_of_them_is_asked(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, loads = tf.saved_model.load, list[str]()

    def counted(folder: str) -> Any:
        loads.append(folder)
        return load(folder)

    whole = load(str(story.exported))
    monkeypatch.setattr(tf.saved_model, "load", counted)
    model = LoadedModel(ChosenModel(story.exported, "x"))
    assert model.metadata().keys() == whole.signatures.keys()
    for name, function in whole.signatures.items():
        takes = function.structured_input_signature[1]
        assert model.inputs(name) == {key: takes[key] for key in model.inputs(name)}
        assert takes.keys() == model.inputs(name).keys() == model.metadata()[name]["inputs"].keys()
        assert function.structured_outputs.keys() == model.metadata()[name]["outputs"].keys()
    row = rows(1).to_dict("records")[0]
    model.predict(PredictRequest.parse(json.dumps({"instances": [row]}).encode()))
    assert loads == []
    example = tf.train.Example().SerializeToString()
    encoded = {"b64": base64.b64encode(example).decode()}
    for _ in range(2):
        answer = model.predict(PredictRequest.parse(json.dumps({"instances": [encoded]}).encode()))["predictions"][0]
    (name,) = whole.signatures["serving_default"].structured_input_signature[1]
    expected = whole.signatures["serving_default"](**{name: tf.constant([example])})
    assert np.float32(answer["predictions"]) == expected["predictions"].numpy()[0]
    assert loads == [str(story.exported)]


def test_the_report_shows_the_digits_and_not_the_bits(story: Story) -> None:
    shown = re.sub(r"<[^>]+>", " ", (story.done.folder / "report.html").read_text())
    assert "Distribution of at" in shown
    assert "Distribution of at:float64" not in shown
    assert "1,700,000,009.9" in shown
    assert re.search(r"47\.1234\d{4}", shown)


def test_kubeflow_gets_the_same_settings(story: Story) -> None:
    target = story.folder / "c.kfp.yaml"
    compiled = headrace(story.folder, "compile", "c.yaml", "-o", target.name, "--set", "kubeflow.image=any")
    assert compiled.code == 0, compiled.err
    assert '"types":{"at":"float64","lat":"float64"}' in target.read_text().replace("\\", "")


def test_without_the_type_validate_names_column_loss_and_way_out(story: Story) -> None:
    text = re.sub(r"  types: .*\n", "", story.text)
    (story.folder / "d.yaml").write_text(text)
    done = headrace(story.folder, "validate", "d.yaml")
    assert done.code == 0
    line = next(line for line in done.err.splitlines() if '"at"' in line)
    assert re.search(r"d\.yaml:\d+: features\.at: ", line)
    assert "is stored as 1700000000.0, which is" in line
    assert 'columns "at", "lat" lose digits' in line
    assert "`float64` for them in `data.types`" in line
