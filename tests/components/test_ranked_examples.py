"""The examples that an evaluation keeps: the same whatever the batches and the workers."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.components.evaluation import ranked_examples as module
from headrace.components.evaluation.importance import permutations
from headrace.components.evaluation.ranked_examples import EXAMPLES, RankedExamples


@given(
    ranks=st.lists(st.sampled_from([-2.0, -1.0, 0.0, 3.0, np.nan]), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    most=st.integers(1, 8),
)
def test_batches_and_groups_do_not_change_what_is_kept(ranks: list[float], cuts: list[int], most: int) -> None:
    edges = sorted({0, len(ranks), *(min(cut, len(ranks)) for cut in cuts)})
    each = np.array(ranks)
    parts = [RankedExamples.of(most, each[start:end], {"row": np.arange(start, end)}) for start, end in pairwise(edges)]
    lowest_first = sorted(range(len(ranks)), key=lambda row: (-np.inf if np.isnan(ranks[row]) else ranks[row], row))
    grouped = [parts[0].merge(parts[1:2]), *parts[2:]] if len(parts) > 1 else parts
    assert grouped[0].merge(grouped[1:]).columns["row"].tolist() == lowest_first[:most]


def test_long_examples_are_kept_up_to_a_limit_but_always_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)

    def of(*sizes: int) -> Any:
        made = np.empty(len(sizes), object)
        made[:] = [bytes(size) for size in sizes]
        return RankedExamples.of(10, np.arange(len(sizes)), {EXAMPLES: made})

    assert len(of(40, 40, 20, 1)) == 3
    assert len(of(500, 1)) == 1
    whole = of(40, 70, 20)
    assert len(whole) == 1  # a prefix, so that groups keep what the whole would


def test_permutations_are_of_all_rows_and_differ() -> None:
    first, second = permutations(50, 2)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first.tolist() != second.tolist()
