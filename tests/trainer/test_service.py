"""Training data through a real tf.data service on loopback, whose processes are killed in the middle of an epoch."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from command import PATIENCE, processes_in, wait_until
from numbered_shards import SPEC, ids, pipeline, write_shards

from headrace.common.errors import RunError, TrainingError
from headrace.configs.schema.train import ServiceConfig, TrainConfig
from headrace.trainer.input.memory import CacheChoice
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.service.client import DataService
from headrace.trainer.input.service.endless import endless
from headrace.trainer.input.sources import ExampleSources
from headrace.trainer.service.local import LocalService
from headrace.trainer.service.ports import check_loopback, free_port
from headrace.trainer.service.probe import registered_workers, wait_for_workers

COMMAND = str(Path(sys.executable).with_name("headrace"))
FILES, EACH = 60, 1100
TOTAL = FILES * EACH
BATCHES_EACH = 2
BATCHES = FILES * BATCHES_EACH


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_shards(tmp_path_factory.mktemp("shards"), [EACH] * FILES)


def reader(running: LocalService, timeout: float = 8.0) -> DataService:
    return DataService(ServiceConfig(address=running.address, timeout=timeout))


def through(service: DataService, **settings: Any) -> InputPipeline:
    return pipeline(source=lambda _, files, packing, __: service.stream(files, packing), **settings)


@pytest.mark.slow
def test_epoch_gives_each_example_once_and_another_order_each_time(shards: list[str], running: LocalService) -> None:
    service = reader(running, PATIENCE)  # a busy machine is no service that is gone
    assert service.check() == f"read through {running.address} by 2 workers (sharding dynamic)"
    split = through(service).open("train", shards)
    first, second = ids(split.dataset), ids(split.dataset)
    assert sorted(first) == sorted(second) == list(range(TOTAL))
    assert first != second
    assert split.seen() == 2 * TOTAL
    assert service.statistics.words() == ""


@pytest.mark.slow
def test_cache_in_memory_reads_once_and_keeps_the_order_of_the_seed(shards: list[str], running: LocalService) -> None:
    first, second = (through(reader(running), cache="memory").open("train", shards) for _ in range(2))
    assert first.size == TOTAL
    assert ids(first.peek) == list(range(TOTAL))
    order = ids(first.dataset)
    assert order == ids(second.dataset)
    assert sorted(order) == list(range(TOTAL))
    assert order != ids(first.dataset)


@pytest.mark.usefixtures("at_once")
@pytest.mark.slow
@pytest.mark.parametrize("victims", [["worker-1"], ["dispatcher"], ["worker-2", "dispatcher"]], ids="+".join)
def test_kill_in_the_middle_of_an_epoch_loses_no_example_and_repeats_none(
    shards: list[str], running: LocalService, victims: list[str]
) -> None:
    # A worker that is gone for good has lost what it had taken.
    patience = PATIENCE if victims == ["dispatcher"] else 8.0
    service = reader(running, patience)
    batches = iter(service.stream(shards, Packing(SPEC))(tf.constant([1, 2], tf.int64)))
    packing, seen = Packing(SPEC), []
    for number, packed in enumerate(batches):
        seen += packing.unpack(packed)["id"].numpy().tolist()
        if number == BATCHES // 4:
            for victim in victims:
                os.kill(running.pids[victim], signal.SIGKILL)
        if number > BATCHES // 4:
            running.restart_dead(lambda _: None)
        time.sleep(0.02)  # so that the epoch outlasts the new start
    assert len(seen) == TOTAL
    assert sorted(seen) == list(range(TOTAL))
    if victims == ["dispatcher"]:  # its journal alone makes up for it
        assert service.statistics.words() == ""
    else:  # batches of the files that were read again had come before, and were dropped
        assert 0 < service.statistics.read_again < FILES
        assert service.statistics.repeats <= BATCHES_EACH * service.statistics.read_again
    running.wait_until_ready(PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("coordinated", [False, True])
def test_unsharded_workers_each_read_everything(shards: list[str], running: LocalService, coordinated: bool) -> None:
    settings = {"address": running.address, "sharding": "off", "coordinated": coordinated}
    train = TrainConfig.model_validate(
        {"batch_size": 500, "steps_per_epoch": 100, "input": {"shuffle": 2000, "service": settings}}
    )
    sources = ExampleSources.of(train, Path())
    assert sources.cache(CacheChoice("memory", "")).kind == "none"
    assert sources.start(7) == 0  # a resumed training draws again: there is no position to return to
    split = pipeline(source=sources.stream, shuffle=sources.shuffle, batch_size=500, steps_per_epoch=100).open(
        "train", shards
    )
    batches = [features["id"].numpy() for features, _ in split.dataset.take(TOTAL // 500)]
    assert {len(batch) for batch in batches} == {500}
    read = np.concatenate(batches)
    assert 0.5 * TOTAL < len(set(read.tolist())) < TOTAL  # two passes at the same time, each by half
    assert len(set((read[:500] // EACH).tolist())) > 1


def test_workers_read_as_many_records_at_a_time_as_the_config_says(shards: list[str], running: LocalService) -> None:
    settings = {"read_batch": 300, "open_files": 2, "service": running.address}
    train = TrainConfig.model_validate({"input": settings})
    packing, sources = Packing(SPEC), ExampleSources.of(train, Path())
    assert sources.service is not None
    assert (sources.service.reading.read_batch, sources.service.reading.open_files) == (300, 2)
    stream = sources.stream("train", shards[:1], packing, lambda _: pytest.fail("read here"))
    assert [int(packing.rows(packed)) for packed in stream(None)] == [300, 300, 300, 200]
    unsharded = endless(shards[:1], packing, sources.service.reading)
    assert {int(packing.rows(packed)) for packed in unsharded.take(8)} == {300, 200}


def test_unsharded_workers_shuffle_each_for_itself(shards: list[str], running: LocalService) -> None:
    service = DataService(ServiceConfig(address=running.address, sharding="off"))
    packing = Packing(SPEC)
    first = [packing.unpack(packed)["id"].numpy()[0] for packed in service.endless(endless(shards, packing)).take(40)]
    assert len(set(first)) > 25  # one order in both workers would give each batch twice: 20


def test_address_where_nothing_listens_is_reported_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(TrainingError, match=r"no tf.data service at grpc://localhost:\d+ within 1 s: unavailable"):
        wait_for_workers(f"localhost:{free_port()}", 1.0)
    assert time.monotonic() - began < 30  # a second, on a machine that has nothing else to do


@pytest.mark.usefixtures("at_once")
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_command_leaves_no_process_behind_however_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "headrace", "tfdata-service", "--workers", "1", "--work-dir", str(tmp_path)]
    popen = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path)
    assert popen.stdout is not None
    address = popen.stdout.readline().strip().removeprefix("grpc://")
    assert popen.stdout.readline().startswith("one worker; logs and journal in ")
    assert len(wait_for_workers(address, PATIENCE)) == 1
    assert len(processes_in(tmp_path)) == 3
    popen.send_signal(number)
    said = popen.communicate(timeout=PATIENCE)[0]
    assert ("ended" in said) == (number == signal.SIGTERM)
    assert wait_until(lambda: processes_in(tmp_path) == [])


@pytest.mark.usefixtures("at_once")
@pytest.mark.slow
def test_worker_that_waits_for_its_dispatcher_says_so_and_ends_on_a_signal(tmp_path: Path) -> None:
    command = [COMMAND, "tfdata-service", "--role", "worker", "--dispatcher", f"localhost:{free_port()}"]
    popen = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert popen.stdout is not None
    assert popen.stdout.readline().startswith("waiting for the dispatcher at localhost:")
    popen.send_signal(signal.SIGTERM)
    assert popen.wait(PATIENCE) == 0


@pytest.mark.usefixtures("at_once")
def test_process_that_dies_soon_after_each_start_is_given_up_and_one_that_has_lived_is_not(tmp_path: Path) -> None:
    now = [0.0]
    with LocalService(0, 1, tmp_path, clock=lambda: now[0]) as service:

        def mended() -> int:
            service.restart_dead(lambda _: None)
            return service.pids["worker-1"]

        def dies(after: float) -> None:
            pid = service.pids["worker-1"]
            now[0] += after
            os.kill(pid, signal.SIGKILL)
            assert wait_until(lambda: mended() != pid)

        for seconds in [1.0] * 5 + [3600.0] * 7 + [1.0] * 4:
            dies(seconds)
        with pytest.raises(RunError, match=r"the worker-1 died 6 times, each soon .*worker-1\.log"):
            dies(1.0)


@pytest.mark.usefixtures("at_once")
def test_folder_of_another_service_is_refused(tmp_path: Path) -> None:
    second = LocalService(0, 1, tmp_path)
    with LocalService(0, 1, tmp_path) as first:
        (tmp_path / "journal").mkdir(exist_ok=True)
        with pytest.raises(RunError, match=r"another tf\.data service runs .*--work-dir"):
            second.__enter__()
        assert (tmp_path / "journal").is_dir()
        assert first.pids.keys() == {"dispatcher", "worker-1"}


def own_addresses() -> list[str]:
    """Those of this machine by which others reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address other than the loopback's")
        return [one.getsockname()[0]]


def answers(host: str, port: int, seconds: float = PATIENCE) -> bool:
    try:
        return bool(registered_workers(f"{host}:{port}", seconds))
    except grpc.RpcError:
        return False


def ports_of(service: LocalService) -> list[int]:
    """Of the dispatcher and its workers."""
    return [
        service.port,
        *(int(worker.rpartition(":")[2]) for worker in registered_workers(f"localhost:{service.port}", PATIENCE)),
    ]


@pytest.mark.slow
def test_nobody_outside_of_the_loopback_reaches_a_port_of_the_service(running: LocalService) -> None:
    ports = ports_of(running)
    assert len(ports) == 3
    for port in ports:
        for host in own_addresses():
            with pytest.raises(OSError, match=r"timed out|refused"):
                socket.create_connection((host, port), 0.2)  # where something listens, the kernel alone answers
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    assert answers("127.0.0.1", running.port)
    assert not any(answers(host, running.port, seconds=0.5) for host in own_addresses())


@pytest.mark.slow
def test_service_with_listen_on_all_interfaces_does_so_and_warns(tmp_path: Path) -> None:
    command = [COMMAND, "tfdata-service", "--workers", "1", "--work-dir", str(tmp_path)]
    errors = tmp_path / "errors"
    with (
        errors.open("wb") as log,
        subprocess.Popen(
            [*command, "--listen", "0.0.0.0"], stdout=subprocess.PIPE, stderr=log, text=True, cwd=tmp_path
        ) as service,
    ):
        try:
            assert service.stdout is not None
            port = int(service.stdout.readline().strip().rpartition(":")[2])
            assert all(answers(host, port) for host in own_addresses())
            assert re.search("warning: .*all interfaces.*read, change and delete", errors.read_text(encoding="utf-8"))
        finally:
            service.send_signal(signal.SIGTERM)


def test_name_that_only_others_use_needs_the_consent_to_let_them_in(tmp_path: Path) -> None:
    command = [COMMAND, "tfdata-service", "--host", "trainer-7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "--listen 0.0.0.0" in done.stderr
    assert not list(tmp_path.iterdir())


def test_system_that_cannot_keep_a_port_to_the_loopback_is_reported_with_the_way_out() -> None:
    port = free_port()
    with socket.socket() as other:
        other.bind(("", port))
        other.listen()
        own_addresses()
        with pytest.raises(RunError, match=rf"port {port} answers at .*--listen 0\.0\.0\.0"):
            check_loopback(port)


@pytest.mark.usefixtures("at_once")
def test_taken_port_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with LocalService(port, 1, tmp_path) as service, pytest.raises(RunError, match=f"cannot start at port {port}"):
            service.wait_until_ready(PATIENCE)
