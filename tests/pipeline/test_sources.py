"""Which edits make a component run again: those that change what it does, and no others.

Each digest is asked of a fresh process in an environment that the project is installed in, as an editable one unless a
test says otherwise, without PYTHONPATH, in a folder that holds a user's modules.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from installed import Installed, install

from headrace.common.errors import RunError
from headrace.pipeline.code.digest import closure, sources_digest, sources_of, stack_versions

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
from headrace.pipeline.code.digest import sources_digest
print(json.dumps([sources_digest(*modules.split()) for modules in sys.argv[1:]]))
"""
ENTRIES = (
    "headrace.components.example_gen.component headrace.components.sources.csv.source",
    "headrace.components.gates.data_gate",
    "headrace.trainer.preprocessing headrace.trainer.columns.hashed",
    "headrace.trainer.run headrace.trainer.columns.hashed headrace.trainer.models.dnn",
    "mine.features",
)
"""What is digested together: a component, and the modules of the kinds that a config uses."""
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


@dataclass(frozen=True)
class Tree:
    """An installed copy of the project and a folder of a user's."""

    project: Installed
    mine: Path

    def file(self, name: str) -> Path:
        """One of the project's or the user's."""
        return next(place for place in (self.project.sources / name, self.mine / name) if place.is_file())

    def digests(self, *entries: str, **environment: str) -> list[str]:
        """As a fresh process has them."""
        done = self.project.python(SCRIPT, *entries, cwd=self.mine, **environment)
        found: list[str] = json.loads(done.stdout)
        return found


def write_modules(folder: Path) -> Path:
    """A user's."""
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
def original(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    folder = tmp_path_factory.mktemp("original")
    return Tree(install(folder, editable=True), write_modules(folder / "folder"))


@pytest.fixture(scope="module")
def before(original: Tree) -> list[str]:
    return original.digests(*ENTRIES)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A copy to edit, in another place. Each has 2,400 files."""
    folder = tmp_path_factory.mktemp("edited")
    return Tree(install(folder, editable=True), write_modules(folder / "folder"))


@pytest.fixture(scope="module")
def changed(tree: Tree, before: list[str]) -> Changed:
    """Which entries have another digest after `old` in `file` became `new`, which is then taken back."""

    def after(name: str, old: str, new: str) -> set[str]:
        file = tree.file(name)
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        try:
            found = tree.digests(*ENTRIES)
        finally:
            file.write_text(text)
        return {entry for entry, one, two in zip(ENTRIES, before, found, strict=True) if one != two}

    return after


ADDED = "\n\n_ADDED = 1\n"


def append(changed: Changed, tree: Tree, file: str, text: str) -> set[str]:
    """Which entries have another digest when a file ends with `text` too."""
    whole = tree.file(file).read_text()
    return changed(file, whole, whole + text)


@pytest.mark.parametrize(
    ("file", "entries"),
    [
        ("components/example_gen/shards/layout.py", {INGEST}),
        ("components/sources/csv/parse.py", {INGEST}),
        ("components/gates/data_rules.py", {GATE}),
        ("components/sources/sql/source.py", set()),
        ("trainer/columns/hashed.py", {PREPROCESSING, TRAINING}),
        ("trainer/columns/numeric.py", set()),
        ("trainer/columns/__init__.py", {PREPROCESSING, TRAINING}),
        ("trainer/models/dnn.py", {TRAINING}),
        ("trainer/models/dcn.py", set()),
        ("trainer/callbacks/weights.py", {TRAINING}),
        ("configs/schema/label.py", {GATE, PREPROCESSING, TRAINING}),
        ("pipeline/report/page.py", set()),
        ("mine/units.py", {MINE}),
        ("mine/deep/innermost.py", {MINE}),
        ("mine/deep/__init__.py", {MINE}),
        ("late.py", {MINE}),
        ("unrelated.py", set()),
    ],
)
def test_edit_reaches_all_that_import_the_module_and_nothing_else(
    changed: Changed, tree: Tree, file: str, entries: set[str]
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


def test_moving_the_whole_tree_changes_nothing(tree: Tree, before: list[str]) -> None:
    assert tree.digests(*ENTRIES) == before


def test_project_installed_as_a_wheel_has_the_digests_of_an_editable_one(tmp_path: Path, before: list[str]) -> None:
    wheel = Tree(install(tmp_path, editable=False), write_modules(tmp_path / "folder"))
    assert wheel.digests(*ENTRIES) == before
    assert "site-packages" in wheel.file("trainer/run.py").parts
    wheel.file("trainer/run.py").write_text(wheel.file("trainer/run.py").read_text() + ADDED)
    changed = [one != two for one, two in zip(before, wheel.digests(*ENTRIES), strict=True)]
    assert changed == [False, False, False, True, False]


def test_what_is_cached_of_parsed_files_changes_no_digest(original: Tree, tmp_path: Path, before: list[str]) -> None:
    def digests() -> list[str]:
        return original.digests(GATE, XDG_CACHE_HOME=str(tmp_path))

    kept = tmp_path / "headrace" / "sources.json"
    before = [before[ENTRIES.index(GATE)]]
    assert digests() == before
    first = json.loads(kept.read_text())
    assert digests() == before
    assert json.loads(kept.read_text()) == first
    kept.write_text(kept.read_text()[:-100])
    assert digests() == before
    assert json.loads(kept.read_text()) == first
    kept.write_text(json.dumps({**first, next(iter(first)): "damaged"}))
    assert digests() == before
    assert json.loads(kept.read_text()) == first
    shutil.rmtree(tmp_path / "headrace")
    (tmp_path / "headrace").write_text("no folder can be made here")
    assert digests() == before


def test_users_module_counts_wherever_it_lies(original: Tree, tmp_path: Path) -> None:
    """In a zip archive, as an extension module by its bytes, beside others in a namespace package, and installed."""
    folder = tmp_path / "folder"
    (folder / "space").mkdir(parents=True)
    paths = {"PYTHONPATH": f"{folder / 'packed.zip'}:{tmp_path / 'site-packages'}"}
    entries = ("zipped.build", "native", "space.build", "bought.build")

    def write(number: int) -> list[str]:
        with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
            archive.writestr("zipped/__init__.py", "")
            archive.writestr("zipped/build.py", "from .inner import *\n")
            archive.writestr("zipped/inner.py", f"n = {number}\n")
        (folder / f"native{EXTENSION_SUFFIXES[0]}").write_bytes(bytes([number]))
        (folder / "space" / "build.py").write_text("from space import other\n")
        (folder / "space" / "other.py").write_text(f"n = {number}\n")
        bought = tmp_path / "site-packages" / "bought"
        bought.mkdir(parents=True, exist_ok=True)
        (bought / "build.py").write_text(f"n = {number}\n")
        return Tree(original.project, folder).digests(*entries, **paths)

    first, second = write(1), write(2)
    assert [one != two for one, two in zip(first, second, strict=True)] == [True] * len(entries)
    assert write(1) == first
    assert len(set(first)) == len(entries)


def test_folders_without_init_may_lie_in_each_other(original: Tree, tmp_path: Path) -> None:
    (tmp_path / "outer" / "deep" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "deep" / "feature.py").write_text("from .inner.constant import N\n")
    constant = tmp_path / "outer" / "deep" / "inner" / "constant.py"
    constant.write_text("N = 1\n")
    first = Tree(original.project, tmp_path).digests("outer.deep.feature")
    constant.write_text("N = 2\n")
    assert Tree(original.project, tmp_path).digests("outer.deep.feature") != first
    (tmp_path / "outer" / "__init__.py").write_text("")
    assert Tree(original.project, tmp_path).digests("outer.deep.feature") != first


@pytest.mark.parametrize(
    "imports",
    [
        'import importlib\nimportlib.import_module(".late", package=__package__)',
        'from importlib import import_module as load\nload("mine.late")',
        'import importlib\nload = importlib.import_module\nload("mine.late")',
        'import importlib\nimportlib.import_module(name="mine.late")',
        'import importlib\nNAMES = {"fast": "mine.late"}\nimportlib.import_module(NAMES["fast"])',
        '__import__("mine.late")',
        'import pkgutil\npkgutil.resolve_name("mine.late:N")',
    ],
)
def test_a_module_imported_by_its_name_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "late.py").write_text("N = 1\n")
    (tmp_path / "mine" / "feature.py").write_text(imports + "\n")
    monkeypatch.chdir(tmp_path)
    assert closure("mine.feature").keys() == {"mine", "mine.feature", "mine.late"}


def test_installed_package_that_a_users_module_imports_counts_by_its_version(original: Tree, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "bought").mkdir(parents=True)
    (site / "bought" / "__init__.py").write_text("")
    (tmp_path / "mine.py").write_text("import bought.inner\n")

    def digest(version: str) -> list[str]:
        shutil.rmtree(site / "bought-0.dist-info", ignore_errors=True)
        (site / "bought-0.dist-info").mkdir()
        (site / "bought-0.dist-info" / "METADATA").write_text(f"Name: bought\nVersion: {version}\n")
        return Tree(original.project, tmp_path).digests("mine", PYTHONPATH=str(site))

    assert digest("1.0") == digest("1.0") != digest("1.1")


def test_module_that_is_not_there_is_an_error_that_names_it_and_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=rf"no_such\.module.*PYTHONPATH.*{tmp_path}"):
        sources_digest("headrace.trainer.run", "no_such.module")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match="folder"):
        sources_digest("folder")  # which has no code


def test_modules_of_the_stack_and_of_python_count_by_their_versions() -> None:
    executor = "tfx.components.schema_gen.executor"
    assert sources_of(sources_digest(executor)) == {executor: f"tfx {stack_versions()['tfx']}"}
    assert sources_of(sources_digest("math")) == {"math": f"python {stack_versions()['python']}"}


def test_closure_holds_the_projects_modules_and_no_installed_ones() -> None:
    found = closure("headrace.trainer.run", "headrace.trainer.models.dnn")
    assert found["headrace.trainer.models.dnn"] == ROOT / "src" / "headrace" / "trainer" / "models" / "dnn.py"
    assert {".".join(name.split(".")[:2]) for name in found} == {
        "headrace.trainer",
        "headrace.configs",
        "headrace.common",
    }
    assert closure("tfx.components.trainer.executor", "json") == {}


def test_projects_face_counts_for_a_users_module_that_calls_it_and_for_no_component(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calls_the_face.py").write_text("import headrace\n")
    monkeypatch.chdir(tmp_path)
    assert not {"headrace", "headrace.pipeline.api"} & {*closure("headrace.components.deploy.pusher")}
    assert {"headrace", "headrace.pipeline.api", "headrace.configs.loading.loader"} <= {*closure("calls_the_face")}
    for folder in ("common", "components", "configs", "pipeline", "trainer"):
        for file in Path(__file__).parents[2].glob(f"{folder}/**/*.py"):
            assert not re.search(
                r"^\s*(import headrace$|from headrace import)", file.read_text(encoding="utf-8"), re.M
            ), file


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
