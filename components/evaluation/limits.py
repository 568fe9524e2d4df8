"""Confidence intervals of metrics that are exactly 1 or 0, about which the jackknife says nothing.

at_limits({"precision": 1.0}, {"precision": (Proportion(120),)})      # {"precision": (0.9697, 1.0)}

If n independent trials all succeed, the exact interval of their probability begins at 0.025^(1/n) (Clopper and
Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", 1934). For metrics that are
not shares:

- An AUC of 1 means that in any min(positives, negatives) disjoint pairs of a positive and a negative, all are in the
  right order. Such pairs are independent, so they are the trials, whatever the predictions are distributed like.
- F1 is 2q / (1 + q), where q is the share of right ones among what is positive or predicted to be.
- A mean over classes is bounded by the mean of their bounds, each at an error of 0.025 divided by the number of classes
  (Bonferroni).

With weights, trials are scaled by Kish's effective number of examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headrace.components.evaluation.result import Interval, Intervals

_ERROR = 0.025
"""Of each end of a 95% confidence interval."""


def as_it_is(share: float) -> float:
    return share


def f1_of(share: float) -> float:
    """F1, from the share of right ones among what is positive or predicted to be."""
    return 2 * share / (1 + share)


class Proportion(NamedTuple):
    """A share of independent trials. A metric is one, or the mean of several.

    trials: all of which succeeded if the share is 1; weight: in the mean; transform: what the metric
    is for such a share, rising from 0 to 1.
    """

    trials: float
    weight: float = 1.0
    transform: Callable[[float], float] = as_it_is


Proportions = Mapping[str, Sequence[Proportion]]
"""By the metric's name; without the metrics that are not made of proportions."""


def at_limits(values: Mapping[str, float], proportions: Proportions) -> Intervals:
    """The intervals of the metrics that are 1 or 0, as far as their proportions are known.

    A mean of nothing, as the micro precision of a model that predicts no class, is 0 by convention and has none.
    """
    return {
        name: _interval(proportions[name], round(value))
        for name, value in values.items()
        if any(proportion.weight > 0 for proportion in proportions.get(name, ()))
        and (math.isclose(value, 1, rel_tol=1e-9) or math.isclose(value, 0, abs_tol=1e-9))
    }


def _interval(proportions: Sequence[Proportion], value: int) -> Interval:
    weight = sum(proportion.weight for proportion in proportions)
    end = 0.0
    for proportion in proportions:
        least = (_ERROR / len(proportions)) ** (1 / proportion.trials) if proportion.trials > 0 else 0.0
        end += proportion.weight / weight * proportion.transform(least if value else 1 - least)
    return (end, 1.0) if value else (0.0, end)
