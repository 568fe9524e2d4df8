"""`:classify` and `:regress` of `headrace serve`, with the requests and results of TensorFlow Serving's own tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import plain_models
import pytest
import tensorflow as tf
from werkzeug.test import Client

from headrace.configs.schema.label import LabelConfig
from headrace.pipeline.serve.examples import ExamplesRequest, classifications, regressions
from headrace.pipeline.serve.rest import BadRequestError
from headrace.pipeline.serve.server import App, served_folder
from headrace.trainer.description import ModelDescription, StoredType

TYPES: dict[str, StoredType] = {"a": "float", "y": "int", "name": "bytes"}
A = [0.5, -1.25, 3.0]


def parsed(body: str, description: ModelDescription | None = None) -> list[dict[str, list[Any]]]:
    """The features of each example of a request."""
    found = []
    for text in ExamplesRequest.parse(body.encode()).serialized(description).numpy():
        features = tf.train.Example.FromString(text).features.feature
        found.append({name: list(getattr(one, one.WhichOneof("kind")).value) for name, one in features.items()})
    return found


def describe(folder: Path, kind: str, **label: Any) -> Path:
    """Give an exported model the description of a model of Headrace's."""
    given = LabelConfig.model_validate({"key": "y", "kind": kind, **label})
    ModelDescription(label=given, types=TYPES, features=("a",)).write(folder)
    return folder


class Served:
    """A model behind `headrace serve`'s application."""

    def __init__(self, folder: Path) -> None:
        self._client = Client(App(served_folder(folder), "model"))

    def ask(self, method: str, **body: Any) -> tuple[int, Any]:
        answer = self._client.post(f"/v1/models/model:{method}", data=json.dumps(body))
        return answer.status_code, answer.get_json()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Served]:
    folder, found = tmp_path_factory.mktemp("models"), {}
    for kind, outputs, label in (
        ("binary", 1, {"classes": ("no", "yes")}),
        ("multiclass", 3, {"classes": ("low", "mid", "high")}),
        ("regression", 1, {}),
    ):
        plain_models.export(folder / kind, kind, 1.5, outputs)
        found[kind] = Served(describe(folder / kind / "Format-Serving", kind, **label))
    found["estimator"] = Served(_estimator(folder / "estimator"))
    return found


def _estimator(folder: Path) -> Path:
    """A model that Headrace did not export, with the signatures of TensorFlow's Estimators."""

    def a(inputs: tf.Tensor) -> tf.Tensor:
        return tf.io.parse_example(inputs, {"a": tf.io.FixedLenFeature([], tf.float32, 0.0)})["a"]

    def classify(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        scores = tf.stack([a(inputs), -a(inputs)], axis=1)
        return {"scores": scores, "classes": tf.tile([["up", "down"]], [tf.size(inputs), 1])}

    archive = keras.export.ExportArchive()
    archive.track(tf.Module())
    spec = [tf.TensorSpec([None], tf.string, name="inputs")]
    archive.add_endpoint("serving_default", classify, spec)
    archive.add_endpoint("regression", lambda inputs: {"outputs": 2 * a(inputs)}, spec)
    archive.write_out(str(folder), verbose=False)
    return folder


def test_json_becomes_the_examples_of_tensorflow_serving() -> None:
    """The request is that of ClassifyRegressRequestTest in its util/json_tensor_test.cc."""
    first, second, third = parsed(
        """{
        "signature_name": "custom_signture",
        "context": {"query": "pizza", "location": ["sfo"]},
        "examples": [
          {"names": ["foo", "bar"], "ratings": [8.0, 9.0, NaN, Infinity], "age": 20},
          {"names": ["baz", {"b64": "aGVsbG8="}], "ratings": 6.0, "intboolmix": [1, true, false]},
          {"names": "bar", "ratings": -Infinity, "query": "pasta"}
        ]}"""
    )
    shared = {"query": [b"pizza"], "location": [b"sfo"]}
    ratings = first.pop("ratings")
    assert first == {**shared, "names": [b"foo", b"bar"], "age": [20]}
    np.testing.assert_array_equal(ratings, [8, 9, np.nan, np.inf])
    assert second == {**shared, "names": [b"baz", b"hello"], "ratings": [6.0], "intboolmix": [1, 1, 0]}
    assert third == {**shared, "query": [b"pasta"], "names": [b"bar"], "ratings": [-np.inf]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[]", "JSON object with `examples`"),
        ("{}", "`examples` must be a list"),
        ('{"examples": []}', "at least one"),
        ('{"examples": [{}, 1]}', r"example 1 \(counted from 0\)"),
        ('{"examples": [{}], "context": 1}', "`context`"),
        ('{"examples": [{}], "signature_name": 1}', "`signature_name`"),
        ('{"examples": [{"a": null}]}', "'a'.*null"),
        ('{"examples": [{"a": [[1.0]]}]}', "'a'.*a list in a list"),
        ('{"examples": [{"a": [1.0, 2]}]}', "'a' must be of one type"),
        ('{"examples": [{"a": 1}]}', "'a' takes .*3.0; found 1"),
        ('{"examples": [{"a": true}]}', "'a' takes .*3.0; found true"),
        ('{"examples": [{"name": "\\ud800"}]}', "'name' holds text that is not Unicode"),
        ('{"examples": [{"a": 1e39}]}', "'a' does not fit into float32"),
        ('{"examples": [{"y": 9223372036854775808}]}', "'y' does not fit into 64 bits"),
        ('{"examples": [{"name": {"b64": "%"}}]}', "'name'.*base64"),
        ('{"examples": [{"nmae": "x"}]}', "no column 'nmae'.*the model reads: a"),
        ('{"examples": [{}], "context": {"nmae": "x"}}', "no column 'nmae'"),
    ],
)
def test_what_is_no_example_of_the_columns_is_refused(body: str, words: str) -> None:
    label = LabelConfig.model_validate({"key": "y", "kind": "binary"})
    with pytest.raises(BadRequestError, match=words):
        parsed(body, ModelDescription(label=label, types=TYPES, features=("a",)))


@pytest.mark.slow
def test_classes_and_scores_are_those_that_the_model_computes(models: dict[str, Served]) -> None:
    examples = [{"a": value} for value in A]
    status, answer = models["binary"].ask("classify", examples=examples)
    assert status == 200
    assert [[name for name, _ in row] for row in answer["results"]] == [["no", "yes"]] * 3
    second = 1 / (1 + np.exp(-1.5 * np.array(A)))
    found = [[score for _, score in row] for row in answer["results"]]
    np.testing.assert_allclose(found, np.stack([1 - second, second], axis=1), atol=1e-6)
    status, answer = models["multiclass"].ask("classify", examples=examples)
    assert [[name for name, _ in row] for row in answer["results"]] == [["low", "mid", "high"]] * 3
    powers = np.exp(1.5 * np.outer(A, [-1, 0, 1]))
    found = [[score for _, score in row] for row in answer["results"]]
    np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), atol=1e-6)
    status, answer = models["estimator"].ask("classify", examples=examples)
    assert answer == {"results": [[["up", value], ["down", -value]] for value in A]}


def test_numbers_are_those_that_the_model_computes(models: dict[str, Served]) -> None:
    status, answer = models["regression"].ask("regress", context={"a": 2.0}, examples=[{"a": A[0]}, {}])
    assert (status, answer) == (200, {"results": [1.5 * A[0], 3.0]})
    found = models["estimator"].ask("regress", signature_name="regression", examples=[{"a": 0.25}])
    assert found == (200, {"results": [0.5]})


@pytest.mark.parametrize(
    ("model", "method", "body", "words"),
    [
        ("binary", "regress", {}, "'serving_default' returns classes: ask it with :classify"),
        ("regression", "classify", {}, "'serving_default' returns a number: ask it with :regress"),
        ("binary", "classify", {"signature_name": "transform_features"}, "returns a, y: ask it with :predict"),
        ("estimator", "regress", {}, ":classify"),
        ("estimator", "classify", {"signature_name": "regression"}, ":regress"),
        ("binary", "classify", {"signature_name": "serving_defualt"}, "no signature 'serving_defualt'"),
    ],
)
def test_another_method_than_the_signatures_is_refused_with_the_right_one(
    models: dict[str, Served], model: str, method: str, body: dict[str, Any], words: str
) -> None:
    status, answer = models[model].ask(method, examples=[{"a": 1.0}], **body)
    assert (status, words in answer["error"], list(answer)) == (400, True, ["error"]), answer


def test_an_example_that_the_model_refuses_is_named_as_by_predict(models: dict[str, Served]) -> None:
    status, answer = models["binary"].ask("classify", examples=[{"a": [1.0, 2.0]}])
    assert (status, answer["error"].partition(": ")[0]) == (400, "the model refuses it"), answer
    assert "Key: a, Index: 0" in answer["error"]


@pytest.mark.parametrize("value", [1e39, "1e39"])
def test_a_number_beyond_float32_is_refused_without_settings_of_data(models: dict[str, Served], value: Any) -> None:
    status, answer = models["binary"].ask("predict", instances=[{"a": value}])
    assert (status, "'a': 1e+39 is beyond the largest float32" in answer["error"]) == (400, True), answer
    assert "data." not in answer["error"]


def test_several_numbers_for_each_example_are_no_regression() -> None:
    assert regressions({"outputs": np.array([[0.5], [1.5]], np.float32)}) == [0.5, 1.5]
    with pytest.raises(BadRequestError, match=r"several numbers.*:predict"):
        regressions({"outputs": np.zeros((2, 3), np.float32)})


def test_classes_without_names_are_empty_and_classes_without_scores_have_0() -> None:
    """As json_tensor_test.cc and classifier.cc have them."""
    assert classifications({"scores": np.array([[0.25, 0.5]], np.float32)}, None) == [[["", 0.25], ["", 0.5]]]
    assert classifications({"classes": np.array([[b"x", b"y"]], object)}, None) == [[["x", 0.0], ["y", 0.0]]]
