"""What is shown of an error in a user's own code: its frames, and none of those above them."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.ipc
import pytest

from headrace.common.errors import ConfigError, GateError, Problem, RunError, TrainingError
from headrace.common.tracebacks import OWN_CODE, own_traceback, traceback_of
from headrace.pipeline.results.record import NodeRecord, Status
from headrace.pipeline.terminal.logs import failure_text, last_lines
from headrace.trainer.hooks import resolve

MODULE = """\
import json
from headrace.common.errors import GateError

def feature(*args, **settings):
    return helper({})

def helper(row):
    return row["pace"]

def library():
    return json.loads("{")

def gate():
    try:
        helper({})
    except KeyError as error:
        raise GateError("too few rows") from error

def layers():
    import keras
    class Own(keras.layers.Layer):
        def call(self, inputs):
            return helper({})
    return Own()(keras.Input((1,)))

def secret():
    raise ValueError("https://me:s3cr3t@host/ is gone")
"""


COMPONENT = """\
from tfx import v1 as tfx
from tfx.dsl.component.experimental.decorators import component

@component
def Leakage(rows: tfx.dsl.components.Parameter[int] = 0):
    raise LookupError("no rows")
"""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of a user's, in a folder of theirs."""
    (tmp_path / "their_code.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("their_code")
    del sys.modules["their_code"]


def caught(call: Callable[[], Any]) -> Exception:
    """The error, as it arrives through frames of ours and of a library."""
    try:
        resolve("tomllib.loads", "nothing of ours")
        call()
    except Exception as error:
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None  # not this test's frame
        return error
    raise AssertionError("nothing was raised")


def test_only_the_frames_from_the_users_first_on_are_shown(theirs: ModuleType) -> None:
    error = caught(resolve("their_code.feature", "features.pace.function"))
    assert isinstance(error, TrainingError)
    lines = own_traceback(error).splitlines()
    assert lines[0] == f'  File "{theirs.__file__}", line 5, in feature'
    assert f'  File "{theirs.__file__}", line 8, in helper' in lines
    assert lines[-1] == "KeyError: 'pace'"
    assert "hooks.py" not in "".join(lines)
    whole = traceback_of(error)
    assert "hooks.py" in whole.partition(OWN_CODE)[0]
    assert whole.endswith(own_traceback(error))


def test_frames_of_a_library_that_the_user_called_are_in_the_log_and_not_on_the_terminal(
    theirs: ModuleType, tmp_path: Path
) -> None:
    error = caught(resolve("their_code.library", "model.kind"))
    assert "decoder.py" in own_traceback(error)
    log = tmp_path / "Trainer.log"
    log.write_text("a line before\n" + traceback_of(error))
    assert last_lines(log) == [
        f'  File "{theirs.__file__}", line 11, in library',
        '    return json.loads("{")',
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ]


def test_the_terminal_shows_the_frames_below_a_message_that_needs_no_log(theirs: ModuleType, tmp_path: Path) -> None:
    error = caught(resolve("their_code.feature", "features.pace.function"))
    log = tmp_path / "Transform.log"
    log.write_text(traceback_of(error))
    node = NodeRecord("Transform", status=Status.FAILED, log=str(log), error=str(error), expected=True)
    text = failure_text(node)
    assert text.splitlines()[0].startswith(
        "Transform failed: features.pace.function: their_code.feature raised KeyError"
    )
    assert [line.strip() for line in text.splitlines()[2:]] == [
        OWN_CODE,
        f'File "{theirs.__file__}", line 5, in feature',
        "return helper({})",
        f'File "{theirs.__file__}", line 8, in helper',
        'return row["pace"]',
        "KeyError: 'pace'",
        "",
        f"whole log: {log}",
    ]


def test_no_frame_of_keras_is_above_a_layer_of_the_users(theirs: ModuleType) -> None:
    lines = own_traceback(caught(resolve("their_code.layers", "model.kind"))).splitlines()
    assert lines[0].startswith(f'  File "{theirs.__file__}", line 24, in layers')
    assert "KeyError: " in lines[-1] or "'pace'" in "".join(lines)


@pytest.mark.slow
def test_no_frame_of_tfx_is_above_a_component_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_parts.py").write_text(COMPONENT)
    monkeypatch.syspath_prepend(tmp_path)
    executor = importlib.import_module("their_parts").Leakage_Executor()
    error = caught(functools.partial(executor.Do, {}, {}, {"rows": 1}))
    del sys.modules["their_parts"]
    assert "site-packages/tfx/" in traceback_of(error)
    assert own_traceback(error).splitlines() == [
        f'  File "{tmp_path / "their_parts.py"}", line 6, in Leakage',
        '    raise LookupError("no rows")',
        "LookupError: no rows",
    ]


def test_an_error_that_the_users_code_reports_itself_needs_no_frames(theirs: ModuleType) -> None:
    assert own_traceback(caught(theirs.gate)) == ""


def test_compiled_code_of_a_library_is_not_the_users() -> None:
    """Cython names its frames by relative paths, such as `pyarrow/error.pxi`."""
    error = caught(functools.partial(pyarrow.ipc.open_file, b"ARROW1 cut"))
    assert "pyarrow/error.pxi" in traceback_of(error)
    assert own_traceback(error) == ""


@pytest.mark.parametrize("error", [ConfigError(Problem("x.yaml:1", "is wrong")), RunError("failed"), GateError("no")])
def test_errors_of_ours_show_no_traceback(error: Exception, tmp_path: Path) -> None:
    def fail() -> None:
        raise error

    text = traceback_of(caught(fail))
    assert OWN_CODE not in text
    log = tmp_path / "DataGate.log"
    log.write_text(text)
    node = NodeRecord("DataGate", status=Status.FAILED, log=str(log), error=str(error), expected=True)
    assert failure_text(node).splitlines() == [f"DataGate failed: {error}", "", f"whole log: {log}"]


def test_no_credential_of_the_users_error_is_repeated(theirs: ModuleType) -> None:
    assert "https://me:***@host/ is gone" in own_traceback(caught(theirs.secret))
    assert "s3cr3t" not in traceback_of(caught(theirs.secret))
