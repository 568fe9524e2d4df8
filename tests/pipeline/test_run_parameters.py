"""`--param`: the settings of a single run, here."""

from __future__ import annotations

import pytest

from headrace.common.errors import ConfigError
from headrace.pipeline.run_parameters import parameter_overrides


def test_names_stand_for_settings_of_the_config() -> None:
    given = ["run_date=2026-11-20", "spans=2..4", "epochs=3", "steps_per_epoch=0", "pipeline_root=/tmp/a"]
    assert parameter_overrides(given) == (
        (
            "data.run_date=2026-11-20",
            "data.spans=[2, 4]",
            "train.epochs=3",
            "train.steps_per_epoch=null",
            "pipeline.root=/tmp/a",
        ),
        True,
    )
    assert parameter_overrides(["spans=", "run_date="]) == (("data.spans=null", "data.run_date=null"), True)


def test_a_run_that_is_to_train_whatever_there_is_changes_no_setting() -> None:
    assert parameter_overrides(["retrain=always"]) == ((), False)
    assert parameter_overrides(["retrain=new_span"]) == (("schedule.retrain=new_span",), True)


def test_every_mistake_is_reported() -> None:
    with pytest.raises(ConfigError) as error:
        parameter_overrides(["epochs", "epoch=3", "epochs=many"])
    reported = str(error.value)
    assert "NAME=VALUE" in reported
    assert 'epoch; did you mean "epochs"?' in reported
    assert "epochs must be a number; found 'many'" in reported
