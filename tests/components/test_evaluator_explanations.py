"""What the Evaluator tells about a model: the worst examples, agreement, importance and partial dependence."""

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.base
from evaluator_runs import LABELS, OUTPUTS, ROWS, called, evaluate, predictions
from plain_models import export
from sklearn.inspection import permutation_importance
from sklearn.inspection._partial_dependence import _partial_dependence_brute

from headrace.components.evaluation.importance import REPEATS, SEED
from headrace.components.evaluation.intervals import mixed_positions
from headrace.components.evaluation.result import BAND


def test_the_worst_examples_are_those_with_the_highest_losses_whatever_the_order_of_files(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    for kind in LABELS:
        evaluation, _ = evaluate(tmp_path / kind, kind, examples, models[kind], rows=7)
        p, y = predictions(models[kind], data), data[kind].astype(np.float32)
        losses = {
            "binary": lambda p, y: -np.log(np.where(y == 1, p[:, 0], 1 - p[:, 0])),
            "multiclass": lambda p, y: -np.log(p[np.arange(ROWS), y.astype(int)]),
            "regression": lambda p, y: (p[:, 0] - y) ** 2,
        }[kind](p, y)
        worst = np.argsort(-losses)[:7]
        assert evaluation.worst is not None
        assert evaluation.worst.columns[0] == "a"  # the only column that matters
        found = [row.values[evaluation.worst.columns.index("a")] for row in evaluation.worst.rows]
        assert found == [np.format_float_positional(data["a"][row], trim="-") for row in worst]
        assert [row.loss for row in evaluation.worst.rows] == pytest.approx(losses[worst].tolist(), rel=1e-5)
        hours = [row.values[evaluation.worst.columns.index("hour")] for row in evaluation.worst.rows]
        assert hours == [None if row % 10 == 0 else str(data["hour"][row]) for row in worst]
        if kind == "regression":
            assert [row.error for row in evaluation.worst.rows] == pytest.approx((p[:, 0] - y)[worst].tolist())
            assert [float(row.label) for row in evaluation.worst.rows] == pytest.approx(y[worst].tolist())
        else:
            predicted = p[worst, 0] > 0.5 if kind == "binary" else p[worst].argmax(axis=1)
            assert [row.prediction for row in evaluation.worst.rows] == [str(int(one)) for one in predicted]
            assert [row.label for row in evaluation.worst.rows] == [str(int(one)) for one in y[worst]]


def test_without_rows_the_evaluation_has_no_value_of_the_data(examples: Any, models: Any, tmp_path: Path) -> None:
    evaluation, _ = evaluate(tmp_path, "binary", examples, models["binary"])
    assert evaluation.worst is None
    assert evaluation.explanation.dependence == ()
    assert next(one.column for one in evaluation.explanation.importance) == "a"


def test_numbers_are_compared_as_numpy_does(data: Any, examples: Any, models: Any, tmp_path: Path) -> None:
    evaluation, _ = evaluate(tmp_path, "regression", examples, models["regression"], importance="none", weight="w")
    found, w = evaluation.agreement, data["w"].astype(float)
    p, y = predictions(models["regression"], data)[:, 0].astype(float), data["regression"].astype(float)
    assert found is not None
    assert found.examples == ROWS
    edges = np.array(found.edges)
    cells, _, _ = np.histogram2d(p, y, bins=[edges, edges], weights=w)
    shown = np.zeros_like(cells)
    for x, row, count in found.cells:
        shown[x, row] = count
    np.testing.assert_allclose(shown, cells)
    assert found.outside == pytest.approx(1 - cells.sum() / w.sum())
    assert found.outside < 0.02
    for band, part in zip(found.bands, np.array_split(np.argsort(p, kind="stable"), 10), strict=True):
        assert band.prediction == pytest.approx(np.average(p[part], weights=w[part]))
        expected = np.quantile((p - y)[part], BAND, weights=w[part], method="inverted_cdf")
        assert band.errors == pytest.approx(tuple(expected))
    assert evaluation.explanation.importance == ()


class _Sklearn(sklearn.base.ClassifierMixin, sklearn.base.BaseEstimator):
    """The exported model as scikit-learn calls one: rows of `columns` to probabilities, or to numbers."""

    def __init__(self, model: Any = None, columns: tuple[str, ...] = (), kind: str = "") -> None:
        self.model, self.columns, self.kind = model, columns, kind
        self.classes_ = np.arange(3 if kind == "multiclass" else 2)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, *_: Any) -> "_Sklearn":
        return self

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        p = called(self.model, [dict(zip(self.columns, row, strict=True)) for row in rows])
        return np.column_stack([1 - p[:, 0], p[:, 0]]) if self.kind == "binary" else p

    def predict(self, rows: np.ndarray) -> np.ndarray:
        return called(self.model, [dict(zip(self.columns, row, strict=True)) for row in rows])[:, 0]


class _SklearnRegressor(sklearn.base.RegressorMixin, _Sklearn):
    """The same with the tag of a regressor, by which scikit-learn calls `predict`."""


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Models of two columns that are not additive, so that permuting either matters."""
    root = tmp_path_factory.mktemp("on-two")
    return {kind: export(root / kind, kind, 0.5, OUTPUTS.get(kind, 1), times="w") for kind in LABELS}


@pytest.mark.parametrize("kind", LABELS)
def test_importance_and_partial_dependence_equal_scikit_learn_s(
    data: Any, examples: Any, on_two: Any, tmp_path: Path, kind: str
) -> None:
    evaluation, _ = evaluate(tmp_path, kind, examples, on_two[kind], rows=1, importance=ROWS)
    found, order = evaluation.explanation, _sample_order()
    assert (found.examples, found.repeats) == (ROWS, REPEATS)
    columns = ("a", "w")
    rows = np.column_stack([data["a"], data["w"]])[order].astype(np.float64)
    labels = data[kind].astype(np.float32)[order]
    labels = labels if kind == "regression" else labels.astype(int)
    model = (_SklearnRegressor if kind == "regression" else _Sklearn)(on_two[kind], columns, kind)
    scorer = {"regression": "neg_mean_squared_error"}.get(kind, "neg_log_loss")
    expected = permutation_importance(model, rows, labels, scoring=scorer, n_repeats=REPEATS, random_state=SEED)
    by_column = {one.column: one for one in found.importance}
    assert {"a", "w", "hour", "some"} == by_column.keys()
    for place, column in enumerate(columns):
        assert by_column[column].increase == pytest.approx(expected.importances_mean[place], rel=1e-4)
        error = expected.importances[place].std(ddof=1) / math.sqrt(REPEATS)
        assert by_column[column].error == pytest.approx(error, rel=1e-3)
        assert by_column[column].increase > 0
    assert (by_column["hour"].increase, by_column["some"].increase) == pytest.approx((0, 0), abs=1e-9)
    assert {one.column for one in found.dependence} == {*columns}
    for one in found.dependence:
        assert one.values == tuple(sorted(one.values))
        place, grid = columns.index(one.column), np.array(one.values)[:, None]
        method = "predict" if kind == "regression" else "predict_proba"
        means, _ = _partial_dependence_brute(model, grid, [place], rows, method)
        means = means if kind == "multiclass" else means[-1:]
        np.testing.assert_allclose(np.array(one.predictions).T, means, rtol=1e-5)
        assert one.classes == {"binary": (1,), "multiclass": (0, 1, 2), "regression": ()}[kind]
    assert {one.column: one.values for one in found.dependence}["w"] == (0.5, 1.0, 3.0)


def _sample_order() -> np.ndarray:
    """The rows as the sample has them."""
    drawn = np.zeros(ROWS, np.uint64)
    for shard in (0, 1):
        name = f"data_tfrecord-{shard:05}-of-00002.gz"
        drawn[shard::2] = mixed_positions(0, ROWS // 2, zlib.crc32(name.encode()))
    return np.argsort(drawn)
