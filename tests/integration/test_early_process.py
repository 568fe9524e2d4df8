"""The process that imports what components need starts before the data is checked, where one will be needed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command import Going, processes_in, started_at_once, wait_until
from forks import Forked

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.folders import Folders
from headrace.pipeline.local.client import ForkServer
from headrace.pipeline.local.known_plan import write_plan
from headrace.pipeline.local.lazy_server import LazyServer
from headrace.pipeline.local.server_process import EarlyProcess, ServerProcess
from headrace.pipeline.local.wire import JsonConnection

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trips.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "trips.csv").write_text("cost,tip\n1.0,0\n2.0,1\n", encoding="utf-8")  # a column named otherwise
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def config(**overrides: Any) -> PipelineConfig:
    return load("trips.yaml", overrides=[(name.replace("__", "."), value) for name, value in overrides.items()])


def stored(of: PipelineConfig) -> None:
    """The plan of an earlier run of this config."""
    Folders.of(of).home.mkdir(parents=True, exist_ok=True)
    write_plan(Folders.of(of).plan, "key", [], of)


def starts(run: PipelineConfig, *, fresh: bool = False) -> bool:
    with EarlyProcess(fresh=fresh) as early:
        early.start_if_needed(run)
        return taken(early)


def starts_at_once(*settings: str, fresh: bool = False, ends_well: bool = False) -> bool:
    with EarlyProcess(fresh=fresh) as early:
        early.start_if_new(Path("trips.yaml"), settings)
        started = taken(early)
        early.end(remember=ends_well)
        return started


def taken(early: EarlyProcess) -> bool:
    process = early.take()
    if process is None:
        return False
    with contextlib.closing(process):
        process.kill()
        return True


def test_it_starts_at_once_for_a_command_that_has_not_run_to_its_end(folder: Path) -> None:
    assert starts_at_once("train.epochs=3")
    assert starts_at_once("train.epochs=3", ends_well=True)
    assert not starts_at_once("train.epochs=3")
    assert starts_at_once("train.epochs=3", fresh=True)
    assert starts_at_once("train.epochs=4", ends_well=True)
    assert not starts_at_once("train.epochs=3")
    (folder / "trips.night.yaml").write_text("train: {epochs: 9}\n", encoding="utf-8")  # a profile
    assert starts_at_once("train.epochs=3", ends_well=True)
    (folder / "trips2.yaml").write_text(CONFIG, encoding="utf-8")  # another pipeline
    assert not starts_at_once("train.epochs=3")
    (folder / "trips.yaml").write_text(CONFIG.replace("numeric", "bucketized, buckets: 4"), encoding="utf-8")
    assert starts_at_once("train.epochs=3")


def test_without_a_config_nothing_starts(folder: Path) -> None:
    (folder / "trips.yaml").unlink()
    assert not starts_at_once()


def test_what_was_remembered_may_be_damaged(folder: Path) -> None:
    assert starts_at_once(ends_well=True)
    (folder / "cache" / "headrace" / "commands.json").write_text('{"half', encoding="utf-8")
    assert starts_at_once(ends_well=True)
    assert not starts_at_once()


def test_it_starts_where_a_component_will_have_to_run(folder: Path) -> None:
    assert starts(config())
    stored(config())
    assert not starts(config())
    assert starts(config(), fresh=True)
    assert starts(config(train__epochs=3))


def test_it_waits_where_the_run_may_find_no_reason_to_train(folder: Path) -> None:
    run = config(schedule={"cron": "0 3 * * *", "retrain": "new_span"})
    assert starts(run)
    Folders.of(run).home.mkdir(parents=True)
    Folders.of(run).trained.write_text("{}", encoding="utf-8")
    assert not starts(run)
    assert starts(run, fresh=True)


def test_a_process_that_nobody_takes_is_gone_with_the_block(folder: Path) -> None:
    with EarlyProcess(fresh=True) as early:
        assert not early.started
        early.start_if_needed(config())
        assert early.started
        assert server_processes(folder)
    assert not early.started
    assert not server_processes(folder)


def test_a_mistake_in_the_data_is_told_and_leaves_no_process(folder: Path) -> None:
    finished = started_at_once(folder, "run", "trips.yaml").finish()
    assert finished.code == 1
    assert "fare" in finished.err
    assert not server_processes(folder)
    assert not Folders.of(config()).home.exists()


def test_it_ends_with_a_command_that_is_killed(folder: Path) -> None:
    program = Going(folder, "run", "trips.yaml", "--set", "features={cost: {column: numeric}}")
    assert wait_until(lambda: bool(server_processes(folder)))
    program.signal(signal.SIGKILL)
    assert wait_until(lambda: not server_processes(folder))


def test_an_interruption_while_it_starts_leaves_no_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(ModuleType):
        def __getattr__(self, _: str) -> object:
            raise KeyboardInterrupt

    name = "headrace.pipeline.local.wire"
    monkeypatch.setitem(sys.modules, name, Interrupting(name))
    with pytest.raises(KeyboardInterrupt), EarlyProcess(fresh=True) as early:
        early.start_if_needed(config())
    assert not server_processes(folder)


def test_process_that_is_not_in_its_own_group_yet_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(group: int, number: int) -> None:
        raise ProcessLookupError(group, number)

    process = ServerProcess()
    monkeypatch.setattr(os, "killpg", absent)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.close()


def test_a_log_that_cannot_be_written_leaves_no_process(folder: Path) -> None:
    with EarlyProcess(fresh=True) as early:
        early.start_if_needed(config())
        with pytest.raises(FileNotFoundError):
            LazyServer(config(), folder / "plan", folder / "no" / "log", folder / "held", early=early, start=True)
        assert not server_processes(folder)


@pytest.mark.slow
def test_a_child_that_dies_or_is_missing_before_it_has_a_component_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is forked ahead, and waits. A machine that runs out of memory may kill it."""
    monkeypatch.setattr(subprocess, "Popen", Forked)
    with ForkServer(config(features={"cost": {"column": "numeric"}}), folder / "log", folder / "held") as server:
        (outputs,) = (node["outputs"] for node in server.nodes() if node["id"] == "Spans")
        assert wait_until(lambda: len(children_in(folder)) == 1)
        (waiting,) = children_in(folder)
        group = os.getsid(waiting)
        os.kill(waiting, signal.SIGKILL)
        assert wait_until(lambda: not children_in(folder))
        for name in "ab":
            assert ended_spans(server, folder / name, outputs) == 0
            assert (folder / name / "result.json").exists()
        assert wait_until(lambda: len(children_in(folder)) == 1)
        with without_descriptors(group):
            assert ended_spans(server, folder / "c", outputs) == 0
            assert wait_until(lambda: not children_in(folder))  # none could be forked ahead
        assert ended_spans(server, folder / "d", outputs) == 0
        assert ended_spans(server, folder / "e", outputs, node="Nobody") == 1
        server.stop(1e6)  # which the server answers: nothing runs
    assert "KeyError: 'Nobody'" in (folder / "log").read_text(encoding="utf-8")
    assert not children_in(folder)
    with pytest.raises(ProcessLookupError):  # one that nobody has waited for is still in the group
        os.killpg(group, 0)


def ended_spans(server: ForkServer, folder: Path, outputs: Iterable[str], node: str = "Spans") -> int:
    """The exit code of Spans, or of a component that does not exist."""
    folder.mkdir()
    files = {name: str(folder / name) for name in ("log", "result.json")}
    uris = {name: str(folder / name / "value") for name in outputs}
    server.run(node=node, inputs={}, outputs=uris, log=files["log"], scratch=str(folder), result=files["result.json"])
    (message,) = server.events()
    assert message["node"] == node
    return int(message["code"])


@contextlib.contextmanager
def without_descriptors(process: int) -> Iterator[None]:
    """Let a process open nothing more, so that it cannot fork a child: it needs a connection to it."""
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, before)


def test_connection_of_a_program_with_many_files_can_be_waited_for() -> None:
    """`select` fails for descriptors from 1,024 on."""
    _, most = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            connection = JsonConnection(socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 1024)))
            assert connection.fileno() >= 1024
            assert not connection.wait(0.0)
            theirs.sendall(b'{"event": "ready"}\n')
            assert connection.wait(60.0)
            assert [*connection.receive()] == [{"event": "ready"}]
            connection.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def children_in(folder: Path) -> list[int]:
    """The processes in a folder that are in the session of another, as the children of a fork server are."""
    return [pid for pid in processes_in(folder) if os.getsid(pid) not in {pid, os.getsid(0)}]


def server_processes(folder: Path) -> list[int]:
    """The processes of fork servers that run in a folder."""
    return [pid for pid in processes_in(folder) if pid != os.getpid() and "fork_server" in _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
