"""The stored plan: what its key depends on, and that a damaged one is not used."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edits import edit

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.code.digest import read_again
from headrace.pipeline.code.modules import search_path
from headrace.pipeline.local.known_plan import covers, is_outdated, plan_key, read_plan, write_plan

CONFIG: dict[str, Any] = {
    "pipeline": {"name": "trips"},
    "data": {"source": {"kind": "csv", "path": "trips.csv"}, "schema": "schema.pbtxt"},
    "label": {"key": "tip", "kind": "binary"},
    "features": {
        "kind": {"column": "vocabulary", "file": "kinds.txt"},
        "double": {"column": "custom", "function": "mine.double", "keys": ["fare"]},
    },
    "model": {"kind": "wide_and_deep", "hidden": [4]},
}
FILES = {
    "schema.pbtxt": 'feature { name: "kind" type: BYTES }\n',
    "kinds.txt": "a\nb\n",
    "mine.py": "from units import FACTOR\n\n\ndef double(raw):\n    return raw['fare'] * FACTOR\n",
    "units.py": "FACTOR = 2.0\n",
}
NODES: list[dict[str, Any]] = [{"id": "Spans", "parameters": {"data": "{}"}, "inputs": {}}]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, which is the current one. PYTHONPATH names an empty folder below it."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "path").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "path"), *sys.path])
    return tmp_path


def key(**overrides: Any) -> str | None:
    read_again()
    return plan_key(config(**overrides), search_path())


def config(**overrides: Any) -> PipelineConfig:
    return load(CONFIG, overrides=[(name.replace("__", "."), value) for name, value in overrides.items()])


def other_release(folder: Path) -> None:
    """Another NumPy is installed, where Python finds it first."""
    about = folder / "path" / "numpy-99.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 99.0\n", encoding="utf-8")


def shadow(folder: Path) -> None:
    """A module of the same name and another content comes before the one in the current folder."""
    (folder / "path" / "units.py").write_text("FACTOR = 3.0\n", encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [
        edit("mine.py", "*", "+"),
        edit("units.py", "2.0", "2.5"),
        edit("kinds.txt", "b", "c"),
        edit("schema.pbtxt", "BYTES", "INT"),
        other_release,
        shadow,
        lambda folder: (folder / "kinds.txt").unlink(),
    ],
)
def test_a_change_of_code_files_or_releases_changes_the_key(folder: Path, change: Callable[[Path], None]) -> None:
    before = key()
    assert before is not None
    assert key() == before
    change(folder)
    assert key() not in (before, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train__epochs", 7),
        ("pipeline__root", "elsewhere"),
        ("pipeline__name", "journeys"),
        ("data__source__path", "others.csv"),
        ("deploy__push", "elsewhere"),
        ("schedule", {"cron": "0 3 * * *", "retrain": "new_span"}),
        ("beam", {"runner": "direct"}),
        ("notify", {"me": {"kind": "webhook", "url": "http://127.0.0.1:1/"}}),
    ],
)
def test_every_setting_counts(folder: Path, name: str, value: object) -> None:
    assert len({key(), key(**{name: value}), None}) == 3


def test_comments_and_layout_do_not_count_but_the_folder_and_the_search_path_do(folder: Path) -> None:
    before = key()
    (folder / "mine.py").write_text("# doubles\n" + FILES["mine.py"].replace("\n\n\n", "\n\n"), encoding="utf-8")
    assert key() == before
    assert plan_key(config(), [*search_path(), "/more"]) != before
    (folder / "inside").mkdir()
    for name, text in FILES.items():
        (folder / "inside" / name).write_text(text, encoding="utf-8")
    os.chdir(folder / "inside")
    assert key() not in (before, None)


@pytest.mark.parametrize(
    "overrides",
    [
        {"pipeline__extend": "mine.extend"},
        {"data__source": {"kind": "arrays", "function": "mine.data"}},
        {"data__source": {"kind": "python", "function": "mine.data"}},
        {"features__more": {"column": "custom", "function": "gone.double", "keys": ["fare"]}},
    ],
)
def test_code_that_cannot_be_known_or_must_not_run_in_the_command_has_no_key(
    folder: Path, overrides: dict[str, Any]
) -> None:
    assert key(**overrides) is None


def test_modules_that_the_key_does_not_depend_on_are_found(folder: Path) -> None:
    read_again()
    known = ["mine", "units", "headrace.trainer.run", "headrace.components.gates.data_gate", "tfx.components.trainer"]
    assert covers(config(), known)
    (folder / "unknown.py").write_text("", encoding="utf-8")
    assert not covers(config(), [*known, "unknown"])


@pytest.mark.slow
def test_a_stored_plan_is_read_only_with_its_key_and_intact(folder: Path) -> None:
    file = folder / "plan.json"
    assert read_plan(file, "key") is None
    write_plan(file, "key", NODES, config())
    assert read_plan(file, "key") == NODES
    assert read_plan(file, "other") is None
    assert read_plan(file, None) is None
    whole = file.read_bytes()
    for position in range(len(whole)):
        for content in (whole[:position], whole[:position] + b"!" + whole[position + 1 :]):
            file.write_bytes(content)
            assert read_plan(file, "key") in (None, NODES)
    assert json.loads(whole)["nodes"] == NODES


def test_a_stored_plan_is_outdated_for_another_config_or_when_damaged(folder: Path) -> None:
    file = folder / "plan.json"
    assert is_outdated(file, config())
    write_plan(file, "key", NODES, config())
    assert not is_outdated(file, config())
    assert is_outdated(file, config(train__epochs=3))
    file.write_bytes(file.read_bytes()[1:])
    assert is_outdated(file, config())
