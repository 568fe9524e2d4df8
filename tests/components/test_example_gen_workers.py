"""Tasks over processes that are forked."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from command import alive, wait_until

from headrace.common.errors import DataError, RunError
from headrace.components.example_gen.ingest import ingest
from headrace.components.example_gen.shards import layout
from headrace.components.example_gen.workers import ForkedWorkers, can_fork
from headrace.components.examples import parts
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig


def process(number: int) -> tuple[int, int]:
    """The task, and the process that worked on it."""
    return number, os.getpid()


def by_everyone(task: tuple[int, int, Path]) -> tuple[int, int]:
    """The same; a task takes until this many processes have begun one."""
    number, processes, folder = task
    (folder / str(os.getpid())).touch()
    assert wait_until(lambda: len(list(folder.iterdir())) >= processes)
    return process(number)


def shared_tasks(processes: int, folder: Path) -> list[tuple[int, int, Path]]:
    """Tasks of which each process gets one."""
    folder.mkdir()
    return [(number, processes, folder) for number in range(60)]


def failing(number: int) -> int:
    if number in {7, 12}:
        raise DataError(f"task {number}", file="f.csv", line=number)
    return number


class OddError(Exception):
    """An error that cannot be pickled and made again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def elsewhere(task: tuple[int, Path]) -> bool:
    """Whether this is another process; where it is not, one has begun a task by now."""
    here, mark = task
    if os.getpid() != here:
        mark.touch()
        return True
    assert wait_until(mark.exists)
    return False


def odd(task: tuple[int, Path]) -> None:
    if elsewhere(task):
        raise OddError(1, 2)


def killed_elsewhere(task: tuple[int, Path]) -> None:
    if elsewhere(task):
        os.kill(os.getpid(), signal.SIGKILL)


def once_another_has_one(function: Callable[[Any], Any], here: int, mark: Path, task: Any) -> Any:
    """Work on a task, in this process only when another has begun one."""
    elsewhere((here, mark))
    return function(task)


def mark(path: Path) -> None:
    (path / f"{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(0.02)


def marked_by(path: Path) -> set[int]:
    """The processes that have."""
    return {int(one.name.split("-")[0]) for one in path.iterdir()}


def interrupted_here(where: tuple[Path, int]) -> None:
    path, here = where
    mark(path)
    if os.getpid() == here:
        assert wait_until(lambda: len(marked_by(path)) == 3)
        raise KeyboardInterrupt


def test_results_come_in_the_order_of_the_tasks_from_all_processes(tmp_path: Path) -> None:
    with ForkedWorkers(3) as workers:
        first = workers(by_everyone, shared_tasks(3, tmp_path / "first"))
        again = workers(by_everyone, shared_tasks(3, tmp_path / "again"))
    assert [number for number, _ in first] == [number for number, _ in again] == list(range(60))
    assert len({pid for _, pid in first}) == 3
    assert {pid for _, pid in first} == {pid for _, pid in again}, "they stay"


def test_no_process_is_left_behind(tmp_path: Path) -> None:
    with ForkedWorkers(3) as workers:
        pids = {pid for _, pid in workers(by_everyone, shared_tasks(3, tmp_path / "tasks"))} - {os.getpid()}
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_nothing_is_forked_before_there_is_work() -> None:
    with ForkedWorkers(3) as workers:
        pass
    with ForkedWorkers(1) as workers:
        assert {pid for _, pid in workers(process, range(3))} == {os.getpid()}


def test_the_first_error_in_order_is_raised_as_it_is_and_the_workers_continue() -> None:
    with ForkedWorkers(3) as workers:
        for _ in range(3):
            with pytest.raises(DataError, match=r"^f\.csv:7: task 7$"):
                workers(failing, range(20))
        assert workers(failing, range(7)) == list(range(7))


def test_an_error_that_cannot_cross_is_reported_with_its_traceback(tmp_path: Path) -> None:
    with ForkedWorkers(2) as workers, pytest.raises(RuntimeError, match="OddError: 1 and 2"):
        workers(odd, [(os.getpid(), tmp_path / "begun")] * 2)


def test_a_process_that_is_killed_ends_the_work_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"SIGKILL\n.*beam.workers"), ForkedWorkers(2) as workers:
        workers(killed_elsewhere, [(os.getpid(), tmp_path / "begun")] * 4)


def test_a_process_that_was_killed_between_two_calls_is_reported_too(tmp_path: Path) -> None:
    with ForkedWorkers(2) as workers:
        (pid,) = {pid for _, pid in workers(by_everyone, shared_tasks(2, tmp_path / "tasks"))} - {os.getpid()}
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(RunError, match="SIGKILL"):
            workers(process, range(20))


def test_an_interruption_leaves_nobody_at_work_behind(tmp_path: Path) -> None:
    with ForkedWorkers(3) as workers:
        with pytest.raises(KeyboardInterrupt):
            workers(interrupted_here, [(tmp_path, os.getpid())] * 10_000)
        assert not any(map(alive, marked_by(tmp_path) - {os.getpid()}))
        assert len(list(tmp_path.iterdir())) < 10_000, "they have left tasks undone"
        assert workers(failing, range(3)) == [0, 1, 2], "and others are forked when there is work again"


def test_a_parent_that_is_killed_takes_the_others_with_it(tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        with ForkedWorkers(3) as workers:
            workers(mark, [tmp_path] * 10_000)
        os._exit(0)

    def others() -> set[int]:
        return marked_by(tmp_path) - {pid}

    assert wait_until(lambda: len(others()) == 2)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert wait_until(lambda: not any(map(alive, others())))


def test_a_process_with_threads_is_not_forked() -> None:
    pid = os.fork()
    if not pid:  # a process with one thread, whatever the tests before have left running
        alone = can_fork()
        thread = threading.Thread(target=time.sleep, args=[9], daemon=True)
        thread.start()
        os._exit(0 if alone and not can_fork() else 1)
    assert os.waitpid(pid, 0)[1] == 0


def data(folder: Path, kind: str) -> DataConfig:
    """Some thousand rows in a file of a kind."""
    folder.mkdir()
    rows = [{"a": number, "b": f"text {number % 97} of\n{number}", "c": number / 7} for number in range(9_000)]
    table, path = pa.Table.from_pylist(rows), folder / f"f.{kind}"
    match kind:
        case "csv":
            pyarrow.csv.write_csv(table, path)
        case "parquet":
            pyarrow.parquet.write_table(table, path, row_group_size=1_000)
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case _:
            path.write_text("\n".join(f"{row['a']} is {row['c']}" for row in rows))
    source: dict[str, Any] = {"kind": kind, "path": str(path)}
    return DataConfig.model_validate({"source": source, "splits": {"train": 3, "eval": 1}, "shards": 2})


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "text"])
def test_what_processes_write_is_what_one_writes(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, size in (
        (parts, "SMALLEST_PART", 1 << 14),
        (parts, "LARGEST_PART", 1 << 14),
        (layout, "PARTITION_BYTES", 1 << 14),
    ):
        monkeypatch.setattr(module, name, size)
    config, called = data(tmp_path / "in", kind), list[str]()
    ingest(config, find_spans(config), tmp_path / "one", lambda _work: serial_map)
    with ForkedWorkers(3) as workers:

        def parallel_map(label: str, function: Any, tasks: Any) -> Any:
            called.append(label)
            return workers(function, tasks)

        ingest(config, find_spans(config), tmp_path / "three", lambda _work: parallel_map)
    one, three = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.gz")}
        for folder in (tmp_path / "one", tmp_path / "three")
    )
    assert len(one) == 4
    assert one == three
    assert {"Scan", "Scatter", "Pack"} <= set(called)


def test_a_full_disk_met_by_another_process_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    config = data(tmp_path / "in", "csv")
    with ForkedWorkers(2) as workers, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "SMALLEST_PART", 1 << 14)
        workers(process, range(2))
        for other in workers._others:
            resource.prlimit(other.pid, resource.RLIMIT_FSIZE, (2_000, 2_000))

        def parallel_map(label: str, function: Any, tasks: Any) -> Any:
            shared = partial(once_another_has_one, function, os.getpid(), tmp_path / label)
            return workers(shared if len(tasks) > 1 else function, tasks)

        with pytest.raises(DataError, match="cannot be written: File too large") as reported:
            ingest(config, find_spans(config), tmp_path / "out", lambda _work: parallel_map)
    assert reported.value.file == str(tmp_path / "out")
    assert list((tmp_path / "out").rglob("*")) == []
