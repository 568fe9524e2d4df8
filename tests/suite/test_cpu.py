"""The CPU seconds of files, in a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).parent
CONFTEST = f"""
import sys

sys.path.insert(0, {str(SUITE)!r})
from cpu import CpuSeconds, add_option

def pytest_addoption(parser):
    add_option(parser)

def pytest_configure(config):
    if config.getoption("--cpu"):
        config.pluginmanager.register(CpuSeconds())
"""
BURN = "import time\nwhile time.process_time() < {seconds}:\n    pass\n"
TESTS = f"""
import subprocess, sys

def test_child():
    subprocess.run([sys.executable, "-c", {BURN.format(seconds=2)!r}], check=True)

def test_nothing():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2", "--dist", "loadfile")], ids=["alone", "workers"])
def test_each_file_has_the_seconds_of_what_its_tests_started(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_busy.py").write_text(TESTS)
    (tmp_path / "test_idle.py").write_text("def test_nothing():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take seconds to import
    done = subprocess.run(
        [*command, "--cpu", *workers, tmp_path],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"^ +([\d.]+) (\S+)$", done.stdout, re.MULTILINE)
    assert [file for _, file in found] == ["test_busy.py", "test_idle.py"]
    busy, idle = (float(seconds) for seconds, _ in found)
    assert busy >= 2
    assert idle < busy  # pytest itself takes some
