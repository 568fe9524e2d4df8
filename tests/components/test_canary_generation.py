"""The canary on `generate`, the signature of models that write texts: what is asked, and what must be equal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import forks
import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.components.canary.agreement import compare
from headrace.components.canary.examination import Limits, examine
from headrace.components.canary.generation import generation_inputs
from headrace.components.canary.inputs import texts
from headrace.components.canary.signatures import read_signatures
from headrace.components.canary.verdict import SignatureVerdict
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.description import ModelDescription
from headrace.trainer.generation import INPUT, checked_length, choose

WORDS = ["a", "b", "c", "d", "e", "f"]
PROBABILITIES = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05], np.float32)
Tensors = dict[str, tf.Tensor]


def example(**columns: list[str]) -> bytes:
    made = tf.train.Example()
    for name, values in columns.items():
        made.features.feature[name].bytes_list.value.extend(value.encode() for value in values)
    return bytes(made.SerializeToString())


NEXT_WORD = [example(words=["the", f"word{number}"], place=[f"p{number}"]) for number in range(60)]


def drawn(inputs: Tensors) -> Tensors:
    """Texts of words with the same probabilities at each place."""
    rows, length = tf.size(inputs["prompt"]), checked_length(inputs)

    def word(step: tf.Tensor) -> tf.Tensor:
        seed = tf.stack([inputs["seed"], tf.cast(step, tf.int64)])
        return choose(tf.tile(PROBABILITIES[np.newaxis], [rows, 1]), inputs, seed)

    ids = tf.map_fn(word, tf.range(length), fn_output_signature=tf.TensorSpec([None], tf.int64))
    words = tf.gather(tf.constant(WORDS), tf.transpose(ids))
    added = tf.strings.reduce_join(words, axis=1, separator=" ")
    return {"text": tf.strings.join([inputs["prompt"], added], " "), "words": words}


def saved(folder: Path, generate: Callable[[Tensors], Tensors], named: Mapping[str, tf.TensorSpec], label: Any) -> Path:
    """A SavedModel with a signature `generate`, described as Headrace's exports are."""
    archive = keras.export.ExportArchive()
    archive.track(tf.Module())
    archive.add_endpoint("serving_default", lambda examples: {"n": tf.strings.length(examples)}, [EXAMPLES])
    archive.add_endpoint("generate", generate, [dict(named)])
    archive.write_out(str(folder), verbose=False)
    types = {"words": "bytes", "place": "bytes", "english": "bytes", "prompt": "bytes", "german": "bytes"}
    features = ("place", "words") if label["kind"] == "next_word" else ("english", "prompt")
    ModelDescription(label=LabelConfig.model_validate(label), types=types, features=features).write(folder)
    return folder


def test_the_same_words_are_drawn_with_any_number_of_threads(tmp_path: Path) -> None:
    program = tmp_path / "draws.py"
    program.write_text(
        "import sys\n"
        "import numpy as np, tensorflow as tf\n"
        "from headrace.trainer.generation import choose\n"
        "tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))\n"
        "rows = np.random.default_rng(7).dirichlet(np.full(5000, 0.1), 60).astype(np.float32)\n"
        "asked = {'temperature': tf.constant(1.0), 'top_k': tf.constant(0), 'top_p': tf.constant(1.0)}\n"
        "print(choose(tf.constant(rows), asked, tf.constant([1, 2], tf.int64)).numpy().tolist())\n"
    )
    found = []
    for threads in ("1", "4"):
        done = forks.run([sys.executable, str(program), threads], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    rows = np.random.default_rng(7).dirichlet(np.full(5000, 0.1), 60).astype(np.float32)
    at = tf.random.stateless_uniform([60, 1], [1, 2], dtype=tf.float64, alg="philox").numpy()
    reached = np.cumsum(rows.astype(np.float64) / rows.sum(axis=1, keepdims=True), axis=1)
    expected = [int(np.searchsorted(row, place, side="right")) for row, place in zip(reached, at[:, 0], strict=True)]
    assert np.mean(np.array(found[0]) == expected) > 0.95  # rounding decides about very few
    assert len(set(found[0])) > 30


EXAMPLES = tf.TensorSpec([None], tf.string, name="examples")
LABEL = {"key": "next_word", "kind": "next_word", "text": "words"}


def of_generate(model: Path, limits: Limits | None = None) -> tuple[bool, SignatureVerdict, tuple[str, ...]]:
    verdict = examine(model, NEXT_WORD, limits or Limits())
    (one,) = [one for one in verdict.signatures if one.name == "generate"]
    return verdict.passed, one, verdict.reasons


def test_drawn_texts_are_asked_with_real_prompts_and_equal_in_both_runtimes(tmp_path: Path) -> None:
    passed, one, reasons = of_generate(saved(tmp_path / "model", drawn, INPUT, LABEL), Limits(latency_p99_ms=1e9))
    assert (passed, reasons, one.skipped, one.not_compared) == (True, (), "", "")
    assert (one.examples, one.difference, one.p99_ms) == (60, 0, None)
    outcomes = {odd.what: odd.outcome for odd in one.odd}
    assert outcomes["an empty batch"] == outcomes["1,000 rows"] == outcomes["huge strings"] == "answered"
    assert outcomes["missing features"] == outcomes["wrong types"] == "refused"
    assert outcomes["negative options"] == outcomes["huge options"] == "refused"
    assert outcomes["options that are NaN"] in {"answered", "refused"}


def test_texts_that_differ_in_cpp_refuse_the_model(tmp_path: Path) -> None:
    def of_process(inputs: Tensors) -> Tensors:
        here = tf.size(tf.io.matching_files(f"/proc/self/task/{os.getpid()}"))  # 1 in this process, 0 in others
        return {"text": tf.strings.join([inputs["prompt"], tf.strings.as_string(here)])}

    passed, _, reasons = of_generate(saved(tmp_path / "model", of_process, INPUT, LABEL))
    assert not passed
    assert [reason.startswith("generate: its output text differs") for reason in reasons] == [True]


def test_a_draw_without_the_seed_is_not_compared(tmp_path: Path) -> None:
    tf.random.set_seed(None)

    def at_random(inputs: Tensors) -> Tensors:
        number = tf.random.uniform(tf.shape(inputs["prompt"]), maxval=1 << 30, dtype=tf.int32)
        return {"text": tf.strings.join([inputs["prompt"], tf.strings.as_string(number)])}

    passed, one, _ = of_generate(saved(tmp_path / "model", at_random, INPUT, LABEL))
    assert (passed, "random" in one.not_compared, one.difference) == (True, True, None)


def test_prompts_are_those_of_the_data(tmp_path: Path) -> None:
    model = saved(tmp_path / "next", drawn, INPUT, LABEL)
    made = generation_inputs(read_signatures(model)["generate"], texts(NEXT_WORD[:2]), ModelDescription.read(model))
    assert next(iter(made.inputs)) == "prompt"
    assert made.inputs["prompt"].tolist() == [b"the word0", b"the word1"]
    assert {name: array.dtype for name, array in made.inputs.items() if name != "prompt"} == {
        name: spec.dtype.as_numpy_dtype for name, spec in INPUT.items() if name != "prompt"
    }


def test_columns_named_as_an_option_are_columns_and_texts_begin_as_their_labels(tmp_path: Path) -> None:
    named = {name: spec for name, spec in INPUT.items() if name != "prompt"}
    columns = {name: tf.TensorSpec([None], tf.string, name) for name in ("english", "prompt", "prompt_")}

    def generate(inputs: Tensors) -> Tensors:
        return {"text": tf.strings.join([inputs["prompt_"], inputs["english"], inputs["prompt"]])}

    model = saved(tmp_path / "text", generate, {**named, **columns}, {"key": "german", "kind": "text"})
    rows = [example(english=["dog eel"], prompt=["p"], german=["Hund Aal Fuchs"]) for _ in range(2)]
    made = generation_inputs(read_signatures(model)["generate"], texts(rows), ModelDescription.read(model))
    assert {name: array.tolist() for name, array in made.inputs.items() if array.ndim} == {
        "english": [b"dog eel"] * 2,
        "prompt": [b"p"] * 2,
        "prompt_": [b"", b"Hund Aal"],
    }


@pytest.mark.parametrize(
    ("found", "tolerance", "differs"),
    [
        ([[b"a", b"c"]] * 4, 1e-4, True),
        ([[b"a", b"c"]] * 4, 0.02, False),
        ([[b"a"]] * 4, 0.02, True),
        ([[b"a", b"c"]] * 3, 0.02, True),
    ],
)
def test_of_words_drawn_by_rounded_numbers_the_number_is_compared(
    found: list[list[bytes]], tolerance: float, differs: bool
) -> None:
    expected = {"words": np.array([[b"a", b"b"]] * 4, object)}
    _, differing = compare(expected, {"words": np.array(found, object)}, tolerance, generated=True, drawn=True)
    assert bool(differing) == differs
