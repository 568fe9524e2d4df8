"""Settings written into a config file: what else it says stays, letter by letter, and it is never damaged."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import ConfigError
from headrace.configs.loading.editing import _Dumper, edit, to_flow

CHANGE: dict[str, Any] = {"cache": "memory", "threads": 2}


def edited(folder: Path, text: str, values: dict[str, Any] = CHANGE) -> str:
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    edit(file, ("train", "input"), values)
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("train: {epochs: 3}  # few\nmodel: 1\n",
         "train: {epochs: 3, input: {cache: memory}}  # few\nmodel: 1\n"),
        ("train: {}\n", "train: {input: {cache: memory}}\n"),
        ("train: { epochs: 3 }\n", "train: { epochs: 3, input: {cache: memory} }\n"),
        ("train:\n  epochs: 3  # few\n\n# the model\nmodel: 1\n",
         "train:\n  epochs: 3  # few\n  input: {cache: memory}\n\n# the model\nmodel: 1\n"),
        ("train:\n  input:\n    cache: none  # slow\n    shuffle: 5\nmodel: 1\n",
         "train:\n  input:\n    cache: memory  # slow\n    shuffle: 5\nmodel: 1\n"),
        ("train:\n  input:\n    shuffle: 5", "train:\n  input:\n    shuffle: 5\n    cache: memory\n"),
        ("train: {input: {cache: none, shuffle: 5}}", "train: {input: {cache: memory, shuffle: 5}}"),
        ("train:\n  input:\n  epochs: 3\n", "train:\n  input: {cache: memory}\n  epochs: 3\n"),
        ("train:\nmodel: 1\n", "train: {input: {cache: memory}}\nmodel: 1\n"),
        ("model: 1\n", "model: 1\ntrain: {input: {cache: memory}}\n"),
        ("model:\n  a: |\n    text\n    more\n",
         "model:\n  a: |\n    text\n    more\ntrain: {input: {cache: memory}}\n"),
        ("", "train: {input: {cache: memory}}\n"),
        ("train: {input: {length_buckets: [1, 2]}, epochs: 3}",
         "train: {input: {length_buckets: [1, 2], cache: memory}, epochs: 3}"),
    ],
)  # fmt: skip
def test_a_setting_is_written_where_a_person_would_write_it(tmp_path: Path, before: str, after: str) -> None:
    assert edited(tmp_path, before, {"cache": "memory"}) == after


def test_the_worked_example_keeps_its_comments_and_lines(tmp_path: Path) -> None:
    before = (Path(__file__).parents[2] / "configs" / "taxi.yaml").read_text(encoding="utf-8")
    after = edited(tmp_path, before)
    old, new = before.splitlines(), after.splitlines()
    assert len(old) == len(new)
    assert [line for line, other in zip(new, old, strict=True) if line != other] == [
        "train: {epochs: 10, batch_size: 256, input: {cache: memory, threads: 2}}"
    ]


words = st.text("ab:# -'\"{}[],é\n", max_size=6)
scalars = st.one_of(st.integers(0, 99), st.booleans(), st.none(), words)
keys = st.sampled_from(["cache", "shuffle", "threads", "x", "a b"])
inputs = st.one_of(st.none(), st.dictionaries(keys, st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=4))
trains = st.one_of(st.none(), st.fixed_dictionaries({"epochs": scalars}, optional={"input": inputs, "seed": scalars}))
configs = st.fixed_dictionaries(
    {"pipeline": scalars}, optional={"train": trains, "model": st.lists(scalars, max_size=2)}
)
values = st.dictionaries(st.sampled_from(["cache", "threads", "prefetch"]), scalars, min_size=1)


@pytest.mark.slow
@given(config=configs, change=values, flow=st.sampled_from([True, False, None]), indent=st.integers(2, 6))
def test_the_file_says_what_it_said_and_the_settings(
    tmp_path_factory: pytest.TempPathFactory, config: Any, change: dict[str, Any], flow: bool | None, indent: int
) -> None:
    folder = tmp_path_factory.mktemp("edit")
    text = yaml.safe_dump(config, default_flow_style=flow, indent=indent, sort_keys=False)
    try:
        after = edited(folder, text, change)
    except ConfigError:
        assert (folder / "config.yaml").read_text() == text
        return
    train = config.get("train") or {}
    expected = {**config, "train": {**train, "input": {**(train.get("input") or {}), **change}}}
    assert yaml.safe_load(after) == expected


@pytest.mark.parametrize(
    "text",
    [
        "train: &t {epochs: 1}\nother: *t\n",
        "train: *unknown\n",
        "train: {epochs: 1 # few\n  }\n",
        "a: [1\n",
        "train: 5\n",
        "- a\n",
    ],
)
def test_a_file_that_cannot_be_edited_stays_and_the_patch_is_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"input: \{cache: memory, threads: 2\}"):
        edited(tmp_path, text)
    assert (tmp_path / "config.yaml").read_text() == text


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("train: {}\n", encoding="utf-8")
    file.chmod(0o600)
    edit(file, ("train", "input"), CHANGE, lambda new: new.stat().st_mode & 0o777 == 0o600)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_fails_the_check_stays(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("train: {}\n")
    with pytest.raises(ConfigError, match="by hand"):
        edit(file, ("train", "input"), CHANGE, lambda new: "cache" not in new.read_text())
    assert file.read_text() == "train: {}\n"
    assert list(tmp_path.iterdir()) == [file]


WORDS = st.sampled_from(["a", "x_1", "yes", "no", "null", "on", "1e5", "~", "nan", "a b", "ü", "n" * 101, "-", ""])
VALUES = st.recursive(
    WORDS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)


@given(VALUES)
def test_short_values_are_written_as_pyyaml_writes_them(value: Any) -> None:
    text = yaml.dump(
        [value, [0.5]], Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1 << 30
    )
    assert to_flow([value, [0.5]], 1 << 30) == text.rstrip("\n")  # a fraction is left to PyYAML
    assert to_flow({"only": value}).removeprefix("{only: ").removesuffix("}") == text.rstrip("\n")[1:-8]
