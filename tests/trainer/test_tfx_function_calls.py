"""The calls of a user's preprocessing_fn and run_fn, and the checks of what they return and write."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tfx.components.trainer.fn_args_utils import FnArgs

from headrace.common.errors import TrainingError
from headrace.trainer.served_model import ModelCall
from headrace.trainer.tfx_functions import preprocessing_fn, run_fn
from headrace.trainer.v1_loader import save_again, variables_not_found

MODULE = """
import json
import random
from pathlib import Path

import numpy as np
import tensorflow as tf


def preprocessing_fn(inputs):
    return {"fare_xf": inputs["fare"] * 2.0, "tips_xf": tf.cast(inputs["tips"] > 1.0, tf.int64)}


def configured(inputs, custom_config):
    return {"tips": inputs["tips"] + custom_config["more"]}


def nothing(inputs):
    return {}


def text(inputs):
    return {"tips": tf.as_string(inputs["tips"])}


def columns(inputs):
    return {"tips": inputs["tips"], "number": float(len(inputs))}


def fails(fn_args):
    raise ValueError("no luck")


def writes_nothing(fn_args):
    assert fn_args.custom_config == {"units": 3}
    assert fn_args.train_steps == 7


def draws(fn_args):
    drawn = [random.random(), np.random.rand(), float(tf.random.uniform([]))]
    Path(fn_args.model_run_dir, "drawn.json").write_text(json.dumps(drawn))
"""
RAW = {"fare": tf.constant([1.0, 2.0]), "tips": tf.constant([0.5, 3.0]), "extra": tf.constant([0.0, 0.0])}


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_functions.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("own_functions", None)


def preprocess(function: str, label_key: str = "tips", **settings: Any) -> dict[str, Any]:
    custom_config = {
        "preprocessing": json.dumps({"function": f"own_functions.{function}", **settings}),
        "label": json.dumps({"key": "tips", "kind": "binary"}),
        "label_key": label_key,
    }
    return preprocessing_fn(RAW, custom_config)


def test_outputs_of_the_function_are_the_features() -> None:
    outputs = preprocess("preprocessing_fn", "tips_xf")
    assert outputs["fare_xf"].numpy().tolist() == [2.0, 4.0]
    assert outputs["tips_xf"].numpy().tolist() == [0, 1]


def test_custom_config_is_passed_to_a_function_that_takes_it() -> None:
    assert preprocess("configured", custom_config={"more": 1.0})["tips"].numpy().tolist() == [1.5, 4.0]


@pytest.mark.parametrize(
    ("function", "settings", "words"),
    [
        ("preprocessing_fn", {}, ["features.function", "no label 'tips'", "tips_xf", "features.label_key"]),
        ("preprocessing_fn", {"keys": ["extra"]}, ["'fare'", "features.keys"]),
        ("preprocessing_fn", {"keys": ["fair"]}, ["features.keys", "'fair'", "fare"]),
        ("nothing", {}, ["features by name"]),
        ("text", {}, ["string", "'tips'", "numbers"]),
        ("columns", {}, ["'number'", "tensor"]),
        ("gone", {}, ["features.function", "gone"]),
    ],
)
def test_wrong_functions_are_explained(function: str, settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(TrainingError) as refused:
        preprocess(function, **settings)
    assert [word for word in words if word not in str(refused.value)] == []


def train(function: str, directory: Path, seed: int = 0) -> None:
    settings = {"run_fn": f"own_functions.{function}", "train_steps": 7, "eval_steps": 1, "seed": seed}
    custom_config = {
        "training": json.dumps({**settings, "custom_config": {"units": 3}}),
        "label": json.dumps({"key": "tips", "kind": "binary"}),
        "label_key": "tips_xf",
    }
    folders = {"serving_model_dir": str(directory), "model_run_dir": str(directory.parent)}
    run_fn(FnArgs(custom_config=custom_config, train_steps=7, eval_steps=1, **folders))


def test_errors_of_run_fn_name_the_function_and_its_line(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"model.run_fn: own_functions.fails .*no luck.*own_functions.py:\d+"):
        train("fails", tmp_path / "model")


def test_run_fn_gets_its_own_custom_config_and_must_write_a_model(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"own_functions\.writes_nothing wrote no SavedModel"):
        train("writes_nothing", tmp_path / "model")


def test_random_numbers_in_run_fn_follow_from_the_seed(tmp_path: Path) -> None:
    def drawn(seed: int) -> list[float]:
        with pytest.raises(TrainingError, match="no SavedModel"):
            train("draws", tmp_path / "model", seed)
        numbers: list[float] = json.loads((tmp_path / "drawn.json").read_text(encoding="utf-8"))
        return numbers

    first, again, other = drawn(3), drawn(3), drawn(4)
    assert first == again
    assert all(one != another for one, another in zip(first, other, strict=True))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Keras 3 model as TFX's templates save it."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones", name="unique_name")])

    def parse(examples: tf.Tensor) -> tf.Tensor:
        return tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]

    spec = [tf.TensorSpec([None], tf.string, name="examples")]
    serve = tf.function(lambda examples: {"outputs": model(parse(examples))}, input_signature=spec)
    transform = tf.function(
        lambda examples: {"x": parse(examples), "y": parse(examples)[:, 0] > 1}, input_signature=spec
    )
    both = tf.function(
        lambda x: {"a": model(x), "b": tf.concat([x, x], 1)}, input_signature=[tf.TensorSpec([None, 1], tf.float32)]
    )
    directory = str(tmp_path_factory.mktemp("saved") / "model")
    signatures = {"serving_default": serve, "transform_features": transform, "named": both}
    tf.saved_model.save(model, directory, signatures=signatures)
    return directory


def serialized(*values: float) -> tf.Tensor:
    features = [tf.train.Feature(float_list=tf.train.FloatList(value=[value])) for value in values]
    return tf.constant(
        [tf.train.Example(features=tf.train.Features(feature={"x": x})).SerializeToString() for x in features]
    )


def test_examples_are_serialized_ones_though_a_feature_has_that_name(tmp_path: Path) -> None:
    spec = [tf.TensorSpec([None], tf.string, name="examples")]
    length = tf.strings.length
    signatures = {
        "serving_default": tf.function(lambda examples: {"predictions": length(examples)}, input_signature=spec),
        "transform_features": tf.function(
            lambda examples: {"examples": length(examples) + 1, "y": length(examples)}, input_signature=spec
        ),
    }
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures)
    loaded, given, call = tf.saved_model.load(str(tmp_path)), serialized(0.5, 2.0), ModelCall("y")
    assert call.why_not(loaded) is None
    sizes = [len(text) for text in given.numpy()]
    assert call(loaded, given)[1].numpy().tolist() == sizes
    assert call.predictions(loaded, given).numpy().tolist() == sizes


@pytest.mark.parametrize(
    "call", [ModelCall("y"), ModelCall("y", signature_name="named", prediction_key="a")], ids=["examples", "features"]
)
def test_predictions_come_from_examples_or_from_transformed_features(saved: str, call: ModelCall) -> None:
    loaded = tf.saved_model.load(saved)
    assert call.why_not(loaded, 1) is None
    labels, predictions = call(loaded, serialized(0.5, 2.0))
    assert labels.numpy().tolist() == [False, True]
    np.testing.assert_allclose(predictions.numpy(), [[0.5], [2.0]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ModelCall("z"), ["'transform_features'", "'z'", "it returns"]),
        (ModelCall("y", signature_name="serving"), ["no signature 'serving'", "serving_default"]),
        (ModelCall("y", preprocessing_function_name="named"), ["'named'", "not serialized examples"]),
        (ModelCall("y", signature_name="named"), ["'named' returns", "model.prediction_key"]),
        (ModelCall("y", signature_name="named", prediction_key="c"), ["'c'"]),
        (ModelCall("y", signature_name="named", prediction_key="b"), ["2 numbers", "1"]),
    ],
)
def test_models_that_cannot_be_evaluated_are_explained(saved: str, call: ModelCall, words: list[str]) -> None:
    why = call.why_not(tf.saved_model.load(saved), 1) or ""
    assert [word for word in words if word not in why] == []


def test_a_keras_3_model_is_saved_again_so_that_the_v1_loader_finds_its_variables(saved: str) -> None:
    before = tf.saved_model.load(saved).signatures["serving_default"](examples=serialized(3.0))
    assert any(name.endswith("unique_name/kernel") for name in variables_not_found(saved))
    save_again(saved)
    assert variables_not_found(saved) == []
    after = tf.saved_model.load(saved).signatures["serving_default"](examples=serialized(3.0))
    np.testing.assert_array_equal(after["outputs"], before["outputs"])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.loader.load(session, ["serve"], saved).signature_def["serving_default"]
        fed = {signature.inputs["examples"].name: [serialized_bytes(3.0)]}
        assert session.run(signature.outputs["outputs"].name, fed).tolist() == [[3.0]]


def serialized_bytes(value: float) -> bytes:
    x = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Example(features=tf.train.Features(feature={"x": x})).SerializeToString()
