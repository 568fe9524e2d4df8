"""What the Canary asks of `generate`, the signature of a model that writes texts.

made = generation_inputs(signature, examples, description)

Texts begin as those of the examples do, and continue with words that are drawn with a fixed seed. So both runtimes draw
the same words, and the draw checks the probabilities, `temperature`, `top_k` and `top_p`, which an argmax would not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.names import join_names
from headrace.components.canary.inputs import texts
from headrace.components.canary.signatures import RealInputs, Signature, UnmadeError, raw_inputs
from headrace.trainer.description import ModelDescription
from headrace.trainer.generation import GENERATE, INPUT, option_names
from headrace.trainer.request_tensors import signature_names

ASKED: Mapping[str, float] = {"length": 8, "temperature": 1, "top_k": 40, "top_p": 0.95, "seed": 1}
"""What is asked: few words, as each of them costs a call of the model."""
BEGUN = 2
"""Words of its label that every other text begins with, if it is written from another text."""


def is_generation(name: str, description: ModelDescription) -> bool:
    """Whether a signature is the `generate` of a model that Headrace exported."""
    return name == GENERATE and description.label.kind in ("next_word", "text")


def generation_inputs(signature: Signature, examples: NDArray[Any], description: ModelDescription) -> RealInputs:
    """The inputs of `generate` for serialized tf.Examples [n]. Raises UnmadeError."""
    of_columns = description.label.kind == "text"
    options = option_names(signature_names(description.features).values() if of_columns else ())
    given = {name: spec for name, spec in signature.inputs.items() if name not in options.values()}
    columns = raw_inputs(given, examples, description)
    if columns is None or options.values() - signature.inputs.keys():
        raise UnmadeError(f"it takes {join_names(signature.inputs)}, which the examples do not have")
    prompts = _beginnings(examples, description) if of_columns else _texts(examples, _text_column(description))
    rows = {**columns, options["prompt"]: prompts}
    asked = {options[name]: np.asarray(value, INPUT[name].dtype.as_numpy_dtype) for name, value in ASKED.items()}
    return RealInputs({**rows, **asked}, generates=True)


def _text_column(description: ModelDescription) -> str:
    """The column of the text that a next word follows, if the feature is named after it; else any text will do."""
    read = [name for name in description.features if description.types.get(name) == "bytes"]
    if not read:
        raise UnmadeError("no column that the model reads is a text")
    return next((name for name in read if name == description.label.text), read[0])


def _beginnings(examples: NDArray[Any], description: ModelDescription) -> NDArray[Any]:
    """The first words of every other label, and no words of the others: bytes [n]."""
    labels = _texts(examples, description.label.key)
    return texts([b" ".join(text.split()[:BEGUN]) if number % 2 else b"" for number, text in enumerate(labels)])


def _texts(examples: NDArray[Any], column: str) -> NDArray[Any]:
    """The texts of a column, whose values are the pieces of one: bytes [n], b"" for a missing one."""
    parsed = tf.io.parse_example(tf.constant(examples, tf.string), {column: tf.io.RaggedFeature(tf.string)})[column]
    return np.asarray(tf.strings.reduce_join(parsed, axis=1, separator=" ").numpy(), object)
