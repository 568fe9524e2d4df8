"""Values of `--set` over a config."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import ConfigError
from headrace.common.names import CommandOption
from headrace.configs.loading.loader import Override, load, load_with_locations
from headrace.configs.loading.overlays import parse_setting
from headrace.configs.loading.tree import plain


def test_set_overrides_one_value_and_wins_over_the_profile(config: Path) -> None:
    config.with_name("taxi.big.yaml").write_text("train: {epochs: 8, batch_size: 9}\n")
    loaded = load(config, profile="big", overrides=["train.epochs=1", "model.hidden=[3, 4]", "deploy.push="])
    assert (loaded.train.epochs, loaded.train.batch_size, loaded.model.model_dump()["hidden"], loaded.deploy.push) == (
        1,
        9,
        (3, 4),
        None,
    )


@pytest.mark.parametrize("turn", [1, -1])
def test_set_changes_the_kind_of_a_feature_in_any_order(config: Path, turn: int) -> None:
    options = ["features.fare.column=hashed", "features.fare.hash_buckets=9"][::turn]
    fare = load(config, overrides=options).declared_features["fare"]
    assert fare.model_dump(exclude_unset=True) == {"column": "hashed", "hash_buckets": 9}


@pytest.mark.parametrize("turn", [1, -1])
def test_set_changes_the_kind_of_the_source_in_any_order(config: Path, turn: int) -> None:
    options = ["data.source.kind=sql", "data.source.url=sqlite:///trips.db", "data.source.table=trips"][::turn]
    source = load(config, overrides=options).data.source
    expected = {"kind": "sql", "url": "sqlite:///trips.db", "table": "trips"}
    assert source.model_dump(exclude_unset=True) == expected


def test_set_reaches_into_a_section_that_is_not_written(config: Path) -> None:
    assert load(config, overrides=["train.input.cache=none"]).train.input.cache == "none"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ('data.types."user.age"', "user.age"),
        ("data.types.'user.home.zip'", "user.home.zip"),
        ('data . types . "a = b.c"', "a = b.c"),
        ('data.types."it\'s"', "it's"),
        ("data.types.it's", "it's"),
        ('data.types."age"', "age"),
    ],
)
def test_a_name_in_quotes_may_have_dots(config: Path, path: str, name: str) -> None:
    for override in (f"{path}=int", (path, "int")):
        assert dict(load(config, overrides=[override]).data.types) == {name: "int"}


NAME = st.text(st.characters(exclude_characters='"', exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


@settings(max_examples=100)
@given(names=st.lists(NAME, min_size=1, max_size=4), value=st.sampled_from(["1", "[a, b]", "x = y"]))
def test_any_names_can_be_quoted(names: list[str], value: str) -> None:
    tree, problems = parse_setting(".".join(f'"{name}"' for name in names) + f"={value}", layer=2)
    assert (tree is not None, problems) == (True, [])
    for name in names:
        assert tree is not None
        assert isinstance(tree.value, dict)
        assert [*tree.value] == [name.strip()]
        tree = tree.value[name.strip()]
    assert tree is not None
    assert plain(tree) == {"1": 1, "[a, b]": ["a", "b"], "x = y": "x = y"}[value]


@pytest.mark.parametrize("path", ["data.types.user.age", "data.types.user.home.zip"])
def test_a_dotted_name_without_quotes_is_reported_with_them(config: Path, path: str) -> None:
    name = path.removeprefix("data.types.")
    with pytest.raises(ConfigError, match=rf"into quotes: 'data\.types\.\"{name}\"=int'$"):
        load(config, overrides=[CommandOption(f"{path}=int")])


@pytest.mark.parametrize("rest", [".min=0.9", ".change={min: 0.1}", "=0.9"])
def test_the_dot_in_the_name_of_a_metric_is_reported_with_quotes(config: Path, rest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config, overrides=[CommandOption(f"evaluate.thresholds.precision@0.3{rest}")])
    quoted, value = f'evaluate.thresholds."precision@0.3"{rest}'.split("=")
    assert str(caught.value).splitlines()[0].partition("into quotes: ")[2].startswith(f"'{quoted}")
    assert value.startswith("{") or str(caught.value).endswith(f"={value}'")


@pytest.mark.parametrize(
    "setting",
    ["kubeflow.defaults.env.DB.PASSWORD=hunter2", "kubeflow.defaults.env.DB.URL=postgres://me:hunter2@host/db"],
)
def test_the_way_to_quote_a_dotted_name_shows_no_credential(config: Path, setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config, overrides=[CommandOption(setting)])
    assert "into quotes: 'kubeflow.defaults.env.\"DB." in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_place_of_a_set_value_is_the_option(config: Path) -> None:
    loaded = load_with_locations(config, overrides=[CommandOption("train.epochs=1")])
    assert loaded.location(("train", "epochs")) == "--set train.epochs=1"
    assert loaded.location(("train", "early_stopping", "patience")) == f"{config}:8"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train", "write it as --set section.setting=value"),
        ("=1", "write it as --set section.setting=value"),
        ("train..epochs=1", "write it as --set section.setting=value"),
        ("train.epochs=[1", "not YAML: a [ is not closed"),
        ("train.epochs={a: 1, a: 2}", "a: set twice; keep one of them"),
        ("train.epochs.x=1", "train.epochs: found settings (x); allowed: auto, "),
        ('data.types."".a=int', "write it as --set section.setting=value"),
    ],
)
def test_a_mistaken_set_is_reported_with_the_option(config: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config, overrides=[CommandOption(text)])
    assert str(caught.value).startswith(f"--set {text}: {message}")


@pytest.mark.parametrize(
    ("overrides", "place"),
    [
        (["train"], "override train: "),
        (["train.epochs=x"], "override train.epochs=x: train.epochs: "),
        ([("train.epochs", "x")], "override train.epochs: train.epochs: "),
    ],
)
def test_messages_to_a_python_program_name_the_argument_and_no_option(
    config: Path, overrides: list[Override], place: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config, overrides=overrides)
    assert str(caught.value).startswith(place)
    with pytest.raises(ConfigError) as unknown:
        load(config, profile="kubflow")
    assert str(unknown.value).startswith("profile 'kubflow': ")
    assert "--" not in str(caught.value) + str(unknown.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("kubeflow.server.auth={kind: bearer, token: hunter2}", "kubeflow.server.auth.token: no such setting"),
        ("kubeflow.server.auth=hunter2", "kubeflow.server.auth: found a value that is not shown"),
        ("kubeflow.server.auth.kind=hunter2", "kubeflow.server.auth.kind: found a value that is not shown"),
        ("kubeflow={server: {auth: hunter2}}", "kubeflow.server.auth: found a value that is not shown"),
        ("kubeflow.server.auth={kind: [hunter2", "not YAML"),
        ('kubeflow.defaults.env."DB_PASSWORD=hunter2"', "write it as"),
        ('"kubeflow.defaults.env.DB_PASSWORD=hunter2"', "write it as"),
        (
            "kubeflow.server.endpoint='https://u:hunter2@h/x'",
            'kubeflow.server.endpoint: found the string "https://u:***@h',
        ),
        ("kubeflow.object_store.endpoint='http://u:hunter2@h'", "kubeflow.object_store.endpoint: found the string"),
        ("kubeflow.image='u:hunter2@h/x'", "kubeflow.image: "),
        ("kubeflow.defaults.env.DB_PASSWORD=hunter2", "kubeflow.defaults.env.DB_PASSWORD: DB_PASSWORD looks like"),
        (
            "kubeflow.defaults={env: {DB_PASSWORD: hunter2}}",
            "kubeflow.defaults.env.DB_PASSWORD: DB_PASSWORD looks like",
        ),
    ],
)
def test_what_may_be_a_credential_is_not_repeated_where_it_is_refused(config: Path, text: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config, overrides=[text])
    assert place in str(caught.value)
    path, _, value = text.partition("=")
    if text.startswith(("kubeflow.image", "kubeflow.server.auth.")):  # and where it stands in the file
        config.write_text(f"{config.read_text(encoding='utf-8')}{nested(path, value)}\n", encoding="utf-8")
        with pytest.raises(ConfigError) as again:
            load(config)
        assert place in str(again.value)
        assert "hunter2" not in str(again.value)
    assert "hunter2" not in str(caught.value)


def nested(path: str, value: str) -> str:
    """`a: {b: value}` for `a.b`."""
    first, *rest = path.split(".")
    return f"{first}: " + "".join(f"{{{name}: " for name in rest) + value + "}" * len(rest)


def test_an_unknown_name_in_set_offers_the_nearest(config: Path) -> None:
    with pytest.raises(ConfigError, match=r'^--set train.epoch=1: train.epoch: .*did you mean "epochs"\?$'):
        load(config, overrides=[CommandOption("train.epoch=1")])


@pytest.mark.slow
@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_set_values_of_different_settings_do_not_depend_on_their_order(epochs: int, size: int, swap: bool) -> None:
    options = [f"train.epochs={epochs}", f"train.batch_size={size}", "train.epochs=3" if swap else "train.seed=1"]
    train = load("configs/taxi.yaml", overrides=options).train
    assert (train.batch_size, train.epochs) == (size, 3 if swap else epochs)
    if not swap:
        assert load("configs/taxi.yaml", overrides=options[::-1]).train == train
