"""Skips that are listed, and those that are not, in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).parent
CONFTEST = f"""
import sys
from pathlib import Path

sys.path.insert(0, {str(SUITE)!r})
from skips import Skips

def pytest_configure(config):
    config.pluginmanager.register(Skips.read(Path(__file__).with_name("skips.toml")))
"""
LISTED = """
[[skip]]
tests = "test_server.py::test_*[*]"
reason = "Go is not installed|`go .*"
most = 2
why = "Go's modules are not to be had everywhere."
"""
TESTS = """
import pytest

@pytest.fixture
def server():
    pytest.skip({reason!r})

@pytest.mark.parametrize("n", range({number}))
def test_it_answers(server, n):
    pass

def test_it_counts():
    assert 1 + 1 == {sum}

@pytest.mark.xfail(reason="known")
def test_known():
    assert False
"""


def outcome(folder: Path, reason: str = "Go is not installed", number: int = 2, sum_: int = 2) -> tuple[int, str]:
    """How pytest ends over such tests, and what it prints."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "skips.toml").write_text(LISTED)
    (folder / "test_server.py").write_text(TESTS.format(reason=reason, number=number, sum=sum_))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={folder}"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take seconds to import
    done = subprocess.run([*command, folder], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("reason", ["Go is not installed", "`go mod download` failed: 403\nForbidden"])
def test_a_listed_skip_is_not_a_fault(tmp_path: Path, reason: str) -> None:
    code, out = outcome(tmp_path, reason)
    assert code == 0, out
    assert "1 passed, 2 skipped, 1 xfailed" in out


def test_a_part_of_the_listed_skips_is_not_a_fault(tmp_path: Path) -> None:
    assert outcome(tmp_path, number=1)[0] == 0


def test_another_reason_fails_a_run_of_which_nothing_else_failed(tmp_path: Path) -> None:
    code, out = outcome(tmp_path, "it is too slow today; Go is not installed")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "test_server.py::test_it_answers[0]: it is too slow today" in out
    assert "1 passed, 2 skipped" in out


def test_one_more_skip_than_the_list_allows_fails_the_run(tmp_path: Path) -> None:
    code, out = outcome(tmp_path, number=3)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "test_server.py::test_*[*]: 3 skipped, and skips.toml allows 2" in out


def test_a_file_that_is_skipped_whole_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("import pytest\npytest.importorskip('no_such_module_at_all')\n")
    code, out = outcome(tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "test_other.py: could not import 'no_such_module_at_all'" in out


def test_a_failed_test_is_still_the_outcome(tmp_path: Path) -> None:
    code, out = outcome(tmp_path, "another reason", sum_=3)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 2 skipped" in out
