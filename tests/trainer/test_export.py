"""The exported SavedModel in every loader, each signature against the model in memory and against NumPy."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import farmhash
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.protobuf import saved_model_pb2

from headrace.trainer.model import build_model
from headrace.trainer.raw_columns import RawColumns
from headrace.trainer.request_tensors import signature_names
from headrace.trainer.run import run_fn
from headrace.trainer.signatures import Signatures

MISSING: dict[type, Any] = {str: "", float: float("nan"), int: np.iinfo(np.int64).min}
TYPES: dict[str, type] = {"color": str, "amount": float, "pickup area": int}
WIDTH = {"binary": 1, "multiclass": 3, "regression": 1}


@dataclass(frozen=True)
class Exported:
    """A trained and exported model, and the same in memory."""

    data: Any
    directory: str
    model: keras.Model
    features: dict[str, np.ndarray]
    """Of the eval split, worked out in NumPy."""

    def expected(self) -> np.ndarray:
        """What the model in memory predicts for the eval split."""
        return np.asarray(self.model(self.features, training=False))

    @cached_property
    def loaded(self) -> Any:
        """By TensorFlow's Python, once."""
        return tf.saved_model.load(self.directory)

    def signature(self, name: str) -> Callable[..., dict[str, tf.Tensor]]:
        return self.loaded.signatures[name]

    def raw(self) -> dict[str, np.ndarray]:
        """The eval split as a JSON client sends it."""
        return {
            signature_names([name])[name]: dense(self.data.rows["eval"], name, kind) for name, kind in TYPES.items()
        }


def dense(rows: list[dict[str, list[Any]]], name: str, kind: type) -> np.ndarray:
    values = [row[name][0] if row[name] else MISSING[kind] for row in rows]
    return np.array(values, {str: object, float: np.float32, int: np.int64}[kind])


def transformed(data: Any) -> dict[str, np.ndarray]:
    """The eval split's features, worked out from the rows."""
    train, rows = data.rows["train"], data.rows["eval"]
    amounts = np.array([row["amount"][0] for row in train], np.float64)
    colors = [row["color"][0].decode() for row in train if row["color"]]
    vocabulary = sorted(set(colors), key=lambda color: (-colors.count(color), [-ord(letter) for letter in color]))
    amount = np.array([row["amount"][0] for row in rows], np.float64)
    color = [vocabulary.index(row["color"][0].decode()) if row["color"] else None for row in rows]
    area = [row["pickup area"][0] if row["pickup area"] else None for row in rows]
    where = [
        40 if None in pair else farmhash.fingerprint64("{}_X_{}".format(*pair)) % 40
        for pair in zip(color, area, strict=True)
    ]
    return {
        "amount": ((amount - amounts.mean()) / amounts.std()).astype(np.float32),
        "color": np.array([5 if known is None else known for known in color]),
        "pickup area": np.array([10 if known is None else known for known in area]),
        "where": np.array(where),
    }


@pytest.fixture(scope="module")
def exported(prepared: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Exported]:
    made: dict[str, Exported] = {}

    def export(kind: str) -> Exported:
        if kind not in made:
            data, folder = prepared(kind), tmp_path_factory.mktemp(f"export_{kind}")
            run_fn(data.fn_args(folder, epochs=2))
            model = build_model(data.sections(), data.output)
            model.load_weights(folder / "run" / "best.weights.h5")
            made[kind] = Exported(data, str(folder / "Format-Serving"), model, transformed(data))
        return made[kind]

    return export


every_kind = pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])


@every_kind
def test_serialized_examples_give_what_the_model_in_memory_gives(
    exported: Callable[[str], Exported], kind: str
) -> None:
    one = exported(kind)
    predictions = one.signature("serving_default")(examples=tf.constant(one.data.serialized["eval"]))["predictions"]
    assert predictions.shape == (500, WIDTH[kind])
    assert predictions.dtype == tf.float32
    np.testing.assert_allclose(predictions, one.expected(), rtol=1e-5, atol=1e-6)


@every_kind
def test_raw_named_tensors_give_the_same(exported: Callable[[str], Exported], kind: str) -> None:
    one = exported(kind)
    tensors = {name: tf.constant(values) for name, values in one.raw().items()}
    assert set(tensors) == {"color", "amount", "pickup_area"}
    predictions = one.signature("serving_raw")(**tensors)["predictions"]
    np.testing.assert_allclose(predictions, one.expected(), rtol=1e-5, atol=1e-6)


@every_kind
def test_transformed_features_give_the_same(exported: Callable[[str], Exported], kind: str) -> None:
    one = exported(kind)
    tensors = {signature_names([name])[name]: tf.constant(values) for name, values in one.features.items()}
    predictions = one.signature("serving_transformed")(**tensors)["predictions"]
    np.testing.assert_allclose(predictions, one.expected(), rtol=1e-5, atol=1e-6)


@every_kind
def test_transform_features_gives_features_and_label(exported: Callable[[str], Exported], kind: str) -> None:
    one = exported(kind)
    outputs = one.signature("transform_features")(examples=tf.constant(one.data.serialized["eval"]))
    label = one.data.sections().label
    labels = [row[label.key][0] for row in one.data.rows["eval"]]
    if kind == "multiclass":
        labels = [["small", "medium", "large"].index(value.decode()) for value in labels]
    np.testing.assert_allclose(outputs.pop(label.key), np.array(labels, np.float32), rtol=1e-6)
    assert set(outputs) == set(one.features)
    for name, values in one.features.items():
        np.testing.assert_allclose(outputs[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


@every_kind
def test_v1_loader_as_in_cpp_serves_every_signature(exported: Callable[[str], Exported], kind: str) -> None:
    one = exported(kind)
    serialized, expected = one.data.serialized["eval"], one.expected()
    feeds = {
        "serving_default": {"examples": serialized},
        "serving_raw": one.raw(),
        "serving_transformed": {signature_names([name])[name]: values for name, values in one.features.items()},
        "transform_features": {"examples": serialized},
    }
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], one.directory)
        for name, inputs in feeds.items():
            signature = graph.signature_def[name]
            assert set(signature.inputs) == set(inputs)
            fetches = {key: tensor.name for key, tensor in signature.outputs.items()}
            outputs = session.run(fetches, {signature.inputs[key].name: value for key, value in inputs.items()})
            wanted = {"predictions": expected} if name.startswith("serving") else one.features
            for key, values in wanted.items():
                np.testing.assert_allclose(outputs[key], values, rtol=1e-5, atol=1e-6, err_msg=f"{name} {key}")


def test_only_the_tables_that_a_signature_reads_are_exported(exported: Callable[[str], Exported]) -> None:
    saved = saved_model_pb2.SavedModel.FromString(Path(exported("binary").directory, "saved_model.pb").read_bytes())
    (meta,) = saved.meta_graphs
    kinds = [node.WhichOneof("kind") for node in meta.object_graph_def.nodes]
    assert kinds.count("resource") == 1  # the vocabulary of colors
    assert len(meta.asset_file_def) == 1
    names = [function.signature.name for function in meta.graph_def.library.function]
    of_tables = [name for name in names if re.search("_(creator|initializer|destroyer)_", name)]
    assert len(of_tables) == 3, of_tables  # as they were loaded, not within others


def with_values(serialized: bytes, column: str, values: list[Any]) -> bytes:
    """An example with other values in a column."""
    example = tf.train.Example.FromString(serialized)
    feature = example.features.feature[column]
    getattr(feature, feature.WhichOneof("kind")).value[:] = values
    return example.SerializeToString()


@pytest.mark.parametrize("signature", ["serving_default", "transform_features"])
def test_an_example_with_several_values_of_a_number_is_refused_by_the_feature_s_name(
    exported: Callable[[str], Exported], signature: str
) -> None:
    one = exported("binary")
    good = one.data.serialized["eval"][:3]
    bad = [*good, with_values(good[0], "amount", [0.5, 2.5])]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"amount.*`features\.amount`") as caught:
        one.signature(signature)(examples=tf.constant(bad))
    assert "several values" in str(caught.value)
    assert "features.color" not in str(caught.value)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # as in C++
        graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], one.directory)
        definition = graph.signature_def[signature]
        fetches = [tensor.name for tensor in definition.outputs.values()]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"features\.amount"):
            session.run(fetches, {definition.inputs["examples"].name: bad})
        assert len(session.run(fetches[0], {definition.inputs["examples"].name: good})) == 3


def test_of_several_values_of_a_category_the_first_counts(exported: Callable[[str], Exported]) -> None:
    one = exported("binary")
    at = next(number for number, row in enumerate(one.data.rows["eval"]) if row["color"])
    good = one.data.serialized["eval"][at]
    color = one.data.rows["eval"][at]["color"][0]
    predict = one.signature("serving_default")
    found = predict(examples=tf.constant([good, with_values(good, "color", [color, b"red", b"blue"])]))["predictions"]
    np.testing.assert_array_equal(found[0], found[1])


def test_several_labels_are_refused_where_the_label_is_read(exported: Callable[[str], Exported]) -> None:
    one = exported("binary")
    two = tf.constant([with_values(one.data.serialized["eval"][0], "bought", [0, 1])])
    with pytest.raises(tf.errors.InvalidArgumentError, match="`label` takes one"):
        one.signature("transform_features")(examples=two)
    np.testing.assert_allclose(
        one.signature("serving_default")(examples=two)["predictions"], one.expected()[:1], rtol=1e-5, atol=1e-6
    )


def test_serving_takes_the_first_value_if_training_was_configured_to(exported: Callable[[str], Exported]) -> None:
    one = exported("binary")
    sections = one.data.sections().model_copy(update={"several_values": "first"})
    signatures = Signatures(one.model, one.data.output, RawColumns.of(sections))
    bad = with_values(one.data.serialized["eval"][0], "amount", [one.data.rows["eval"][0]["amount"][0], 2.5])
    found = signatures.predict_examples(tf.constant([bad]))["predictions"]
    np.testing.assert_allclose(found, one.expected()[:1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("signature", ["serving_raw", "serving_transformed"])
def test_two_columns_under_a_name_of_one_are_refused_by_the_cpp_runtime(
    exported: Callable[[str], Exported], tmp_path: Path, signature: str
) -> None:
    """TensorFlow's Python would refuse them itself."""
    one = exported("binary")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        definition = tf.compat.v1.saved_model.loader.load(session, ["serve"], one.directory).signature_def[signature]
    zeros = {"float32": 0.5, "int64": 1, "string": base64.b64encode(b"red").decode()}

    def call(width: int) -> dict[str, Any]:
        feeds = {}
        for name, tensor in definition.inputs.items():
            shape = [2, width] if name == "amount" else [2]
            dtype = tf.as_dtype(tensor.dtype).name
            feeds[tensor.name] = {"dtype": dtype, "shape": shape, "values": [zeros[dtype]] * int(np.prod(shape))}
        feeds[definition.inputs["amount"].name]["shape"] = [2, width] if width > 1 else [2]
        return {"feeds": feeds, "fetches": [definition.outputs["predictions"].name]}

    library = Path(tf.__file__).with_name("libtensorflow_cc.so.2")
    program = Path(__file__).parents[1] / "integration" / "cpp_loader.py"
    for width, code in ((1, 0), (2, 1)):
        (tmp_path / "calls.json").write_text(json.dumps([call(width)]))
        arguments = (library, one.directory, tmp_path / "calls.json", tmp_path / "results.npz")
        done = subprocess.run([sys.executable, program, *arguments], check=False, capture_output=True, text=True)
        assert bool(done.returncode) == bool(code), done.stderr
        assert not code or "amount" in done.stderr


@every_kind
@pytest.mark.parametrize("batch", [0, 1])
def test_batches_of_none_and_of_one_are_served(exported: Callable[[str], Exported], kind: str, batch: int) -> None:
    one = exported(kind)
    examples = tf.constant(one.data.serialized["eval"][:batch], tf.string)
    named = {name: tf.constant(values[:batch]) for name, values in one.raw().items()}
    ready = {signature_names([name])[name]: tf.constant(values[:batch]) for name, values in one.features.items()}
    for outputs in (
        one.signature("serving_default")(examples=examples),
        one.signature("serving_raw")(**named),
        one.signature("serving_transformed")(**ready),
    ):
        expected = one.expected()[:batch]
        np.testing.assert_allclose(outputs["predictions"], expected, rtol=1e-5, atol=1e-6)
        if kind == "regression":
            assert outputs.keys() == {"predictions"}
            continue
        both = np.hstack([1 - expected, expected]) if kind == "binary" else expected
        np.testing.assert_allclose(outputs["probabilities"], both, rtol=1e-5, atol=1e-6)
        names = [str(value).encode() for value in one.data.sections().label.class_values]
        assert outputs["classes"].numpy().tolist() == [names] * batch
    assert one.signature("transform_features")(examples=examples)["color"].shape == (batch,)


@every_kind
def test_example_without_any_feature_is_one_where_all_is_missing(
    exported: Callable[[str], Exported], kind: str
) -> None:
    one = exported(kind)
    nothing = {name: tf.constant([MISSING[type_]]) for name, type_ in TYPES.items()}
    nothing = {signature_names([name])[name]: tensor for name, tensor in nothing.items()}
    absent = one.signature("serving_default")(examples=tf.constant([tf.train.Example().SerializeToString()]))
    raw = one.signature("serving_raw")(**nothing)
    np.testing.assert_allclose(absent["predictions"], raw["predictions"], rtol=1e-6)
    filled = {
        "amount": np.zeros(1, np.float32),
        "color": np.array([5]),
        "pickup area": np.array([10]),
        "where": np.array([40]),
    }
    np.testing.assert_allclose(absent["predictions"], one.model(filled, training=False), rtol=1e-5)


@every_kind
def test_label_and_unread_columns_need_not_be_in_an_example(exported: Callable[[str], Exported], kind: str) -> None:
    one = exported(kind)
    stripped = []
    for serialized in one.data.serialized["eval"]:
        example = tf.train.Example.FromString(serialized)
        del example.features.feature[one.data.sections().label.key], example.features.feature["unread"]
        stripped.append(example.SerializeToString())
    predictions = one.signature("serving_default")(examples=tf.constant(stripped))["predictions"]
    np.testing.assert_allclose(predictions, one.expected(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_tfma_evaluates_it_through_the_transform(exported: Callable[[str], Exported], tmp_path: Path) -> None:
    import tensorflow_model_analysis as tfma
    from google.protobuf import text_format
    from tensorflow_model_analysis.proto import config_pb2

    one = exported("binary")
    records = str(tmp_path / "examples")
    with tf.io.TFRecordWriter(records) as writer:
        for serialized in one.data.serialized["eval"]:
            writer.write(serialized)
    config = text_format.Parse(
        """
        model_specs { signature_name: "serving_default" label_key: "bought"
                      preprocessing_function_names: "transform_features" }
        slicing_specs {}
        metrics_specs { metrics { class_name: "BinaryCrossEntropy" } metrics { class_name: "ExampleCount" } }
        """,
        config_pb2.EvalConfig(),
    )
    result = tfma.run_model_analysis(
        eval_shared_model=tfma.default_eval_shared_model(one.directory, eval_config=config),
        eval_config=config,
        data_location=records,
        output_path=str(tmp_path / "evaluation"),
    )
    ((_, metrics),) = result.slicing_metrics
    found = {name: value["doubleValue"] for name, value in metrics[""][""].items()}
    truth = np.array([row["bought"][0] for row in one.data.rows["eval"]])
    predictions = one.expected()[:, 0]
    assert found["example_count"] == 500
    assert found["binary_crossentropy"] == pytest.approx(
        -np.log(np.where(truth == 1, predictions, 1 - predictions)).mean(), rel=1e-4
    )


def test_names_become_ones_that_a_signature_takes() -> None:
    names = ["fare", "pickup area (km)", "2nd", "_id", "año", "class", "self", "a b", "a_b", ""]
    assert list(signature_names(names).values()) == [
        "fare", "pickup_area__km_", "x_2nd", "x__id", "a_o", "class_", "self_", "a_b_", "a_b", "x_",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "names", [["a.b", "a_b"], ["2", "x_2"], ["", "x_"], ["class", "class_"], ["a.b", "a b", "a_b"]]
)
def test_a_name_that_a_signature_takes_stays_whatever_other_columns_are_called(names: list[str]) -> None:
    for order in (names, names[::-1]):
        given_names = signature_names(order)
        assert list(given_names) == order
        assert given_names[names[-1]] == names[-1]
        assert len(set(given_names.values())) == len(names)


@given(st.lists(st.text("a_.1", max_size=5) | st.text(max_size=5), max_size=8, unique=True))
def test_any_names_become_different_identifiers(names: list[str]) -> None:
    given_names = list(signature_names(names).values())
    assert len(set(given_names)) == len(names)
    assert all(name.isascii() and name.isidentifier() for name in given_names)
