"""Columns that give the label away, by measures that are compared with NumPy and pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from column_facts import facts
from hypothesis import given
from hypothesis import strategies as st

from headrace.components.inference.facts import facts_of
from headrace.components.inference.leaks import average_ranks, determines, rank_correlation, separation
from headrace.components.inference.sample import Sample
from headrace.components.inference.table import infer
from headrace.components.sources.types import Kind


def column_of(values: Sequence[Any]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values)])


def test_a_column_that_stands_for_the_label_is_found() -> None:
    label, alive = ["no", "yes", "no"] * 9, [0, 1, 0] * 9
    assert determines(column_of(alive), column_of(label), facts(alive, "int"), facts(label, "string"))
    label[2], label[5] = "", ""
    assert determines(column_of(alive), column_of(label), facts(alive, "int"), facts(label, "string"))
    alive[0] = 1
    assert not determines(column_of(alive), column_of(label), facts(alive, "int"), facts(label, "string"))


PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=60)


@given(PAIRS)
def test_separation_is_the_share_of_pairs_in_order(rows: list[tuple[int, int]]) -> None:
    values, labels = (np.array(column) for column in zip(*rows, strict=True))
    positive, negative = values[labels > 4], values[labels <= 4]
    expected = 0.5
    if len(positive) and len(negative):
        above = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
        expected = max(above, 1 - above)
    assert separation(values, labels > 4) == pytest.approx(expected)


@given(PAIRS)
def test_ranks_and_their_correlation_are_those_of_pandas(rows: list[tuple[int, int]]) -> None:
    table = pd.DataFrame(rows, columns=["x", "y"])
    np.testing.assert_array_equal(average_ranks(table.x.to_numpy()), table.x.rank())
    varies = table.nunique().min() > 1
    expected = table.x.rank().corr(table.y.rank()) if varies else 0.0
    assert rank_correlation(table.x.to_numpy(), table.y.to_numpy()) == pytest.approx(expected)


def test_numbers_that_nearly_give_the_label_away_are_kept_with_a_suspicion() -> None:
    rng = np.random.default_rng(5)
    label, price = rng.integers(0, 2, 500), rng.lognormal(0, 1, 500)
    columns = {"label": label, "tip": label + rng.normal(0, 0.3, 500), "price": price, "log_price": -np.log(price)}
    columns |= {"fare": rng.normal(0, 1, 500)}
    sample = Sample(pa.table(columns), {"label": "int", **dict.fromkeys([*columns][1:], "float")}, whole=True)
    of_label = {choice.column: choice.suspicion for choice in infer(sample, "label").choices}
    assert "AUC of 0.9" in of_label["tip"]
    assert not any(of_label[name] for name in ("price", "log_price", "fare"))
    of_price = {choice.column: choice for choice in infer(sample, "price").choices}
    assert "rank correlation of -1.000" in of_price["log_price"].suspicion
    assert of_price["log_price"].group == "numbers"
    assert not any(of_price[name].suspicion for name in ("label", "tip", "fare"))


def test_integers_beyond_those_of_float64_are_compared_with_the_label_by_their_order() -> None:
    rng = np.random.default_rng(8)
    label = rng.integers(0, 2, 300)
    columns = {"label": label, "size": 2**53 + rng.integers(0, 99, 300)}
    columns["cost"] = 2**60 + 7 * label + rng.integers(0, 5, 300)  # float64 has multiples of 256 there
    sample = Sample(pa.table(columns), dict.fromkeys(columns, "int"), whole=True)
    of_label = {choice.column: choice.suspicion for choice in infer(sample, "label").choices}
    assert "AUC of 1.000" in of_label["cost"]
    assert not of_label["size"]
    columns["price"] = columns["cost"] * 2 + 1
    sample = Sample(pa.table(columns), dict.fromkeys(columns, "int"), whole=True)
    of_price = {choice.column: choice.suspicion for choice in infer(sample, "cost").choices}
    assert not of_price["size"]


def test_values_and_gaps_that_give_the_label_away_are_kept_with_a_suspicion() -> None:
    rng = np.random.default_rng(6)
    gone = rng.random(600) < 0.3
    some = rng.random(600) < 0.5
    columns: dict[str, Any] = {
        "gone": gone.astype(int),
        "days": [int(day) if leaves else None for day, leaves in zip(rng.integers(1, 99, 600), gone, strict=True)],
        "share": np.where(gone, rng.random(600), np.nan),
        "why": np.where(gone, np.where(some, "price", "quality"), ""),
        "state": np.where(gone, np.where(some, "ended", "lapsed"), np.where(some, "open", "new")),
        "offers": [["a"] if leaves else [] for leaves in gone],
        "gaps": [int(day) if has else None for day, has in zip(rng.integers(1, 99, 600), some, strict=True)],
        "plan": np.where(some, "basic", "team"),
    }
    kinds: dict[str, Kind] = {"gone": "int", "days": "int", "share": "float", "why": "string", "state": "string"}
    kinds |= {"offers": "string list", "gaps": "int", "plan": "string"}
    found = {one.column: one for one in infer(Sample(pa.table(columns), kinds, whole=True), "gone").choices}
    for name in ("days", "share", "why", "offers"):
        assert "AUC of 1.000 by whether" in found[name].suspicion
        assert found[name].features
    assert "alone reaches an AUC of 1.000" in found["state"].suspicion
    assert not found["gaps"].suspicion
    assert not found["plan"].suspicion


def test_a_column_with_gaps_may_stand_for_the_label() -> None:
    label = pa.chunked_array([[0, 1] * 50])
    for gaps, expected in ((10, True), (49, True), (60, False)):
        column = pa.chunked_array([[*[None] * gaps, *(["no", "yes"] * 50)[gaps:]]])
        of_column, of_label = facts_of("x", "string", column), facts_of("y", "int", label)
        assert determines(column, label, of_column, of_label) is expected
