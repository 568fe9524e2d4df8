"""Training data through a real tf.data service on loopback, whose processes are killed in the middle of an epoch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf
from numbered_shards import SPEC, ids, pipeline, write_shards

from configs.errors import TrainingError
from configs.service import ServiceConfig
from trainer.packing import Packing
from trainer.service import Service
from trainer.service_local import LocalService
from trainer.service_probe import wait_for_workers
from trainer.service_roles import free_port

FILES, EACH = 40, 3000
TOTAL = FILES * EACH
BATCHES = FILES * 3


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_shards(tmp_path_factory.mktemp("shards"), [EACH] * FILES)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    with LocalService(0, 2, tmp_path_factory.mktemp("service")) as service:
        service.wait_until_ready(120)
        yield service


def reader(running: LocalService, timeout: float = 20.0) -> Service:
    return Service(ServiceConfig(address=running.address, timeout=timeout))


def through(service: Service, **settings: object) -> object:
    return pipeline(source=lambda _, files, packing, __: service.stream(files, packing), **settings)


@pytest.mark.slow
def test_epoch_gives_each_example_once_and_another_order_each_time(shards: list[str], running: LocalService) -> None:
    service = reader(running)
    assert service.check() == f"read through {running.address} by 2 workers (dynamic sharding)"
    split = through(service).open("train", shards)
    first, second = ids(split.dataset), ids(split.dataset)
    assert sorted(first) == sorted(second) == list(range(TOTAL))
    assert first != second
    assert split.seen() == 2 * TOTAL
    assert service.tally.words() == ""


@pytest.mark.slow
def test_cache_in_memory_reads_once_and_keeps_the_order_of_the_seed(shards: list[str], running: LocalService) -> None:
    first, second = (through(reader(running), cache="memory").open("train", shards) for _ in range(2))
    assert first.size == TOTAL
    assert ids(first.peek) == list(range(TOTAL))
    order = ids(first.dataset)
    assert order == ids(second.dataset)
    assert sorted(order) == list(range(TOTAL))
    assert order != ids(first.dataset)


@pytest.mark.slow
@pytest.mark.parametrize("victims", [["worker-1"], ["dispatcher"], ["worker-2", "dispatcher"]], ids="+".join)
def test_kill_in_the_middle_of_an_epoch_loses_no_example_and_repeats_none(
    shards: list[str], running: LocalService, victims: list[str]
) -> None:
    service = reader(running)
    batches = iter(service.stream(shards, Packing(SPEC))(tf.constant([1, 2], tf.int64)))
    packing, seen = Packing(SPEC), []
    for number, packed in enumerate(batches):
        seen += packing.unpack(packed)["id"].numpy().tolist()
        if number == BATCHES // 4:
            for victim in victims:
                os.kill(running.pids[victim], signal.SIGKILL)
        if number > BATCHES // 4:
            running.mend(lambda _: None)
        time.sleep(0.02)  # so that the epoch outlasts the new start
    assert len(seen) == TOTAL
    assert sorted(seen) == list(range(TOTAL))
    if victims == ["dispatcher"]:
        assert service.tally.words() == ""
    running.wait_until_ready(60)


def test_address_where_nothing_listens_is_told_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(TrainingError, match=r"no tf.data service at grpc://localhost:\d+ within 1 s: unavailable"):
        wait_for_workers(f"localhost:{free_port()}", 1.0)
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_command_ends_with_all_its_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "tfdata-service", "--workers", "1", "--work-dir", str(tmp_path)]
    popen = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert popen.stdout is not None
    address = popen.stdout.readline().strip()
    assert address.startswith("grpc://localhost:")
    assert len(wait_for_workers(address.removeprefix("grpc://"), 30)) == 1
    popen.terminate()
    assert "ended" in popen.communicate(timeout=30)[0]
    with pytest.raises(TrainingError):
        wait_for_workers(address.removeprefix("grpc://"), 0.5)
