"""Whole numbers that float32 cannot tell apart, where a label or a feature becomes float32 without being scaled first.

Examples hold integers exactly, as int64, and Transform computes z-scores and the like in float64. The label of a
regression, and a numeric feature with `normalize: none` or `log`, are rounded to float32's 24 binary digits as they are
(`log`: as the logarithm is), which leaves few different numbers of values that lie far from 0 and close together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from tensorflow_metadata.proto.v0.statistics_pb2 import FeatureNameStatistics, NumericStatistics

from headrace.components.data_rules import Finding, Split
from headrace.components.example_gen.rounding import COARSE
from headrace.configs.label import LabelConfig

TOO_COARSE = 0.1
"""Rounding that moves values by more than this share of their standard deviation makes the data unfit. Over an even
spread, fewer than 10 different numbers are left there. From COARSE on, which leaves 10,000, it is only noted."""
NEIGHBORS = 4
"""Of so many neighbors two are the same float32, where any are."""


def digits_lost(
    splits: Sequence[Split], label: LabelConfig, rounded: Mapping[str, tuple[str, str]]
) -> Iterator[Finding]:
    """Integers in the split named `train` that become the same float32. rounded: for each data column that a feature
    rounds to float32 unscaled, its name and its `normalize`.
    """
    train = next(split for split in splits if split.name == "train")
    if label.kind == "regression":
        yield from rounded_integers(train, label.key, "label")
    for column, (feature, normalize) in rounded.items():
        yield from rounded_integers(train, column, f"features.{feature}", normalize)


def rounded_integers(train: Split, column: str, reader: str, normalize: str = "none") -> Iterator[Finding]:
    """Integers that become the same float32. The root mean square of the rounding errors is float32's spacing at the
    largest absolute value divided by the square root of 12, as errors are spread evenly.

    Args:
        train: the split that is trained on.
        column: the data column.
        reader: `label`, or `features.x`.
        normalize: what is computed before rounding, `none` or `log`.
    """
    if not train.present(column) or train.columns[column].type != FeatureNameStatistics.INT:
        return
    numbers = train.columns[column].num_stats
    if numbers.min == numbers.max or (normalize == "log" and not _narrow(numbers)):
        return
    largest = max(numbers.min, numbers.max, key=abs)
    same = _same(int(largest), round(numbers.max - numbers.min), normalize)
    spacing = _spacing(largest, normalize)
    share = spacing / math.sqrt(12) / (numbers.std_dev or numbers.max - numbers.min)
    if same is None or share <= COARSE:
        return
    what = (
        f"{'its logarithm' if normalize == 'log' else 'it'} becomes float32 in `{reader}`, which tells numbers around"
        f" {largest:,.0f} apart by {spacing:,.4g}, and their standard deviation is {numbers.std_dev:,.4g}:"
        f" {same[0]:,} and {same[1]:,} become the same number. {_ways(reader, numbers.min)}"
    )
    yield Finding(train.name, column, "Digits lost", what, stops=share > TOO_COARSE)


def _ways(reader: str, least: float) -> str:
    offset = f"subtract an offset such as {least:,.0f} from the column before it is read"
    if reader == "label":
        return offset.capitalize()
    return f"Set `normalize` to `z_score` or `min_max`, which are computed before rounding, or {offset}"


def _same(largest: int, width: int, normalize: str) -> tuple[int, int] | None:
    """Two neighbors, at most so far from the largest absolute value, that become the same float32; None if there are
    none.
    """
    inwards = -1 if largest > 0 else 1
    near = [largest + inwards * steps for steps in range(min(NEIGHBORS, width) + 1)]
    stored = [_stored(number, normalize) for number in near]
    pairs = zip(pairwise(near), pairwise(stored), strict=True)
    return next((pair for pair, (one, other) in pairs if one == other), None)


def _stored(number: float, normalize: str) -> np.float32:
    """The absolute value as float32."""
    return np.float32(np.log1p(np.float64(abs(number))) if normalize == "log" else abs(number))


def _spacing(largest: float, normalize: str) -> float:
    """How far apart numbers lie there whose float32 are neighbors."""
    slope = 1 + abs(largest) if normalize == "log" else 1.0
    return float(np.spacing(_stored(largest, normalize))) * slope


def _narrow(numbers: NumericStatistics) -> bool:
    """Whether the values lie so close together that their logarithms are about as far apart as they are themselves, on
    another scale.
    """
    near, far = sorted((abs(numbers.min), abs(numbers.max)))
    return (numbers.min > 0) == (numbers.max > 0) and far < 2 * near
