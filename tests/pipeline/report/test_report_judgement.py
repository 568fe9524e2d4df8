"""Which change of a metric is one for the better."""

from __future__ import annotations

import pytest

from headrace.pipeline.report.evaluation import MetricRow


@pytest.mark.parametrize(
    ("name", "value", "baseline", "better"),
    [
        ("auc", 0.8, 0.7, True),
        ("auc", 0.6, 0.7, False),
        ("auc", 0.7, 0.7, None),
        ("auc", 0.7, None, None),
        ("mean_squared_error", 0.8, 0.7, False),
        ("mean_squared_error", 0.6, 0.7, True),
        ("calibration", 0.9, 0.7, True),  # best at 1, from either side
        ("calibration", 0.7, 0.9, False),
        ("calibration", 1.1, 1.3, True),
        ("calibration", 1.3, 1.1, False),
        ("calibration", 0.95, 1.2, True),
        ("calibration", 1.05, 0.5, True),
    ],
)
def test_a_metric_is_better_where_it_is_nearer_to_its_best_value(
    name: str, value: float, baseline: float | None, better: bool | None
) -> None:
    assert MetricRow(name, value, baseline, [], in_unit_range=True).better is better
