"""Which edits make a component run again: those that change what it does, and no others.

Each digest is asked of a fresh process, over a copy of the packages with a user's modules beside them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.sources import closure, sources_digest, stack_versions

ROOT = Path(__file__).parents[2]
SCRIPT = (
    "import json, sys; from pipeline.sources import sources_digest as d; print(json.dumps([*map(d, sys.argv[1:])]))"
)
ENTRIES = (
    "components.example_gen.component",
    "components.data_gate",
    "trainer.preprocessing",
    "trainer.run",
    "mine.features",
)
INGEST, GATE, PREPROCESSING, TRAINING, MINE = ENTRIES

Changed = Callable[[str, str, str], set[str]]

FEATURES = '''\
"""Ours."""
from . import units
from .deep.inner import scale


def speed(raw):
    """Miles an hour."""
    import late
    return late.limit(raw["miles"] * units.MILE) * scale
'''


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    for package in ("configs", "trainer", "components", "pipeline"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "mine" / "deep").mkdir(parents=True)
    (folder / "mine" / "features.py").write_text(FEATURES)
    (folder / "mine" / "units.py").write_text("MILE = 1609\n")
    (folder / "mine" / "deep" / "__init__.py").write_text("")
    (folder / "mine" / "deep" / "inner.py").write_text("from mine.deep.innermost import *\n")
    (folder / "mine" / "deep" / "innermost.py").write_text("scale = 2\n")
    (folder / "late.py").write_text("def limit(x):\n    return x\n")
    (folder / "unrelated.py").write_text("x = 1\n")
    return folder


@pytest.fixture(scope="module")
def before(original: Path) -> list[str]:
    return digests(original)


@pytest.fixture
def tree(original: Path, tmp_path: Path) -> Path:
    """A copy to edit."""
    shutil.copytree(original, tmp_path / "tree")
    return tmp_path / "tree"


def digests(tree: Path) -> list[str]:
    """Of each entry."""
    command = [sys.executable, "-P", "-c", SCRIPT, *ENTRIES]
    done = subprocess.run(command, env={"PYTHONPATH": str(tree)}, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.fixture
def changed(tree: Path, before: list[str]) -> Changed:
    """Which entries have another digest after `old` in `file` became `new`."""

    def after(file: str, old: str, new: str) -> set[str]:
        text = (tree / file).read_text()
        assert old in text
        (tree / file).write_text(text.replace(old, new))
        return {entry for entry, one, two in zip(ENTRIES, before, digests(tree), strict=True) if one != two}

    return after


ADDED = "\n\n_ADDED = 1\n"


def append(changed: Changed, tree: Path, file: str, text: str) -> set[str]:
    """Which entries have another digest when a file ends with `text` too."""
    whole = (tree / file).read_text()
    return changed(file, whole, whole + text)


@pytest.mark.parametrize(
    ("file", "entries"),
    [
        ("components/example_gen/split.py", {INGEST}),
        ("components/example_gen/delimited/parse.py", {INGEST}),
        ("components/data_rules.py", {GATE}),
        ("trainer/columns/numeric.py", {PREPROCESSING, TRAINING}),
        ("trainer/columns/__init__.py", {PREPROCESSING, TRAINING}),
        ("trainer/models/dnn.py", {TRAINING}),
        ("trainer/callbacks/best_weights.py", {TRAINING}),
        ("configs/label.py", {GATE, PREPROCESSING, TRAINING}),
        ("pipeline/report/page.py", set()),
        ("mine/units.py", {MINE}),
        ("mine/deep/innermost.py", {MINE}),
        ("mine/deep/__init__.py", {MINE}),
        ("late.py", {MINE}),
        ("unrelated.py", set()),
    ],
)
def test_edit_reaches_all_that_import_the_module_and_nothing_else(
    changed: Changed, tree: Path, file: str, entries: set[str]
) -> None:
    assert append(changed, tree, file, ADDED) == entries


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Ours."""\n', ""),
        ('"""Ours."""\n', '"""Yours, with\nmore lines."""\n# and a comment\n\n\n'),
        ('    """Miles an hour."""\n', ""),
        ('raw["miles"] * units.MILE', "(raw['miles']  # a comment\n   * units.MILE)"),
    ],
)
def test_edit_of_comments_docstrings_or_layout_changes_nothing(changed: Changed, old: str, new: str) -> None:
    assert changed("mine/features.py", old, new) == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [("* scale", "/ scale"), ('"miles"', '"mile"'), ("def speed(raw)", "def speed(raw, factor=1)")],
)
def test_edit_of_the_program_changes_the_digest(changed: Changed, old: str, new: str) -> None:
    assert changed("mine/features.py", old, new) == {MINE}


def test_moving_the_whole_tree_changes_nothing(tree: Path, before: list[str]) -> None:
    assert digests(tree) == before


def test_closure_holds_the_projects_modules_and_no_installed_ones() -> None:
    found = closure("trainer.run")
    assert found["trainer.models.dnn"] == ROOT / "trainer" / "models" / "dnn.py"
    assert {name.partition(".")[0] for name in found} == {"trainer", "configs"}
    assert closure("tfx.components.trainer.executor", "json", "no_such_module") == {}


def test_modules_that_import_each_other_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ring_a.py").write_text("import ring_b\n")
    (tmp_path / "ring_b.py").write_text("from ring_a import *\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert set(closure("ring_a")) == {"ring_a", "ring_b"}
    assert sources_digest("ring_a") == sources_digest("ring_b", "ring_a")


def test_versions_of_the_stack_are_the_installed_ones() -> None:
    import pyarrow as pa

    assert stack_versions()["pyarrow"] == pa.__version__
    assert {"tensorflow", "tfx", "apache-beam"} <= set(stack_versions())
