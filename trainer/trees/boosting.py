"""Trees that LightGBM grows one iteration at a time, from the scores of those that are there already.

    boosting = Boosting(settings, label, train, evaluation, categories, seed=0)
    metrics = boosting.grow()             # one iteration: {"loss": ..., "val_loss": ..., "val_auc": ...}
    boosting.trees(best)                  # those of the first iterations, for a Forest
    Boosting(..., texts=boosting.texts)   # continues in another process as this one would have

LightGBM was chosen because its public interface has all of this: a step per iteration with the loss of both splits, the
trees as JSON, categories without a limit, and results that do not depend on the number of threads. Trees of an earlier
process only count through their scores, which are added up in the same order, so that the next trees are the same.
"""

from __future__ import annotations

import ctypes.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.common.errors import MissingDependencyError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.trees_model import TreesModel
from headrace.trainer.input.reading import CORES
from headrace.trainer.models.trees import Split
from headrace.trainer.trees.examples import Examples

OBJECTIVES = {"binary": "binary", "multiclass": "multiclass", "regression": "regression"}
"""LightGBM's name of the loss for each kind of label: cross-entropy, or the squared error."""
Scale = tuple[float, float]
"""Mean and standard deviation of a regression's label."""
METRICS: Mapping[str, Mapping[str, tuple[str, Callable[[float, float], float]]]] = {
    "binary": {
        "binary_logloss": ("loss", lambda value, _: value),
        "auc": ("auc", lambda value, _: value),
        "binary_error": ("binary_accuracy", lambda value, _: 1 - value),
    },
    "multiclass": {
        "multi_logloss": ("loss", lambda value, _: value),
        "multi_error": ("accuracy", lambda value, _: 1 - value),
    },
    "regression": {
        "l2": ("loss", lambda value, deviation: value * deviation**2),
        "l1": ("mean_absolute_error", lambda value, deviation: value * deviation),
    },
}
"""For each kind of label, LightGBM's metrics, ours, and how one becomes the other."""
EXAMPLES_PER_THREAD = 5_000
"""Minimum number of examples for another thread. With fewer, threads wait for each other longer than they work: on two
busy cores, 40 trees on 2,000 examples took 3 to 8 s with two threads and 0.5 to 3 s with one. No result depends on it.
"""
INFINITY = 1e300
"""What LightGBM takes infinity for, in examples and thresholds."""
LEAST_SHARE = 1e-6
"""What a class without examples is taken for, as its logarithm must be finite."""


def _threads(examples: Examples) -> int:
    return min(max(examples.size // EXAMPLES_PER_THREAD, 1), CORES)


class Boosting:
    """A growing sum of trees."""

    def __init__(
        self,
        settings: TreesModel,
        label: LabelConfig,
        train: Examples,
        evaluation: Examples,
        categories: Sequence[int],
        *,
        seed: int = 0,
        scale: Scale = (0.0, 1.0),
        texts: Sequence[str] = (),
    ) -> None:
        """
        Args:
            settings: The `model:` section.
            label: The label.
            train: What to learn from.
            evaluation: What the loss is also computed on.
            categories: The columns that are categories.
            seed: Of LightGBM's sample of examples for the bins of numbers.
            scale: Of a regression's label, which trees predict with mean 0 and standard deviation 1.
            texts: `texts` of a training that this one continues.
        """
        self._lightgbm = import_lightgbm()
        self._kind, self._classes, self._scale = label.kind, label.num_classes, scale
        self._earlier = [self._lightgbm.Booster(model_str=text) for text in texts]
        self.base = base_scores(label, train, scale)
        threads = _threads(train)
        options = {"feature_pre_filter": False, "verbosity": -1, "num_threads": threads}
        data = self._data(train, params=options, categorical_feature=list(categories))
        self._booster = self._lightgbm.Booster(self._parameters(settings, seed, threads), data)
        self._booster.add_valid(self._data(evaluation, params=options, reference=data), "eval")

    def _parameters(self, settings: TreesModel, seed: int, threads: int) -> dict[str, Any]:
        several = {"num_class": self._classes} if self._kind == "multiclass" else {}
        return several | {
            "objective": OBJECTIVES[self._kind],
            "metric": list(METRICS[self._kind]),
            "learning_rate": settings.learning_rate,
            "num_leaves": settings.max_leaves,
            "max_depth": settings.max_depth or -1,
            "min_data_in_leaf": settings.min_examples_per_leaf,
            "lambda_l2": settings.l2,
            "boost_from_average": False,  # `base` is in the scores to start from
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": threads,
            "verbosity": -1,
        }

    def _data(self, examples: Examples, **settings: Any) -> Any:
        mean, deviation = self._scale
        labels = (examples.labels - mean) / deviation if self._kind == "regression" else examples.labels
        scores = self._scores(examples)
        return self._lightgbm.Dataset(
            examples.inputs, labels, weight=examples.weights, init_score=scores, free_raw_data=True, **settings
        )

    def _scores(self, examples: Examples) -> NDArray[np.float64]:
        """[examples], or [examples, classes]: the base and the earlier trees, added up in the order of growing."""
        scores, threads = np.tile(self.base, (examples.size, 1)), _threads(examples)
        for booster in self._earlier:
            for iteration in range(booster.current_iteration()):
                one = booster.predict(examples.inputs, iteration, 1, raw_score=True, num_threads=threads)
                scores += np.reshape(one, scores.shape)
        return scores if self._kind == "multiclass" else scores[:, 0]

    @property
    def texts(self) -> list[str]:
        """The trees so far in LightGBM's format, in parts that were grown by different processes."""
        boosters = [*self._earlier, self._booster]
        return [one.model_to_string(num_iteration=-1) for one in boosters if one.current_iteration()]

    def grow(self) -> dict[str, float] | None:
        """Grow one tree, or one for each class, and evaluate; None if nothing can be split any more."""
        before = self._booster.current_iteration()
        finished = self._booster.update()
        if finished and self._booster.current_iteration() == before and (before or self._earlier):
            return None
        metrics = {}
        for prefix, found in (("", self._booster.eval_train()), ("val_", self._booster.eval_valid())):
            for _, name, value, _ in found:
                ours, convert = METRICS[self._kind][name]
                metrics[f"{prefix}{ours}"] = convert(float(value), self._scale[1])
        return metrics

    def trees(self, iterations: int) -> list[Split | float]:
        """The trees of the first iterations, those of one iteration in the order of the classes."""
        dumps = [one.dump_model() for one in (*self._earlier, self._booster) if one.current_iteration()]
        trees = [parse_tree(tree["tree_structure"]) for dump in dumps for tree in dump["tree_info"]]
        return trees[: iterations * self._classes]


def import_lightgbm() -> Any:
    """LightGBM. Raises MissingDependencyError if it cannot be loaded."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        way = "install the package lightgbm"
        if isinstance(error, OSError) and ctypes.util.find_library("gomp") is None:
            way = "install GCC's OpenMP runtime, such as by `apt-get install libgomp1`"
        raise MissingDependencyError(
            f"model.kind: trees grows its trees with LightGBM, which cannot be loaded: {error}; {way}"
        ) from error
    return lightgbm


def base_scores(label: LabelConfig, train: Examples, scale: Scale) -> NDArray[np.float64]:
    """[classes]: the score without any tree, whose prediction is the best constant for the train split."""
    if label.kind == "regression":
        return np.array([(np.average(train.labels, weights=train.weights) - scale[0]) / scale[1]])
    shares = [train.share(train.labels == number) for number in range(max(label.num_classes, 2))]
    within = np.clip(shares, LEAST_SHARE, 1 - LEAST_SHARE)
    return np.log(within) if label.kind == "multiclass" else np.array([np.log(within[1]) - np.log(1 - within[1])])


def parse_tree(root: Mapping[str, Any]) -> Split | float:
    """A tree of `Booster.dump_model`. Without recursion, as a tree may be as deep as it has leaves."""
    built: dict[int, Split | float] = {}
    stack: list[tuple[Mapping[str, Any], bool]] = [(root, False)]
    while stack:
        node, below = stack.pop()
        if "split_feature" not in node:
            built[id(node)] = float(node["leaf_value"])
        elif not below:
            stack += [(node, True), (node["left_child"], False), (node["right_child"], False)]
        else:
            built[id(node)] = _split(node, built[id(node["left_child"])], built[id(node["right_child"])])
    return built[id(root)]


def _split(node: Mapping[str, Any], left: Split | float, right: Split | float) -> Split:
    if node["decision_type"] == "==":
        return Split(node["split_feature"], 0.0, tuple(map(int, str(node["threshold"]).split("||"))), True, left, right)
    threshold = float(node["threshold"])
    threshold = np.inf if threshold >= INFINITY else threshold
    # Where no number of the train split was NaN, LightGBM takes one for 0.
    nan_right = not node["default_left"] if node["missing_type"] == "NaN" else threshold < 0
    return Split(node["split_feature"], threshold, None, nan_right, left, right)
