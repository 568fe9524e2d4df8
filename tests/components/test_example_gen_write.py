"""Rows to shards on disk: nothing lost, all of it shuffled, and the same bytes whoever writes them."""

import gzip
import hashlib
import itertools
import shutil
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from headrace.components.example_gen.shards import spill, write
from headrace.components.example_gen.shards.layout import ShardLayout
from headrace.components.example_gen.shards.write import ShardWriter
from headrace.components.examples.compression import Compression
from headrace.components.sources import serial_map

SPLITS = {"train": 8, "eval": 1, "test": 1}
GZIP, PLAIN = Compression(), Compression("none")


def read(_: int, part: Any) -> Iterator[pa.RecordBatch]:
    first, last = part
    for start in range(first, last, 700):
        ids = np.arange(start, min(start + 700, last))
        texts = [f"row {i} " * (i % 3) for i in ids]
        yield pa.RecordBatch.from_arrays([pa.array(ids), pa.array(texts), pa.array(ids / 7)], names=["id", "s", "f"])


def parts(rows: int, count: int = 3) -> list[tuple[int, int]]:
    cuts = [rows * number // count for number in range(count + 1)]
    return list(itertools.pairwise(cuts))


def layout(shards: int = 3, partitions: int = 2, seed: int = 0) -> ShardLayout:
    return ShardLayout(SPLITS, dict.fromkeys(SPLITS, shards), (), seed, dict.fromkeys(SPLITS, partitions))


def threads(_label: str, function: Callable, tasks: Sequence) -> list:
    """The last task first, several at once."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(function, tasks[::-1]))[::-1]


def written(
    path: Path, how: ShardLayout, given: list, packing: Compression = PLAIN, parallel_map: Callable = serial_map
) -> Path:
    work = path / "work"
    work.mkdir(parents=True)
    found, sizes = ShardWriter(how, packing, work, path / "out").write(given, read, parallel_map)
    assert list(work.iterdir()) == []
    assert sum(found.rows.values()) == sum(last - first for first, last in given)
    assert sizes == {shard: size for shard, size in sizes.items() if size == _file(path, shard, how, packing)}
    return path / "out"


def _file(path: Path, shard: tuple[str, int], how: ShardLayout, packing: Compression) -> int:
    name = f"data_tfrecord-{shard[1]:05d}-of-{how.shards[shard[0]]:05d}{packing.suffix}"
    return (path / "out" / f"Split-{shard[0]}" / name).stat().st_size


def ids(file: Path) -> list[int]:
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    found, place = [], 0
    while place < len(data):
        (size,) = struct.unpack_from("<Q", data, place)
        example = tf.train.Example.FromString(data[place + 12 : place + 12 + size])
        found.append(example.features.feature["id"].int64_list.value[0])
        place += 16 + size
    return found


def digests(folder: Path) -> dict[str, str]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("packing", [GZIP, PLAIN, Compression("gzip", 9)])
def test_every_row_is_written_once_and_tensorflow_reads_it(tmp_path: Path, packing: Compression) -> None:
    out = written(tmp_path, layout(), parts(5000), packing)
    files = sorted(out.rglob("data_*"))
    assert len(files) == 9
    compression = "GZIP" if packing.compression == "gzip" else ""
    records = [r for file in files for r in tf.data.TFRecordDataset(str(file), compression).as_numpy_iterator()]
    examples = [tf.train.Example.FromString(record).features.feature for record in records]
    assert sorted(example["id"].int64_list.value[0] for example in examples) == list(range(5000))
    assert all(
        example["s"].bytes_list.value[0].decode() == f"row {i} " * (i % 3)
        for example in examples
        for i in example["id"].int64_list.value
    )


@pytest.mark.parametrize("packing", [GZIP, PLAIN])
def test_the_bytes_do_not_depend_on_who_writes_what_when(tmp_path: Path, packing: Compression) -> None:
    alone = written(tmp_path / "alone", layout(), parts(5000), packing)
    together = written(tmp_path / "together", layout(), parts(5000), packing, threads)
    assert digests(alone) == digests(together)


def test_a_part_that_is_scattered_again_has_the_same_rows(tmp_path: Path) -> None:
    def again(label: str, function: Callable, tasks: Sequence) -> list:
        return [function(task) for task in tasks for _ in range(2 if label == "Scatter" else 1)][
            :: 2 if label == "Scatter" else 1
        ]

    alone, repeated = (
        written(tmp_path / name, layout(), parts(5000), PLAIN, run) for name, run in (("a", serial_map), ("b", again))
    )
    assert digests(alone) == digests(repeated)


def test_rows_of_many_parts_need_no_descriptors(tmp_path: Path) -> None:
    batch = next(read(0, (0, 10)))
    for number in range(20):
        with spill.PartitionSpill({tmp_path / f"{number}.arrow": range(2)}) as own:
            own.add(batch, np.arange(10) % 2)
    before = len(list(Path("/proc/self/fd").iterdir()))
    rows = spill.SpilledRows(sorted(tmp_path.glob("*.arrow")), range(2))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    found = [rows.of(place) for place in range(2)]
    assert [0 if one is None else one.num_rows for one in found] == [100, 100]


def test_reading_shards_in_order_is_a_shuffle_over_all_rows(tmp_path: Path) -> None:
    out = written(tmp_path, layout(), parts(20_000))
    order = np.array([i for file in sorted((out / "Split-train").iterdir()) for i in ids(file)])
    places = np.arange(len(order))
    assert abs(np.corrcoef(order, places)[0, 1]) < 0.03
    tenths = order[: len(order) // 10 * 10].reshape(10, -1)
    assert tenths.mean(axis=1) == pytest.approx(10_000, rel=0.06)
    assert np.mean(np.abs(np.diff(order)) == 1) < 0.001
    spread_out = np.histogram2d(order, places, bins=8)[0]
    assert spread_out == pytest.approx(len(order) / 64, rel=0.35)


def test_another_seed_is_another_shuffle(tmp_path: Path) -> None:
    one, other = (written(tmp_path / str(seed), layout(seed=seed), parts(2000)) for seed in (0, 1))
    assert not set(digests(one).values()) & set(digests(other).values())


@pytest.mark.parametrize("shards", [1, 7, 10])
def test_shards_of_a_split_differ_in_size_by_less_than_a_tenth(tmp_path: Path, shards: int) -> None:
    out = written(tmp_path, layout(shards), parts(40_000), GZIP)
    sizes = [file.stat().st_size for file in (out / "Split-train").iterdir()]
    assert min(sizes) > 0.9 * max(sizes)


def test_memory_that_is_emptied_often_gives_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "BUFFER", 1000)
    out = written(tmp_path, layout(), parts(5000))
    assert sorted(i for file in out.rglob("data_*") for i in ids(file)) == list(range(5000))


def test_memory_for_sorting_does_not_grow_with_the_partitions(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    batch = pa.RecordBatch.from_pydict({name: random.integers(0, 9, 12_500) for name in "abcdefghij"})

    def peak(partitions: int) -> int:
        numbers = random.integers(0, partitions, len(batch))
        tracemalloc.start()
        with spill.PartitionSpill({tmp_path / f"{partitions}.arrow": range(partitions)}) as own:
            for _ in range(40):  # 40 MB
                own.add(batch, numbers)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(2000) < 1.1 * peak(10)


def test_groups_of_partitions_give_the_same_bytes_and_take_less_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks = []

    def watched(label: str, function: Callable, tasks: Sequence) -> list:
        found = []
        for task in tasks:
            found.append(function(task))
            if label in {"Scatter", "Pack"}:
                peaks.append(sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()))
        return found

    how = layout(shards=2, partitions=8)
    whole = digests(written(tmp_path, how, parts(20_000), parallel_map=watched))
    of_one = max(peaks)
    peaks.clear()
    shutil.rmtree(tmp_path)
    monkeypatch.setattr(write, "OF_A_GROUP", 2)
    out = written(tmp_path, how, parts(20_000), parallel_map=watched)
    assert digests(out) == whole
    assert max(peaks) < 1.1 * sum(file.stat().st_size for file in out.rglob("data_*")) < of_one


def test_a_map_that_starts_pipelines_is_called_once_to_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = []

    class Pipelines:
        in_beam = True

        def __call__(self, label: str, function: Callable, tasks: Sequence) -> list:
            labels.append(label)
            return serial_map(label, function, tasks)

    monkeypatch.setattr(write, "OF_A_GROUP", 2)
    written(tmp_path, layout(partitions=8), parts(100), parallel_map=Pipelines())
    assert labels == ["Scatter", "Pack"]


@pytest.mark.parametrize("packing", [GZIP, PLAIN])
def test_a_shard_without_rows_is_a_file_without_records(tmp_path: Path, packing: Compression) -> None:
    out = written(tmp_path, layout(shards=20), [(0, 5), (5, 5)], packing)
    files = sorted(out.rglob("data_*"))
    assert len(files) == 60
    assert sorted(i for file in files for i in ids(file)) == list(range(5))


def test_packed_bytes_are_the_same_in_every_thread_and_on_every_run() -> None:
    random = np.random.default_rng(0)
    words = [b"alpha", b"beta", b"gamma", b"delta", *(random.bytes(5) for _ in range(50))]
    texts = [b" ".join(words[i] for i in random.integers(0, len(words), 30_000 + 7 * n)) for n in range(8)]

    def packed(number: int) -> bytes:
        stream = Compression("gzip", 1 + number // 8 % 2).compressor()
        text = texts[number % 8]
        return b"".join([*(stream.compress(text[i : i + 50_000]) for i in range(0, len(text), 50_000)), stream.flush()])

    first = [packed(number) for number in range(16)]
    with ThreadPoolExecutor(4) as pool:
        assert all(again == first[number % 16] for number, again in enumerate(pool.map(packed, range(800))))
    assert [gzip.decompress(text) for text in first] == [*texts, *texts]


def test_packed_bytes_do_not_depend_on_the_address_of_the_stack() -> None:
    texts = [b"abcdef" * 7, bytes(range(48, 58)) * 6, b"0123456789abcdefgh" * 50]
    packed: set[tuple[bytes, ...]] = set()
    enough = threading.Barrier(1000)  # all alive at once, each with a stack of its own

    def pack() -> None:
        streams = [(Compression().compressor(), text) for text in texts]
        packed.add(tuple(bytes(stream.compress(text)) + stream.flush() for stream, text in streams))
        enough.wait()

    threads = [threading.Thread(target=pack) for _ in range(enough.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [tuple(map(gzip.decompress, own)) for own in packed] == [tuple(texts)]


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_any_pieces_are_packed_whole(pieces: list[bytes]) -> None:
    stream = Compression().compressor()
    packed = [*(bytes(stream.compress(memoryview(piece))) for piece in pieces), stream.flush()]
    assert gzip.decompress(b"".join(packed)) == b"".join(pieces)


@pytest.mark.parametrize("level", [1, 2])
def test_packed_bytes_are_the_same_each_time_wherever_they_lie(level: int) -> None:
    random = np.random.default_rng(0)
    text = b"".join(str(number).encode() for number in random.integers(0, 10**6, 400_000).tolist())

    def packed() -> bytes:
        stream, moved = (
            Compression("gzip", level).compressor(),
            memoryview(bytes(random.integers(100)) + text)[-len(text) :],
        )
        return b"".join(bytes(stream.compress(moved[i : i + 700_000])) for i in range(0, len(text), 700_000)) + bytes(
            stream.flush()
        )

    first = packed()
    assert gzip.decompress(first) == text
    assert all(packed() == first for _ in range(5))
