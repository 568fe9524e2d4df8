"""Length buckets, damaged files, the folder of the disk cache, threads, prefetch, the search for what is fastest."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.train import InputConfig
from headrace.trainer.input import mapped
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.buckets import LengthBuckets, choose_buckets, padding_share
from headrace.trainer.input.disk_cache import cached_on_disk
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.reading import InputOptions
from headrace.trainer.tune_input import InputTrial, InputTuning, find_fastest

SPEC = {"words": tf.io.RaggedFeature(tf.int64, "words"), "label": tf.io.FixedLenFeature([], tf.float32)}
LENGTHS = (np.random.default_rng(0).pareto(1.2, 1100) * 8).astype(int) % 300


def example(number: int, length: int) -> bytes:
    words, label = [number, *[0] * (length - 1)][:length], [float(number)]
    feature = {
        "words": tf.train.Feature(int64_list=tf.train.Int64List(value=words)),
        "label": tf.train.Feature(float_list=tf.train.FloatList(value=label)),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write(folder: Path) -> list[str]:
    file = str(folder / "part-0.gz")
    with tf.io.TFRecordWriter(file, "GZIP") as writer:
        for number, length in enumerate(LENGTHS):
            writer.write(example(number, length))
    return [file]


def batches(dataset: tf.data.Dataset) -> list[list[int]]:
    """The numbers of the examples in each batch, found in the labels."""
    read = []
    for features, label in dataset:
        numbers = label.numpy().astype(int).tolist()
        assert features["words"].row_lengths().numpy().tolist() == LENGTHS[numbers].tolist()
        read.append(numbers)
    return read


def padded(read: list[list[int]]) -> float:
    """The share of padding."""
    rows = [LENGTHS[batch] for batch in read]
    return 1 - sum(row.sum() for row in rows) / sum(len(row) * row.max() for row in rows)


@pytest.mark.parametrize("cache", ["memory", "disk", "none"])
def test_batches_by_length_hold_every_example_once_with_little_padding(tmp_path: Path, cache: Any) -> None:
    files = write(tmp_path)
    plain, bucketed = (
        InputPipeline(
            feature_spec=SPEC, label_key="label", batch_size=32, cache=cache, shuffle=600, buckets=buckets
        ).open("train", files)
        for buckets in (None, LengthBuckets())
    )
    before = batches(plain.dataset)
    first, second = batches(bucketed.dataset), batches(bucketed.dataset)
    for read in (first, second):
        assert [len(batch) for batch in read] == [32] * 34 + [12]
        assert sorted(number for batch in read for number in batch) == list(range(1100))
        assert 1 - padded(read) > 1.5 * (1 - padded(before))  # the share that is no padding
    assert not {frozenset(batch) for batch in first} & {frozenset(batch) for batch in second}
    means = [float(LENGTHS[batch].mean()) for batch in first]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.5  # the batches themselves are not in order of length


def test_batches_of_given_buckets_cross_a_boundary_only_at_their_seams() -> None:
    lengths = tf.constant(np.random.default_rng(1).integers(1, 100, 12_800), tf.int64)
    order = LengthBuckets((20, 50)).order(lengths, 32, tf.constant([0, 0], tf.int64))
    assert sorted(order.numpy()) == list(range(12_800))
    keys = np.digitize(lengths.numpy()[order.numpy()], [20, 50], right=True).reshape(-1, 32)
    assert sum(len(set(batch)) > 1 for batch in keys) <= 14  # two in each of seven pools, of 400


def test_endless_batches_by_length_begin_again_with_each_epoch(tmp_path: Path) -> None:
    split = InputPipeline(
        feature_spec=SPEC,
        label_key="label",
        batch_size=32,
        cache="memory",
        shuffle=600,
        steps_per_epoch=10,
        buckets=LengthBuckets(),
    ).open("train", write(tmp_path))
    read = batches(split.dataset.take(34 * 3))
    assert {len(batch) for batch in read} == {32}
    for epoch in (read[:34], read[34:68], read[68:]):
        assert len({number for batch in epoch for number in batch}) == 34 * 32
        assert padded(epoch) < 0.65


def test_auto_sorts_long_examples_by_length_where_much_would_be_padding() -> None:
    assert choose_buckets("auto", LENGTHS, 32)[0] == LengthBuckets()
    assert "would be padding" in choose_buckets("auto", LENGTHS, 32)[1]
    assert choose_buckets("auto", np.full(100, 50), 32) == (None, "")
    assert choose_buckets("auto", LENGTHS // 20, 32)[0] is None  # a few tags, no sequence
    assert choose_buckets("auto", None, 32)[0] is None
    assert choose_buckets(None, LENGTHS, 32)[0] is None
    assert choose_buckets((10, 20), LENGTHS, 32)[0] == LengthBuckets((10, 20))
    assert padding_share(np.array([1, 3]), 2) == pytest.approx(1 - 4 / 6)


def damage(file: str, how: str) -> None:
    path = Path(file)
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-400])
    elif how == "foreign":
        path.write_bytes(b"no gzip at all" * 100)
    else:
        with tf.io.TFRecordWriter(file, "GZIP") as writer:
            writer.write(example(0, 3))
            writer.write(b"\xffno example")


@pytest.mark.parametrize("how", ["cut", "foreign", "record"])
@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_a_damaged_file_is_named(tmp_path: Path, how: str, cache: Any) -> None:
    (sound,) = write(tmp_path)
    broken = str(tmp_path / "part-1.gz")
    Path(broken).write_bytes(Path(sound).read_bytes())
    damage(broken, how)
    with pytest.raises(TrainingError, match=r"part-1\.gz"):
        InputPipeline(feature_spec=SPEC, label_key="label", batch_size=32, cache=cache, shuffle=600).open(
            "train", [sound, broken]
        )


@pytest.mark.parametrize("copied", [0, 1 << 20], ids=["mapped", "copied"])
def test_the_disk_cache_has_no_name_that_a_killed_process_could_leave_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: int
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr(mapped, "COPIED_BYTES", copied)
    split = InputPipeline(feature_spec=SPEC, label_key="label", batch_size=32, cache="disk", shuffle=600).open(
        "train", write(tmp_path)
    )
    assert list((tmp_path / "scratch").iterdir()) == []
    assert sorted(number for batch in batches(split.dataset) for number in batch) == list(range(1100))


def test_a_disk_cache_that_fails_half_way_is_removed_and_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    packing = Packing({"label": SPEC["label"]})
    numbers = tf.data.Dataset.range(50).map(lambda n: tf.debugging.check_numerics(1 / tf.cast(40 - n, tf.float32), "x"))
    with pytest.raises(tf.errors.InvalidArgumentError):
        cached_on_disk(numbers.map(lambda x: (tf.reshape(x, [1, 1]),)), packing, SPEC)
    assert list(tmp_path.glob("headrace-input-*")) == []


@pytest.mark.parametrize(
    "reading",
    [
        InputOptions(threads=3, prefetch=0),
        InputOptions(threads=1, prefetch=4, read_batch=7, open_files=1),
        InputOptions(deterministic=False),
        InputOptions(device="CPU:0", prefetch=2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("cache", ["memory", "none"])
def test_how_the_machine_is_used_changes_nothing_in_what_is_read(
    tmp_path: Path, reading: InputOptions, cache: Any
) -> None:
    spec = {"label": SPEC["label"]}
    split = InputPipeline(
        feature_spec=spec, label_key="label", batch_size=32, cache=cache, shuffle=600, reading=reading
    ).open("train", write(tmp_path))
    for _ in range(2):
        assert sorted(number for _, label in split.dataset for number in label.numpy().tolist()) == list(range(1100))


def test_settings_of_the_config_reach_the_dataset() -> None:
    given = InputConfig(threads=3, prefetch=5, deterministic=False, read_batch=9, open_files=2)
    assert InputOptions.of(given) == InputOptions(9, 2, False, 3, 5)
    assert InputOptions.of(InputConfig()) == InputOptions()
    finished = InputOptions.of(given).finished(tf.data.Dataset.range(3))
    assert finished.options().threading.private_threadpool_size == 3
    assert finished.options().deterministic is False


class Paced:
    """A split whose batches come at a pace of the settings' own."""

    def __init__(self, slow: dict[str, Any]) -> None:
        self.slow = slow
        self.opened: list[InputConfig] = []

    def __call__(self, config: InputConfig) -> InputSplit:
        self.opened.append(config)
        pause = 0.002 if any(getattr(config, name) == value for name, value in self.slow.items()) else 0.0
        dataset = tf.data.Dataset.range(10**9).map(lambda n: (n, self.wait(n, pause)))
        return InputSplit(lambda: dataset, lambda: dataset, None, None, lambda: 0)

    @staticmethod
    def wait(number: tf.Tensor, pause: float) -> tf.Tensor:
        def sleep(_: np.ndarray) -> np.ndarray:
            import time

            time.sleep(pause)
            return np.zeros(100, np.float32)

        return tf.numpy_function(sleep, [number], tf.float32)


def test_the_search_keeps_what_is_clearly_faster_and_leaves_the_rest() -> None:
    split = Paced({"cache": "none"})
    found = find_fastest(InputConfig(cache="none"), split, examples=1000, epochs=1000, seconds=6, excluded={"memory"})
    assert isinstance(found, InputTuning)
    assert found.best.config.cache == "disk"
    assert found.changes["cache"] == "disk"
    assert "memory" not in {config.cache for config in split.opened}
    assert found.trials[0].setting == "as it is"
    assert all(isinstance(trial, InputTrial) and trial.examples_per_second > 0 for trial in found.trials)


def test_the_search_ends_in_about_the_time_given() -> None:
    import time

    start = time.monotonic()
    find_fastest(InputConfig(cache="memory"), Paced({}), examples=1000, epochs=1, seconds=2)
    assert time.monotonic() - start < 60  # 2 s, on a machine that has nothing else to do
