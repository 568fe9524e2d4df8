"""The model that writes one text from another: against a decoder in NumPy, and its generation step by step."""

import json
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.components.evaluation.metrics import LABEL_METRICS
from headrace.components.evaluation.metrics.accumulator import ExampleGroups
from headrace.configs.schema.label import LabelConfig, LabelWords
from headrace.trainer import columns, models
from headrace.trainer.columns import ModelInputs
from headrace.trainer.devices import strategy
from headrace.trainer.devices.machine import Hardware
from headrace.trainer.devices.strategy import choose_strategy
from headrace.trainer.generation import MAX_LENGTH
from headrace.trainer.model import compile_model
from headrace.trainer.models.encoder_decoder import EncoderDecoder, Read
from headrace.trainer.preprocessing import with_vocabulary
from headrace.trainer.sections import TrainerSections
from headrace.trainer.target import END, END_NAME, START, cut
from headrace.trainer.writing import Prompt, Writer

VALUES = list("abcdefgh")
TEXT = {"column": "text", "values": VALUES, "oov_buckets": 2}
FEATURES: dict[str, Any] = {"said": TEXT, "amount": {"column": "numeric"}}
LABEL = {"key": "answer", "kind": "text", "words": {"values": ["u", "v", "w", "x"], "max_tokens": 4}}
CLASSES = 6  # the end, four words, all others
ROWS = [[0, 1, 2], [7], [3, 3, 3, 9, 4], [], [8, 5]]
LABELS = np.array([[1, 2, 0, -1, -1], [0, -1, -1, -1, -1], [4, 5, 4, 1, 0], [3, 0, -1, -1, -1], [2, 2, 2, 2, -1]])
every_attention = pytest.mark.parametrize("attention", ["dot", "additive"])


def sections(features: dict[str, Any] = FEATURES, **model: Any) -> TrainerSections:
    settings = {"kind": "encoder_decoder", "word_embedding": 6, "units": 5, **model}
    return TrainerSections.from_json(json.dumps({"label": LABEL, "features": features, "model": settings}))


def built(features: dict[str, Any] = FEATURES, **model: Any) -> EncoderDecoder:
    given = sections(features, **model)
    keras.utils.set_random_seed(2)
    made = columns.build(given.features)
    inputs = ModelInputs(made, lambda _: 0, given.model.embedding)
    found = models.build(inputs, with_vocabulary(given.label, made, lambda _: 0), given.model)
    assert isinstance(found, EncoderDecoder)
    random = np.random.default_rng(3)
    for weight in found.weights:  # larger than at first, so that every part matters
        weight.assign(random.normal(0, 0.7, weight.shape))
    return found


def ragged(rows: list[list[int]]) -> tf.RaggedTensor:
    return tf.ragged.constant(rows, tf.int64, row_splits_dtype=tf.int64)


def batch(rows: list[list[int]]) -> dict[str, Any]:
    return {"said": ragged(rows), "amount": tf.linspace(-1.0, 1.0, len(rows))}


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


class PlainDecoder:
    """The decoder in NumPy, for one text: no padding, no batch."""

    def __init__(self, model: EncoderDecoder, attention: str) -> None:
        layers = {layer.name: layer.get_weights() for layer in model._parts()[1].layers}
        (self.vectors,), (self.scale,) = layers["target_embedding"], layers["attention"]
        self.input, self.recurrent, self.biases = layers["decoder_gru"]
        (self.attended,), self.attention = layers["attended"], attention
        scores = model._parts()[1].get_layer("logits")
        self.guess: np.ndarray
        self.guess_bias: np.ndarray
        self.guess, self.guess_bias = scores.guess.get_weights()
        self.bias = np.asarray(scores.bias)

    def step(self, previous: int, state: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of the next word, and the state (Cho et al. 2014, with the reset after the product)."""
        own = self.vectors[previous + 1] @ self.input + self.biases[0]
        before = state @ self.recurrent + self.biases[1]
        (z1, r1, h1), (z0, r0, h0) = np.split(own, 3), np.split(before, 3)
        z, r = sigmoid(z1 + z0), sigmoid(r1 + r0)
        state = z * state + (1 - z) * np.tanh(h1 + r * h0)
        fits = self.scale * (memory @ state) if self.attention == "dot" else np.tanh(memory + state) @ self.scale
        found = softmax(fits) @ memory
        attended = np.tanh(np.concatenate([state, found]) @ self.attended)
        guess = attended @ self.guess + self.guess_bias
        return guess @ self.vectors[1:].T + self.bias, state

    def forced(self, label: list[int], state: np.ndarray, memory: np.ndarray) -> np.ndarray:
        rows, previous = [], START
        for word in label:
            scores, state = self.step(previous, state, memory)
            rows.append(scores)
            previous = word
        return np.stack(rows)


def of_row(read: Read, row: int) -> tuple[np.ndarray, np.ndarray]:
    """The state and the memory of one text, without padding."""
    present = np.asarray(read.present[row])
    return np.asarray(read.state[row]), np.asarray(read.memory[row])[present]


@every_attention
def test_scores_of_every_word_are_those_of_a_decoder_in_numpy(attention: str) -> None:
    model = built(attention=attention)
    features = batch(ROWS)
    read, plain = model.read(features), PlainDecoder(model, attention)
    scores = model.forced(features, tf.constant(LABELS)).numpy()
    for row in (0, 1, 2, 4):  # an empty source has nothing to attend to
        label = [word for word in LABELS[row].tolist() if word >= 0]
        np.testing.assert_allclose(scores[row, : len(label)], plain.forced(label, *of_row(read, row)), atol=2e-4)
    first = softmax(scores[:, 0])
    np.testing.assert_allclose(model(features).numpy(), first, atol=1e-5)


@every_attention
def test_predictions_do_not_depend_on_the_other_texts_of_the_batch(attention: str) -> None:
    model, features = built(attention=attention), batch(ROWS)
    together = model.forced(features, tf.constant(LABELS)).numpy()
    assert np.isfinite(together).all()
    for row in range(len(ROWS)):
        one = {name: tensor[row : row + 1] for name, tensor in features.items()}
        alone = model.forced(one, tf.constant(LABELS[row : row + 1])).numpy()[0]
        np.testing.assert_allclose(together[row], alone, rtol=1e-4, atol=1e-5)
    padded = {**features, "said": features["said"].to_tensor(-1, shape=[5, 9])}
    np.testing.assert_allclose(model.forced(padded, tf.constant(LABELS)), together, rtol=1e-4, atol=1e-5)


@every_attention
def test_attention_does_not_see_padding(attention: str) -> None:
    model, features = built(attention=attention), batch(ROWS)
    read = model.read(features)
    noise = tf.where(read.present[..., tf.newaxis], read.memory, 50.0)
    previous = tf.constant([[START, 1, 2]] * 5, tf.int64)
    expected, _ = model.step(previous, read)
    found, _ = model.step(previous, read._replace(memory=noise))
    rows = [row for row, words in enumerate(ROWS) if words]
    np.testing.assert_allclose(found.numpy()[rows], expected.numpy()[rows], rtol=1e-5)


def test_loss_and_metrics_are_over_all_words_and_the_ends() -> None:
    model, features = built(), batch(ROWS)
    compile_model(model, with_classes(), sections().train, 1)
    p = softmax(model.forced(features, tf.constant(LABELS)).numpy().astype(float))
    known = LABELS >= 0
    each = p[known]
    words = LABELS[known]
    losses = -np.log(each[np.arange(len(words)), words])
    order = np.argsort(-each, axis=1)
    right = [(order[:, :k] == words[:, None]).any(axis=1) & (words != CLASSES - 1) for k in (1, 5)]
    data = tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(2)  # batches of other lengths
    found = model.evaluate(data, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(losses.mean(), rel=1e-4)
    assert found["accuracy"] == pytest.approx(right[0].mean())
    assert found["top_5_accuracy"] == pytest.approx(right[1].mean())
    assert found["perplexity"] == pytest.approx(np.exp(losses.mean()), rel=1e-4)
    assert float(model.compute_loss(features, tf.constant(LABELS))) == pytest.approx(losses.mean(), rel=1e-4)


def test_score_returns_what_all_probabilities_amount_to() -> None:
    model, features = built(), batch(ROWS)
    found = Writer(model, (END_NAME, *"uvwx"), 4).score(features, tf.constant(LABELS))["predictions"].numpy()
    p = softmax(model.forced(features, tf.constant(LABELS)).numpy().astype(float))
    for row, place in np.ndindex(LABELS.shape):
        word = LABELS[row, place]
        if word < 0:
            assert found[row, place].tolist() == [0, 0, -1]
            continue
        assert found[row, place, 0] == pytest.approx(p[row, place, word], rel=1e-4)
        ahead = int((p[row, place] > p[row, place, word]).sum())
        assert found[row, place, 1] == (-1 if word == CLASSES - 1 else ahead)
        assert found[row, place, 2] == p[row, place, :-1].argmax()


@pytest.mark.parametrize("rows", [5, 1, 0])
@every_attention
def test_score_computes_the_same_in_slices_of_rows(rows: int, attention: str) -> None:
    model, label = built(attention=attention), tf.constant(LABELS[:rows])
    writer = Writer(model, (END_NAME, *"uvwx"), 4)
    features = batch(ROWS)
    features = {name: tensor[:rows] for name, tensor in features.items()}
    whole = writer.score(features, label)["predictions"].numpy()
    assert whole.shape == (rows, 5, 3)
    score = tf.function(writer.score, autograph=False)
    for most in (1, 60, 70):  # rows at once: one; two, so that the last slice is smaller; no fewer than one
        found = score(features, label, most)["predictions"].numpy()
        np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)


def test_score_holds_no_more_than_a_slice_at_once() -> None:
    """Of 40 rows with 3 places and 6 classes, seven take 126 numbers."""
    seen: list[int] = []

    class Watched(EncoderDecoder):
        def forced_after(self, read: Read, label: tf.Tensor, *, training: bool = False) -> tf.Tensor:
            seen.append(len(label))
            return super().forced_after(read, label, training=training)

    model = built({"said": TEXT}, units=1)
    model.__class__ = Watched
    rows, label = [[0, 1]] * 40, tf.constant([[1, 2, 0, -1, -1]] * 40, tf.int64)
    Writer(model, (END_NAME, *"uvwx"), 4).score({"said": ragged(rows)}, label, 126)
    assert seen == [7, 7, 7, 7, 7, 5]


def test_of_an_unknown_word_that_is_more_probable_the_best_word_is_still_the_right_one() -> None:
    model, features, last = built(), batch(ROWS), CLASSES - 1
    bias = model._parts()[1].get_layer("logits").bias
    bias.assign(bias + 50 * np.eye(CLASSES)[last])
    score = Writer(model, (END_NAME, *"uvwx"), 4).score
    texts = [text.split() for text in written(model, ROWS, [""] * 5, length=4)[0]]
    label = np.full((5, 5), -1)
    for row, words in enumerate(texts):
        classes = [VALUES_OF.index(word) + 1 for word in words] + [END] * (len(words) < 4)
        label[row, : len(classes)] = classes
    found = score(features, tf.constant(label))["predictions"].numpy()
    known = label >= 0
    assert (found[known][:, 1] >= 1).all()
    np.testing.assert_array_equal(found[known][:, 2], label[known])
    metrics = LABEL_METRICS["text"]
    totals = metrics.accumulate(
        ExampleGroups(label.astype(float), found.reshape(5, -1), np.zeros(5, int), 1, np.ones(5))
    )[0].total()
    values = metrics.metrics(totals)
    assert (values["exact_match"], values["accuracy"]) == (1, 0)


def with_classes() -> LabelConfig:
    return with_vocabulary(sections().label, {}, lambda _: 0)


def inputs(length: int, temperature: float = 0.0, seed: int = 0) -> dict[str, tf.Tensor]:
    return {
        "length": tf.constant(length),
        "temperature": tf.constant(temperature),
        "top_k": tf.constant(0),
        "top_p": tf.constant(1.0),
        "seed": tf.constant(seed, tf.int64),
    }


def written(model: EncoderDecoder, rows: list[list[int]], prompts: list[str], **asked: Any) -> tuple[Any, Any]:
    labels = [[VALUES_OF.index(word) + 1 for word in text.split()] + [END] for text in prompts]
    padded = ragged(labels).to_tensor(-1, shape=[None, 5])
    writer = Writer(model, (END_NAME, *VALUES_OF), 4)
    call = tf.function(writer.write, autograph=False)
    features = {name: x for name, x in batch(rows).items() if name in model.input}
    found = call(features, Prompt(tf.constant(prompts, tf.string), padded), inputs(**asked))
    return [text.decode() for text in found["text"].numpy()], found["words"].numpy().astype(str).tolist()


VALUES_OF = list("uvwx")


@every_attention
def test_greedy_text_is_the_most_probable_word_after_word_up_to_the_end(attention: str) -> None:
    model = built(attention=attention)
    bias = model._parts()[1].get_layer("logits").bias
    bias.assign(bias + 4 * np.eye(CLASSES)[END])
    prompts = ["", "u", "w x u", "", "v"]
    texts, words = written(model, ROWS, prompts, length=7)
    read, plain, lengths = model.read(batch(ROWS)), PlainDecoder(model, attention), set()
    for row in (0, 1, 2, 4):
        state, memory = of_row(read, row)
        given, previous = [VALUES_OF.index(word) + 1 for word in prompts[row].split()], START
        expected: list[str] = []
        while len(expected) < 7:
            scores, state = plain.step(previous, state, memory)
            previous = given.pop(0) if given else -2
            if previous == -2:
                previous = int(scores[:-1].argmax())
                if previous == END:
                    break
                expected.append(VALUES_OF[previous - 1])
        assert words[row] == expected + [""] * (7 - len(expected))
        assert texts[row] == " ".join([*prompts[row].split(), *expected])
        lengths.add(len(expected))
    assert len(lengths) > 1  # the texts end at places of their own


def test_serving_writes_what_generate_writes_without_a_prompt() -> None:
    model = built()
    found = Writer(model, (END_NAME, *VALUES_OF), 4).most_probable(batch(ROWS))
    texts, words = written(model, ROWS, [""] * 5, length=4)
    assert [text.decode() for text in found["text"].numpy()] == texts
    assert found["words"].numpy().astype(str).tolist() == words
    assert found["words"].shape == (5, 4)


def test_labels_may_have_more_words_than_a_request_may_ask_for() -> None:
    model, most = built(), MAX_LENGTH + 1
    label = sections().label.model_copy(update={"words": LabelWords(max_tokens=most)})
    assert label.text_feature.max_tokens == most
    bias = model._parts()[1].get_layer("logits").bias
    bias.assign(bias + 100 * np.eye(CLASSES)[END])  # or else it would write all of them
    found = Writer(model, (END_NAME, *VALUES_OF), most).most_probable(batch(ROWS))
    assert found["words"].shape == (5, most)
    assert {*found["words"].numpy().ravel()} == {*found["text"].numpy()} == {b""}
    with pytest.raises(tf.errors.InvalidArgumentError, match="length: it must be from 0 to 10,000"):
        written(model, ROWS, [""] * 5, length=most)


def test_drawn_texts_follow_their_seed_and_none_has_the_unknown_word() -> None:
    model = built({"said": TEXT})
    rows = [[0, 1]] * 300
    first, again, other = (written(model, rows, [""] * 300, length=3, temperature=1.0, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {word for row in first[1] for word in row} <= {*VALUES_OF, ""}
    begun, state, memory = PlainDecoder(model, "dot"), *of_row(model.read({"said": ragged(rows)}), 0)
    p = softmax(begun.step(START, state, memory)[0][:-1])
    shares = np.array([sum(row[0] == word for row in first[1]) for word in ["", *VALUES_OF]]) / 300
    np.testing.assert_allclose(shares, p, atol=0.09)


def test_a_length_of_0_adds_nothing() -> None:
    assert written(built(), [[1], [2]], ["u", ""], length=0) == (["u", ""], [[], []])


def test_model_learns_to_reverse() -> None:
    """What the last word becomes depends on the first, and where the text ends on the source's length."""
    random = np.random.default_rng(0)
    rows = [list(random.integers(0, 4, random.integers(1, 5))) for _ in range(1500)]
    labels = [[word + 1 for word in reversed(row)] + [END] + [-1] * (4 - len(row)) for row in rows]
    data = tf.data.Dataset.from_tensor_slices(({"said": ragged(rows)}, np.array(labels))).batch(50)
    model = built({"said": TEXT}, units=32, word_embedding=16)
    for weight in model.weights:
        weight.assign(weight / 4)
    compile_model(model, with_classes(), sections().train.model_copy(update={"learning_rate": 0.01}), 1)
    epochs: Mapping[str, Any] = model.fit(data, epochs=10, verbose=0).history
    assert set(epochs) == {"loss", "accuracy", "top_5_accuracy", "perplexity"}
    assert model.evaluate(data, verbose=0, return_dict=True)["accuracy"] > 0.98


def test_cut_leaves_the_longest_label() -> None:
    assert cut(tf.constant(LABELS)).shape == (5, 5)
    assert cut(tf.constant(LABELS[:2])).numpy().tolist() == [[1, 2, 0], [0, -1, -1]]


def test_one_device_is_used_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "detect_hardware", lambda: Hardware(gpus=4))
    found = strategy.hardware_for(sections().model)
    assert choose_strategy(sections().train, found).strategy == "one_gpu"


def test_an_empty_vocabulary_is_reported_at_the_label() -> None:
    label = LabelConfig(key="answer", kind="text", words=LabelWords(min_frequency=5))
    with pytest.raises(TrainingError) as caught:
        with_vocabulary(label, {}, lambda _: 0)
    assert str(caught.value).startswith("label.words: the vocabulary ")
    assert "occurs 5 times" in str(caught.value)
    assert "feature" not in str(caught.value)
