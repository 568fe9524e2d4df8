"""Importance and partial dependence of lists, long integers and texts, with weights, against NumPy on Python lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.components.evaluation.importance import REPEATS, Explainer, permutations

ROWS = 60
RANDOM = np.random.default_rng(6)
TAGS = [RANDOM.integers(0, 9, RANDOM.integers(0, 4)).tolist() for _ in range(ROWS)]
"""Several values in a row, or none."""
IDS = [[2**53 + int(one)] if number % 7 else [] for number, one in enumerate(RANDOM.integers(0, 4, ROWS))]
"""Integers that float64 does not tell apart, or missing."""
WORDS = [
    [one] if number % 5 else [] for number, one in enumerate(RANDOM.choice([b"caf\xc3\xa9", b"cafe\xcc\x81"], ROWS))
]
"""The same text in two forms of Unicode, or missing."""
WEIGHTS = RANDOM.choice([0.1, 1.0, 5.0], ROWS)
LABELS = RANDOM.normal(size=ROWS)


def model(tags: list[Any], ids: list[Any], words: list[Any]) -> np.ndarray:
    """A prediction of each row, [ROWS], that depends on every digit, byte and missing value."""
    rows = zip(tags, ids, words, strict=True)
    return np.array(
        [sum(t) + (i[0] - 2**53 if i else 7) + (len(w[0]) if w else -3) * (1 + len(t)) for t, i, w in rows], float
    )


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    kinds = {"tags": (TAGS, pa.int64()), "ids": (IDS, pa.int64()), "words": (WORDS, pa.large_binary())}
    batch = pa.RecordBatch.from_pydict(
        {name: pa.array(rows, pa.large_list(kind)) for name, (rows, kind) in kinds.items()}
    )
    return Explainer(
        lambda rows: model(*(column.to_pylist() for column in rows.columns))[:, None],
        lambda found: (found[:, 0] - LABELS) ** 2,
        batch,
        WEIGHTS,
    )


def test_lists_are_permuted_as_wholes_and_missing_values_with_them(explainer: Explainer) -> None:
    columns = {"tags": TAGS, "ids": IDS, "words": WORDS}
    base = np.average((model(**columns) - LABELS) ** 2, weights=WEIGHTS)
    found = {one.column: one for one in explainer.importance([*columns])}
    for name, rows in columns.items():
        grown = []
        for order in permutations(ROWS, REPEATS):
            assert sorted(order) == [*range(ROWS)]
            permuted = {**columns, name: [rows[row] for row in order]}
            grown.append(np.average((model(**permuted) - LABELS) ** 2, weights=WEIGHTS) - base)
        assert found[name].increase == pytest.approx(np.mean(grown))
        assert found[name].error == pytest.approx(np.std(grown, ddof=1) / REPEATS**0.5)


def test_partial_dependence_is_the_weighted_mean_for_every_id_and_spelling(explainer: Explainer) -> None:
    ids = explainer.dependence("ids", classes=False)
    words = explainer.dependence("words", classes=False)
    assert ids is not None
    assert words is not None
    assert ids.values == tuple(str(2**53 + one) for one in range(4))  # as numbers, two of them would be equal
    for one, (mean,) in zip(range(4), ids.predictions, strict=True):
        assert mean == pytest.approx(np.average(model(TAGS, [[2**53 + one]] * ROWS, WORDS), weights=WEIGHTS))
    assert {*words.values} == {"caf\u00e9", "cafe\u0301"}
    for value, (mean,) in zip(words.values, words.predictions, strict=True):
        expected = model(TAGS, IDS, [[str(value).encode()]] * ROWS)
        assert mean == pytest.approx(np.average(expected, weights=WEIGHTS))
    assert explainer.dependence("tags", classes=False) is None
