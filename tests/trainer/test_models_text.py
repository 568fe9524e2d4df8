"""The text model, its own training step, and generation."""

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.configs.schema.features import TextFeature
from headrace.configs.schema.features.unstructured import check_words
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import columns, models
from headrace.trainer.columns import ModelInputs, TextColumn
from headrace.trainer.generation import Generator, most_probable
from headrace.trainer.model import compile_model, precision_policy
from headrace.trainer.models.text import NextWord
from headrace.trainer.preprocessing import with_vocabulary
from headrace.trainer.sections import TrainerSections

VALUES = list("abcdefgh")
TEXT = {"column": "text", "values": VALUES, "oov_buckets": 2}
FEATURES: dict[str, Any] = {
    "said": TEXT,
    "amount": {"column": "numeric"},
    "color": {"column": "vocabulary", "values": ["red", "blue"]},
}
NEXT = {"key": "next", "kind": "next_word", "text": "said"}
LABELS: dict[str, dict[str, Any]] = {
    "binary": {"key": "y", "kind": "binary"},
    "multiclass": {"key": "y", "kind": "multiclass", "classes": 3},
    "multilabel": {"key": "y", "kind": "multilabel", "classes": 3},
    "regression": {"key": "y", "kind": "regression"},
    "next_word": NEXT,
    "multitask": {
        "kind": "multitask",
        "tasks": {"a": {"kind": "regression"}, "b": {"kind": "multiclass", "classes": 3}},
    },
}
LETTERS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Cn", "Co"]), min_size=1, max_size=5)
every_encoder = pytest.mark.parametrize("encoder", ["pooling", "recurrent", "attention"])


def built(label: dict[str, Any], features: dict[str, Any] = FEATURES, **model: Any) -> keras.Model:
    settings = {"kind": "text", "word_embedding": 6, "units": 5, "hidden": [4], **model}
    sections = TrainerSections.from_json(json.dumps({"label": label, "features": features, "model": settings}))
    keras.utils.set_random_seed(2)
    made = columns.build(sections.features)
    inputs = ModelInputs(made, lambda _: 0, sections.model.embedding)
    return models.build(inputs, with_vocabulary(sections.label, made, lambda _: 0), sections.model)


def ragged(rows: list[list[int]]) -> tf.RaggedTensor:
    return tf.ragged.constant(rows, tf.int64, row_splits_dtype=tf.int64)


def batch(rows: list[list[int]]) -> dict[str, Any]:
    count = len(rows)
    return {"said": ragged(rows), "amount": tf.linspace(-1.0, 1.0, count), "color": tf.range(count, dtype=tf.int64) % 4}


ROWS = [[0, 1, 2], [7], [3, 3, 3, 9, 4], [], [8, 5]]


@every_encoder
def test_two_tasks_learn_from_the_same_texts(encoder: str) -> None:
    model = built(LABELS["multitask"], encoder=encoder)
    label = LabelConfig.model_validate_json(json.dumps(LABELS["multitask"]))
    compile_model(model, label, TrainConfig.model_validate({"learning_rate": 0.02}), 1)
    y = np.array([[0.5, 0], [-1, 2], [np.nan, 1], [1, 2], [0, 0]], np.float32)
    losses = [model.train_on_batch(batch(ROWS), y, return_dict=True)["loss"] for _ in range(12)]
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(model(batch(ROWS)).numpy()[:, 1:].sum(axis=1), 1, rtol=1e-5)


@every_encoder
@pytest.mark.parametrize("kind", list(LABELS))
def test_predictions_do_not_depend_on_the_other_texts_of_the_batch(encoder: str, kind: str) -> None:
    model = built(LABELS[kind], encoder=encoder)
    features = batch(ROWS)
    together = model(features).numpy()
    assert together.shape == (
        5,
        {"binary": 1, "multiclass": 3, "multilabel": 3, "regression": 1, "next_word": 9, "multitask": 4}[kind],
    )
    assert np.isfinite(together).all()
    alone = [model({name: tensor[row : row + 1] for name, tensor in features.items()}).numpy()[0] for row in range(5)]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)
    padded = {**features, "said": features["said"].to_tensor(-1, shape=[5, 8])}
    np.testing.assert_allclose(model(padded), together, rtol=1e-4, atol=1e-6)


@every_encoder
def test_loss_of_a_training_step_is_the_mean_over_every_word_from_those_before_it(encoder: str) -> None:
    model, features = built(NEXT, encoder=encoder), batch(ROWS)
    assert isinstance(model, NextWord)
    labels = np.array([5, 8, 0, 2, 1])
    losses = []
    for row, (words, label) in enumerate(zip(ROWS, labels, strict=True)):
        for length in range(1, len(words) + 1):
            one = {name: tensor[row : row + 1] for name, tensor in features.items()} | {
                "said": ragged([words[:length]])
            }
            following = words[length] if length < len(words) else label
            losses.append(-np.log(model(one).numpy()[0, min(following, 8)]))  # 8: what is outside the vocabulary
    loss, predictions = model.loss_and_predictions(features, tf.constant(labels))
    assert float(loss) == pytest.approx(np.mean(losses), rel=1e-5)
    written = [row for row, words in enumerate(ROWS) if words]
    np.testing.assert_allclose(predictions.numpy()[written], model(features).numpy()[written], rtol=1e-4, atol=1e-6)


@every_encoder
def test_model_learns_what_only_its_encoder_can_see(encoder: str) -> None:
    """The word after the next-to-last one follows the alphabet; a mean of all words cannot tell which was last."""
    random = np.random.default_rng(0)
    rows = [list(random.integers(0, 8, random.integers(2, 6))) for _ in range(600)]
    last = np.array([(row[-1] + 1) % 8 for row in rows])
    data = tf.data.Dataset.from_tensor_slices(({"said": ragged(rows)}, last)).batch(100)
    model = built(NEXT, {"said": TEXT}, encoder=encoder, units=24, hidden=[], word_embedding=24)
    sections = TrainConfig(learning_rate=0.03)
    compile_model(
        model, TrainerSections.from_json(json.dumps({"label": NEXT, "features": FEATURES})).label, sections, 1
    )
    before = model.evaluate(data, verbose=0, return_dict=True)
    epochs = model.fit(data, epochs=12, verbose=0).history
    after = model.evaluate(data, verbose=0, return_dict=True)
    assert before["perplexity"] == pytest.approx(9, rel=0.3)
    assert set(epochs) == {"loss", "accuracy", "top_5_accuracy", "perplexity"}
    assert epochs["accuracy"][-1] == pytest.approx(after["accuracy"], abs=0.15)
    if encoder == "pooling":
        assert after["accuracy"] < 0.6
    else:
        assert after["accuracy"] > 0.9
        assert after["perplexity"] < 3


def test_model_learns_a_label_from_a_word_and_another_feature() -> None:
    random = np.random.default_rng(1)
    rows = [list(random.integers(0, 8, random.integers(1, 6))) for _ in range(800)]
    amount = random.normal(size=800).astype(np.float32)
    label = np.array([(3 in row) != (x > 0) for row, x in zip(rows, amount, strict=True)], np.float32)
    features = {"said": ragged(rows), "amount": tf.constant(amount)}
    data = tf.data.Dataset.from_tensor_slices((features, label)).batch(100)
    model = built(LABELS["binary"], {"said": TEXT, "amount": FEATURES["amount"]}, encoder="pooling", hidden=[16])
    assert not isinstance(model, NextWord)
    model.compile(keras.optimizers.Adam(0.03), "binary_crossentropy", metrics=["accuracy"])
    model.fit(data, epochs=25, verbose=0)
    assert model.evaluate(data, verbose=0, return_dict=True)["accuracy"] > 0.95


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_padded_texts_train_in_mixed_precision_compiled_by_xla(precision: Any) -> None:
    text = {**TEXT, "max_tokens": 6, "padded": True, "keep": "last"}
    with precision_policy(precision):
        model = built(NEXT, {**FEATURES, "said": text}, encoder="attention")
    features = batch(ROWS)
    features["said"] = features["said"].to_tensor(-1, shape=[5, 6])
    optimizer = keras.optimizers.Adam(0.01)
    if precision == "mixed_float16":
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=True)
    data = tf.data.Dataset.from_tensor_slices((features, tf.constant([5, 8, 0, 2, 1]))).repeat(8)
    losses = model.fit(data.batch(20, drop_remainder=True), epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.95 * losses[0]


TABLE = np.random.default_rng(5).dirichlet(np.full(9, 0.3), size=9)
"""What follows a word: by the last word in the window alone, and by their number."""


def predict(features: Mapping[str, Any]) -> tf.Tensor:
    said = features["said"]
    rows = said if isinstance(said, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(said, padding=-1)
    last = tf.concat([tf.fill([rows.nrows(), 1], tf.constant(8, tf.int64)), rows], axis=1)[:, -1:].to_tensor()[:, 0]
    return tf.gather(tf.constant(np.roll(TABLE, 1, axis=0), tf.float32), (last + rows.row_lengths()) % 9)


def generator(**settings: Any) -> Generator:
    column = TextColumn("said", TextFeature(column="text", values=tuple(VALUES), keep="last", **settings))

    def transform(prompt: tf.Tensor) -> dict[str, Any]:
        words = tf.strings.split(prompt)
        letters = tf.strings.unicode_decode(words.flat_values, "UTF-8").flat_values
        places = words.with_flat_values(tf.cast(letters - ord("a"), tf.int64))
        if column.feature.max_tokens is not None:
            places = places[:, -column.feature.max_tokens :]
        return {"said": places if column.width is None else places.to_tensor(-1, shape=[None, column.width])}

    return Generator(column, VALUES, transform, predict)


Generate = Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]


@functools.cache
def generation(**settings: Any) -> Generate:
    """Its function, traced once for all tests: that takes as long as 3,000 prompts."""
    scalars = {"length": tf.int32, "temperature": tf.float32, "top_k": tf.int32, "top_p": tf.float32, "seed": tf.int64}
    signature = {name: tf.TensorSpec([], dtype) for name, dtype in scalars.items()}
    signature["prompt"] = tf.TensorSpec([None], tf.string)
    return tf.function(generator(**settings).generate, input_signature=[signature])


def run(
    made: Generate,
    prompt: list[str],
    length: int,
    temperature: float = 0.0,
    seed: int = 0,
    *,
    top: tuple[int, float] = (0, 1.0),
) -> list[list[str]]:
    inputs = {"prompt": tf.constant(prompt), "length": tf.constant(length), "temperature": tf.constant(temperature),
              "top_k": tf.constant(top[0]), "top_p": tf.constant(top[1]),
              "seed": tf.constant(seed, tf.int64)}  # fmt: skip
    out = made(inputs)
    words = [[word.decode() for word in row] for row in out["words"].numpy()]
    texts = [text.decode() for text in out["text"].numpy()]
    assert texts == [" ".join([start, *row]).strip() for start, row in zip(prompt, words, strict=True)]
    return words


@pytest.mark.parametrize("settings", [{}, {"max_tokens": 3}, {"max_tokens": 3, "padded": True}])
def test_greedy_words_are_the_most_probable_known_ones(settings: dict[str, Any]) -> None:
    for prompt in ("a b c d e", "h", ""):
        history, expected = [VALUES.index(word) for word in prompt.split()], []
        for _ in range(6):
            window = history[-3:] if settings else history
            row = np.roll(TABLE, 1, axis=0)[((window[-1] if window else 8) + len(window)) % 9]
            history.append(int(row[:8].argmax()))
            expected.append(VALUES[history[-1]])
        assert run(generation(**settings), [prompt, "b a"], 6)[0] == expected


def test_seed_decides_what_is_drawn_and_temperature_how_evenly() -> None:
    made = generation()
    prompts = ["a"] * 3000
    first, again, other = (run(made, prompts, 2, 1.0, seed) for seed in (7, 7, 8))
    assert first == again
    assert first != other
    row = np.roll(TABLE, 1, axis=0)[1][:8]
    for temperature in (0.5, 1.0, 2.0):
        drawn = [words[0] for words in run(made, prompts, 1, temperature, 3)]
        shares = np.array([drawn.count(word) for word in VALUES]) / len(drawn)
        wanted = row ** (1 / temperature) / np.sum(row ** (1 / temperature))
        np.testing.assert_allclose(shares, wanted, atol=0.04)


@pytest.mark.parametrize("length", [-1, 10_001, 2**31 - 1])
def test_length_that_could_take_all_memory_is_refused(length: int) -> None:
    made = generation()
    with pytest.raises(tf.errors.InvalidArgumentError, match="length: it must be from 0 to 10,000"):
        run(made, ["a"], length)
    assert run(made, ["a"], 0) == [[]]


def restricted(row: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """The distribution that words are drawn from, one word after the other from the most probable down."""
    p = row ** (1 / temperature)
    order = sorted(range(len(p)), key=lambda word: (-p[word], word))[: top_k or None]
    total, reached = p[order].sum(), 0.0
    kept: list[int] = []
    for word in order:
        if kept and reached >= top_p:
            break
        kept.append(word)
        reached += p[word] / total
    found = np.where(np.isin(np.arange(len(p)), kept), p, 0)
    return found / found.sum()


@pytest.mark.parametrize(
    ("temperature", "top"),
    [(1.0, (3, 1.0)), (1.0, (0, 0.6)), (0.7, (5, 0.8)), (2.0, (4, 0.5)), (1.0, (0, 0.0)), (1.5, (99, 0.95))],
)
def test_only_the_most_probable_words_are_drawn_each_as_often_as_among_these(
    temperature: float, top: tuple[int, float]
) -> None:
    wanted = restricted(np.roll(TABLE, 1, axis=0)[1][:8], temperature, *top)
    drawn = [words[0] for words in run(generation(), ["a"] * 3000, 1, temperature, 3, top=top)]
    shares = np.array([drawn.count(word) for word in VALUES]) / len(drawn)
    assert ((shares > 0) == (wanted > 0)).all()
    np.testing.assert_allclose(shares, wanted, atol=0.04)


def test_without_a_restriction_the_same_words_are_drawn_as_with_one_that_leaves_all() -> None:
    made = generation()
    assert run(made, ["a b"] * 50, 4, 1.0, 5) == run(made, ["a b"] * 50, 4, 1.0, 5, top=(8, 1.0))


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=6, max_size=6), min_size=1, max_size=4),
    st.integers(-1, 8),
    st.floats(0, 1, width=32).map(lambda p: p + 0.013),  # never exactly a sum of probabilities
)
@settings(deadline=None, max_examples=60)
def test_words_that_are_left_are_those_of_a_plain_computation(rows: list[list[int]], top_k: int, top_p: float) -> None:
    scores = np.array(rows, np.float32) / 2  # many are equal: of these, the first is more probable
    found = tf.nn.softmax(most_probable(tf.constant(scores), tf.constant(top_k), tf.constant(top_p, tf.float32)))
    wanted = [restricted(np.exp(row.astype(float)), 1.0, max(top_k, 0), min(top_p, 1)) for row in scores]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("split", ["whitespace", "words", "marks"])
@settings(deadline=None)
@given(st.lists(LETTERS | st.text("ab'!_- ", min_size=1, max_size=4), min_size=1, max_size=20, unique=True))
def test_a_word_is_accepted_if_a_text_can_have_it(split: Any, words: list[str]) -> None:
    column = TextColumn("said", TextFeature(column="text", split=split, lowercase=False, hash_buckets=9))
    cut = [[word.decode() for word in row] for row in column.tokens(tf.constant(words)).to_list()]
    for word, found in zip(words, cut, strict=True):
        try:
            check_words([word], lowercase=False, split=split)
        except ValueError:
            assert found != [word]
        else:
            assert found == [word]
