"""Set-up that every test shares."""

import contextlib
import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import forks
import pytest
from browsing import open_browser
from cpu import OPTION, CpuSeconds, add_option
from guard import FOR_EACH_PROCESS, Guard, cores, limit
from hypothesis import HealthCheck, settings
from longest import longest_first
from s3_servers import ENDPOINT, S3Server
from s3_servers import s3_server as open_s3_server
from skips import Skips

from headrace.common.environment import collect_rarely, prepare

if TYPE_CHECKING:
    from playwright.sync_api import Browser

prepare()
# What the terminal or the CI at hand asks of the commands under test would change what they print.
for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
    os.environ.pop(name, None)
# Servers that tests start are on this machine.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
# The same examples everywhere, however slow the machine is; `--hypothesis-profile=default` looks for new ones.
settings.register_profile("everywhere", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("everywhere")

# Some containers forbid bytecode: each process would then compile the project and rewrite the assertions of all tests
# again, 20 CPU seconds. What tests start still obeys the environment, but reads what is there.
sys.dont_write_bytecode = False

# Imports make millions of objects that stay: looking for garbage among them again and again takes a fifth of the time.
gc.disable()
# A forked child leaves the garbage of its parent alone: TensorFlow's functions crash where they are freed without its
# threads.
os.register_at_fork(after_in_child=gc.freeze)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--cpu`."""
    add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the tests within a limit of memory, end what they leave, and hold skips against a list."""
    config.pluginmanager.register(Guard(limit()))
    if config.getoption(OPTION):
        config.pluginmanager.register(CpuSeconds())
    elif getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        stack = contextlib.ExitStack()
        stack.enter_context(forks.shared())
        config.add_cleanup(stack.close)
    config.pluginmanager.register(Skips.read(Path(__file__).with_name("skips.toml")))


def pytest_xdist_auto_num_workers() -> int:
    """As many processes as there are cores to run on and memory for; one if they would share a named S3 server."""
    return 1 if ENDPOINT in os.environ else max(1, min(cores(), limit() // FOR_EACH_PROCESS))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    longest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Leave the folder of a test that passed, which pytest has removed, as an empty one: else another test would get
    its name, and what a process remembers by paths would be wrong.
    """
    yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if folder is not None:
        folder.mkdir(exist_ok=True)


def pytest_collection_finish() -> None:
    """From here on look for garbage among what tests make, as rarely as commands do."""
    collect_rarely()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is left behind by programs that tests kill in a folder of these tests' own, and remove it with them."""
    tmp_path_factory.getbasetemp()  # stays where pytest puts it, for whoever looks at a failure
    for left in Path(tempfile.gettempdir()).glob("headrace-tests-*-*"):  # by tests that were killed
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"headrace-tests-{os.getpid()}-"))
    folder.chmod(0o711)  # servers that do not run as root get through
    before = os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    yield
    tempfile.tempdir = None
    os.environ.pop("TMPDIR")
    if before is not None:
        os.environ["TMPDIR"] = before
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server (see s3_servers.py), one for all tests of a process. Each makes its buckets, and removes them."""
    with open_s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    """What the package logs in this process, from INFO up, and nothing that libraries and servers of tests do."""
    monkeypatch.setattr(logging.getLogger("headrace"), "propagate", True)
    caplog.set_level(logging.INFO, "headrace")
    caplog.handler.addFilter(own := logging.Filter("headrace"))
    yield caplog
    caplog.handler.removeFilter(own)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium (see browsing.py). Its event loop runs while it is open, so it closes with the module."""
    with open_browser() as opened:
        yield opened
