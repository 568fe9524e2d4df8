"""A signature that is loaded as TensorFlow Serving loads it predicts what TensorFlow's own loader makes of it."""

import ctypes
import gc
import mmap
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from headrace.components.predict.serving_graph import load
from headrace.components.served_graph import (
    GraphEnds,
    ServedGraph,
    ServedModel,
    only_graph,
    part_of,
    served_model,
)
from headrace.trainer.private_api import add_function, remove_function
from headrace.trainer.served_model import ModelCall

CALL = ModelCall("label")
WORDS = ("red", "green", "blue")
FEATURES = {
    "word": tf.io.FixedLenFeature([], tf.string),
    "text": tf.io.FixedLenFeature([], tf.string),
    "vector": tf.io.FixedLenFeature([3], tf.float32),
    "image": tf.io.FixedLenFeature([], tf.string),
}


class Model(tf.Module):
    """It reads a word of a vocabulary file, a text, a vector and an image."""

    def __init__(self, vocabulary: Path, seed: int) -> None:
        super().__init__()
        words = tf.lookup.TextFileInitializer(
            str(vocabulary),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        self.table = tf.lookup.StaticVocabularyTable(words, 1)
        names = tf.lookup.KeyValueTensorInitializer(tf.range(2, dtype=tf.int64), tf.constant(["no", "yes"]))
        self.names = tf.lookup.StaticHashTable(names, "")
        normal = np.random.default_rng(seed).normal
        self.embedding = tf.Variable(normal(size=(4, 5)).astype(np.float32))
        self.kernel = tf.Variable(normal(size=(10, 2)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, FEATURES)
        pixels = tf.map_fn(tf.io.decode_png, parsed["image"], fn_output_signature=tf.TensorSpec([2, 2, 1], tf.uint8))
        brightness = tf.reduce_mean(tf.cast(pixels, tf.float32) / 255, axis=[1, 2, 3])
        lengths = tf.cast(tf.strings.length(parsed["text"], unit="UTF8_CHAR"), tf.float32)
        tf.debugging.assert_less(lengths, 100.0, "a text is too long")
        words = tf.gather(self.embedding, self.table.lookup(parsed["word"]))
        x = tf.concat([words, parsed["vector"], tf.stack([brightness, lengths / 16], axis=1)], axis=1)
        scores = tf.math.softmax(tf.matmul(x - 0.5, self.kernel))
        return {"predictions": scores, "classes": self.names.lookup(tf.argmax(scores, axis=1))}


def saved(folder: Path, seed: int = 1) -> Path:
    vocabulary = folder / f"words-{seed}"
    vocabulary.write_text("\n".join(WORDS if seed == 1 else reversed(WORDS)) + "\n")
    model = Model(vocabulary, seed)
    tf.saved_model.save(
        model, str(folder / f"model-{seed}"), {"serving_default": model.predict, "other": model.predict}
    )
    vocabulary.unlink()  # the model has a copy
    return folder / f"model-{seed}"


def examples(rows: int = 40) -> tf.Tensor:
    rng = np.random.default_rng(7)
    return tf.constant([example(rng, "ab" * int(rng.integers(1, 9))) for _ in range(rows)])


def example(rng: np.random.Generator, text: str) -> bytes:
    png = tf.io.encode_png(rng.integers(0, 256, (2, 2, 1)).astype(np.uint8)).numpy()
    word = str(rng.choice([*WORDS, "pink"]))
    features = {one: _bytes(value) for one, value in (("word", word.encode()), ("text", text.encode()), ("image", png))}
    features["vector"] = tf.train.Feature(float_list=tf.train.FloatList(value=rng.normal(size=3)))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def expected(folder: Path, given: tf.Tensor, output: str = "predictions") -> np.ndarray:
    return tf.saved_model.load(str(folder)).signatures["serving_default"](examples=given)[output].numpy()


def loaded(folder: Path, call: ModelCall = CALL) -> Any:
    found = load(folder, call)
    assert found is not None
    return found


def test_predictions_equal_those_of_the_whole_model_in_every_bit(tmp_path: Path) -> None:
    folder, given = saved(tmp_path), examples()
    assert loaded(folder)(given).numpy().tobytes() == expected(folder, given).tobytes()
    texts = loaded(folder, ModelCall("label", prediction_key="classes"))(given).numpy()
    assert texts.tolist() == expected(folder, given, "classes").tolist()
    assert set(texts.tolist()) == {b"no", b"yes"}


def test_examples_are_serialized_ones_though_a_feature_has_that_name(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("\n".join(WORDS) + "\n")
    model, given = Model(tmp_path / "words", 1), examples()
    features = tf.function(
        lambda examples: {"examples": tf.strings.length(examples), "label": tf.strings.length(examples)},
        input_signature=[tf.TensorSpec([None], tf.string, name="examples")],
    )
    signatures = {"serving_default": model.predict, "transform_features": features}
    tf.saved_model.save(model, str(tmp_path / "model"), signatures)
    assert loaded(tmp_path / "model")(given).numpy().tobytes() == expected(tmp_path / "model", given).tobytes()


def test_models_with_the_same_names_do_not_share_variables_and_tables(tmp_path: Path) -> None:
    folders, given = [saved(tmp_path, seed) for seed in (1, 2)], examples()
    predictors = [loaded(folder) for folder in folders]
    wanted = [expected(folder, given) for folder in folders]
    assert np.abs(wanted[0] - wanted[1]).max() > 0.01
    for _ in range(2):
        for predict, values in zip(predictors, wanted, strict=True):
            assert predict(given).numpy().tobytes() == values.tobytes()
    del predict
    predictors.pop(0)
    gc.collect()
    assert predictors[0](given).numpy().tobytes() == wanted[1].tobytes()


def test_variables_are_freed_with_the_predictions(tmp_path: Path) -> None:
    predict = loaded(saved(tmp_path))
    handles = [one for one in predict._graph.fixed if one.dtype == tf.resource]
    assert len(handles) >= 4  # two variables, two tables
    del predict
    gc.collect()
    for handle in handles:
        with pytest.raises(tf.errors.NotFoundError):
            tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)


def test_an_assertion_of_the_signature_is_an_error(tmp_path: Path) -> None:
    predict, given = loaded(saved(tmp_path)), examples().numpy().tolist()
    long = example(np.random.default_rng(1), "a" * 101)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a text is too long"):
        predict(tf.constant([*given, long]))
    with pytest.raises(tf.errors.InvalidArgumentError):
        predict(tf.constant([b"no example"]))
    assert predict(tf.constant(given)).shape == (40, 2)


def test_lost_variables_are_an_error(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    shutil.rmtree(folder / "variables")
    with pytest.raises(tf.errors.OpError):
        load(folder, CALL)


@pytest.mark.parametrize("lost", ["variables", "assets"])
def test_nothing_of_a_model_stays_that_cannot_be_loaded(tmp_path: Path, lost: str) -> None:
    folder = saved(tmp_path)
    meta = only_graph(folder)
    ends = GraphEnds.of(meta, folder)
    graph = part_of(meta.graph_def, [*ends.all, *(one.name for one in meta.signature_def["other"].inputs.values())])
    shutil.rmtree(folder / lost)  # the vocabulary is read when all variables have values
    with pytest.raises(tf.errors.OpError):
        ServedGraph(graph, ends)
    functions = {node.attr["f"].func.name for node in graph.node if node.op == "StatefulPartitionedCall"}
    assert functions
    assert not any(map(context.context().has_function, functions))
    names = [node.attr["shared_name"].s.decode() for node in graph.node if node.op == "VarHandleOp"]
    assert len(names) >= 2
    for name in names:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name=name)
        assert not tf.raw_ops.VarIsInitializedOp(resource=handle).numpy()


def test_what_only_the_loader_of_tensorflow_can_load_is_left_to_it(tmp_path: Path) -> None:
    assert load(tmp_path, CALL) is None  # an empty folder
    folder = saved(tmp_path)
    assert load(folder, ModelCall("label", signature_name="unknown")) is None
    assert load(folder, ModelCall("label", prediction_key="unknown")) is None
    shutil.copytree(folder, tmp_path / "damaged")
    (tmp_path / "damaged" / "saved_model.pb").write_bytes(b"\xffnot a model")
    assert load(tmp_path / "damaged", CALL) is None

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def double(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": 2 * x}

    module = tf.Module()
    tf.saved_model.save(module, str(tmp_path / "numbers"), {"serving_default": double})
    assert load(tmp_path / "numbers", CALL) is None


def test_a_keras_model_whose_functions_name_variables_is_left_to_the_loader_of_tensorflow(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.predict_texts = tf.function(
        lambda examples: {"predictions": model(tf.strings.to_number(examples)[:, None])},
        input_signature=[tf.TensorSpec([None], tf.string, name="examples")],
    )
    tf.saved_model.save(model, str(tmp_path / "keras"), {"serving_default": model.predict_texts})
    found, given = load(tmp_path / "keras", CALL), tf.constant(["1", "2.5"])
    wanted = expected(tmp_path / "keras", given)
    assert found is None or found(given).numpy().tobytes() == wanted.tobytes()


def test_a_function_in_the_runtime_is_called_by_its_name_until_it_is_removed() -> None:
    graph = tf.function(lambda x: 2 * x).get_concrete_function(tf.TensorSpec([], tf.float32)).function_def
    graph.signature.name = "headrace_test_double"
    add_function(graph)
    node = tf.compat.v1.NodeDef(name="y", op="PartitionedCall", input=["x"])
    node.attr["f"].func.name = graph.signature.name
    for key in ("Tin", "Tout"):
        node.attr[key].list.type.append(tf.float32.as_datatype_enum)

    def call(x: tf.Tensor) -> tf.Tensor:
        return tf.graph_util.import_graph_def(tf.compat.v1.GraphDef(node=[node]), {"x": x}, ["y:0"])[0]

    wrapped = tf.compat.v1.wrap_function(call, [tf.TensorSpec([], tf.float32)])
    assert wrapped(tf.constant(3.0)).numpy() == 6
    remove_function(graph.signature.name)
    again = tf.compat.v1.wrap_function(call, [tf.TensorSpec([], tf.float32)])
    with pytest.raises(tf.errors.OpError):
        again(tf.constant(3.0))


def served(folder: Path, *names: str) -> ServedModel:
    found = served_model(folder, names)
    assert found is not None
    return found


def test_a_served_model_answers_as_one_that_tensorflow_loads(tmp_path: Path) -> None:
    folder, given = saved(tmp_path), examples()
    model, wanted = served(folder, "serving_default", "missing"), tf.saved_model.load(str(folder))
    assert [*model.signatures] == ["serving_default"]
    signature, whole = model.signatures["serving_default"], wanted.signatures["serving_default"]
    assert signature.structured_input_signature[1].keys() == whole.structured_input_signature[1].keys()
    assert {name: (one.dtype, [*one.shape]) for name, one in signature.structured_outputs.items()} == {
        name: (one.dtype, [*one.shape]) for name, one in whole.structured_outputs.items()
    }
    answers, expected_answers = signature(examples=given), whole(examples=given)
    assert answers.keys() == expected_answers.keys() == {"predictions", "classes"}
    found, numbers = answers["predictions"].numpy(), expected_answers["predictions"].numpy()
    np.testing.assert_allclose(found, numbers, 1e-6)  # the last bit: TensorFlow rewrites the graph of one of them
    assert answers["classes"].numpy().tolist() == expected_answers["classes"].numpy().tolist()
    some = signature.of(["classes"])(examples=given)
    assert [*some] == ["classes"]
    assert some["classes"].numpy().tolist() == expected_answers["classes"].numpy().tolist()
    with pytest.raises(tf.errors.InvalidArgumentError):
        signature(examples=tf.constant([b"no example"]))
    long = example(np.random.default_rng(1), "a" * 101)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a text is too long"):
        signature.of(["classes"])(examples=tf.constant([long]))


@pytest.mark.slow
def test_nothing_of_a_served_model_stays_in_memory(tmp_path: Path) -> None:
    folder, given = saved(tmp_path), examples()

    def used_after(loads: int) -> int:
        """Bytes."""
        for _ in range(loads):
            served(folder, "serving_default").signatures["serving_default"](examples=given)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * mmap.PAGESIZE

    before = used_after(3)
    grown = used_after(8) - before
    assert grown < 3e6, f"{grown / 8:,.0f} bytes of each"


def test_tables_are_filled_after_the_variables_that_they_are_made_of(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("\n".join(WORDS) + "\n")
    model = Model(tmp_path / "words", 1)
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.predict})
    meta = only_graph(tmp_path / "model")
    ends = GraphEnds.of(meta, tmp_path / "model")
    graph = part_of(meta.graph_def, ends.all)
    ServedGraph(graph, ends)
    inputs = {node.name: list(node.input) for node in graph.node}
    calls = [
        inputs[one.removeprefix("^")] for one in inputs[ends.fill[0]] if "Call" in one and one != f"^{ends.restore}"
    ]
    filling = [own for own in calls if own]  # the others create a table
    assert len(filling) == 2  # a vocabulary and names
    assert all(f"^{ends.restore}" in own for own in filling)


def test_a_model_of_tensorflow_1_or_with_sparse_outputs_is_not_served(tmp_path: Path) -> None:
    assert served_model(tmp_path, ["serving_default"]) is None  # an empty folder
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.string, [None])
        scale = tf.compat.v1.get_variable("scale", [], use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer())
        y = scale * tf.strings.to_number(x)
        tf.compat.v1.saved_model.simple_save(session, str(tmp_path / "v1"), {"examples": x}, {"predictions": y})
    assert served_model(tmp_path / "v1", ["serving_default"]) is None

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def total(x: tf.Tensor) -> dict[str, Any]:
        return {"predictions": tf.reduce_sum(x, 1), "sparse": tf.sparse.from_dense(x)}

    module = tf.Module()
    tf.saved_model.save(module, str(tmp_path / "sparse"), {"serving_default": total})
    assert served_model(tmp_path / "sparse", ["serving_default"]) is None
