"""A model that writes one text from another, from a CSV file to a served model, on a task whose answers are known.

The answer is the source in another language, word by word, and backwards if the column `how` says so.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from command import headrace
from text_run import TextRun

from headrace.components.canary.verdict import CanaryVerdict
from headrace.configs.loading.loader import load
from headrace.pipeline.predict.models import ChosenModel
from headrace.pipeline.serve.rest import BadRequestError, PredictRequest
from headrace.pipeline.serve.server import LoadedModel
from headrace.trainer.export import WEIGHTS
from headrace.trainer.model import build_model
from headrace.trainer.models.encoder_decoder import EncoderDecoder
from headrace.trainer.sections import TrainerSections

pytestmark = pytest.mark.slow

ENGLISH = ["ant", "bear", "cat", "dog", "eel", "fox", "goat", "hen"]
GERMAN = dict(zip(ENGLISH, ["Ameise", "Bär", "Katze", "Hund", "Aal", "Fuchs", "Ziege", "Huhn"], strict=True))
ROWS = 3000
CONFIG = """\
pipeline: {name: animals}
data: {source: {kind: csv, path: pairs.csv}, splits: {train: 7, eval: 1, test: 2}}
label: {key: german, kind: text, words: {lowercase: false, max_tokens: 5}}
features:
  english: {column: text}
  how: {column: vocabulary}
model: {kind: encoder_decoder, units: 48, word_embedding: 24}
train: {epochs: 12, batch_size: 64, learning_rate: 0.008, jit: "off"}
evaluate: {slices: [how], thresholds: {exact_match: {min: 0.9}}}
deploy: {push: serving, canary: {}}
"""


def answer(english: str, how: str) -> str:
    words = [GERMAN[word] for word in english.split()]
    return " ".join(words if how == "forwards" else reversed(words))


def pairs(rows: int, seed: int) -> pd.DataFrame:
    drawn = random.Random(seed)
    english = [" ".join(drawn.choices(ENGLISH, k=drawn.randint(1, 5))) for _ in range(rows)]
    how = [drawn.choice(["forwards", "backwards"]) for _ in range(rows)]
    german = [answer(text, each) for text, each in zip(english, how, strict=True)]
    return pd.DataFrame({"english": english, "how": how, "german": german})


class Story(TextRun):
    """One run."""

    @cached_property
    def signatures(self) -> Any:
        loaded = tf.saved_model.load(str(self.version))
        return _Kept(loaded).signatures

    @cached_property
    def graph(self) -> tft.TFTransformOutput:
        return tft.TFTransformOutput(str(self.done.uri("Transform", "transform_graph")))

    @cached_property
    def classes(self) -> list[str]:
        return ["", *(word.decode() for word in self.graph.vocabulary_by_name("german"))]

    @cached_property
    def model(self) -> EncoderDecoder:
        """The Keras model with the weights that were exported."""
        sections = TrainerSections.of(load(str(self.folder / "animals.yaml")))
        model = build_model(sections, self.graph)
        model.load_weights(self.version / WEIGHTS)
        assert isinstance(model, EncoderDecoder)
        return model

    @cached_property
    def test_split(self) -> list[bytes]:
        return self.serialized("test")

    def texts(self, column: str) -> Iterator[str]:
        for record in self.test_split:
            yield tf.train.Example.FromString(record).features.feature[column].bytes_list.value[0].decode()

    def generate(self, rows: pd.DataFrame, prompts: list[str], length: int, **asked: Any) -> tuple[list[str], Any]:
        out = self.signatures["generate"](
            english=tf.constant(rows["english"].tolist(), tf.string),
            how=tf.constant(rows["how"].tolist(), tf.string),
            prompt=tf.constant(prompts, tf.string),
            length=tf.constant(length),
            temperature=tf.constant(float(asked.get("temperature", 0))),
            top_k=tf.constant(asked.get("top_k", 0)),
            top_p=tf.constant(float(asked.get("top_p", 1))),
            seed=tf.constant(asked.get("seed", 0), tf.int64),
        )
        return [text.decode() for text in out["text"].numpy()], out["words"].numpy()


class _Kept:
    """A loaded model: its signatures do not keep it."""

    def __init__(self, loaded: Any) -> None:
        self.loaded, self.signatures = loaded, loaded.signatures
        _KEPT.append(loaded)


_KEPT: list[Any] = []


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("animals")
    pairs(ROWS, 1).to_csv(folder / "pairs.csv", index=False)
    (folder / "animals.yaml").write_text(CONFIG)
    done = headrace(folder, "run", "animals.yaml")
    assert done.code == 0, done.out + done.err
    return Story(folder, done)


def test_texts_that_were_not_trained_on_are_translated_and_turned(story: Story) -> None:
    new = pairs(300, 2)
    new[["english", "how"]].to_json(story.folder / "new.jsonl", orient="records", lines=True)
    done = headrace(story.folder, "predict", "animals.yaml", "--input", "new.jsonl", "-o", "new.parquet")
    assert done.code == 0, done.err
    found = pd.read_parquet(story.folder / "new.parquet")
    assert found.columns.tolist() == ["english", "how", "prediction"]
    assert np.mean(found["prediction"] == new["german"]) > 0.9
    assert story.evaluation.blessed


def test_evaluation_is_what_numpy_computes_of_every_word(story: Story) -> None:
    parsed = story.signatures["transform_features"](examples=tf.constant(story.test_split))
    labels = parsed["german"].numpy()
    p = tf.nn.softmax(
        story.model.forced({name: parsed[name] for name in ("english", "how")}, tf.constant(labels))
    ).numpy()
    known = labels >= 0
    words, each = labels[known], p[known].astype(np.float64)
    order = np.argsort(-each, axis=1)
    entropy = -np.log(np.clip(each[np.arange(len(words)), words], 1e-7, 1 - 1e-7)).mean()
    is_known = words < len(story.classes)
    metrics = story.evaluation.metrics
    assert metrics["accuracy"] == pytest.approx(np.mean((order[:, 0] == words) & is_known), abs=1e-9)
    assert metrics["top_5_accuracy"] == pytest.approx(
        np.mean((order[:, :5] == words[:, None]).any(axis=1) & is_known), abs=1e-9
    )
    assert metrics["crossentropy"] == pytest.approx(entropy, rel=1e-3)
    assert metrics["perplexity"] == pytest.approx(np.exp(entropy), rel=1e-4)
    exact = np.where(known, p.argmax(axis=2) == labels, True).all(axis=1)
    assert metrics["exact_match"] == pytest.approx(exact.mean())
    assert story.evaluation.example_count == len(story.test_split) > 500
    assert {each.name: each.example_count for each in story.evaluation.slices} == {
        f"how = {how}": sum(one == how for one in story.texts("how")) for how in ("backwards", "forwards")
    }


def test_exact_matches_are_the_texts_that_are_written(story: Story) -> None:
    out = story.signatures["serving_default"](examples=tf.constant(story.test_split))
    written = [text.decode() for text in out["text"].numpy()]
    same = np.mean([one == label for one, label in zip(written, story.texts("german"), strict=True)])
    assert story.evaluation.metrics["exact_match"] == pytest.approx(same)
    assert [b" ".join(word for word in row if word).decode() for row in out["words"].numpy()] == written


def test_greedy_text_is_the_keras_model_asked_word_by_word(story: Story) -> None:
    rows = pairs(40, 3)
    texts, _ = story.generate(rows, [""] * 40, 5)
    examples = [_example(english=row.english, how=row.how) for row in rows.itertuples()]
    parsed = story.signatures["transform_features"](examples=tf.constant(examples))
    read = story.model.read({name: parsed[name] for name in ("english", "how")})
    previous = np.full((40, 1), -1)
    written: list[list[int]] = [[] for _ in range(40)]
    for _ in range(5):
        scores, state = story.model.step(tf.constant(previous, tf.int64), read)
        read = read._replace(state=state)
        previous = keras.ops.convert_to_numpy(scores)[:, 0, :-1].argmax(axis=1)[:, None]
        for row, number in zip(written, previous[:, 0], strict=True):
            row.append(int(number))
    ends = [row.index(0) if 0 in row else 5 for row in written]
    assert texts == [
        " ".join(story.classes[word] for word in row[:end]) for row, end in zip(written, ends, strict=True)
    ]
    assert len(set(ends)) > 2


def test_a_prompt_begins_the_text_and_nothing_follows_its_end(story: Story) -> None:
    rows = pd.DataFrame({"english": ["ant bear cat", "dog eel", "fox"], "how": ["forwards", "backwards", "forwards"]})
    whole, _ = story.generate(rows, ["", "", ""], 9)
    assert whole == ["Ameise Bär Katze", "Aal Hund", "Fuchs"]
    texts, words = story.generate(rows, ["Ameise", "  Aal  ", "Fuchs"], 2)
    assert [" ".join(text.split()) for text in texts] == whole
    assert words.tolist() == [["Bär".encode(), b"Katze"], [b"Hund", b""], [b"", b""]]
    drawn = [story.generate(rows, [""] * 3, 4, temperature=5.0, seed=seed)[0] for seed in (1, 1, *range(2, 8))]
    assert drawn[0] == drawn[1]
    assert any(texts != drawn[0] for texts in drawn)
    only, _ = story.generate(rows, [""] * 3, 9, temperature=2.0, seed=2, top_k=1)
    assert only == whole


def _example(**columns: str | None) -> bytes:
    example = tf.train.Example()
    for name, value in columns.items():
        if value is not None:
            example.features.feature[name].bytes_list.value.append(value.encode())
    return bytes(example.SerializeToString())


def test_labels_are_the_classes_of_their_words_and_an_end_of_those_that_are_not_cut(story: Story) -> None:
    number = {word: place for place, word in enumerate(story.classes)}
    drawn, unknown = random.Random(5), len(story.classes)
    texts: list[str | None] = [None, "", " Hund\t\n Hund ", "hund", "Hund-Katze"]
    texts += [" ".join(drawn.choices([*GERMAN.values(), "zebra"], k=drawn.randint(1, 8))) for _ in range(200)]
    examples = tf.constant([_example(english="ant", how="forwards", german=text) for text in texts])
    found = story.signatures["transform_features"](examples=examples)["german"].numpy().tolist()
    for text, row in zip(texts, found, strict=True):
        words = (text or "").split()
        classes = [number.get(word, unknown) for word in words[:5]]
        expected = classes + [0] * (len(words) <= 5) if text else []
        assert row == expected + [-1] * (6 - len(expected)), text


def test_canary_asks_all_that_is_served_of_examples_and_the_pages_describe_the_model(story: Story) -> None:
    verdict = CanaryVerdict.read(story.done.uri("Canary", "blessing"))
    assert verdict is not None
    asked = {one.name: one.skipped for one in verdict.signatures}
    assert set(asked) == {
        "generate", "score", "serving_default", "serving_raw", "serving_transformed", "transform_features",
    }  # fmt: skip
    assert {name for name, why in asked.items() if why} == {"score"}
    assert {one.not_compared for one in verdict.signatures} == {""}
    assert "only the Evaluator asks it" in asked["score"]
    page = (story.done.folder / "report.html").read_text()
    assert "exact_match" in page
    assert "a text of up to 5 words" in (story.done.folder / "model_card.html").read_text()
    history = json.loads((story.done.uri("Trainer", "model_run") / "training.json").read_text())
    assert {"loss", "val_loss", "val_accuracy", "val_top_5_accuracy", "val_perplexity"} <= set(
        history["epochs"][0]["metrics"]
    )


def test_served_model_answers_records_and_generate(story: Story) -> None:
    served = LoadedModel(ChosenModel(story.version, "animals"))

    def ask(body: dict[str, Any]) -> Any:
        return served.predict(PredictRequest.parse(json.dumps(body).encode()))

    record = {"english": "dog eel", "how": "backwards"}
    assert ask({"instances": [record]}) == {"predictions": [{"prediction": "Aal Hund"}]}
    inputs = {"english": ["fox dog"], "how": ["forwards"], "prompt": ["Fuchs"], "length": 3}
    options = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": 0}
    found = ask({"signature_name": "generate", "inputs": {**inputs, **options}})
    assert found == {"outputs": {"text": ["Fuchs Hund"], "words": [["Hund", "", ""]]}}
    with pytest.raises(BadRequestError) as refused:
        ask({"signature_name": "generate", "inputs": {**inputs, **options, "length": 2**31 - 1}})
    assert str(refused.value).endswith("length: it must be from 0 to 10,000")


def test_another_vocabulary_transforms_again_and_another_model_does_not(story: Story) -> None:
    def reused(override: str) -> set[str]:
        done = headrace(story.folder, "explain-cache", "animals.yaml", "--next", "--json", "--set", override)
        assert done.code == 0, done.err
        return {one["component"] for one in json.loads(done.out)["components"] if "reused" in one["result"]}

    assert {"ExampleGen", "Transform"} & reused("label.words.min_frequency=2") == {"ExampleGen"}
    assert {"Transform", "Trainer"} & reused("model.units=16") == {"Transform"}
