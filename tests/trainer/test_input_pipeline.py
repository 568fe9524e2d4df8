"""The input pipeline over real shards: every example once an epoch, other batches each time, exact sizes."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer.input import gathered
from headrace.trainer.input.memory import (
    CACHE_WORDS,
    ExampleSample,
    FreeSpace,
    choose_cache,
    estimate_examples,
    format_bytes,
    free_memory,
)
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.reading import InputOptions, records_of

SIZES = [130, 1, 0, 2100, 269]
TOTAL = sum(SIZES)
SPEC = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "half": tf.io.FixedLenFeature([], tf.float32),
    "pair": tf.io.FixedLenFeature([2], tf.float32),
    "word": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.float32),
}


def example(number: int) -> bytes:
    floats = {"half": [number / 2], "pair": [number, -number], "label": [number % 2]}
    feature = {key: tf.train.Feature(float_list=tf.train.FloatList(value=value)) for key, value in floats.items()}
    feature["id"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    feature["word"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[f"w{number % 7}".encode()]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write(folder: Path, sizes: list[int], compression: str = "GZIP") -> list[str]:
    """Shards of examples numbered from 0 on."""
    files: list[str] = []
    first = 0
    for shard, size in enumerate(sizes):
        file = str(folder / f"part-{shard:05d}{'.gz' if compression else ''}")
        with tf.io.TFRecordWriter(file, compression) as writer:
            for number in range(first, first + size):
                writer.write(example(number))
        files, first = [*files, file], first + size
    return files


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write(tmp_path_factory.mktemp("shards"), SIZES)


def pipeline(**settings: Any) -> InputPipeline:
    return InputPipeline(
        feature_spec=SPEC,
        label_key="label",
        **{"batch_size": 64, "cache": "memory", "shuffle": 500, "seed": 3, **settings},
    )


def epoch(dataset: tf.data.Dataset) -> list[list[int]]:
    """The ids in each batch."""
    return [features["id"].numpy().tolist() for features, _ in dataset]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


modes = pytest.mark.parametrize("cache", ["memory", "disk", "none"])
orders = pytest.mark.parametrize("shuffle", [0, 1, 500, 10_000])


@modes
@orders
def test_every_example_comes_once_an_epoch_in_batches_of_the_exact_size(
    shards: list[str], cache: str, shuffle: int
) -> None:
    split = pipeline(cache=cache, shuffle=shuffle).open("train", shards)
    for _ in range(2):
        batches = epoch(split.dataset)
        assert sorted(flat(batches)) == list(range(TOTAL))
        assert [len(batch) for batch in batches] == [64] * (TOTAL // 64) + [TOTAL % 64]


@modes
def test_no_two_epochs_have_a_batch_in_common(shards: list[str], cache: str) -> None:
    dataset = pipeline(cache=cache).open("train", shards).dataset
    first, second = ({frozenset(batch) for batch in epoch(dataset)} for _ in range(2))
    assert not first & second


@modes
def test_same_seed_gives_the_same_epochs_and_another_seed_others(shards: list[str], cache: str) -> None:
    def two_epochs(seed: int) -> list[list[list[int]]]:
        dataset = pipeline(cache=cache, seed=seed).open("train", shards).dataset
        return [epoch(dataset), epoch(dataset)]

    first = two_epochs(3)
    assert two_epochs(3) == first
    assert two_epochs(4)[0] != first[0]


@modes
def test_without_shuffle_examples_keep_the_order_of_one_file(shards: list[str], cache: str) -> None:
    split = pipeline(cache=cache, shuffle=0).open("eval", shards[3:4])
    assert flat(epoch(split.dataset)) == list(range(131, 131 + 2100))


def test_memory_shuffle_is_uniform_over_the_whole_split(tmp_path: Path) -> None:
    split = pipeline(shuffle=1).open("train", write(tmp_path, [50]))  # an epoch is one batch
    assert split.endless is not None
    places = np.array([np.argsort(order) for order in epoch(split.endless().take(200))])
    counts = np.stack([np.bincount(column, minlength=50) for column in places.T])
    chi_squared = ((counts - 4) ** 2 / 4).sum(axis=1)  # 49 degrees of freedom
    assert abs(chi_squared.mean() - 49) < 5


def test_pool_shuffle_moves_examples_as_far_as_a_record_shuffle_of_the_same_buffer(tmp_path: Path) -> None:
    files = write(tmp_path, [4000])
    ours = np.array(flat(epoch(pipeline(cache="none", shuffle=1000).open("train", files).dataset)))
    stock = np.array(list(tf.data.Dataset.range(4000).shuffle(1000, seed=1).as_numpy_iterator()))

    def displacement(order: np.ndarray) -> float:
        return float(np.abs(order - np.arange(len(order))).mean())

    assert displacement(ours) > 0.8 * displacement(stock)
    assert np.abs(np.diff(ours)).mean() > 0.8 * np.abs(np.diff(stock)).mean()


@modes
def test_columns_are_what_parsing_one_example_at_a_time_gives(shards: list[str], cache: str) -> None:
    dataset = pipeline(cache=cache).open("train", shards).dataset
    for features, label in dataset.take(3):
        assert set(features) == {"id", "half", "pair", "word"}
        for place, number in enumerate(features["id"].numpy()):
            expected = tf.io.parse_single_example(example(int(number)), SPEC)
            np.testing.assert_array_equal(label[place], expected.pop("label"))
            for name, value in expected.items():
                np.testing.assert_array_equal(features[name][place], value)


@pytest.mark.parametrize("prefetch", [0, 1, 200])
def test_batches_are_the_same_however_many_examples_are_gathered_at_once(
    shards: list[str], monkeypatch: pytest.MonkeyPatch, prefetch: int
) -> None:
    def batches(at_once: int) -> list[list[list[int]]]:
        monkeypatch.setattr(gathered, "GATHERED", at_once)
        reading = InputOptions(prefetch=prefetch)
        split = pipeline(reading=reading).open("train", shards, start=3)
        endless = pipeline(reading=reading, steps_per_epoch=1).open("train", shards)
        assert split.endless
        return [epoch(split.endless().take(100)), epoch(split.dataset), epoch(endless.dataset.take(100))]

    one_by_one = batches(1)
    assert [len(found) for found in one_by_one] == [100, TOTAL // 64 + 1 - 3, 100]
    assert batches(640) == one_by_one
    assert batches(1 << 20) == one_by_one


def test_endless_split_in_memory_runs_through_all_examples_before_repeating_any(shards: list[str]) -> None:
    split = pipeline(steps_per_epoch=10).open("train", shards)
    batches = epoch(split.dataset.take(2 * TOTAL // 64))
    assert {len(batch) for batch in batches} == {64}
    assert sorted(flat(batches)[:TOTAL]) == list(range(TOTAL))
    assert flat(batches)[:TOTAL] != flat(batches)[TOTAL : 2 * TOTAL]


@pytest.mark.parametrize("batch_size", [64, 1700, 10_000])
def test_epochs_of_one_iterator_are_those_of_an_iterator_each(shards: list[str], batch_size: int) -> None:
    split = pipeline(batch_size=batch_size).open("train", shards)
    assert split.endless is not None
    assert split.steps == -(-TOTAL // batch_size)
    one = epoch(split.endless().take(3 * split.steps))
    assert one == [batch for _ in range(3) for batch in epoch(split.dataset)]


@pytest.mark.parametrize("cache", ["memory", "disk", "none"])
@pytest.mark.parametrize("endless", [False, True], ids=["epochs", "endless"])
@pytest.mark.parametrize("shuffle", [0, 500])
def test_a_split_opened_at_a_batch_continues_as_if_it_had_not_stopped(
    shards: list[str], cache: str, endless: bool, shuffle: int
) -> None:
    settings = {"cache": cache, "shuffle": shuffle, "steps_per_epoch": 10 if endless else None}

    def batches(start: int, count: int) -> list[list[int]]:
        split = pipeline(**settings).open("train", shards, start)
        if endless:
            return epoch(split.dataset.take(count))
        read: list[list[int]] = []
        while len(read) < count:
            read += epoch(split.dataset)
        return read[:count]

    whole = batches(0, 100)  # two and a half epochs
    for start in (1, 39, 40, 57, 81):
        assert batches(start, 100 - start) == whole[start:]


def test_endless_split_from_files_has_full_batches_and_leaves_no_example_out(shards: list[str]) -> None:
    split = pipeline(cache="none", steps_per_epoch=10).open("train", shards)
    batches = epoch(split.dataset.take(3 * TOTAL // 64))
    assert {len(batch) for batch in batches} == {64}
    assert set(flat(batches)) == set(range(TOTAL))


@modes
def test_batch_larger_than_the_split_is_the_whole_split(shards: list[str], cache: str) -> None:
    split = pipeline(cache=cache, batch_size=10_000).open("train", shards)
    assert [len(batch) for batch in epoch(split.dataset)] == [TOTAL]


@modes
@pytest.mark.parametrize("sizes", [[0], [0, 0], []])
def test_empty_split_is_refused_by_name(tmp_path: Path, cache: str, sizes: list[int]) -> None:
    with pytest.raises(TrainingError, match="the eval split holds no examples"):
        pipeline(cache=cache).open("eval", write(tmp_path, sizes))


def test_uncompressed_shards_are_read_too(tmp_path: Path) -> None:
    split = pipeline().open("train", write(tmp_path, [70, 5], compression=""))
    assert sorted(flat(epoch(split.dataset))) == list(range(75))


def test_examples_are_counted_as_they_pass_where_they_are_not_kept(shards: list[str]) -> None:
    kept, streamed = pipeline().open("train", shards), pipeline(cache="none").open("train", shards)
    assert (kept.size, kept.steps) == (TOTAL, 40)
    assert (streamed.size, streamed.steps, streamed.seen()) == (None, None, 0)
    epoch(streamed.dataset)
    assert streamed.seen() == TOTAL


def test_packing_gives_back_every_column(shards: list[str]) -> None:
    packing = Packing(SPEC)
    serialized = tf.constant([example(number) for number in range(9)])
    columns, unpacked = tf.io.parse_example(serialized, SPEC), packing.unpack(packing.parse(serialized))
    assert set(unpacked) == set(SPEC)
    for name, column in columns.items():
        np.testing.assert_array_equal(unpacked[name], column)
    assert ExampleSample.of(shards, packing).bytes_each == 8 + 4 + 2 * 4 + 24 + 4


@pytest.mark.parametrize(("memory", "disk", "where"), [(4, 0, "memory"), (3.9, 2, "disk"), (3.9, 1.9, "none")], ids=str)
def test_cache_auto_goes_by_what_is_free(shards: list[str], memory: float, disk: float, where: str) -> None:
    size = TOTAL * 100
    room = FreeSpace(100, int(memory * size), int(disk * size))
    cache = choose_cache("auto", shards, room)
    assert cache.kind == where
    assert f"about {format_bytes(size)} ({TOTAL:,} times 100 bytes)" in cache.why
    assert format_bytes(room.memory if where == "memory" else room.disk) in cache.why
    assert cache.why.endswith(CACHE_WORDS[cache.kind])


@pytest.mark.parametrize("choice", ["memory", "disk", "none"])
def test_cache_by_choice_does_not_look_at_the_files(choice: Any) -> None:
    cache = choose_cache(choice, ["/nowhere"], FreeSpace(1, 1, 1))
    assert cache.kind == choice
    assert f"`train.input.cache: {choice}`" in cache.why


def test_number_of_examples_is_exact_for_small_files_and_close_for_large_ones(
    tmp_path: Path, shards: list[str]
) -> None:
    assert estimate_examples(shards) == TOTAL
    assert estimate_examples(write(tmp_path, [50, 3], compression="")) == 53
    file, record = str(tmp_path / "large.gz"), np.random.default_rng(0).bytes(200)
    with tf.io.TFRecordWriter(file, "GZIP") as writer:
        for _ in range(60_000):  # 13 MB, of which 4 are looked at
            writer.write(record)
    assert estimate_examples([file, file]) == pytest.approx(120_000, rel=0.1)


def test_number_of_examples_is_exact_for_files_of_several_gzip_members(tmp_path: Path) -> None:
    members = [Path(file).read_bytes() for file in write(tmp_path, [700, 1, 40])]
    (tmp_path / "joined.gz").write_bytes(b"".join(members))
    assert estimate_examples([str(tmp_path / "joined.gz")]) == 741


def test_free_memory_is_no_more_than_the_machine_has() -> None:
    total = int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]) << 10
    assert 0 < free_memory() <= total


def test_settings_can_be_replaced_for_the_eval_split(shards: list[str]) -> None:
    evaluation = dataclasses.replace(pipeline(), shuffle=0)
    assert flat(epoch(evaluation.open("eval", shards[:1]).dataset)) == list(range(130))


def test_a_split_in_memory_traces_functions_for_the_batches_that_are_read_alone(shards: list[str]) -> None:
    traced: list[str] = []

    def load(features: dict[str, Any]) -> dict[str, Any]:
        traced.append("load")
        return features

    split = pipeline(load=load).open("train", shards)
    assert not traced
    assert split.endless is not None
    split.endless()
    assert len(traced) == 1
    assert len(epoch(split.peek)) == split.steps
    assert epoch(split.peek) == epoch(split.peek)
    assert len(traced) == 2
    assert sorted(flat(epoch(split.dataset))) == list(range(TOTAL))
    assert split.dataset is split.dataset
    assert len(traced) == 3


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_of_a_file_are_those_of_tensorflows_own_dataset(tmp_path: Path, compression: str) -> None:
    (file,) = write(tmp_path, [37], compression)
    expected = list(tf.data.TFRecordDataset(file, compression).as_numpy_iterator())
    assert list(records_of(file).as_numpy_iterator()) == expected == [example(number) for number in range(37)]
    assert [len(batch) for batch in records_of(file, compression, 64).batch(20)] == [20, 17]


def test_a_file_that_is_cut_off_is_an_error_after_the_records_before(tmp_path: Path) -> None:
    (file,) = write(tmp_path, [5], "")
    Path(file).write_bytes(Path(file).read_bytes()[:-3])
    read = records_of(file).as_numpy_iterator()
    assert [next(read) for _ in range(4)] == [example(number) for number in range(4)]
    with pytest.raises(tf.errors.DataLossError):
        next(read)
