"""The functions that a config names."""

from __future__ import annotations

from pathlib import Path

import pytest
from trips_folder import CONFIG
from validated import reported

from headrace.pipeline.code.modules import why_not_importable

MODULE = """
raise SystemExit("this module must not run")
def speed(x): ...
class Model: ...
if True:
    from os import path as where
for ratio in (1, 2):
    double = ratio
try:
    import missing
except ImportError:
    missing = None
"""


def test_names_are_found_without_running_the_module(here: Path) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "features.py").write_text(MODULE)
    for name in ("speed", "Model", "where", "double", "missing"):
        assert why_not_importable(f"mine.features.{name}") is None
    sped = str(why_not_importable("mine.features.sped"))
    assert sped.startswith(f'"mine.features.sped": {here}/mine/features.py ')
    assert sped.endswith('; did you mean "speed"?')
    feature = str(why_not_importable("mine.feature.speed"))
    assert feature.startswith('"mine.feature.speed": ')
    assert feature.endswith('mine.feature in the package mine; did you mean "features"?')
    folder = str(why_not_importable("mine.features"))
    assert folder.startswith('"mine.features": mine is a folder')
    assert folder.endswith("; it holds: features")


def test_a_module_that_an_installed_one_hides_is_reported_as_hidden(here: Path) -> None:
    (here / "queue.py").write_text("def build(): ...\n")
    (here / "headrace").mkdir()
    (here / "headrace" / "mine.py").write_text("def build(): ...\n")
    queue = str(why_not_importable("queue.build"))
    assert "queue.py does not define build; " in queue
    assert f"; it shadows {here}/queue.py, " in queue
    module = str(why_not_importable("headrace.mine.build"))
    assert "no module headrace.mine in the package headrace; " in module
    assert f"; it shadows {here}/headrace, " in module
    assert why_not_importable("queue.Queue") is None


def test_pythonpath_comes_before_the_current_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "twice.py").write_text("def there(): ...\n")
    (here / "twice.py").write_text("def here(): ...\n")
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", str(here / "elsewhere"))
    assert why_not_importable("twice.there") is None
    assert why_not_importable("twice.here") is not None


@pytest.mark.parametrize("source", ["from os.path import *\n", "def __getattr__(name): ...\n"])
def test_a_module_that_makes_its_names_when_imported_gets_the_benefit_of_doubt(here: Path, source: str) -> None:
    (here / "late.py").write_text(source)
    assert why_not_importable("late.anything") is None


def test_a_module_that_is_not_python_is_reported_with_its_line(here: Path) -> None:
    (here / "bad.py").write_text("x = 1\ndef f(:\n")
    assert str(why_not_importable("bad.f")).startswith(f'"bad.f": {here}/bad.py:2 is not valid Python: ')


def test_functions_of_installed_packages_are_found() -> None:
    assert why_not_importable("json.decoder.JSONDecoder") is None
    assert why_not_importable("math.sqrt") is None
    assert why_not_importable("__main__.f") is not None


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("model.run_fn", "def run_fn(fn_args): ...", []),
        ("model.run_fn", "def run_fn(fn_args, steps=3, *, more=None): ...", []),
        ("model.run_fn", "def run_fn(): ...", ["run_fn()", "run_fn(fn_args)"]),
        ("model.run_fn", "def run_fn(fn_args, steps): ...", ["own.py:1", "run_fn(fn_args, steps)"]),
        ("model.run_fn", "class run_fn: ...", ["class"]),
        ("model.run_fn", "from x import *", []),
        ("model.run_fn", "def train(fn_args): ...", ["does not define run_fn"]),
        ("features.function", "def preprocessing_fn(inputs, custom_config): ...", []),
        ("features.function", "def preprocessing_fn(inputs, schema): ...", ["inputs, schema"]),
    ],
)
def test_functions_of_a_tfx_pipeline_must_take_its_arguments(name: str, code: str, words: list[str]) -> None:
    good = {"model.run_fn": "def run_fn(fn_args): ...", "features.function": "def preprocessing_fn(inputs): ..."}
    modules = {each: "own" if each == name else "others" for each in good}
    for each, module in modules.items():
        Path(f"{module}.py").write_text(code if each == name else good[each], encoding="utf-8")
    functions = CONFIG.replace("  fare: {column: numeric}\n", "") + (
        f"  function: {modules['features.function']}.preprocessing_fn\n"
        f"model: {{run_fn: {modules['model.run_fn']}.run_fn, train_steps: 1, eval_steps: 1}}\n"
    )
    problems = reported(functions)
    assert len(problems) == bool(words)
    for word in words:
        assert word in problems[0]
    assert all(f" {name}: " in problem for problem in problems)
