"""Coordinated reads by length: every trainer's batch of a round is of the same bucket, and no example is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from command import wait_until
from numbered_shards import SPEC, example, pipeline, write_shards

from headrace.configs.schema.train import ServiceConfig, TrainConfig
from headrace.trainer.input.buckets import LengthBuckets, choose_buckets
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.reading import ClusterWorker
from headrace.trainer.input.service.client import DataService
from headrace.trainer.input.service.delivery import StalledError, elements_with_timeout
from headrace.trainer.input.service.endless import coordinated_rounds
from headrace.trainer.input.sources import ExampleSources
from headrace.trainer.service.local import LocalService

BATCH, TRAINERS = 20, 2
ROUND = BATCH * TRAINERS
TOTAL = 900
PASSES = 4


def lengths(features: dict[str, tf.RaggedTensor]) -> list[int]:
    return features["words"].row_lengths().numpy().tolist()


@pytest.mark.parametrize("boundaries", [(1,), ()], ids=["two buckets", "one for each length"])
def test_rounds_are_of_one_bucket_and_pass_on_every_example_once(boundaries: tuple[int, ...]) -> None:
    packing, buckets = Packing(SPEC), LengthBuckets(boundaries)
    numbers = np.random.default_rng(0).permutation(TOTAL)
    chunks = [packing.parse(tf.constant([example(n) for n in part])) for part in np.array_split(numbers, 17)]
    signature = tuple(tf.TensorSpec([None, *part.shape[1:]], part.dtype) for part in packing.empty())
    stream = tf.data.Dataset.from_generator(lambda: iter(chunks), output_signature=signature)
    seen: list[int] = []
    longest = []
    for packed in coordinated_rounds(stream, packing, buckets, BATCH, TRAINERS):
        columns = packing.unpack(packed)
        seen += columns["id"].numpy().tolist()
        for keys in np.reshape(buckets.keys(tf.constant(lengths(columns), tf.int64)), [-1, ROUND]):
            assert len(set(keys.tolist())) == 1
        longest += np.reshape(lengths(columns), [-1, TRAINERS, BATCH]).max(axis=2).tolist()
    assert len(seen) == len(set(seen))
    assert len(seen) >= TOTAL - 3 * ROUND  # what does not fill a round waits, and here nothing more comes
    assert {len(set(padded)) for padded in longest} == {1}
    assert len({tuple(padded) for padded in longest}) == (2 if boundaries else 3)


@pytest.mark.slow
def test_two_trainers_get_equal_lengths_in_each_round_and_every_example(tmp_path: Path, running: LocalService) -> None:
    files = write_shards(tmp_path, [TOTAL // 6] * 6)
    steps = PASSES * 2 * TOTAL // ROUND  # two workers read everything
    settings = {"address": running.address, "sharding": "off", "coordinated": True}
    given = {"shuffle": 300, "length_buckets": (1,), "service": settings}
    train = TrainConfig.model_validate({"batch_size": ROUND, "steps_per_epoch": steps, "input": given})
    some = np.array([0, 1, 2, 2, 1, 0])
    got: dict[int, list[tuple[list[int], list[int]]]] = {0: [], 1: []}

    def read(number: int) -> None:
        buckets, _ = choose_buckets(train.input.length_buckets, some, train.global_batch_size)
        sources = ExampleSources.of(train, Path(), ClusterWorker(number, TRAINERS, str(tmp_path))).bucketed(
            buckets, some
        )
        split = pipeline(
            source=sources.stream, shuffle=sources.shuffle, batch_size=sources.batch_size, steps_per_epoch=steps
        ).open("train", files)
        for features, _ in split.dataset.take(steps):
            got[number].append((lengths(features), features["id"].numpy().tolist()))

    with ThreadPoolExecutor(TRAINERS) as trainers:
        list(trainers.map(read, got))
    assert [len(batches) for batches in got.values()] == [steps, steps]
    padded = [tuple(max(lengths) for lengths, _ in batches) for batches in zip(*got.values(), strict=True)]
    assert set(padded) == {(1, 1), (2, 2)}
    assert {len(lengths) for batches in got.values() for lengths, _ in batches} == {BATCH}
    times = Counter(number for batches in got.values() for _, ids in batches for number in ids)
    assert len(times) == TOTAL
    assert max(times.values()) <= 2 * PASSES + 4


@pytest.mark.slow
def test_trainer_that_reads_ahead_ends_though_the_others_have_ended_before_it(
    running: LocalService, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"

    def served(batch: tf.Tensor) -> tuple[tf.Tensor]:
        with tf.control_dependencies([tf.io.write_file(str(asked), "by a trainer")]):
            return (tf.identity(batch),)

    settings = ServiceConfig(address=running.address, sharding="off", coordinated=True)
    service = DataService(settings, ClusterWorker(0, TRAINERS, "of two, the other of which reads nothing"))
    numbers = tf.data.Dataset.range(100).batch(10)
    first = numbers.take(1).map(lambda batch: (batch,))
    iterators = [iter(first.concatenate(service.endless(numbers.map(served).repeat())).prefetch(2))]
    next(iterators[0])
    ended = threading.Thread(target=iterators.clear, daemon=True)
    assert wait_until(asked.exists)  # what is read ahead waits for a round, which takes both trainers
    ended.start()
    ended.join(settings.timeout)  # it would wait twenty times as long
    assert not ended.is_alive()


def test_a_few_buckets_stand_for_each_length_where_none_are_given() -> None:
    many = np.random.default_rng(0).integers(1, 100, 5000)
    few = LengthBuckets().with_boundaries(many)
    keys = few.keys(tf.constant(many)).numpy()
    assert np.bincount(keys).min() > 0.8 * len(many) / 8
    assert LengthBuckets((3,)).with_boundaries(many) == LengthBuckets((3,))
    assert LengthBuckets().with_boundaries(np.array([5, 5, 5])).boundaries == (5,)


def test_reader_waits_for_what_is_late_and_gives_up_where_it_is_asked_to() -> None:
    late = threading.Event()
    asked: list[int] = []

    def numbers() -> Iterator[int]:
        yield 1
        late.wait()
        yield 2

    def wait_on(times: int) -> bool:
        asked.append(times)
        if times == 3:
            late.set()
        return times < 50

    dataset = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
    assert [int(number) for number in elements_with_timeout(dataset, 0.2, wait_on) if number is not None] == [1, 2]
    assert 3 in asked
    late.clear()
    reading = elements_with_timeout(dataset, 0.2)
    with pytest.raises(StalledError, match=r"no batch for 0\.2 s"):
        list(reading)
    late.set()
