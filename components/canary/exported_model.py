"""The exported model as its canary asks it: in TensorFlow's Python, and in the process with the C++ runtime.

model = ExportedModel(serving_dir, caller)
model.outputs("serving_default", examples)      # of C++: {"predictions": float32 [n, 1]}, or why there are none
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.canary.caller import Answer, Caller, first_line
from headrace.components.canary.generation import generation_inputs, is_generation
from headrace.components.canary.signatures import (
    Inputs,
    RealInputs,
    Signature,
    UnmadeError,
    computes_in_half,
    make_inputs,
    read_signatures,
)
from headrace.trainer.description import ModelDescription

TOLERANCE = 1e-4
"""Of float32 answers, relative to the largest number of an output: the two runtimes fuse other operations and so round
otherwise, which a model of many layers amplifies. Whole numbers and texts must be equal."""
HALF_TOLERANCE = 0.02
"""The same for a model that computes in 16 bits, of which bfloat16 keeps two decimal digits."""


class ExportedModel:
    """A SavedModel.

    signatures: by name; description: None if a run_fn of the user's exported it; writes_texts: whether its answers are
    texts; tolerance: of its numbers; python: the model in Python, None if it cannot be loaded; load_error: why not.
    """

    def __init__(self, folder: Path, caller: Caller) -> None:
        self.folder, self._caller = folder, caller
        self.signatures = read_signatures(folder)
        self.description = _description(folder)
        self.writes_texts = self.description is not None and self.description.label.kind == "text"
        self.tolerance = HALF_TOLERANCE if computes_in_half(folder) else TOLERANCE
        self.python, self.load_error = _load(folder)

    def make_inputs(self, signature: Signature, examples: NDArray[Any]) -> RealInputs:
        """The inputs of a signature for serialized tf.Examples [n]. Raises UnmadeError."""
        description = self.description
        try:
            if description is not None and is_generation(signature.name, description):
                return generation_inputs(signature, examples, description)
            return make_inputs(signature, self.python, examples, description)
        except tf.errors.OpError as error:
            reason = first_line(str(error.message))
            raise UnmadeError(f"its inputs cannot be computed from the examples: {reason}") from error

    def request(self, signature: Signature, inputs: Inputs) -> Answer:
        """Ask the process. A request that lacks an input is refused, as TensorFlow Serving refuses it, before the model
        is asked (`VerifyRequestInputsSize` in its predict_util.cc).
        """
        if missing := sorted(signature.feeds.keys() - inputs.keys()):
            return Answer("refused", f"the request lacks {join_names(missing)}")
        return self._caller.ask(signature.tensors(inputs), list(signature.fetches.values()))

    def request_each(self, signature: Signature, inputs: Inputs, rows: int) -> list[Answer]:
        """Ask the process with one row after the other, until one is not answered. The answers have no arrays."""
        return self._caller.ask_each(signature.tensors(inputs), list(signature.fetches.values()), rows)

    def outputs(self, name: str, examples: NDArray[Any]) -> Inputs | str:
        """What a signature answers in the process for serialized tf.Examples [n], by name, or why it does not."""
        signature = self.signatures.get(name)
        if signature is None:
            return f"the model has no signature {name}"
        try:
            made = self.make_inputs(signature, examples)
        except UnmadeError as error:
            return f"{name}: {error}"
        answer = self.request(signature, made.inputs)
        if answer.outcome != "answered":
            return f"{name}: the examples were not answered ({answer.outcome}): {answer.detail}"
        return dict(zip(signature.fetches, answer.arrays, strict=True))

    def python_outputs(self, name: str, inputs: Inputs) -> Inputs | str:
        """What a signature answers in TensorFlow's Python, by name, or why it does not."""
        try:
            answers = self.python.signatures[name](**{key: tf.constant(array) for key, array in inputs.items()})
        except (tf.errors.OpError, TypeError, ValueError) as error:
            return f"TensorFlow's Python does not answer either: {first_line(str(error))}"
        return {key: np.asarray(tensor) for key, tensor in answers.items()}


def _description(folder: Path) -> ModelDescription | None:
    try:
        return ModelDescription.read(folder)
    except RunError:  # a run_fn of the user's exported it
        return None


def _load(folder: Path) -> tuple[Any, str]:
    """The model in Python, or None and why there is none to compare with."""
    try:
        return tf.saved_model.load(str(folder)), ""
    except (OSError, ValueError, tf.errors.OpError) as error:
        return None, f"TensorFlow's Python cannot load the model: {first_line(str(error))}"
