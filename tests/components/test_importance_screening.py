"""Importance in wide tables: which columns are found in blocks, what the others are said to be, and in what time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from evaluator_runs import RAW, ROWS, evaluate
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tfx.types import artifact_utils, standard_artifacts

from headrace.components.evaluation.importance import LEAST_EXAMPLES, MOST_EXAMPLES, REPEATS, SEED, WORK, Explainer
from headrace.components.evaluation.result import Screening
from headrace.components.evaluation.screening import Plan, measured, planned

COLUMNS = 300
NAMES = [f"x{number}" for number in range(COLUMNS)]
PLAN = planned(COLUMNS, MOST_EXAMPLES)
VALUES = np.random.default_rng(3).normal(size=(PLAN.examples, COLUMNS))
WEIGHTS = np.random.default_rng(4).choice([0.5, 1.0, 3.0], PLAN.examples)

Model = Callable[[np.ndarray], np.ndarray]
"""Rows [n, COLUMNS] to predicted numbers [n]."""


class Counted:
    """An Explainer of a model whose predictions are the labels, and how many rows it predicted."""

    def __init__(self, model: Model, values: np.ndarray = VALUES) -> None:
        self.rows, labels = 0, model(values)

        def predict(batch: pa.RecordBatch) -> np.ndarray:
            self.rows += batch.num_rows
            return model(np.column_stack([np.asarray(column.flatten()) for column in batch.columns]))[:, None]

        lists = [pa.LargeListArray.from_arrays(np.arange(len(values) + 1), column) for column in values.T.copy()]
        batch = pa.RecordBatch.from_arrays(lists, NAMES)
        self.explainer = Explainer(predict, lambda found: (found[:, 0] - labels) ** 2, batch, WEIGHTS)


def increases(model: Model, column: int) -> np.ndarray:
    """What scikit-learn's permutations of a column of VALUES raise the mean squared error by, [REPEATS]."""
    random = np.random.RandomState(np.random.RandomState(SEED).randint(np.iinfo(np.int32).max + 1))
    shuffled, taken, found = np.arange(len(VALUES)), VALUES.copy(), []
    for _ in range(REPEATS):
        random.shuffle(shuffled)
        taken[:, column] = taken[shuffled, column]
        found.append(np.average((model(taken) - model(VALUES)) ** 2, weights=WEIGHTS))
    return np.array(found)


@given(
    matter=st.lists(st.integers(0, COLUMNS - 1), min_size=5, max_size=5, unique=True),
    slopes=st.lists(st.sampled_from([-3.0, 0.1, 0.5, 2.0]), min_size=5, max_size=5),
)
@example(matter=[0, 1, 2, 3, 4], slopes=[1.0] * 5)
@example(matter=[17, 18, 150, 298, 299], slopes=[-3.0, 0.1, 2.0, 0.5, 0.1])
@settings(max_examples=15, deadline=None)
def test_the_five_of_300_columns_that_matter_are_found_and_measured_as_one_by_one(
    matter: list[int], slopes: list[float]
) -> None:
    def model(rows: np.ndarray) -> np.ndarray:
        """A sine, a step, and a product of two, which do nothing without each other."""
        a, b, c, d, e = (slope * rows[:, place] for place, slope in zip(matter, slopes, strict=True))
        return a + np.sin(b) + np.sign(c) + d * e

    counted = Counted(model)
    found, screening = measured(counted.explainer, NAMES, PLAN)
    expected = {NAMES[column]: increases(model, column) for column in matter}
    assert [one.column for one in found] == sorted(expected, key=lambda name: -expected[name].mean())
    for one in found:
        assert one.increase == pytest.approx(expected[one.column].mean())
        assert one.error == pytest.approx(expected[one.column].std(ddof=1) / REPEATS**0.5)
    assert screening is not None
    assert (screening.columns, screening.unraised, screening.unreached) == (COLUMNS, COLUMNS - 5, 0)
    assert counted.rows * COLUMNS <= WORK + VALUES.size  # the predictions of the sample as it is are not counted


def test_where_every_column_matters_a_little_the_report_says_how_much_was_not_reached() -> None:
    counted = Counted(lambda rows: rows.sum(axis=1))
    found, screening = measured(counted.explainer, NAMES, PLAN)
    assert screening is not None
    assert len(found) >= 4
    assert (screening.unraised, screening.unreached) == (0, COLUMNS - len(found))
    assert measured(Counted(lambda rows: rows.sum(axis=1)).explainer, NAMES, PLAN) == (found, screening)
    largest = COLUMNS // 16 + 1
    assert 2 < screening.most < 2 * 2 * largest  # a permuted column adds about 2 to the squared error
    assert counted.rows * COLUMNS <= WORK + VALUES.size


def test_two_columns_whose_effects_cancel_are_missed_in_the_same_block_only() -> None:
    values = VALUES.copy()
    values[:, 7] = values[:, 200] = values[:, 6]
    same = measured(Counted(lambda rows: rows[:, 6] - rows[:, 7], values).explainer, NAMES, PLAN)
    apart = measured(Counted(lambda rows: rows[:, 6] - rows[:, 200], values).explainer, NAMES, PLAN)
    assert [one.column for one in same[0]] == []
    assert {one.column for one in apart[0]} == {"x6", "x200"}


def test_predictions_that_are_not_numbers_are_not_taken_for_columns_without_effect() -> None:
    found, screening = measured(Counted(lambda rows: rows[:, 0] * np.nan).explainer, NAMES, PLAN)
    assert screening is not None
    assert found == []
    assert np.isnan(screening.most)


def test_a_plan_takes_no_more_than_the_work_and_screens_only_where_columns_are_too_many() -> None:
    plenty = 10**6
    assert [planned(columns, plenty) for columns in (0, 1, 44)] == [Plan(MOST_EXAMPLES)] * 3
    assert planned(60, plenty) == Plan(555)
    assert planned(141, plenty) == Plan(LEAST_EXAMPLES)
    assert planned(300, plenty) == Plan(333, 100)
    assert planned(300, 30) == Plan(30, WORK // (300 * 30))  # a small split leaves time for more
    assert planned(150, 30) == Plan(30)
    assert planned(2001, plenty) == Plan(0)
    for columns in range(142, 2001):
        plan = planned(columns, plenty)
        assert plan.examples >= LEAST_EXAMPLES
        assert plan.examples * plan.calls * columns <= WORK


@pytest.mark.parametrize(
    ("columns", "row_work", "plan"),
    [
        (15, 1500, Plan(MOST_EXAMPLES)),
        (500, 3300, Plan(2 * 10**9 // (500 * 3300 * REPEATS))),
        (2400, 16_000, Plan(LEAST_EXAMPLES)),  # numbers in dense layers of 64 units
        (5000, 33_000, Plan(6060, 100)),
        (5000, 500_000, Plan(400, 100)),  # in an ensemble
        (40_000, 4_000_000, Plan(LEAST_EXAMPLES, 50)),
        (40, 10**8, Plan(MOST_EXAMPLES)),  # no fewer examples than if they were written and parsed
    ],
)
def test_columns_of_a_model_of_features_are_measured_as_long_as_it_takes_a_minute(
    columns: int, row_work: int, plan: Plan
) -> None:
    assert planned(columns, 10**6, row_work) == plan


def test_the_evaluator_measures_the_column_that_matters_in_a_wide_table(
    examples: Any, models: Any, tmp_path: Path
) -> None:
    wide = _with_columns(examples["binary"], tmp_path / "wide", COLUMNS - len(RAW))
    evaluation, _ = evaluate(tmp_path / "of-wide", "binary", {"binary": wide}, models["binary"], rows=1)
    found = evaluation.explanation
    plan = planned(COLUMNS, ROWS)
    assert (found.note, found.examples, found.repeats) == ("", plan.examples, REPEATS)
    assert [one.column for one in found.importance] == ["a"]
    assert [one.column for one in found.dependence] == ["a"]
    assert found.screening is not None
    assert found.screening == Screening(COLUMNS, COLUMNS - 1, 0, 0.0)
    narrow, _ = evaluate(tmp_path / "of-narrow", "binary", examples, models["binary"], importance=found.examples)
    assert narrow.explanation.screening is None
    by_column = {one.column: one for one in narrow.explanation.importance}
    assert found.importance[0].increase == pytest.approx(by_column["a"].increase, rel=1e-5)
    assert found.importance[0].error == pytest.approx(by_column["a"].error, rel=1e-4)


def _with_columns(examples: Any, root: Path, columns: int) -> standard_artifacts.Examples:
    """The same examples with columns that the model does not read."""
    made = standard_artifacts.Examples()
    made.uri, made.split_names = str(root), artifact_utils.encode_split_names(["train", "test"])
    random = np.random.default_rng(5)
    for shard in sorted(Path(examples.uri).glob("Split-test/*")):
        path = root / "Split-test" / shard.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for record in tf.data.TFRecordDataset(str(shard), "GZIP").as_numpy_iterator():
                one = tf.train.Example.FromString(record)
                for number in range(columns):
                    one.features.feature[f"other{number}"].float_list.value.append(random.normal())
                writer.write(one.SerializeToString())
    return made
