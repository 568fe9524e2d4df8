"""What the defaults learn: a config of three lines against scikit-learn's linear models and boosted trees by default.

    .venv/bin/uv pip install --group bench               scikit-learn, and packages of tables
    python -m benchmarks.quality                         all tables; some minutes
    python -m benchmarks.quality --tuned                 those that are not held aside
    python -m benchmarks.quality --only iris --set train.epochs=20
    python -m benchmarks.quality --set 'features={"*": "auto"}'    features as the config chooses them by the data

All three models learn from the same rows and are judged on the same others. Ours splits a tenth of its rows off for
early stopping. Linear models get one-hot categories, scaled numbers and medians for missing ones; trees get categories.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.quality_data import DATA_SETS, TEST_FRACTION, DataSet, Kind, Split
from benchmarks.tables import Section, Table
from headrace.configs.schema.table_model import FEW_EXAMPLES

if TYPE_CHECKING:
    import pandas as pd

MODELS = ("ours", "linear", "trees")
WITHIN = 0.01
"""How much worse than the trees counts as as good, relative."""
NOISE = 2.0
"""Standard errors of the paired difference of two models' losses that count as noise."""
TRAIN_FRACTION = 0.9
"""Of the rows that are learned from, those that are not split off for early stopping."""
GROUPS = (
    "Looked at while tuning the defaults",
    "Held aside",
    f"More than {FEW_EXAMPLES:,} training examples, for which the default is another kind of model",
)
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Scores:
    """One model on the test rows."""

    score: float
    """AUC (the mean over one class against the rest), or R²."""
    loss: float
    """Log loss, or mean squared error."""


@dataclass(frozen=True)
class Result:
    """All models on one table."""

    name: str
    kind: Kind
    rows: int
    held_aside: bool
    scores: Mapping[str, Scores]
    difference: float
    """Mean loss of ours above that of the linear model, in standard errors of the paired difference."""
    seconds: float
    """CPU seconds of our run, with those of the processes that it started and that have ended."""

    @property
    def group(self) -> str:
        """One of GROUPS."""
        tuned, held_aside, large = GROUPS
        if self.rows * (1 - TEST_FRACTION) * TRAIN_FRACTION > FEW_EXAMPLES:
            return large
        return held_aside if self.held_aside else tuned

    @property
    def matches_linear(self) -> bool:
        """Whether ours is at least as good as the linear model within noise."""
        return self.difference <= NOISE

    @property
    def matches_trees(self) -> bool:
        """Whether ours is within 1% of the trees' AUC or log loss, or R²."""
        ours, trees = self.scores["ours"], self.scores["trees"]
        return ours.score >= trees.score * (1 - WITHIN) or ours.loss <= trees.loss * (1 + WITHIN)


def predict_ours(data: DataSet, split: Split, settings: Mapping[str, Any], folder: Path) -> Array:
    """Train by `headrace.run` in a folder, and predict: [rows, classes], or [rows] for a regression."""
    import headrace

    split.train.to_csv(folder / "train.csv", index=False)
    label: dict[str, Any] = {"key": data.label, "kind": data.kind}
    if data.kind != "regression":
        label["classes"] = classes_of(split.train[data.label])
    config = {
        "pipeline": {"name": "quality", "root": str(folder / "runs")},
        "data": {"source": {"kind": "csv", "path": str(folder / "train.csv")}, "splits": {"train": 9, "eval": 1}},
        "label": label,
        "features": settings.get("features") or features_of(split.train.drop(columns=data.label)),
    }
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    run = headrace.run(folder / "config.yaml", overrides=settings, show=False)
    model = Path(run.artifact("Trainer", "model").uri) / "Format-Serving"
    table = headrace.predict(model, split.test.drop(columns=data.label), columns=[])
    assert not isinstance(table, Path)
    found = table.to_pandas()
    if data.kind == "regression":
        return found["prediction"].to_numpy(np.float64)
    return found.filter(like="probability_").to_numpy(np.float64)


def predict_scikit(data: DataSet, split: Split, name: str) -> Array:
    """The same by scikit-learn's model of that name."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric = [column for column in numbers(split.train) if column != data.label]
    texts = [column for column in split.train.columns if column not in {*numeric, data.label}]
    train, test = (part.drop(columns=data.label) for part in split)
    regression = data.kind == "regression"
    if name == "linear":
        scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
        columns = make_column_transformer((scaled, numeric), (OneHotEncoder(handle_unknown="ignore"), texts))
        model = make_pipeline(columns, Ridge() if regression else LogisticRegression())
    else:
        for text in texts:
            known = sorted(train[text].dropna().unique())
            train[text], test[text] = (
                part[text].astype("category").cat.set_categories(known) for part in (train, test)
            )
        model = (HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier)(
            categorical_features="from_dtype"
        )
    if regression:
        return model.fit(train, split.train[data.label]).predict(test)
    return model.fit(train, class_ids(data, split, split.train)).predict_proba(test)


def numbers(table: pd.DataFrame) -> list[str]:
    """The numeric columns."""
    return [str(name) for name in table.select_dtypes("number").columns]


def features_of(table: pd.DataFrame) -> dict[str, Any]:
    """A feature for each column: the number itself, or its vocabulary."""
    numeric = numbers(table)
    return {str(name): {"column": "numeric" if name in numeric else "vocabulary"} for name in table.columns}


def classes_of(values: pd.Series) -> list[Any]:
    """The sorted classes, as a config lists them."""
    return sorted(values.unique().tolist())


def class_ids(data: DataSet, split: Split, part: pd.DataFrame) -> Array:
    """The number of each row's class."""
    ids = {value: number for number, value in enumerate(classes_of(split.train[data.label]))}
    return part[data.label].map(ids).to_numpy()


def losses(data: DataSet, labels: Array, predicted: Array) -> Array:
    """The loss of each row: -log of the probability of its class, or the squared error."""
    if data.kind == "regression":
        return np.square(labels - predicted)
    shares = predicted / predicted.sum(axis=1, keepdims=True)
    return -np.log(np.clip(shares[np.arange(len(labels)), labels], 1e-7, 1))


def score(data: DataSet, labels: Array, predicted: Array) -> float:
    """AUC or R² of predictions."""
    from sklearn.metrics import r2_score, roc_auc_score

    if data.kind == "regression":
        return float(r2_score(labels, predicted))
    if data.kind == "binary":
        return float(roc_auc_score(labels, predicted[:, 1]))
    return float(roc_auc_score(labels, predicted / predicted.sum(axis=1, keepdims=True), multi_class="ovr"))


def measure(data: DataSet, settings: Mapping[str, Any]) -> Result:
    """Train and judge the three models on one table."""
    split = data.split()
    began = _cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        predicted = {"ours": predict_ours(data, split, settings, Path(folder))}
    seconds = _cpu_seconds() - began
    predicted |= {name: predict_scikit(data, split, name) for name in MODELS[1:]}
    regression = data.kind == "regression"
    labels = split.test[data.label].to_numpy() if regression else class_ids(data, split, split.test)
    lost = {name: losses(data, labels, values) for name, values in predicted.items()}
    scores = {name: Scores(score(data, labels, predicted[name]), float(lost[name].mean())) for name in MODELS}
    paired = lost["ours"] - lost["linear"]
    error = float(paired.std(ddof=1)) / len(paired) ** 0.5
    rows = len(split.train) + len(split.test)
    return Result(
        data.item, data.kind, rows, data.held_aside, scores, float(paired.mean()) / max(error, 1e-12), seconds
    )


def _cpu_seconds() -> float:
    """Of this process and its children: components run in processes of their own."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure_all(chosen: Sequence[DataSet] = DATA_SETS, settings: Mapping[str, Any] | None = None) -> list[Result]:
    """Measure tables one after another, and print a line for each."""
    results = []
    for data in chosen:
        results.append(measure(data, settings or {}))
        print(*_row(results[-1]), sep="  ", flush=True)
    return results


def _row(result: Result) -> list[str]:
    cells = [f"{result.scores[name].score:.3f} / {result.scores[name].loss:.4g}" for name in MODELS]
    judged = ["yes" if holds else "no" for holds in (result.matches_linear, result.matches_trees)]
    return [result.name, result.kind, f"{result.rows:,}", *cells, f"{result.difference:+.1f}", *judged]


def shares(results: Sequence[Result]) -> tuple[float, float]:
    """The fractions of tables on which ours matches the linear model, and the trees."""
    linear, trees = ([getattr(one, name) for one in results] for name in ("matches_linear", "matches_trees"))
    return sum(linear) / len(results), sum(trees) / len(results)


def section(results: Sequence[Result]) -> Section:
    """A table for each of GROUPS that has results."""
    head = ["data", "label", "rows", *MODELS, "errors above linear", "≥ linear", "≥ trees - 1%"]
    parts = []
    for caption in GROUPS:
        group = [one for one in results if one.group == caption]
        if not group:
            continue
        linear, trees = shares(group)
        counted = f"{len(group)} tables; as good as linear on {linear:.0%}, as the trees on {trees:.0%}"
        parts.append((f"{caption} ({counted}):", Table(head, [_row(one) for one in group])))
    notes = [
        "Each cell has AUC / log loss, or R² / mean squared error, on a quarter of the rows.",
        f"As good as linear: the mean loss is at most {NOISE:g} standard errors of the paired difference higher.",
        f"As good as the trees: AUC, R² or the loss is at most {WITHIN:.0%} worse.",
    ]
    return Section("What the defaults learn", parts, notes)


def plain(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The results as JSON has them."""
    return [
        {**asdict(one), "matches_linear": one.matches_linear, "matches_trees": one.matches_trees} for one in results
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuned", action="store_true", help="leave out the tables that are held aside")
    parser.add_argument("--only", action="append", help="a table; can be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=JSON", help="a setting of our config")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    settings = {name: json.loads(value) for name, _, value in (one.partition("=") for one in given.set)}
    chosen = [one for one in DATA_SETS if one.item in (given.only or [one.item])]
    results = measure_all([one for one in chosen if not (given.tuned and one.held_aside)], settings)
    print(json.dumps(plain(results)) if given.json else section(results).text())


if __name__ == "__main__":
    main()
