"""Columns of several values, and texts: through Transform, training and export, against plain Python."""

import json
import re
from types import SimpleNamespace
from typing import Any, NamedTuple

import beam_here
import farmhash
import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format
from ragged_lists import lists_of
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types import artifact_utils, standard_artifacts

from headrace.common.errors import TrainingError
from headrace.components.transform.component import Executor
from headrace.trainer import columns
from headrace.trainer.model import build_model
from headrace.trainer.run import run_fn
from headrace.trainer.sections import TrainerSections

SCHEMA = """
    feature { name: "tags" type: BYTES } feature { name: "codes" type: INT } feature { name: "said" type: BYTES }
    feature { name: "themes" type: BYTES } feature { name: "amount" type: FLOAT } feature { name: "label" type: INT }
"""
several = {"multivalued": True}
text = {"column": "text", "key": "said"}
FEATURES: dict[str, dict[str, Any]] = {
    "amount": {"column": "numeric", "normalize": "none", "missing": 0.0},
    "tags": {"column": "vocabulary", **several, "top_k": 3, "oov_buckets": 2, "embedding": 3},
    "tags_filled": {"column": "vocabulary", **several, "key": "tags", "missing": "b", "embedding": 3},
    "tags_given": {"column": "vocabulary", **several, "key": "tags", "values": ["c", "a"], "embedding": "one_hot",
                   "combiner": "sqrtn"},
    "tags_hashed": {"column": "hashed", **several, "key": "tags", "hash_buckets": 7, "combiner": "sum", "embedding": 2},
    "codes": {"column": "identity", **several, "num_buckets": 5, "combiner": "sqrtn", "embedding": 3},
    "codes_filled": {"column": "identity", **several, "key": "codes", "num_buckets": 5, "missing": 2, "deep": False},
    "codes_hashed": {"column": "hashed", **several, "key": "codes", "hash_buckets": 9, "wide": False, "embedding": 2},
    "themes": {"column": "vocabulary", **several, "separator": "|", "embedding": 3},
    "themes_hashed": {"column": "hashed", **several, "key": "themes", "separator": "|", "hash_buckets": 7,
                      "missing": "?", "wide": False, "deep": False},
    "first_tag": {"column": "vocabulary", "key": "tags", "embedding": 3},
    "said": {**text, "split": "words", "min_frequency": 40, "embedding": 3},
    "said_marks": {**text, "split": "marks", "hash_buckets": 50, "max_tokens": 4, "keep": "last", "embedding": 2},
    "said_padded": {**text, "values": ["the", "cat."], "oov_buckets": 3, "max_tokens": 3, "padded": True,
                    "embedding": 3},
    "said_case": {**text, "multivalued": True, "lowercase": False, "hash_buckets": 50, "wide": False, "deep": False},
}  # fmt: skip
CONFIG = {
    "label": {"key": "label", "kind": "binary"},
    "features": FEATURES,
    "model": {"kind": "wide_and_deep", "hidden": [4]},
    "train": {"epochs": 1, "batch_size": 64, "learning_rate": 0.01},
}
WORDS = ["The", "cat.", "sat", "on", "a", "mat,", "über", "naïve-ish", "東京", "a_b", "$5", "...", "The"]
GAPS = [" ", "\n ", "\u00a0", "\u3000", "\t"]
LEAST = -(2**63)
# TensorFlow's optimizer would take half of the time; the session below runs the signatures optimized
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("as_they_are")]

Row = dict[str, list[Any]]


def make_rows(count: int, seed: int) -> list[Row]:
    """Rows with no value, one, several, the same twice, missing ones among others, and codes out of range."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for number in range(count):
        tags = [str(tag) for tag in rng.choice(["a", "b", "c", "d", "東", ""], rng.integers(0, 5))]
        codes = [int(code) for code in rng.choice([0, 1, 2, 3, 4, 7, -1, LEAST], rng.integers(0, 4))]
        pieces = [
            "".join(f"{rng.choice(WORDS)}{rng.choice(GAPS)}" for _ in range(rng.integers(0, 7)))
            for _ in range(rng.integers(0, 3))
        ]
        themes = "|".join(rng.choice(["Comedy", " Film noir ", "ドラマ", "", " "], rng.integers(0, 4)))
        rows.append({"tags": tags, "codes": codes, "said": pieces, "themes": [themes] * (number % 5 > 0),
                     "amount": [float(number % 3)],
                     "label": [int(tags.count("a") > 0)]})  # fmt: skip
    return rows


def serialized(row: Row) -> bytes:
    features = tf.train.Features()
    for name, values in row.items():
        kind = {"amount": "float_list", "codes": "int64_list", "label": "int64_list"}.get(name, "bytes_list")
        if values:
            encoded = [value.encode() if isinstance(value, str) else value for value in values]
            getattr(features.feature[name], kind).value.extend(encoded)
    return tf.train.Example(features=features).SerializeToString()


class Story(NamedTuple):
    """One run of Transform and one of the Trainer."""

    rows: dict[str, list[Row]]
    serialized: dict[str, list[bytes]]
    output: tft.TFTransformOutput
    files: dict[str, list[str]]
    model: keras.Model
    directory: str
    loaded: Any

    def expected(self, split: str = "eval") -> dict[str, Any]:
        return wanted(self.rows["train"], self.rows[split])

    def predicted(self) -> np.ndarray:
        """By the model in memory, of the features worked out in Python."""
        features = {
            name: plain(values) if FEATURES[name].get("padded") or not isinstance(values[0], list)
            else tf.ragged.constant(values, tf.int64, row_splits_dtype=tf.int64)
            for name, values in self.expected().items()
        }  # fmt: skip
        return np.asarray(self.model(features, training=False))

    def signature(self, name: str) -> Any:
        return self.loaded.signatures[name]


def fingerprint(value: str, buckets: int) -> int:
    return int(farmhash.fingerprint64(value)) % buckets


def most_frequent(values: list[str], top: int | None = None, often: int = 1) -> list[str]:
    counts = [(values.count(value), value.encode()) for value in set(values) if value]
    return [value.decode() for count, value in sorted(counts, reverse=True) if count >= often][:top]


def place(value: str, vocabulary: list[str], buckets: int) -> int:
    return vocabulary.index(value) if value in vocabulary else len(vocabulary) + fingerprint(value, buckets)


def tokens(row: Row, how: str) -> list[str]:
    """As the documentation of `column: text` has it, with Python's own rules for Unicode."""
    first = row["said"][0] if row["said"] else ""
    if how == "case":
        return " ".join(row["said"]).split()
    if how == "words":
        return re.sub(r"[^\w\s]", "", first.lower()).split()
    return re.sub(r"([^\w\s])", r" \1 ", first.lower()).split() if how == "marks" else first.lower().split()


def themes(rows: list[Row]) -> list[list[str]]:
    """What stands between the separators of the one text of each row."""
    cut = [row["themes"][0].split("|") if row["themes"] else [] for row in rows]
    return [[theme.strip() for theme in row if theme.strip()] for row in cut]


def wanted(train: list[Row], rows: list[Row]) -> dict[str, Any]:
    """The features of some rows, in plain Python."""
    tags = [[tag for tag in row["tags"] if tag] for row in rows]
    codes = [[code for code in row["codes"] if code != LEAST] for row in rows]
    known = [[code for code in row if 0 <= code < 5] for row in codes]
    first = [row["tags"][0] if row["tags"] else "" for row in rows]
    train_tags = [[tag for tag in row["tags"] if tag] for row in train]
    best = most_frequent([tag for row in train_tags for tag in row], 3)
    filled = most_frequent([tag for row in train_tags for tag in row or ["b"]])
    firsts = most_frequent([row["tags"][0] if row["tags"] else "" for row in train])
    subjects = most_frequent([theme for row in themes(train) for theme in row])
    words = most_frequent([word for row in train for word in tokens(row, "words")], often=40)
    three = [[place(word, ["the", "cat."], 3) for word in tokens(row, "plain")[:3]] for row in rows]
    return {
        "amount": [float(row["amount"][0]) for row in rows],
        "tags": [[place(tag, best, 2) for tag in row] or [5] for row in tags],
        "tags_filled": [[place(tag, filled, 1) for tag in row or ["b"]] for row in tags],
        "tags_given": [[place(tag, ["c", "a"], 1) for tag in row] or [3] for row in tags],
        "tags_hashed": [[fingerprint(tag, 7) for tag in row] or [7] for row in tags],
        "themes": [[place(theme, subjects, 1) for theme in row] or [len(subjects) + 1] for row in themes(rows)],
        "themes_hashed": [[fingerprint(theme, 7) for theme in row or ["?"]] for row in themes(rows)],
        "codes": [row or [5] for row in known],
        "codes_filled": [row or [2] for row in known],
        "codes_hashed": [[fingerprint(str(code), 9) for code in row] or [9] for row in codes],
        "first_tag": [place(tag, firsts, 1) if tag else len(firsts) + 1 for tag in first],
        "said": [[place(word, words, 1) for word in tokens(row, "words")] for row in rows],
        "said_marks": [[fingerprint(word, 50) for word in tokens(row, "marks")[-4:]] for row in rows],
        "said_padded": [row + [-1] * (3 - len(row)) for row in three],
        "said_case": [[fingerprint(word, 50) for word in tokens(row, "case")] for row in rows],
    }


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("several")
    rows = {"train": make_rows(400, 1), "eval": make_rows(90, 2)}
    examples = {split: [serialized(row) for row in some] for split, some in rows.items()}
    for split, some in examples.items():
        (folder / "raw" / f"Split-{split}").mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "raw" / f"Split-{split}" / "data-0.gz"), "GZIP") as file:
            list(map(file.write, some))
    (folder / "schema").mkdir()
    schema = text_format.MessageToString(text_format.Parse(SCHEMA, schema_pb2.Schema()))
    (folder / "schema" / "schema.pbtxt").write_text(schema)
    artifacts = {
        "examples": standard_artifacts.Examples(), "schema": standard_artifacts.Schema(),
        "transform_graph": standard_artifacts.TransformGraph(), "transformed_examples": standard_artifacts.Examples(),
    }  # fmt: skip
    for artifact, name in zip(artifacts.values(), ("raw", "schema", "graph", "transformed"), strict=True):
        artifact.uri = str(folder / name)
    artifacts["examples"].split_names = artifact_utils.encode_split_names(["train", "eval"])
    artifacts["examples"].set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    config = {"label": CONFIG["label"], "features": FEATURES}
    properties = {
        "preprocessing_fn": "headrace.trainer.preprocessing.preprocessing_fn",
        "custom_config": json.dumps({"config": json.dumps(config)}),
        "disable_statistics": 1,
        "force_tf_compat_v1": 0,
    }
    context = Executor.Context(make_beam_pipeline_fn=beam_here.pipeline)
    read, written = ({key: [artifacts[key]] for key in keys} for keys in (list(artifacts)[:2], list(artifacts)[2:]))
    Executor(context).Do(read, written, properties)
    files = {split: [str(folder / "transformed" / f"Split-{split}" / "*")] for split in rows}
    sections = TrainerSections.from_json(json.dumps(CONFIG))
    run_fn(SimpleNamespace(
        custom_config={"config": sections.to_json()}, transform_output=str(folder / "graph"),
        train_files=files["train"], eval_files=files["eval"],
        serving_model_dir=str(folder / "serving"), model_run_dir=str(folder / "run"),
    ))  # fmt: skip
    output = tft.TFTransformOutput(str(folder / "graph"))
    model = build_model(sections, output)
    model.load_weights(folder / "run" / "best.weights.h5")
    serving = str(folder / "serving")
    return Story(rows, examples, output, files, model, serving, tf.saved_model.load(serving))


def lists(values: Any) -> Any:
    return lists_of(values) if isinstance(values, tf.RaggedTensor) else np.asarray(values).tolist()


@pytest.mark.parametrize("split", ["train", "eval"])
def test_features_in_the_written_graph_are_what_their_rules_say(story: Story, split: str) -> None:
    layer = story.output.transform_features_layer()
    raw = tf.io.parse_example(tf.constant(story.serialized[split]), story.output.raw_feature_spec())
    found = layer(raw)
    for name, values in story.expected(split).items():
        assert lists(found[name]) == values, name


def test_transformed_examples_parse_to_the_same_ragged_features(story: Story) -> None:
    spec = story.output.transformed_feature_spec()
    records = tf.data.TFRecordDataset(tf.io.gfile.glob(story.files["eval"]), "GZIP").batch(1000)
    parsed = tf.io.parse_example(next(iter(records)), spec)
    for name, values in story.expected().items():
        assert lists(parsed[name]) == values, name
    assert isinstance(spec["tags"], tf.io.RaggedFeature)
    assert spec["said_padded"].shape == [3]


def test_parts_of_the_model_are_pooled_embeddings_and_sums_of_weights(story: Story) -> None:
    """Of the trained model: each feature's own rows of the tables, combined as its config says."""
    layers = {layer.name: layer for layer in story.model.layers}
    expected = story.expected()
    assert {name for name in layers if name.startswith(("pooled", "multi", "wide"))} == {
        "pooled_3_mean", "pooled_2_mean", "pooled_2_sum", "pooled_3_sqrtn", "multi_hot_sqrtn",
        "wide", "wide_terms", "wide_sums", "wide_numbers",
    }  # fmt: skip
    scale = {"mean": -1.0, "sum": 0.0, "sqrtn": -0.5}
    for layer, names in {"pooled_3_mean": ["tags", "tags_filled", "themes", "said", "said_padded"],
                         "pooled_2_mean": ["codes_hashed", "said_marks"], "pooled_2_sum": ["tags_hashed"],
                         "pooled_3_sqrtn": ["codes"]}.items():  # fmt: skip
        parts = []
        for number, name in enumerate(names):
            table, how = layers[layer].rows_of(number), scale[layer.rpartition("_")[2]]
            ids = [[one for one in row if one >= 0] for row in expected[name]]
            parts.append([table[row].sum(axis=0) * max(len(row), 1) ** how for row in ids])
        found = layers[layer]([dense(expected[name]) for name in names])
        np.testing.assert_allclose(found, np.concatenate(parts, axis=1), rtol=1e-5, atol=1e-6, err_msg=layer)
    counts = np.array([np.bincount(row, minlength=4) / len(row) ** 0.5 for row in expected["tags_given"]])
    np.testing.assert_allclose(layers["multi_hot_sqrtn"]([dense(expected["tags_given"])]), counts, rtol=1e-6)
    names = [name for name, one in FEATURES.items() if one.get("wide", True) and name not in {"amount", "first_tag"}]
    table = layers["wide_sums"]
    assert np.abs(table.rows_of(0)).max() > 0  # it has learned
    sums = sum(
        np.array([table.rows_of(number)[[one for one in row if one >= 0]].sum(axis=0) for row in expected[name]])
        for number, name in enumerate(names)
    )
    np.testing.assert_allclose(table([dense(expected[name]) for name in names]), sums, rtol=1e-5, atol=1e-6)


def plain(values: list[Any]) -> tf.Tensor:
    """A feature as one tensor, rows of several values filled up."""
    return tf.constant(dense(values)) if isinstance(values[0], list) else tf.constant(np.array(values, type_of(values)))


def type_of(values: list[Any]) -> type:
    return np.float32 if isinstance(values[0], float) else np.int64


def dense(rows: list[list[int]]) -> np.ndarray:
    width = max(map(len, rows))
    return np.array([row + [-1] * (width - len(row)) for row in rows])


def test_model_takes_ragged_and_padded_rows_alike(story: Story) -> None:
    padded = {name: plain(values) for name, values in story.expected().items()}
    np.testing.assert_allclose(np.asarray(story.model(padded)), story.predicted(), rtol=1e-5, atol=1e-6)


def test_every_signature_predicts_what_the_model_in_memory_does(story: Story) -> None:
    rows, expected = story.rows["eval"], story.predicted()
    assert expected.std() > 0.01
    examples = tf.constant(story.serialized["eval"])
    raw = {
        "tags": padded_raw([row["tags"] for row in rows], ""),
        "codes": padded_raw([row["codes"] for row in rows], LEAST),
        "themes": padded_raw([row["themes"] for row in rows], ""),
        "said": padded_raw([row["said"] for row in rows], ""),
        "amount": np.array([row["amount"][0] for row in rows], np.float32),
    }
    features = {name: plain(values).numpy() for name, values in story.expected().items()}
    feeds: dict[str, dict[str, Any]] = {
        "serving_default": {"examples": examples}, "serving_raw": raw, "serving_transformed": features,
    }  # fmt: skip
    for name, inputs in feeds.items():
        found = story.signature(name)(**{key: tf.constant(value) for key, value in inputs.items()})["predictions"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)
    transformed = story.signature("transform_features")(examples=examples)
    for name, values in features.items():
        np.testing.assert_array_equal(transformed[name], values, name)
    feeds["serving_default"] = {"examples": story.serialized["eval"]}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # as in C++
        graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], story.directory)
        signatures = {name: graph.signature_def[name] for name in feeds}
        answers = session.run(
            {name: signature.outputs["predictions"].name for name, signature in signatures.items()},
            {
                signatures[name].inputs[key].name: value
                for name, inputs in feeds.items()
                for key, value in inputs.items()
            },
        )
    for name, found in answers.items():
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)


def padded_raw(rows: list[list[Any]], missing: Any) -> np.ndarray:
    """As a client sends them, with one place more than it needs."""
    width = max(map(len, rows)) + 1
    kind = object if missing == "" else np.int64
    return np.array([row + [missing] * (width - len(row)) for row in rows], kind)


def test_numbers_with_fractions_are_not_text() -> None:
    column = columns.build(TrainerSections.from_json(json.dumps(CONFIG)).features)["said"]
    with pytest.raises(TrainingError, match=r"features\.said: .*'said' .*fractional numbers"):
        column.transform(columns.Batch({"said": tf.constant([1.5])}, {"said": column}))


def test_request_without_any_value_is_served(story: Story) -> None:
    nothing = {"tags": tf.constant([[]], tf.string, [1, 0]), "codes": tf.constant([[]], tf.int64, [1, 0]),
               "themes": tf.constant([[" | "]]), "said": tf.constant([[""]]),
               "amount": tf.constant([float("nan")])}  # fmt: skip
    found = story.signature("serving_raw")(**nothing)["predictions"]
    empty = story.signature("serving_default")(examples=tf.constant([b""]))["predictions"]
    np.testing.assert_allclose(found, empty, rtol=1e-6)
