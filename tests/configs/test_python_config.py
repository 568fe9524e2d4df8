"""A config from Python objects is the one that a file with the same settings gives, mistakes included."""

from __future__ import annotations

import copy
import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import ConfigError
from headrace.configs.config import PipelineConfig, PipelineSection
from headrace.configs.loading.loader import load
from headrace.configs.loading.tree import Tree, plain, tree_from_objects
from headrace.configs.loading.yaml_reader import read
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.features import NumericFeature
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.section import Section
from headrace.configs.schema.sources import CsvSource

CONFIGS = Path(__file__).parents[2] / "configs"
TRIPS: dict[str, Any] = {
    "pipeline": {"name": "trips"},
    "data": {"source": {"kind": "csv", "path": "trips.csv"}},
    "label": {"key": "tipped", "kind": "binary"},
    "features": {"miles": {"column": "numeric"}},
}
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("aé :#-{'\"", max_size=8)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
)


@pytest.mark.parametrize("name", ["taxi", "digits", "pydoc"])
def test_settings_as_a_mapping_and_a_config_itself_give_the_config_of_the_file(name: str) -> None:
    path = CONFIGS / f"{name}.yaml"
    expected = load(path)
    assert load(yaml.safe_load(path.read_text(encoding="utf-8"))) == expected
    assert load(expected) == expected
    assert load(expected, overrides=["train.epochs=7"]).train.epochs == 7


def test_config_can_be_built_from_its_classes() -> None:
    built = PipelineConfig(
        pipeline=PipelineSection(name="trips"),
        data=DataConfig(source=CsvSource(kind="csv", path="trips.csv")),
        label=LabelConfig(key="tipped", kind="binary"),
        features={"miles": NumericFeature(column="numeric")},
    )
    assert load(built) == load(TRIPS)


def test_sections_that_are_left_out_are_those_that_are_given_without_settings() -> None:
    waiting, compared = [Section], 0
    for section in waiting:
        waiting += section.__subclasses__()
        for field in section.model_fields.values():
            if isinstance(default := field.default, Section):
                given = type(default)()
                assert (default, default.model_fields_set) == (given, given.model_fields_set)
                assert default.model_dump_json(by_alias=True) == given.model_dump_json(by_alias=True)
                compared += 1
    assert compared > 10


def test_rules_across_sections_hold_for_a_config_that_is_built() -> None:
    built = load(TRIPS)
    wrong = built.model_copy(update={"features": {"tipped": built.declared_features["miles"]}})
    with pytest.raises(ConfigError, match=r"config: features.tipped"):
        load(wrong)


def test_every_mistake_is_reported_in_the_order_of_the_settings() -> None:
    wrong = copy.deepcopy(TRIPS)
    wrong["pipeline"]["nam"] = "x"
    wrong["data"]["window"] = object()
    wrong["label"][3] = "x"
    wrong["features"]["miles"]["column"] = "numerical"
    wrong["train"] = {"epochs": "many"}
    with pytest.raises(ConfigError) as refused:
        load(wrong)
    lines = str(refused.value).splitlines()
    assert [line.split(":")[1].strip() for line in lines] == [
        "pipeline.nam", "data.window", "label", "features.miles.column", "train.epochs"
    ]  # fmt: skip
    assert "builtins.object" in lines[1]
    assert '"many"' in lines[4]


def test_numpy_numbers_dates_and_odd_characters_are_taken_as_they_are() -> None:
    days = {"kind": "csv", "path": "d/{YYYY}-{MM}-{DD}/*.csv"}
    overrides = [("train.epochs", np.int64(3)), ("data.source", days), ("data.run_date", dt.date(2026, 1, 2))]
    config = load({**TRIPS, "label": {"key": "a\x85b", "kind": "binary"}}, overrides=[*overrides, ("label.text", None)])
    assert (config.train.epochs, config.data.run_date, config.label.key) == (3, "2026-01-02", "a\x85b")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (("train.epochs", {1, 2}), "override train.epochs: found builtins.set"),
        (("train.epochs", 10**5000), "override train.epochs: a number of more than 300 digits"),
        (("label.key", "a\ud800"), "override label.key: "),
        (("train..epochs", 1), "section.setting"),
        (("train.epochs", np.arange(2)), "override train.epochs: found numpy.ndarray"),
    ],
)
def test_override_that_is_not_a_setting_is_refused(override: tuple[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(TRIPS, overrides=[override])
    assert words in str(refused.value)


def test_nothing_that_was_left_out_counts_as_set_when_a_config_is_loaded_again() -> None:
    defaults = {"env": {"A": "b"}, "memory": "3G"}
    kubeflow = {"image": "r/x:1", "defaults": defaults, "components": {"Trainer": {"cpu": 6}}}
    once = load({**TRIPS, "kubeflow": kubeflow})
    again = load(once, overrides=["train.epochs=3"])
    assert again.kubeflow.settings("Trainer") == once.kubeflow.settings("Trainer")
    assert again.kubeflow.settings("Trainer").memory == "3G"


def test_no_message_holds_a_credential_in_any_of_its_forms() -> None:
    for source, profile in (
        ("https://me:hunter2secret@host/x.yaml", None),
        ("nix.yaml", "https://me:hunter2secret@h/x"),
    ):
        with pytest.raises(ConfigError) as refused:
            load(source, profile)
        reported = [
            str(refused.value),
            repr(refused.value),
            *map(str, refused.value.problems),
            repr(refused.value.args),
        ]
        assert not [text for text in reported if "hunter2" in text]


def test_settings_nested_without_end_are_refused() -> None:
    wrong: dict[str, Any] = copy.deepcopy(TRIPS)
    wrong["train"] = wrong
    with pytest.raises(ConfigError, match="nested more than 40 deep"):
        load(wrong)


def test_paths_are_texts_and_tuples_lists() -> None:
    config = load(
        {
            **TRIPS,
            "data": {"source": {"kind": "csv", "path": Path("a", "trips.csv")}},
            "model": {"kind": "dnn", "hidden": (8, 4)},
        }
    )
    assert config.data.source == CsvSource(kind="csv", path="a/trips.csv")
    assert config == load(
        {
            **TRIPS,
            "data": {"source": {"kind": "csv", "path": "a/trips.csv"}},
            "model": {"kind": "dnn", "hidden": [8, 4]},
        }
    )


@pytest.mark.slow
@given(st.dictionaries(st.text("abc", min_size=1), values, max_size=3))
def test_tree_of_objects_holds_what_the_tree_of_their_yaml_holds(settings: dict[str, Any]) -> None:
    tree, mistakes = tree_from_objects(settings, "config")
    assert not mistakes
    written, _ = read(yaml.safe_dump(settings), "config.yaml", 0)
    assert isinstance(written, Tree)
    assert plain(tree) == plain(written) == settings
