"""`headrace runs`, `status` and `logs` of runs on this machine. Those of a real run: tests/integration/test_taxi.py."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from trips_folder import here

from headrace.pipeline.cli import cli
from headrace.pipeline.folders import Folders, in_progress, locked
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status

__all__ = ["here"]
ENDPOINT = "kubeflow.server.endpoint=http://127.0.0.1:9"


@pytest.fixture
def folders(here: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    monkeypatch.chdir(here)
    found = Folders(here / "runs" / "trips")
    found.runs.mkdir(parents=True)
    return found


def written(folders: Folders, number: int, status: Status, *nodes: NodeRecord, ended: str | None = None) -> RunRecord:
    """A run that began at `number` seconds after 1970."""
    record = RunRecord(f"r{number}", "trips", "trips.yaml", number, number + 5, status, ended=ended, nodes=[*nodes])
    (folders.runs / record.run_id / "logs").mkdir(parents=True)
    record.write(folders.runs / record.run_id)
    return record


@contextlib.contextmanager
def _meanwhile(folders: Folders, work: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a run, and do its work in another thread."""
    with locked(folders.home):
        thread = threading.Thread(target=work)
        thread.start()
        yield
        thread.join()


def called(*arguments: str) -> Result:
    verb, *others = arguments
    return CliRunner().invoke(cli, [verb, "trips.yaml", *others])


def test_runs_are_listed_with_what_became_of_them(folders: Folders) -> None:
    written(folders, 1, Status.DONE, ended="no new data")
    written(
        folders, 3, Status.FAILED, NodeRecord("Spans", status=Status.DONE), NodeRecord("Trainer", status=Status.FAILED)
    )
    written(folders, 2, Status.INTERRUPTED)
    written(folders, 4, Status.RUNNING)
    (folders.runs / "r5").mkdir()
    (folders.runs / "r5" / "run.json").write_text("{")
    found = called("runs")
    assert (found.exit_code, found.stderr) == (0, "")
    assert [line.split(maxsplit=2) for line in found.stdout.splitlines()[1:]] == [
        ["1970-01-01", "00:00:04Z", "killed       r4"],
        ["1970-01-01", "00:00:03Z", "failed       r3  Trainer"],
        ["1970-01-01", "00:00:02Z", "interrupted  r2"],
        ["1970-01-01", "00:00:01Z", "done         r1  nothing to train for"],
    ]
    assert found.stdout.splitlines()[0].split() == ["damaged", "r5"]
    assert called("runs", "--limit", "2").stdout.splitlines() == found.stdout.splitlines()[:2]


def test_a_run_in_progress_is_told_from_one_that_was_killed(folders: Folders) -> None:
    written(folders, 1, Status.RUNNING, NodeRecord("Spans", status=Status.RUNNING, started=1))
    with locked(folders.home):
        assert in_progress(folders.home)
        assert called("runs").stdout.split()[2] == "running"
        assert called("status").exit_code == 0
    found = called("status", "--watch")
    assert found.stdout.splitlines()[-1] == "run       r1  killed"
    assert found.exit_code == 3
    with locked(folders.home, "`headrace prune`"):  # asking has left no lock
        assert called("runs").stdout.split()[2] == "killed"


def test_a_component_ran_if_it_was_not_reused() -> None:
    nodes = [NodeRecord("Pusher", status=status) for status in (Status.DONE, Status.CACHED, Status.FAILED)]
    runs = [RunRecord("r", "trips", "trips.yaml", 1, nodes=[node]) for node in nodes]
    assert [run.ran("Pusher") for run in runs] == [True, False, False]
    assert not runs[0].ran("Trainer")


def test_without_runs_the_way_to_one_is_said(folders: Folders) -> None:
    folders.runs.rmdir()
    assert called("runs").stdout == "no runs yet\n"
    for found in (called("status"), called("logs", "Trainer")):
        assert found.exit_code == 1
        assert "`headrace run trips.yaml`" in found.stderr


def test_the_times_of_a_run_that_has_ended_are_its_own(folders: Folders) -> None:
    done = NodeRecord("Spans", status=Status.DONE, started=3605, finished=3661)
    written(folders, 3600, Status.DONE, done, NodeRecord("Trainer", status=Status.SKIPPED))
    times = [time.strftime("%H:%M:%S", time.localtime(each)) for each in (3600, 3661, 3605)]
    assert [line.split()[0] for line in called("status").stdout.splitlines()[:3]] == times


def test_a_failure_is_shown_with_its_cause_and_the_exit_code(folders: Folders) -> None:
    failed = NodeRecord("Trainer", status=Status.FAILED, error="the loss is not finite", expected=True)
    written(folders, 1, Status.FAILED, failed, NodeRecord("Pusher", status=Status.SKIPPED))
    written(folders, 2, Status.DONE)
    found = called("status", "r1")
    assert "Trainer failed: the loss is not finite" in found.stdout
    assert "skipped   Pusher" in found.stdout
    assert [found.exit_code, called("status").exit_code] == [1, 0]
    unknown = called("status", "r9")
    assert (unknown.exit_code, "r1, r2" in unknown.stderr) == (1, True)


def test_logs_are_printed_byte_for_byte_or_the_reason_is_said(folders: Folders) -> None:
    text = b"epoch 1\r\n\xff\x00" * 200_000
    written(folders, 1, Status.DONE, NodeRecord("Trainer", status=Status.DONE))
    (folders.runs / "r1" / "logs" / "Trainer.log").write_bytes(text)
    cached = NodeRecord("Trainer", status=Status.CACHED)
    written(folders, 2, Status.FAILED, cached, NodeRecord("Pusher", status=Status.SKIPPED))
    assert called("logs", "Trainer", "r1").stdout_bytes == text
    reused, skipped, unknown = (called("logs", name) for name in ("Trainer", "Pusher", "Trainr"))
    assert [found.exit_code for found in (reused, skipped, unknown)] == [1, 1, 1]
    assert reused.stderr.rstrip().endswith("see the log of run r1")
    assert "skipped" in skipped.stderr
    assert '"Trainer"' in unknown.stderr


def test_a_run_and_its_log_are_followed_to_the_end(folders: Folders) -> None:
    record = written(folders, 1, Status.RUNNING, NodeRecord("Trainer", status=Status.RUNNING, started=1))
    log = folders.runs / "r1" / "logs" / "Trainer.log"
    log.write_text("first\n")

    def ends() -> None:
        time.sleep(1)
        with log.open("a") as file:
            file.write("second\n")
        record.nodes[0].status = record.status = Status.DONE
        record.nodes[0].finished = 3.0
        record.write(folders.runs / "r1")

    with _meanwhile(folders, ends):
        assert called("logs", "Trainer", "--follow").stdout == "first\nsecond\n"
        found = called("status", "--watch")
    assert (found.exit_code, "blessing" in found.stdout) == (0, True)


@pytest.mark.slow
def test_a_config_with_a_server_shows_runs_here_if_asked_to(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.pipeline.kubeflow.server.connection.WAITS", (0.0,))
    written(folders, 1, Status.DONE, ended="no new data")
    for verb, shown in (("runs", "nothing to train for"), ("status", "ended     no new data")):
        assert all(shown in called(verb, *more).stdout for more in ([], ["--set", ENDPOINT, "--local"]))
        assert called(verb, "--set", ENDPOINT).exit_code == 1
