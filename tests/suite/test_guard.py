"""What happens to greedy tests, and to what a killed pytest had started; each in a pytest of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import ROOT, wait_until
from guard import SETTING, TOKENS, limit

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]
SUITE = Path(__file__).parent
MARK = "HEADRACE_TEST_MARK"
"""In the environment of a pytest under test and of all that it starts; the guard does not go by it."""
CONFTEST = f"""
import sys

sys.path.insert(0, {str(SUITE)!r})
from guard import Guard, limit

def pytest_configure(config):
    config.pluginmanager.register(Guard(limit()))
"""
MAP = """
import mmap

def mapped(size, kind=mmap.MAP_PRIVATE):
    return mmap.mmap(-1, size, flags=kind | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE: granted, as if overcommitted

def filled(size, kind=mmap.MAP_PRIVATE):
    held = mapped(size, kind)
    for place in range(0, size, 4096):
        held[place] = 1
    return held
"""
UNBOUND = """
import resource

hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))  # without the limit of the pytest above
"""
PROMISES = """
def test_that_is_modest():
    filled(1 << 20)

def test_that_asks_for_four_tebibytes():
    mapped(1 << 42)

def test_after_it():
    filled(1 << 20)
"""
HOLDS = """
import os, time

def test_that_is_modest():
    filled(1 << 20)

def test_that_holds_too_much_in_several_processes():
    for _ in range(4):
        if os.fork() == 0:
            held = filled(150 << 20, mmap.MAP_SHARED)
            time.sleep(600)
    time.sleep(600)
"""
SERVERS = """
import subprocess, sys, threading, time
from contextlib import ExitStack
from pathlib import Path

import browsing, kfp_server, postgres, s3_servers, stores
from headrace.trainer.service.local import LocalService

GCS = "from gcp_storage_emulator.__main__ import main; main()"

def servers(folder):
    yield s3_servers.s3_server(folder)
    yield stores.serving(sys.executable, "-c", GCS, "start", "--host=127.0.0.1", "--port={port}", "--in-memory")
    yield LocalService(0, 0, folder)  # a worker would import TensorFlow once more
    program = Path(kfp_server.__file__).with_name("kfp_metadata.py")
    yield kfp_server.started(folder / "log", sys.executable, str(program), str(folder / "metadata.sqlite"))
    if postgres.binaries():
        yield postgres.server()
    if any(map(browsing.shutil.which, browsing.NAMES)):
        yield browsing.open_browser()

def test_with_servers(tmp_path):
    with ExitStack() as stack:
        for server in servers(tmp_path):
            stack.enter_context(server)
        # one without the environment, in a session of its own, whose parent is gone
        orphan = "import subprocess; subprocess.Popen(['sleep', '600'], env={}, start_new_session=True)"
        # whom the guard, which looks twice a second, sees below its parent also on a busy machine
        subprocess.run([sys.executable, "-c", f"import time; {orphan}; time.sleep(3)"], check=True)
        Path("up").touch()
        time.sleep(600)
"""
EXPECTED = ("weed -logtostderr server", "gcp_storage_emulator", "--role dispatcher", "kfp_metadata.py")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Start]:
    """Starts a pytest over such a file, in the test's own folder; it ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(text: str, **environment: str) -> subprocess.Popen[str]:
            (tmp_path / "conftest.py").write_text(CONFTEST)
            (tmp_path / "test_it.py").write_text(text)
            paths = os.pathsep.join(str(ROOT / part) for part in (".", "tests/components", "tests/integration"))
            own = {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
            options = ("-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}")
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, tmp_path],
                cwd=tmp_path,
                env={**os.environ, **own},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


def marked(mark: str) -> list[str]:
    """The commands of the processes that have this mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [command for command in found if command]


def test_a_test_that_asks_for_more_than_the_limit_is_refused_whatever_the_kernel_promises(
    started: Start,
) -> None:
    without = subprocess.run(
        [sys.executable, "-c", f"{UNBOUND}\n{MAP}\nmapped(1 << 42)"], capture_output=True, text=True, check=False
    )
    assert without.returncode == 0, without.stderr  # else the rest would prove nothing
    pytest_ = started(MAP + PROMISES, **{SETTING: "1"})
    out, _ = pytest_.communicate(timeout=600)
    assert pytest_.returncode == pytest.ExitCode.TESTS_FAILED, out
    assert "1 failed, 2 passed" in out
    assert "FAILED test_it.py::test_that_asks_for_four_tebibytes - OSError" in out
    assert "[Errno 12] Cannot allocate memory" in out


def test_tests_that_hold_too_much_together_are_stopped_and_named(started: Start) -> None:
    mark = uuid.uuid4().hex
    pytest_ = started(MAP + HOLDS, **{SETTING: "0.4", MARK: mark})
    _, err = pytest_.communicate(timeout=600)
    assert pytest_.returncode == -signal.SIGKILL
    assert "GiB of memory and may hold 0.4" in err
    assert "running: test_it.py::test_that_holds_too_much_in_several_processes" in err
    assert "test_that_is_modest" not in err
    assert wait_until(lambda: not marked(mark))


def test_processes_that_hold_the_same_memory_count_it_once(started: Start) -> None:
    share = """
import os, time

def test_that_shares():
    held = filled(250 << 20, mmap.MAP_SHARED)
    children = []
    for _ in range(3):
        children.append(os.fork())
        if not children[-1]:
            sum(held[place] for place in range(0, len(held), 4096))
            time.sleep(2)
            os._exit(0)
    for child in children:
        os.waitpid(child, 0)
"""
    pytest_ = started(MAP + share, **{SETTING: "0.5"})
    out, err = pytest_.communicate(timeout=600)
    assert pytest_.returncode == 0, out + err


@pytest.mark.slow
def test_all_servers_end_with_a_pytest_that_is_killed(started: Start, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    pytest_ = started(SERVERS, **{MARK: mark})
    up = tmp_path / "up"
    assert wait_until(lambda: up.exists() or pytest_.poll() is not None)
    assert up.exists(), pytest_.communicate()[0]
    there = marked(mark)
    missing = [word for word in EXPECTED if not any(word in command for command in there)]
    assert not missing, there
    orphans = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cwd") if is_orphan(path, tmp_path)]
    assert len(orphans) == 1
    pytest_.kill()
    assert wait_until(lambda: not marked(mark)), marked(mark)
    assert wait_until(lambda: not Path(f"/proc/{orphans[0]}").exists())


def is_orphan(cwd: Path, folder: Path) -> bool:
    """Whether it is a process that sleeps in that folder."""
    try:
        return cwd.readlink() == folder and (cwd.parent / "comm").read_text() == "sleep\n"
    except OSError:
        return False


def test_this_run_of_the_tests_has_a_guard() -> None:
    import resource

    assert os.environ[TOKENS]
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] <= limit()


def test_a_machine_with_less_memory_has_a_lower_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 20}[name])
    assert limit() <= 3 << 30
    monkeypatch.setenv(SETTING, "2.5")
    assert limit() == 5 << 29
