"""A training reads the same batches from transformed columns as from TFRecords, and says so where it cannot."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import ImageFeature
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import run
from headrace.trainer.columns.image import ImageColumn, stored_image_bytes, stored_image_loader
from headrace.trainer.devices.strategy import choose_strategy, detect_hardware
from headrace.trainer.input import gathered, mapped
from headrace.trainer.input import pipeline as pipeline_module
from headrace.trainer.input.buckets import LengthBuckets
from headrace.trainer.input.mapped import MappedRows
from headrace.trainer.input.memory import FreeSpace, choose_cache, estimate_examples
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.reading import records_of
from headrace.trainer.input.sources import ExampleSources
from headrace.trainer.input.transformed_columns import ColumnsWriter, columns_schema, file_name
from headrace.trainer.input.weights import ExampleWeights
from headrace.trainer.job import Job

TABLE = {
    "label": tf.io.FixedLenFeature([], tf.float32),
    "company": tf.io.FixedLenFeature([], tf.int64),
    "number": tf.io.FixedLenFeature([], tf.int64),
    "vector": tf.io.FixedLenFeature([2, 3], tf.float32),
    "image": tf.io.FixedLenFeature([], tf.string),
}
SEQUENCES = TABLE | {
    "words": tf.io.RaggedFeature(tf.int64, "words", row_splits_dtype=tf.int64),
    "tags": tf.io.VarLenFeature(tf.string),
}
PICTURES = TABLE | {"picture": tf.io.FixedLenFeature([], tf.string)}
SIZES = [130, 1, 0, 77, 301, 64]
MAPPED_OR_COPIED = (0, 1 << 20)
"""Bytes of columns that are copied into memory. TFRecords, which take most of a test's time, know neither."""


def examples(count: int, seed: int) -> dict[str, list[Any]]:
    """Values of each feature of SEQUENCES."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 40, count)
    return {
        "label": [[float(value)] for value in rng.integers(0, 2, count)],
        "company": [[int(value)] for value in rng.integers(0, 100, count)],
        "number": [[int(value)] for value in rng.integers(-(2**62), 2**62, count)],
        "share": [[float(value)] for value in rng.random(count, np.float32)],
        "vector": [values.tolist() for values in rng.random((count, 6), np.float32)],
        "image": [[rng.bytes(int(size))] for size in lengths],
        "words": [rng.integers(0, 9, int(size)).tolist() for size in lengths],
        "tags": [[b"t%d" % tag for tag in range(size % 3)] for size in lengths],
        "picture": [[rng.random(12, np.float32).tobytes()] for _ in lengths],
    }


def write(folder: Path, spec: dict[str, Any], sizes: Sequence[int] = SIZES) -> tuple[list[str], list[str]]:
    """The same examples as TFRecords and as columns: the files of both."""
    records, columns = [str(folder / f"{n:05d}.gz") for n in range(len(sizes))], []
    schema = columns_schema(spec, {"company": 99})
    assert schema is not None
    assert schema.field("company").type == pa.int32()
    for number, size in enumerate(sizes):
        table = {name: values for name, values in examples(size, number).items() if name in spec}
        with tf.io.TFRecordWriter(records[number], "GZIP") as file:
            for row in range(size):
                file.write(_example({name: values[row] for name, values in table.items()}).SerializeToString())
        columns.append(str(folder / file_name(number, len(sizes))))
        with ColumnsWriter(columns[-1], schema) as writer:
            for part in (slice(0, size // 2), slice(size // 2, size)):
                writer.add({name: _column(values[part], spec[name]) for name, values in table.items()})
                writer._flush()  # a batch of each part, as large files have them
    return records, columns


def _example(row: dict[str, Any]) -> tf.train.Example:
    kinds = {float: ("float_list", tf.train.FloatList), int: ("int64_list", tf.train.Int64List)}
    bytes_list = ("bytes_list", tf.train.BytesList)
    features = {}
    for name, values in row.items():
        field, message = kinds.get(type(values[0]), bytes_list) if values else bytes_list
        features[name] = tf.train.Feature(**{field: message(value=values)}) if values else tf.train.Feature()
    return tf.train.Example(features=tf.train.Features(feature=features))


def _column(values: list[Any], feature: Any) -> pa.Array:
    kind = {tf.float32: pa.float32(), tf.int64: pa.int64(), tf.string: pa.binary()}[feature.dtype]
    if isinstance(feature, tf.io.FixedLenFeature) and not feature.shape:
        return pa.array([value for (value,) in values], kind)
    return pa.array(values, pa.list_(kind))


def batches(dataset: tf.data.Dataset, most: int = 40) -> list[Any]:
    """The tensors of some batches, by name, ragged and sparse ones in their parts."""
    return [[np.asarray(one) for one in tf.nest.flatten(batch, expand_composites=True)] for batch in dataset.take(most)]


SPECS = {"table": TABLE, "sequences": SEQUENCES}
BUCKETS = {"shuffle": 100, "buckets": LengthBuckets()}
BUCKETS_IN_PARTS = {"shuffle": 100, "buckets": LengthBuckets((5, 20)), "steps_per_epoch": 5}


@pytest.mark.parametrize(
    ("spec", "cache", "options"),
    [
        ("table", "memory", {"shuffle": 0}),
        ("sequences", "none", {"shuffle": 0}),
        ("table", "none", {"shuffle": 100}),
        ("sequences", "memory", {"shuffle": 100}),
        ("table", "memory", {"shuffle": 1000, "steps_per_epoch": 3}),
        ("sequences", "none", {"shuffle": 1000, "steps_per_epoch": 3}),
        ("table", "none", BUCKETS),
        ("sequences", "memory", BUCKETS),
        ("sequences", "none", BUCKETS),
        ("table", "memory", BUCKETS_IN_PARTS),
        ("sequences", "memory", BUCKETS_IN_PARTS),
        ("sequences", "none", BUCKETS_IN_PARTS),
    ],
    ids=str,
)
def test_batches_are_those_of_tfrecords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, cache: Any, options: Any
) -> None:
    """Whether columns are mapped or copied. All pairs of settings, and lengths with each cache."""
    monkeypatch.setattr(mapped, "PACKED_ROWS", 100)
    pipeline = InputPipeline(
        feature_spec=SPECS[spec],
        label_key="label",
        batch_size=32,
        cache=cache,
        seed=5,
        **options,
    )
    records, files = write(tmp_path, SPECS[spec])
    parsed = pipeline.open("train", records)
    epochs, peek = [batches(parsed.dataset) for _ in range(2)], batches(parsed.peek)
    for copied in MAPPED_OR_COPIED:
        monkeypatch.setattr(mapped, "COPIED_BYTES", copied)
        columns = pipeline.open("train", files)
        for epoch in epochs:
            np.testing.assert_equal(batches(columns.dataset), epoch)
        np.testing.assert_equal(batches(columns.peek), peek)
        assert columns.dataset.element_spec == parsed.dataset.element_spec
        assert columns.size == sum(SIZES)


@pytest.mark.parametrize("cache", ["memory", "disk", "none"])
@pytest.mark.parametrize(("stored", "width"), [("uint8", 8), ("float32", 2)])
def test_images_are_those_of_tfrecords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Any, stored: Any, width: int
) -> None:
    """They reach the training as uint8, and from TFRecords as strings. Either has the bytes that were stored."""
    image = ImageFeature(column="image", height=2, width=width, channels=3, stored=stored)
    columns = {"picture": ImageColumn("picture", image)}
    assert stored_image_bytes(columns) == {"picture": 48}
    pipeline = InputPipeline(
        feature_spec=PICTURES,
        stored_bytes=stored_image_bytes(columns),
        load=stored_image_loader(columns),
        label_key="label",
        batch_size=32,
        cache=cache,
        shuffle=100,
        seed=5,
    )
    records, files = write(tmp_path, PICTURES)
    parsed = dataclasses.replace(pipeline, cache="none").open("train", records)
    epochs, peek = [batches(parsed.dataset) for _ in range(2)], batches(parsed.peek)
    stored_rows = [examples(size, number)["picture"] for number, size in enumerate(SIZES)]
    expected = sorted(
        np.frombuffer(row, stored).reshape(2, width, 3).tolist() for rows in stored_rows for (row,) in rows
    )
    for copied in MAPPED_OR_COPIED[: 1 if cache == "disk" else 2]:  # that of TFRecords
        monkeypatch.setattr(mapped, "COPIED_BYTES", copied)
        opened = pipeline.open("train", files if cache != "disk" else records)
        found = np.concatenate([features["picture"] for features, _ in opened.peek])
        assert sorted(found.tolist()) == expected
        if cache == "none":
            for epoch in epochs:
                np.testing.assert_equal(batches(opened.dataset), epoch)
        np.testing.assert_equal(batches(opened.peek), peek)


def test_image_of_another_size_is_named(tmp_path: Path) -> None:
    pipeline = InputPipeline(feature_spec=TABLE, stored_bytes={"image": 48}, label_key="label", batch_size=32)
    with pytest.raises(TrainingError, match=r"^features\.image: .* 48 bytes"):
        pipeline.open("train", write(tmp_path, TABLE)[1])


def test_resumed_training_continues_with_the_batches_of_tfrecords(tmp_path: Path) -> None:
    files = write(tmp_path, SEQUENCES)
    pipeline = InputPipeline(
        feature_spec=SEQUENCES, label_key="label", batch_size=32, cache="none", shuffle=100, seed=5
    )
    parsed, mapped = (pipeline.open("train", one, start=25) for one in files)
    np.testing.assert_equal(batches(mapped.dataset), batches(parsed.dataset))


@pytest.mark.parametrize("form", ["records", "columns"])
def test_many_examples_are_shuffled_without_a_list_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(gathered, "MANY", 100)
    monkeypatch.setattr(pipeline_module, "MANY", 100)
    monkeypatch.setattr(mapped, "COPIED_BYTES", 0)
    files = dict(zip(("records", "columns"), write(tmp_path, TABLE), strict=True))[form]
    settings = InputPipeline(feature_spec=TABLE, label_key="label", batch_size=32, shuffle=9, seed=5)

    def numbers(dataset: tf.data.Dataset) -> list[int]:
        return [number for features, _ in dataset for number in features["number"].numpy()]

    split = settings.open("train", files)
    first, second, in_files = numbers(split.dataset), numbers(split.dataset), numbers(split.peek)
    written = [value for file, size in enumerate(SIZES) for (value,) in examples(size, file)["number"]]
    assert sorted(first) == sorted(second) == sorted(in_files) == sorted(written)
    assert len({tuple(order) for order in (first, second, in_files)}) == 3
    assert split.endless is not None
    assert numbers(split.endless().take(36)) == first + second
    assert [len(label) for _, label in split.endless().take(18)] == [*[32] * 17, 29]
    assert numbers(settings.open("train", files, start=5).dataset) == first[5 * 32 :]
    endless = dataclasses.replace(settings, steps_per_epoch=4).open("train", files)
    assert numbers(endless.dataset.take(35))[: 2 * len(written)] == (first + second)[: 35 * 32]
    in_order = dataclasses.replace(settings, shuffle=0).open("train", files)
    assert numbers(in_order.dataset) == numbers(in_order.peek)


@pytest.mark.parametrize(("copied", "most"), [(1 << 22, 0.2), (0, 0.01)], ids=["packed in parts", "mapped"])
def test_examples_in_order_are_opened_without_a_copy_in_arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: int, most: float
) -> None:
    """most: megabytes, of 1.3 MB of columns."""
    monkeypatch.setattr(mapped, "COPIED_BYTES_IN_ORDER", copied)
    monkeypatch.setattr(mapped, "PACKED_ROWS", 1000)
    spec = {name: tf.io.FixedLenFeature([], tf.int64) for name in ("label", "one", "two", "three")}
    schema, numbers = columns_schema(spec), np.arange(40_000)
    assert schema is not None
    for file, own in enumerate(np.split(numbers, 2)):
        with ColumnsWriter(str(tmp_path / file_name(file, 2)), schema) as writer:
            writer.add(dict.fromkeys(spec, pa.array(own)))
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        settings = InputPipeline(feature_spec=spec, label_key="label", batch_size=4096)
        split = settings.open("eval", [str(tmp_path / file_name(file, 2)) for file in range(2)])
    finally:
        pa.set_memory_pool(usual)
    assert pool.max_memory() < most * 1e6
    read = np.concatenate([label for _, label in split.dataset])
    np.testing.assert_array_equal(np.sort(read), numbers)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=25),
    block=st.integers(1, 15),
    open_files=st.integers(1, 16),
    data=st.data(),
)
def test_blocks_are_in_the_order_of_an_interleave(
    sizes: list[int], block: int, open_files: int, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(sizes))))
    rows = object.__new__(MappedRows)
    rows.sizes = sizes
    ends = tf.constant(np.cumsum([0, *sizes]))
    interleaved = tf.data.Dataset.from_tensor_slices(tf.constant(order, tf.int64)).interleave(
        lambda file: tf.data.Dataset.range(ends[file], ends[file + 1]).batch(block),
        cycle_length=min(open_files, len(sizes)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    expected = [(int(numbers[0]), int(numbers[-1]) + 1) for numbers in interleaved.as_numpy_iterator()]
    assert [tuple(found) for found in rows.blocks(order, block, open_files).tolist()] == expected


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weights_are_those_of_tfrecords_to_the_last_bit(tmp_path: Path, class_weight: Any) -> None:
    spec = TABLE | {"share": tf.io.FixedLenFeature([], tf.float32)}
    label = LabelConfig.model_validate({"key": "label", "kind": "binary", "weight": "share"})
    parsed, mapped = (
        ExampleWeights.of("train", files, spec, label, class_weight) for files in write(tmp_path, spec, [3000, 1, 2500])
    )
    assert mapped == parsed
    assert mapped is not None
    assert mapped.mean != 1.0


def test_examples_are_counted_and_measured_without_reading_them(tmp_path: Path) -> None:
    _, files = write(tmp_path, SEQUENCES)
    assert estimate_examples(files) == sum(SIZES)
    lengths = MappedRows(files, SEQUENCES).first_lengths(100)
    assert lengths is not None
    expected = [len(words) for size, seed in ((130, 0),) for words in examples(size, seed)["words"]][:100]
    assert lengths.tolist() == expected


def test_damaged_column_file_is_named(tmp_path: Path) -> None:
    _, files = write(tmp_path, TABLE)
    whole = Path(files[3]).read_bytes()
    Path(files[3]).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TrainingError, match=f"(?s){file_name(3, len(SIZES))}.*damaged"):
        InputPipeline(feature_spec=TABLE, label_key="label", batch_size=32).open("train", files)


def test_column_file_without_a_feature_of_the_graph_is_named(tmp_path: Path) -> None:
    _, files = write(tmp_path, TABLE)
    spec = TABLE | {"fare": tf.io.FixedLenFeature([], tf.float32)}
    with pytest.raises(TrainingError, match=rf"{file_name(0, len(SIZES))}.*'fare'"):
        InputPipeline(feature_spec=spec, label_key="label", batch_size=32).open("train", files)


@pytest.mark.parametrize("setting", [{"service": "grpc://localhost:1"}, {"snapshot": "snapshots"}])
def test_settings_that_parse_ahead_are_not_used_and_the_log_says_so(tmp_path: Path, setting: dict[str, Any]) -> None:
    train = TrainConfig.model_validate({"input": setting})
    sources = ExampleSources.of(train, tmp_path, columns=True)
    assert sources.service is None
    assert sources.snapshots is None
    assert f"train.input.{next(iter(setting))}" in sources.describe()
    assert "transform.materialize" in sources.describe()


@pytest.mark.parametrize(
    ("choice", "free", "kind"), [("auto", 1 << 40, "memory"), ("auto", 1000, "none"), ("disk", 1 << 40, "none")]
)
def test_cache_says_which_rows_are_shuffled_together(tmp_path: Path, choice: Any, free: int, kind: str) -> None:
    _, files = write(tmp_path, TABLE)
    cache = choose_cache(choice, files, FreeSpace(50, free, free))
    assert cache.kind == kind
    assert "mapped" in cache.why


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["memory", "none"])
def test_trained_weights_are_those_of_tfrecords_to_the_last_bit(prepared: Any, tmp_path: Path, cache: str) -> None:
    data = prepared("binary")
    spec = data.output.transformed_feature_spec()
    schema, packing = columns_schema(spec), Packing(spec)
    assert schema is not None
    for split, pattern in data.patterns.items():
        folder = tmp_path / f"Split-{split}"
        folder.mkdir()
        files = sorted(tf.io.gfile.glob(pattern))
        for number, file in enumerate(files):
            (records,) = records_of(file).batch(1 << 20)
            columns = packing.unpack(packing.parse(records))
            with ColumnsWriter(str(folder / file_name(number, len(files))), schema) as writer:
                writer.add({name: _arrow(column) for name, column in columns.items()})
    options = {"epochs": 2, "input": {"cache": cache, "shuffle": 200}}
    weights = []
    for name in ("parsed", "mapped"):
        fn_args = data.fn_args(tmp_path / name, **options)
        if name == "mapped":
            fn_args.train_files, fn_args.eval_files = (
                [str(tmp_path / f"Split-{one}" / "*")] for one in ("train", "eval")
            )
        job = Job.of(fn_args)
        weights.append(run.train(job, choose_strategy(job.sections.train, detect_hardware())).get_weights())
        record = json.loads(Path(fn_args.model_run_dir, "training.json").read_text(encoding="utf-8"))
        assert ("mapped into memory" in str(record)) == (name == "mapped")
    np.testing.assert_equal(weights[1], weights[0])


def _arrow(column: Any) -> pa.Array:
    if isinstance(column, tf.SparseTensor):
        column = tf.RaggedTensor.from_sparse(column)
    values = column.to_list() if isinstance(column, tf.RaggedTensor) else column.numpy().tolist()
    return pa.array(values)
