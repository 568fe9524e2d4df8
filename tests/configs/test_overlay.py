"""A profile's file, and nulls, over a config."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import says
from overlaid import BASE

from headrace.common.errors import ConfigError
from headrace.common.names import CommandOption
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.configs.loading.overlays import merge
from headrace.configs.loading.tree import Location, Tree, dotted, plain
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.table_model import TableModel


def reported(error: ConfigError, folder: Path) -> list[str]:
    return str(error).replace(f"{folder}/", "").splitlines()


def test_an_overlay_merges_mappings_and_replaces_the_rest(config: Path) -> None:
    config.with_name("taxi.big.yaml").write_text("train: {batch_size: 9}\nmodel: {hidden: [8]}\n")
    loaded = load(config, profile="big")
    assert (loaded.train.epochs, loaded.train.batch_size, loaded.model.model_dump()["hidden"]) == (7, 9, (8,))


def test_paths_of_splits_are_merged_and_replaced_by_a_path(config: Path) -> None:
    config.with_name("taxi.big.yaml").write_text("data: {source: {path: {train: t.csv, test: e.csv}}}\n")
    data = load(config, profile="big", overrides=("data.source.path.test=s.csv",)).data
    assert data.source.model_dump()["path"] == {"train": "t.csv", "test": "s.csv"}
    assert data.splits == {"train": 8, "eval": 1, "test": 1}
    assert load(config, profile="big", overrides=("data.source.path=all.csv",)).data.own_splits == ()
    with pytest.raises(ConfigError) as caught:
        load(config, profile="big", overrides=("data.source.path.train=3",))
    (problem,) = caught.value.problems
    assert "data.source.path.train: found the number 3" in str(problem)


def test_null_in_an_overlay_replaces(config: Path) -> None:
    config.with_name("taxi.big.yaml").write_text("train: {early_stopping: null}\n")
    assert load(config, profile="big").train.early_stopping is None


def test_a_feature_of_another_kind_replaces_the_old_one_whole(config: Path) -> None:
    config.with_name("taxi.big.yaml").write_text("features: {fare: {column: hashed, hash_buckets: 9}}\n")
    fare = load(config, profile="big").declared_features["fare"]
    assert fare.model_dump(exclude_unset=True) == {"column": "hashed", "hash_buckets": 9}


@pytest.mark.parametrize("before", ["", "kind: table, "])
def test_a_model_of_another_kind_replaces_the_old_one_whole(config: Path, before: str) -> None:
    config.write_text(BASE.replace("hidden: [64", f"{before}hidden: [64"), encoding="utf-8")
    config.with_name("taxi.big.yaml").write_text("model: {kind: dnn, dropout: 0.5}\n")
    model = load(config, profile="big").model
    assert model.model_dump(exclude_unset=True) == {"kind": "dnn", "dropout": 0.5}
    same = load(config, overrides=["model.kind=table", "model.dropout=0.5"]).model
    assert isinstance(same, TableModel)
    assert (same.hidden, same.dropout) == ((64, 32), 0.5)


def test_an_overlay_of_comments_changes_nothing(config: Path) -> None:
    config.with_name("taxi.big.yaml").write_text("# nothing yet\n")
    assert load(config, profile="big") == load(config)


def test_mistakes_name_the_file_that_they_stand_in(config: Path, tmp_path: Path) -> None:
    config.write_text(BASE.replace("log", "lgo"), encoding="utf-8")
    config.with_name("taxi.big.yaml").write_text("\ntrain: {epochs: x}\n")
    with pytest.raises(ConfigError) as caught:
        load(config, profile="big", overrides=[CommandOption("label.kind=bin")])
    assert [line[: line.index(": found")] for line in reported(caught.value, tmp_path)] == [
        "taxi.yaml:5: features.fare.normalize",
        "taxi.big.yaml:2: train.epochs",
        "--set label.kind=bin: label.kind",
    ]


def test_an_unknown_profile_lists_those_that_exist(config: Path, tmp_path: Path) -> None:
    for name in ("kubeflow", "sample"):
        config.with_name(f"taxi.{name}.yaml").write_text("")
    with pytest.raises(ConfigError) as caught:
        load(config, profile=CommandOption("kubflow"))
    (problem,) = reported(caught.value, tmp_path)
    assert says(problem, '--profile kubflow: no such profile; …: kubeflow, sample …did you mean "kubeflow"?')


@pytest.mark.parametrize("profile", ["", "../x", "a/b", "\0", "*"])
def test_a_profile_that_is_not_a_name_is_reported(config: Path, profile: str) -> None:
    with pytest.raises(ConfigError, match="no such profile"):
        load(config, profile=profile)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("features.far=", "null removes this name"),
        ("evaluate.thresholds.auc=", "null removes this name"),
        ("train.epoch=", "no such setting; "),
        ("label.kind=null", "found null; allowed: binary"),
        ("model.hidden=[3, null]", "found null"),
        ("features=", "found null"),
    ],
)
def test_a_null_that_takes_nothing_away_is_reported(config: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config, overrides=[CommandOption(text)])
    assert str(caught.value).startswith(f"--set {text}: {text.partition('=')[0]}")
    assert f": {message}" in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_null_in_the_config_itself_takes_nothing_away(config: Path) -> None:
    config.write_text(BASE.replace("epochs: 7", "epochs: null"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"taxi.yaml:8: train.epochs: found null"):
        load(config)


RICH: dict[str, Any] = {
    "pipeline": {"name": "taxi", "root": "made"},
    "data": {
        "source": {"kind": "csv", "path": "{SPAN}/a.csv", "delimiter": ";"},
        "splits": {"train": 7, "eval": 2, "test": 1, "more": 1},
        "types": {"fare": "float"},
        "window": 3,
    },
    "label": {"key": "tip", "kind": "binary"},
    "features": {"fare": {"column": "numeric", "normalize": "log"}, "area": {"column": "vocabulary", "top_k": 9}},
    "model": {"kind": "wide_and_deep", "hidden": [64, 32]},
    "train": {
        "epochs": 7,
        "early_stopping": {"patience": 3},
        "optimizer": {"kind": "sgd"},
        "learning_rate": {"schedule": "cosine", "initial": 0.1},
        "input": {"cache": "memory"},
    },
    "evaluate": {"metrics": ["auc"], "thresholds": {"auc": {"min": 0.5}}, "slices": ["area"]},
    "deploy": {"push": "models/{name}"},
    "kubeflow": {"image": "a/b", "components": {"Trainer": {"cpu": 3}}},
}


def ways(value: Any, above: KeyPath = ()) -> Iterator[KeyPath]:
    """To everything in it that has a name."""
    for name, child in value.items() if isinstance(value, dict) else ():
        yield (*above, name)
        yield from ways(child, (*above, name))


def changed(value: Any, way: KeyPath, remove: bool) -> Any:
    """With null at the end of the way, or with nothing there."""
    first, *rest = way
    if rest:
        return {**value, first: changed(value[first], tuple(rest), remove)}
    return {name: child for name, child in value.items() if name != first} | ({} if remove else {first: None})


def loaded(text: Any, folder: Path, profile: Any = None) -> PipelineConfig | None:
    """None where it is refused."""
    (folder / "c.yaml").write_text(json.dumps(text))
    (folder / "c.over.yaml").write_text(json.dumps(profile))
    try:
        return load(folder / "c.yaml", profile="over" if profile else None)
    except ConfigError:
        return None


@functools.cache
def refuses_null(way: KeyPath, folder: Path) -> bool:
    """Whether the config with null there is refused."""
    return loaded(changed(RICH, way, remove=False), folder) is None


@pytest.mark.slow
@given(st.sets(st.sampled_from(sorted(ways(RICH))), min_size=1, max_size=3), st.booleans())
@settings(deadline=None)
def test_null_is_a_value_where_it_may_be_and_else_what_is_below_is_as_if_never_written(
    tmp_path_factory: pytest.TempPathFactory, chosen: set[KeyPath], by_set: bool
) -> None:
    folder = tmp_path_factory.getbasetemp()
    chosen = {way for way in chosen if not any(way[:length] in chosen for length in range(1, len(way)))}
    expected: Any = RICH
    overlay: dict[str, Any] = {}
    for way in sorted(chosen):
        expected = changed(expected, way, remove=refuses_null(way, folder))
        inner: Any = overlay
        for name in way[:-1]:
            inner = inner.setdefault(name, {})
        inner[way[-1]] = None
    config = loaded(expected, folder)
    assert loaded(RICH, folder, overlay) == config
    if by_set and config is not None:
        assert load(folder / "c.yaml", overrides=[f"{dotted(way)}=" for way in chosen]) == config


def test_an_empty_mapping_over_settings_changes_nothing(config: Path) -> None:
    assert load(config, overrides=["train={}", "features={fare: {}}"]) == load(config)


NAMES = st.sampled_from("abcd")
VALUES = st.recursive(
    st.integers() | st.none() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(NAMES, inner),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(NAMES, VALUES)


def tree(value: Any) -> Tree:
    place = Location(0, 0, 0, "")
    if isinstance(value, dict):
        return Tree({name: tree(child) for name, child in value.items()}, place, place)
    return Tree([tree(item) for item in value] if isinstance(value, list) else value, place, place)


def leaves(value: Any, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every value that is no mapping (or an empty one), by its way."""
    if not isinstance(value, dict) or not value:
        return {above: value}
    return {way: leaf for name, child in value.items() for way, leaf in leaves(child, (*above, name)).items()}


@given(MAPPINGS)
def test_laying_nothing_or_the_same_over_a_tree_changes_nothing(value: dict[str, Any]) -> None:
    assert plain(merge(tree(value), tree({}))) == value
    assert plain(merge(tree({}), tree(value))) == value
    assert plain(merge(tree(value), tree(value))) == value


@pytest.mark.slow
@given(MAPPINGS, MAPPINGS)
def test_every_leaf_comes_from_the_upper_tree_or_is_untouched_by_it(lower: Any, upper: Any) -> None:
    laid, low, up = leaves(plain(merge(tree(lower), tree(upper)))), leaves(lower), leaves(upper)
    assert all(laid[way] == leaf for way, leaf in up.items() if leaf != {})
    assert all((way, leaf) in [*up.items(), *low.items()] for way, leaf in laid.items())
    for way, leaf in low.items():
        if leaf != {} and not any(other[: len(way)] == way or way[: len(other)] == other for other in up):
            assert laid[way] == leaf
