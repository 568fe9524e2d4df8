"""Skips that are listed, and those that are not, in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from skips import Entry

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

[[skip]]
tests = "test_*"
reason = "no browser"
fixture = "browser"
why = "A browser comes from the system."
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


def outcome(
    folder: Path, reason: str = "Go is not installed", number: int = 2, sum_: int = 2, workers: str = "0"
) -> tuple[int, str]:
    """How pytest ends over such tests, and what it prints."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "skips.toml").write_text(LISTED)
    (folder / "test_server.py").write_text(TESTS.format(reason=reason, number=number, sum=sum_))
    options = f"-p xdist.plugin -n {workers} -p no:cacheprovider -c {os.devnull}".split()
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={folder}"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take seconds to import
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run([*command, folder], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.slow
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


@pytest.mark.slow
def test_one_more_skip_than_the_list_allows_fails_the_run(tmp_path: Path) -> None:
    code, out = outcome(tmp_path, number=3)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "test_server.py::test_*[*]: 3 skipped, and skips.toml allows 2" in out


BROWSING = """
import pytest

@pytest.fixture(scope="module")
def browser():
    pytest.skip("no browser")

@pytest.fixture
def page(browser):
    return browser

@pytest.mark.parametrize("n", range(5))
def test_a_page(page, n):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_fixture_may_skip_all_that_ask_for_it(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_pages.py").write_text(BROWSING)
    code, out = outcome(tmp_path, workers=workers)
    assert code == 0, out
    assert "1 passed, 7 skipped" in out
    assert workers == "0" or "2 workers" in out


def test_the_reason_of_a_fixture_is_no_reason_for_a_test_that_does_not_ask_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_pages.py").write_text(BROWSING + "\n\ndef test_another():\n    pytest.skip('no browser')\n")
    code, out = outcome(tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "test_pages.py::test_another: no browser" in out
    assert "test_a_page" not in out


def test_an_entry_says_either_how_many_or_through_which_fixture() -> None:
    with pytest.raises(ValueError, match=r"test_\* .*`most` or `fixture`"):
        Entry("test_*", "no browser", "why", most=3, fixture="browser")


@pytest.mark.slow
def test_a_file_that_is_skipped_whole_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("import pytest\npytest.importorskip('no_such_module_at_all')\n")
    code, out = outcome(tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "test_other.py: could not import 'no_such_module_at_all'" in out


@pytest.mark.slow
def test_a_failed_test_is_still_the_outcome(tmp_path: Path) -> None:
    code, out = outcome(tmp_path, "another reason", sum_=3)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 2 skipped" in out
