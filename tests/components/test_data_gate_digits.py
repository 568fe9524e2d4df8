"""The digits that integers lose as float32, which the data gate finds or notes."""

import re
from typing import Any

import numpy as np
import pytest
from gate_data import split

from headrace.components.gates.data_rules import DataAnomaly
from headrace.components.gates.float32_rules import TOO_COARSE, digits_lost
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.label import LabelConfig

REGRESSION = LabelConfig(key="y", kind="regression")
SECONDS = 1_700_000_000


def _rounded(values: Any, *, normalize: str | None = None) -> list[DataAnomaly]:
    """What is said of integers as the label of a regression, or under a feature with this `normalize`."""
    column = "y" if normalize is None else "x"
    train = split("train", {"y": [0.0, 1.0] * (len(values) // 2), column: [*values]})
    rounded = {} if normalize is None else {"x": ("when", normalize)}
    return [*digits_lost([train], REGRESSION, rounded)]


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        (SECONDS + np.arange(200) % 40, True),  # two different float32
        (-SECONDS - np.arange(200) % 40, True),
        (SECONDS + 7 * np.arange(1600), False),  # 88
        (SECONDS + 864 * np.arange(100), False),  # a day
        (2**60 + np.arange(0, 400, 2), True),
        (SECONDS * 1000 + np.arange(0, 1000, 5), True),
    ],
)
@pytest.mark.parametrize("normalize", [None, "none", "log"])
def test_integers_that_become_the_same_float32_are_found_with_two_of_them_and_the_way_out(
    values: np.ndarray, stops: bool, normalize: str | None
) -> None:
    stored = {None: values, "none": values, "log": np.log1p(np.abs(values).astype(np.float64))}[normalize]
    share = np.sqrt(np.mean((stored - stored.astype(np.float32).astype(np.float64)) ** 2)) / stored.std()
    (found,) = _rounded(values.tolist(), normalize=normalize)
    assert (found.split, found.column, found.rule) == ("train", "y" if normalize is None else "x", "Digits lost")
    assert normalize == "log" or found.stops == stops == (share > TOO_COARSE)
    one, other = (int(number.replace(",", "")) for number in re.findall(r"-?[\d,]{9,}(?= and| become)", found.what))
    assert abs(one - other) == 1
    assert values.min() <= min(one, other)
    if normalize != "log":
        assert np.float32(one) == np.float32(other)
    else:
        assert np.float32(np.log1p(abs(one))) == np.float32(np.log1p(abs(other)))
    assert ("`label`" if normalize is None else "`features.when`") in found.what
    assert "subtract an offset" in found.what.lower()
    assert ("z_score" in found.what) == (normalize is not None)


@pytest.mark.parametrize(
    "values",
    [
        2**24 - np.arange(2**22, step=2**12),  # float32 holds each
        np.arange(0, 2**24, 2**17),
        np.random.default_rng(0).integers(0, 10**12, 1000),
        np.random.default_rng(0).integers(-(10**12), 10**12, 1000),
        np.random.default_rng(0).lognormal(5, 4, 1000).astype(np.int64),
        SECONDS + 86400 * np.arange(400),  # a year, in days
    ],
)
@pytest.mark.parametrize("normalize", [None, "none", "log"])
def test_integers_that_stay_apart_or_spread_widely_are_not_found(values: np.ndarray, normalize: str | None) -> None:
    assert _rounded(values.tolist(), normalize=normalize) == []


@pytest.mark.parametrize("normalize", ["z_score", "min_max"])
def test_scaled_features_keep_their_digits_and_float_columns_are_noted_when_they_are_read(normalize: str) -> None:
    feature = {"column": "numeric", "normalize": normalize}
    plain = {"raw": {"column": "numeric", "normalize": "none", "key": "x"}}
    config = PipelineConfig.model_validate(
        {
            "pipeline": {"name": "a"},
            "data": {"source": {"kind": "csv", "path": "a.csv"}},
            "label": {"key": "y", "kind": "regression"},
            "features": {"x": feature, **plain, "z": feature},
        }
    )
    assert config.rounded_columns == {"x": ("raw", "none")}
    assert _rounded((SECONDS + np.arange(200.0) % 40).astype(np.float32).tolist(), normalize="none") == []
