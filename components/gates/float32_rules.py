"""Integers that become the same float32, because a label or a feature is rounded without being scaled first.

Examples hold integers exactly, as int64, and Transform computes z-scores and the like in float64. But the label of a
regression and a numeric feature with `normalize: none` are rounded to float32's 24 binary digits unscaled, and with
`log` their logarithm is. Values far from 0 and close together, such as timestamps, then collapse into few numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from tensorflow_metadata.proto.v0.statistics_pb2 import FeatureNameStatistics, NumericStatistics

from headrace.components.examples.tfexample.rounding import COARSE
from headrace.components.gates.data_rules import DataAnomaly, SplitStatistics
from headrace.configs.loading.tree import dotted
from headrace.configs.schema.label import LabelConfig

TOO_COARSE = 0.1
"""Rounding errors above this share of the standard deviation make the data unfit: of evenly spread values, fewer than
10 distinct ones remain. Errors above COARSE, which leaves 10,000, are only noted."""
NEIGHBORS = 4
"""Among this many neighbors, two become the same float32 if any do."""


def digits_lost(
    splits: Sequence[SplitStatistics], label: LabelConfig, rounded: Mapping[str, tuple[str, str]]
) -> Iterator[DataAnomaly]:
    """Integers in the split named `train` that become the same float32.

    rounded: the feature's name and `normalize` for each data column that is rounded to float32 unscaled.
    """
    train = next(split for split in splits if split.name == "train")
    for name, part in label.parts.items():
        if part.kind == "regression":
            yield from rounded_integers(train, part.key, dotted(part.setting(name)))
    for column, (feature, normalize) in rounded.items():
        yield from rounded_integers(train, column, f"features.{feature}", normalize)


def rounded_integers(
    train: SplitStatistics, column: str, reader: str, normalize: str = "none"
) -> Iterator[DataAnomaly]:
    """Integers that become the same float32.

    The root mean square of the rounding errors is float32's spacing at the largest absolute value, divided by the
    square root of 12, because the errors are uniformly distributed.

    Args:
        train: the split that is trained on.
        column: the data column.
        reader: `label`, or `features.x`.
        normalize: the function that is applied before rounding, `none` or `log`.
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
        f"`{reader}` rounds {'its logarithm' if normalize == 'log' else 'it'} to float32, whose spacing around"
        f" {largest:,.0f} is {spacing:,.4g}, while the standard deviation is {numbers.std_dev:,.4g}:"
        f" {same[0]:,} and {same[1]:,} become the same number. {_ways_out(reader, numbers.min)}"
    )
    yield DataAnomaly(train.name, column, "Digits lost", what, stops=share > TOO_COARSE)


def _ways_out(reader: str, least: float) -> str:
    offset = f"subtract an offset such as {least:,.0f} from the column before it is read"
    if reader == "label":
        return offset.capitalize()
    return f"Set `normalize` to `z_score` or `min_max`, which scale before rounding, or {offset}"


def _same(largest: int, width: int, normalize: str) -> tuple[int, int] | None:
    """Two neighbors near the largest absolute value that become the same float32, or None.

    width: the difference between the largest and the smallest value.
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
    """The difference between numbers whose float32 values are neighbors."""
    slope = 1 + abs(largest) if normalize == "log" else 1.0
    return float(np.spacing(_stored(largest, normalize))) * slope


def _narrow(numbers: NumericStatistics) -> bool:
    """Whether the values are so close together that the logarithm is about linear over their range."""
    near, far = sorted((abs(numbers.min), abs(numbers.max)))
    return (numbers.min > 0) == (numbers.max > 0) and far < 2 * near
