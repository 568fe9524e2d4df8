"""Stratified splits: each split has the same share of every class, as closely as the rows of a class allow."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from beam_runs import same_with_beam
from hypothesis import given
from hypothesis import strategies as st
from messages import says
from sklearn.model_selection import StratifiedShuffleSplit

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import IngestResult, ingest
from headrace.components.example_gen.shards.stratified_split import StratifiedSplit, apportion, hashes_by_class
from headrace.components.example_gen.span_store import SpanStore
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import ParquetSource

SHARES = {"train": 8, "eval": 1, "test": 1}
SPLITS = [*SHARES]


def rows(labels: Any, first: int = 0) -> pa.Table:
    return pa.table({"row": np.arange(first, first + len(labels)), "y": labels})


def run(path: str, folder: Path, store: Path | None = None, **settings: Any) -> IngestResult:
    data = DataConfig(source=ParquetSource(kind="parquet", path=path), stratify="y", **settings)
    return ingest(data, find_spans(data), folder, lambda _work: serial_map, SpanStore(store))


def split_of_rows(folder: Path) -> dict[int, str]:
    found = {}
    for split in SPLITS:
        files = sorted(map(str, (folder / f"Split-{split}").iterdir()))
        for record in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            found[feature["row"].int64_list.value[0]] = split
    return found


def table_of(labels: np.ndarray, splits: dict[int, str], first: int = 0) -> np.ndarray:
    """Rows of each class in each split: int [classes, splits]."""
    count = Counter((label, splits[first + row]) for row, label in enumerate(labels.tolist()))
    return np.array([[count[label, split] for split in SPLITS] for label in np.unique(labels).tolist()])


def share_deviation(table: np.ndarray) -> float:
    """The largest difference between the share of a class in a split and in all rows."""
    return float(np.abs(table / table.sum(axis=0) - table.sum(axis=1, keepdims=True) / table.sum()).max())


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=30),
    st.sampled_from([(8, 1, 1), (70, 15, 15), (1, 1), (5, 3, 2, 7)]),
    st.integers(0, 30_000),
)
def test_counts_are_the_shares_rounded_up_or_down(sizes: list[int], shares: tuple[int, ...], span: int) -> None:
    counts = apportion(np.array(sizes), shares, span)
    ideal = np.outer(sizes, np.array(shares) / sum(shares))
    assert (counts >= 0).all()
    assert (counts.sum(axis=1) == sizes).all()
    last = len(shares) - 1
    assert (np.abs(counts - ideal)[:, last] < 1 + 1e-6).all()
    assert (np.abs(counts - ideal) < 1 + last * max(shares) / sum(shares)).all()
    assert np.abs(counts.sum(axis=0) - ideal.sum(axis=0)).max() < 1 + last


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_of_all_rows_each_split_gets_a_row_of_each_class_that_has_enough(sizes: list[int]) -> None:
    counts = apportion(np.array(sizes), (8, 1, 1))
    assert (counts.sum(axis=1) == sizes).all()
    assert (counts[np.array(sizes) >= 3] >= 1).all()


@pytest.mark.parametrize("size", [1, 3, 5])
def test_rare_rows_of_many_spans_get_their_shares(size: int) -> None:
    """A class of a few rows a day: each split gets its share over any month, and not none or a whole row a day."""
    days = np.array([apportion(np.array([size, 300]), (8, 1, 1), 20_000 + day)[0] for day in range(365)])
    for first in (0, 100, 300):
        month = days[first : first + 60].sum(axis=0)
        assert np.abs(month - 60 * size * np.array([0.8, 0.1, 0.1])).max() <= 3


def test_a_rare_label_is_divided_as_scikit_learn_does(tmp_path: Path) -> None:
    """500 rows, of which 1% are positive, and three classes of other sizes."""
    labels = np.random.default_rng(5).permutation(np.repeat([0, 1, 2, 3], [375, 5, 90, 30]))
    pq.write_table(rows(labels), tmp_path / "a.parquet")
    found = run(str(tmp_path / "a.parquet"), tmp_path / "out")
    ours = table_of(labels, split_of_rows(tmp_path / "out"))
    theirs = np.zeros((4, 3), int)
    first = StratifiedShuffleSplit(1, test_size=50, random_state=0)
    rest, test = next(first.split(labels, labels))
    train, evaluated = next(StratifiedShuffleSplit(1, test_size=50, random_state=0).split(rest, labels[rest]))
    for place, chosen in enumerate((rest[train], rest[evaluated], test)):
        theirs[:, place] = np.bincount(labels[chosen], minlength=4)
    assert ours.sum(axis=0).tolist() == pytest.approx([400, 50, 50], abs=2)
    assert share_deviation(ours) <= share_deviation(theirs) + 0.002
    assert (ours[1] >= 1).all()
    assert found.gaps == []
    plain = DataConfig(source=ParquetSource(kind="parquet", path=str(tmp_path / "a.parquet")))
    ingest(plain, find_spans(plain), tmp_path / "plain", lambda _work: serial_map)
    assert share_deviation(table_of(labels, split_of_rows(tmp_path / "plain"))) > 3 * share_deviation(ours)


def test_a_row_has_its_split_whatever_the_order_of_rows_and_files(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    labels = pa.array([[None, "a", "b"][which] for which in random.choice(3, 400, p=[0.02, 0.08, 0.9])])
    table = rows(labels)
    pq.write_table(table, tmp_path / "one.parquet")
    shuffled = table.take(random.permutation(400))
    for part in range(4):
        pq.write_table(shuffled.slice(part * 100, 100), tmp_path / f"part-{part}.parquet", row_group_size=7)
    run(str(tmp_path / "one.parquet"), tmp_path / "one")
    run(str(tmp_path / "part-*.parquet"), tmp_path / "four")
    assert split_of_rows(tmp_path / "one") == split_of_rows(tmp_path / "four")


def test_equal_rows_stay_together() -> None:
    same = pa.record_batch({"y": ["a"] * 70 + ["b"] * 30, "x": [0] * 70 + [*range(10)] * 3})
    split = StratifiedSplit.of("y", 0, [hashes_by_class([same], "y", 0)], SHARES)
    numbers = split.numbers(same)
    assert len({*numbers[:70].tolist()}) == 1
    assert (numbers[70:80] == numbers[80:90]).all()
    assert Counter(numbers.tolist()) == {
        place: count
        for place, split_name in enumerate(SPLITS)
        if (count := sum(own[split_name] for own in split.rows.values()))
    }


def test_a_class_without_enough_rows_is_named(tmp_path: Path) -> None:
    labels = np.repeat(["common", "rare", "lone"], [100, 2, 1])
    pq.write_table(rows(labels), tmp_path / "a.parquet")
    (line,) = run(str(tmp_path / "a.parquet"), tmp_path / "out").gaps
    assert says(line, "too few rows …'y': 'rare' (2 rows, none in")
    assert "'lone' (1 row, none in" in line
    assert "common" not in line


def test_rows_of_a_span_keep_their_split_when_another_arrives(tmp_path: Path) -> None:
    labels = np.random.default_rng(7).choice(2, 1500, p=[0.97, 0.03])
    days = [labels[start : start + 300] for start in range(0, 1500, 300)]
    path, seen = str(tmp_path / "{SPAN}.parquet"), dict[int, str]()
    for day, own in enumerate(days):
        pq.write_table(rows(own, 300 * day), tmp_path / f"{day}.parquet")
        found = run(path, tmp_path / "out", tmp_path / "store", window="all")
        now = split_of_rows(tmp_path / "out")
        assert now.items() >= seen.items()
        assert found.read == f"read now: {day}"
        seen = now
    table = table_of(labels, seen)
    assert np.abs(table - table.sum(axis=1, keepdims=True) * [0.8, 0.1, 0.1]).max() < 4


def test_eval_is_cut_from_train_class_by_class(tmp_path: Path) -> None:
    labels = {"train": np.repeat([0, 1], [180, 9]), "test": np.repeat([0, 1], [5, 5])}
    for split, own in labels.items():
        pq.write_table(rows(own, 1000 * (split == "test")), tmp_path / f"{split}.parquet")
    paths: Any = {split: str(tmp_path / f"{split}.parquet") for split in labels}
    data = DataConfig(source=ParquetSource(kind="parquet", path=paths), stratify="y")
    ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    splits = split_of_rows(tmp_path / "out")
    assert table_of(labels["train"], splits).tolist() == [[160, 20, 0], [8, 1, 0]]
    assert table_of(labels["test"], splits, 1000).tolist() == [[0, 0, 5], [0, 0, 5]]


@pytest.mark.parametrize(
    ("values", "what"),
    [([1.0, float("nan"), 2.5], "2.5 has a fraction"), ([[1], [2]], "the column holds lists")],
)
def test_values_that_are_no_classes_are_refused(values: list[Any], what: str) -> None:
    with pytest.raises(DataError) as error:
        hashes_by_class([pa.record_batch({"y": values})], "y", 0, "in/a.csv")
    assert str(error.value).startswith(f"in/a.csv: column 'y': {what}")


def test_more_values_than_classes_are_refused() -> None:
    with pytest.raises(DataError, match="more than 10,000 different values"):
        hashes_by_class([pa.record_batch({"y": np.arange(10_001)})], "y", 0)


def test_the_bytes_are_the_same_in_beam(tmp_path: Path) -> None:
    pq.write_table(rows(np.arange(300) % 7), tmp_path / "a.parquet", row_group_size=100)
    source = ParquetSource(kind="parquet", path=str(tmp_path / "a.parquet"))
    same_with_beam(DataConfig(source=source, stratify="y"), tmp_path, pipelines=5)
