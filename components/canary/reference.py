"""Whether the exported model answers as the model in the Trainer's memory did: its reference.

verdict, refusal = compare_with_reference(model, Reference(recorded, pairs), features_may_differ=True)

The Trainer recorded the answers (`headrace.trainer.answers`). The same examples, raw, go through the C++ runtime to the
signatures that clients ask. A difference means that other weights, another graph or another preprocessing were
exported.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.components.canary.agreement import compare
from headrace.components.canary.exported_model import ExportedModel
from headrace.components.canary.inputs import texts
from headrace.components.canary.replay import Pairs, replay_model, shown_value
from headrace.components.canary.signatures import Inputs
from headrace.components.canary.verdict import AnswersVerdict, DifferentAnswer
from headrace.trainer.answers import RecordedAnswers
from headrace.trainer.generation import GENERATE
from headrace.trainer.served_model import SCORE

SIGNATURE = "serving_default"
"""The signature whose answers are recorded."""
NO_RECORD = "there is no record of the answers of the Trainer's model, as of a `run_fn` of yours, or it cannot be read"


class Reference(NamedTuple):
    """What the Trainer recorded, None if it recorded nothing, and the examples that it asked."""

    answers: RecordedAnswers | None
    pairs: Pairs

    @property
    def why_not(self) -> str:
        """Why there is nothing to compare with; "" if there is."""
        return NO_RECORD if self.answers is None else self.answers.why_not or self.pairs.why_not


def compare_with_reference(
    model: ExportedModel, reference: Reference, *, features_may_differ: bool
) -> tuple[AnswersVerdict, str]:
    """The verdict on the signature that was recorded and on those with the same outputs, up to the first that differs,
    and why the model is refused; "" if it is not.

    features_may_differ: whether answers may differ where features do, since those are accepted, or have refused the
    model before.
    """
    if reference.why_not or reference.answers is None:
        return AnswersVerdict(skipped=reference.why_not), ""
    total = AnswersVerdict()
    for name in [SIGNATURE, *_others_with(model, reference.answers)]:
        verdict = _compare_signature(model, name, reference.answers, reference.pairs)
        if verdict.differing is not None:
            if features_may_differ and replay_model(model, reference.pairs).differing:
                return AnswersVerdict(
                    skipped="features differ from what Transform wrote, and with them the answers"
                ), ""
            return verdict, _refusal(name, verdict, verdict.differing, model.tolerance)
        if verdict.skipped and name == SIGNATURE:
            return verdict, ""
        total = total if verdict.skipped else total.with_signature(name, verdict)
    return total, ""


def _others_with(model: ExportedModel, recorded: RecordedAnswers) -> list[str]:
    """The other signatures with the recorded outputs; none if TensorFlow's Python, which makes the inputs of some,
    cannot load the model.
    """
    if model.python is None:
        return []
    return [
        name
        for name, signature in model.signatures.items()
        if name not in {SIGNATURE, SCORE, GENERATE} and {*recorded.outputs} <= signature.fetches.keys()
    ]


def _compare_signature(model: ExportedModel, name: str, recorded: RecordedAnswers, pairs: Pairs) -> AnswersVerdict:
    """The verdict on one signature, for the first of the recorded examples or all of them."""
    rows = min(len(pairs.raw), recorded.examples)
    expected = {output: array[:rows] for output, array in recorded.outputs.items()}
    examples = texts(pairs.raw[:rows])
    found = model.outputs(name, examples)
    if isinstance(found, str):
        return AnswersVerdict(skipped=found)
    agree = partial(compare, tolerance=model.tolerance, generated=model.writes_texts)
    largest, differs = agree(expected, found)
    verdict = AnswersVerdict(
        split=recorded.split, examples=rows, difference=largest if math.isfinite(largest) else None
    )
    if not differs:
        return verdict
    again = model.outputs(name, examples)
    if isinstance(again, str) or agree(found, again)[1]:
        return AnswersVerdict(skipped=f"{name} is random: two calls answer differently")
    return verdict.model_copy(update={"differing": _first_difference(expected, found, model.tolerance)})


def _refusal(name: str, verdict: AnswersVerdict, differing: DifferentAnswer, tolerance: float) -> str:
    return (
        f"{name}: its output {differing.output} differs from that of the Trainer's model in memory in"
        f" {differing.rows:,} of {verdict.examples:,} examples of the split {verdict.split}; {tolerance:g} is allowed:"
        f" {differing.words}"
    )


def _first_difference(expected: Inputs, found: Inputs, tolerance: float) -> DifferentAnswer:
    """The first example that differs, in the output of which most examples do."""
    return max(
        (_difference(name, array, found.get(name), tolerance) for name, array in expected.items()),
        key=lambda one: one.rows,
    )


def _difference(name: str, expected: NDArray[Any], found: NDArray[Any] | None, tolerance: float) -> DifferentAnswer:
    if found is None or found.shape != expected.shape or found.dtype != expected.dtype:
        exported = "no such output" if found is None else f"{found.dtype} {[*found.shape]}"
        trained = f"{expected.dtype} {[*expected.shape]}"
        return DifferentAnswer(output=name, rows=len(expected), row=1, trained=trained, exported=exported)
    differs = _differs(expected, found, tolerance).reshape(len(expected), -1)
    rows = np.flatnonzero(differs.any(axis=1))
    if not rows.size:
        return DifferentAnswer(output=name, rows=0, row=0, trained="", exported="")
    row, place = int(rows[0]), int(np.flatnonzero(differs[rows[0]])[0])
    before, now = (array.reshape(len(array), -1)[row, place] for array in (expected, found))
    return DifferentAnswer(
        output=name,
        rows=len(rows),
        row=row + 1,
        place=place + 1 if differs.shape[1] > 1 else None,
        trained=shown_value(before),
        exported=shown_value(now),
    )


def _differs(expected: NDArray[Any], found: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    """Where two arrays of one shape and type differ by more than the tolerance, as `agreement.difference` measures."""
    if not np.issubdtype(expected.dtype, np.inexact):
        return np.asarray(expected != found)
    finite = expected[np.isfinite(expected)]
    most = tolerance * (float(np.abs(finite).max(initial=0.0)) or 1.0)
    with np.errstate(invalid="ignore"):
        near = np.abs(expected - found) <= most
    return np.asarray(~(near | (expected == found) | (np.isnan(expected) & np.isnan(found))))
