"""`features: {function: ...}` and `model: {run_fn: ...}`: what is accepted, and what is refused rather than ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigError
from headrace.configs.allowed_values import describe_allowed
from headrace.configs.config import PipelineConfig
from headrace.configs.json_schema import schema_at
from headrace.configs.loading.loader import load
from headrace.configs.schema.features import PreprocessingFunction
from headrace.configs.schema.models import RunFnModel

BASE: dict[str, Any] = {
    "pipeline": {"name": "taxi"},
    "data": {"source": {"kind": "csv", "path": "taxi.csv"}},
    "label": {"key": "tips", "kind": "binary"},
    "features": {"function": "mine.preprocessing_fn", "label_key": "tips_xf"},
    "model": {"run_fn": "mine.run_fn", "train_steps": 10, "eval_steps": 2},
}
COLUMNS = {"fare": {"column": "numeric"}}


def with_overrides(path: Path, *overrides: str, **sections: Any) -> PipelineConfig:
    (path / "taxi.yaml").write_text(json.dumps({**BASE, **sections}), encoding="utf-8")
    return load(path / "taxi.yaml", overrides=overrides)


def test_functions_take_the_place_of_feature_columns_and_model(tmp_path: Path) -> None:
    config = with_overrides(tmp_path, "features.custom_config={a: [1]}")
    assert config.preprocessing == PreprocessingFunction(
        function="mine.preprocessing_fn", label_key="tips_xf", custom_config={"a": [1]}
    )
    assert config.own_training == RunFnModel(run_fn="mine.run_fn", train_steps=10, eval_steps=2)
    assert (config.label_key, config.declared_features, config.read_columns) == ("tips_xf", {}, None)
    assert PipelineConfig.model_validate_json(config.model_dump_json(by_alias=True)) == config


def test_keys_are_the_columns_that_are_watched_and_read(tmp_path: Path) -> None:
    config = with_overrides(tmp_path, "features.keys=[fare, trip_miles]", "data.columns=used", "features.label_key=")
    assert config.feature_columns == ["fare", "trip_miles"]
    assert config.read_columns == ("fare", "tips", "trip_miles")
    assert config.label_key == "tips"


def test_run_fn_takes_feature_columns_too(tmp_path: Path) -> None:
    config = with_overrides(tmp_path, features=COLUMNS)
    assert (config.preprocessing, [*config.declared_features]) == (None, ["fare"])
    assert config.label_key == "tips"


def test_a_feature_column_may_be_named_function(tmp_path: Path) -> None:
    features = {"function": {"column": "numeric", "key": "fare"}}
    config = with_overrides(tmp_path, features=features, model={"kind": "dnn"})
    assert config.feature_columns == ["fare"]


@pytest.mark.parametrize(
    ("override", "place", "word"),
    [
        ("train.epochs=3", "train.epochs", "mine.run_fn"),
        ("train.optimizer=sgd", "train.optimizer", "no effect"),
        ("tune={parameters: {train.learning_rate: {min: 0.1, max: 0.2}}}", "tune", "mine.run_fn"),
        ("model.hidden=[8]", "model.hidden", "run_fn model has"),
        ("model.train_steps=0", "model.train_steps", "at least 1"),
        ("model.run_fn=run_fn", "model.run_fn", "dotted path"),
        ("features.function=f", "features.function", "dotted path"),
        ("features.lable_key=x", "features.lable_key", 'did you mean "label_key"'),
        ("features.keys=[fare, tips]", "features.keys[1]", "label"),
        ("data.columns=used", "data.columns", "features.keys"),
        ("schedule={every: 1d, retrain: drift}", "schedule.retrain", "features.keys"),
        ("model.kind=dnn", "features.function", "model.run_fn"),
    ],
)
def test_what_cannot_apply_is_refused_at_its_place(tmp_path: Path, override: str, place: str, word: str) -> None:
    with pytest.raises(ConfigError) as refused:
        with_overrides(tmp_path, override)
    (problem,) = refused.value.problems
    assert f": {place}: " in f": {problem}"
    assert word in str(problem)


def test_mistakes_in_feature_columns_are_all_reported_as_before(tmp_path: Path) -> None:
    features = {"a": {"column": "numerc"}, "b": {"column": "numeric", "normalise": "log"}}
    with pytest.raises(ConfigError) as refused:
        with_overrides(tmp_path, features=features, model={"kind": "dnn"})
    reported = [str(problem) for problem in refused.value.problems]
    assert len(reported) == 2
    assert any("features.a.column" in each and "numeric" in each for each in reported)
    assert any("features.b.normalise" in each and "normalize" in each for each in reported)


def test_schema_follows_both_forms() -> None:
    assert schema_at(("features", "columns", "fare", "numeric", "normalize")).path == ("features", "fare", "normalize")
    found = schema_at(("features", "function", "keys"))
    assert found.path == ("features", "keys")
    assert describe_allowed(found.schema).startswith("non-empty list")
