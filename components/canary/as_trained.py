"""Whether the exported model answers as the model in the Trainer's memory did.

verdict = compare_with_trainer(recorded, pairs.raw, ask, tolerance=1e-4)

The Trainer recorded the answers (`headrace.trainer.answers`). The same examples, raw, go through the C++ runtime to the
signature that clients ask. A difference means that other weights, another graph or another preprocessing were exported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.components.canary.agreement import compare
from headrace.components.canary.inputs import texts
from headrace.components.canary.replay import Ask, Pairs, shown_value
from headrace.components.canary.signatures import Inputs
from headrace.components.canary.verdict import AnswersVerdict, DifferentAnswer
from headrace.trainer.answers import RecordedAnswers

SIGNATURE = "serving_default"
"""The signature whose answers are recorded."""
NO_RECORD = "there is no record of the answers of the Trainer's model, as of a `run_fn` of yours, or it cannot be read"


class Trained(NamedTuple):
    """What the Trainer recorded, None if it recorded nothing, and the examples that it asked."""

    answers: RecordedAnswers | None
    pairs: Pairs


def why_not_compared(trained: Trained) -> str:
    """Why there is nothing to compare; "" if there is."""
    if trained.answers is None:
        return NO_RECORD
    return trained.answers.why_not or trained.pairs.why_not


def compare_with_trainer(
    recorded: RecordedAnswers, raw: Sequence[bytes], ask: Ask, tolerance: float, *, generated: bool = False
) -> AnswersVerdict:
    """The verdict on the first examples of a split.

    Args:
        recorded: the answers of the model in memory.
        raw: serialized examples, the first of the recorded ones or all of them.
        ask: the exported model.
        tolerance: as in `agreement.compare`.
        generated: whether the model writes texts.
    """
    rows = min(len(raw), recorded.examples)
    expected = {name: array[:rows] for name, array in recorded.outputs.items()}
    examples = texts(raw[:rows])
    found = ask(examples)
    if isinstance(found, str):
        return AnswersVerdict(skipped=found)
    largest, differs = compare(expected, found, tolerance, generated=generated)
    verdict = AnswersVerdict(
        split=recorded.split, examples=rows, difference=largest if math.isfinite(largest) else None
    )
    if not differs:
        return verdict
    again = ask(examples)
    if isinstance(again, str) or compare(found, again, tolerance, generated=generated)[1]:
        return AnswersVerdict(skipped=f"{SIGNATURE} is random: two calls answer differently")
    return verdict.model_copy(update={"differing": _first_difference(expected, found, tolerance)})


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
