"""Thresholds whose bounds meet, or lie at the end of what a metric can be."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from headrace.configs.rules.model import thresholds_can_be_met
from headrace.configs.schema.evaluate import EvaluateConfig, SliceThreshold, Threshold


def found(threshold: Threshold) -> list[str]:
    return [what for _, what in thresholds_can_be_met(EvaluateConfig(thresholds={"auc": threshold}))]


def test_bounds_may_meet_and_not_cross() -> None:
    assert Threshold(min=0.5, max=0.5).min == 0.5
    with pytest.raises(ValidationError, match=r"min: 0\.6 is greater than max: 0\.5"):
        Threshold(min=0.6, max=0.5)


def test_bounds_of_slices_in_percent_are_refused_as_those_of_the_whole() -> None:
    for bound in ({"min": 40}, {"max_gap": 15}):
        (what,) = found(Threshold(slices={"hour": SliceThreshold.model_validate(bound)}))
        assert "did you mean 0." in what


def test_a_metric_that_may_be_negative_may_have_negative_bounds_and_is_at_most_one() -> None:
    for name, bound, refused in (
        ("r_squared", {"max": -3}, False),
        ("r_squared", {"min": 1.5}, True),
        ("matthews_correlation", {"max": -0.5}, False),
        ("matthews_correlation", {"max": -1.5}, True),
    ):
        evaluate = EvaluateConfig(thresholds={name: Threshold.model_validate(bound)})
        assert bool([*thresholds_can_be_met(evaluate)]) is refused


def test_bounds_of_slices_may_meet_and_not_cross_or_be_none() -> None:
    assert SliceThreshold(min=0.5, max=0.5).min_examples == 100
    with pytest.raises(ValidationError, match=r"min: 0\.6 is greater than max: 0\.5"):
        SliceThreshold(min=0.6, max=0.5)
    with pytest.raises(ValidationError, match="at least one of `min`, `max` and `max_gap`"):
        SliceThreshold(min_examples=3)
    with pytest.raises(ValidationError, match=r"at least one of .*`slices`"):
        Threshold()
    assert Threshold(slices={"hour": SliceThreshold(max_gap=0.1)}).min is None


def test_a_share_may_be_asked_to_be_all_or_nothing_and_no_more_or_less() -> None:
    assert found(Threshold(min=1.0)) == []
    assert found(Threshold(max=0.0)) == []
    assert len(found(Threshold(min=1.5))) == 1
    assert len(found(Threshold(max=-0.5))) == 1


def test_a_change_has_a_bound_and_stands_alone() -> None:
    assert Threshold.model_validate({"change": {"relative": -0.02}}).compares
    with pytest.raises(ValidationError, match="at least one of `absolute` and `relative`"):
        Threshold.model_validate({"change": {"direction": "lower_is_better"}})
    with pytest.raises(ValidationError, match="set one of both"):
        Threshold.model_validate({"change": {"absolute": 0.1}, "not_worse_than_baseline_by": 0.1})


def test_a_config_without_thresholds_says_what_it_lets_pass() -> None:
    assert EvaluateConfig(thresholds={"auc": Threshold(min=0.5)}).what_passes == ""
    assert "beats a constant prediction" in EvaluateConfig().what_passes
    assert "every model whose metrics have values is" in EvaluateConfig(better_than_constant=False).what_passes
