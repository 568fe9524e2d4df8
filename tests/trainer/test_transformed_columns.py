"""Files of transformed columns: what is written is what is mapped, and a file that is not whole is not read."""

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import TrainingError
from headrace.trainer.input import transformed_columns
from headrace.trainer.input.transformed_columns import (
    BATCH_BYTES,
    VERSION_KEY,
    ColumnsWriter,
    column_files,
    columns_schema,
    file_name,
    open_columns,
)

SPEC = {
    "fare": tf.io.FixedLenFeature([], tf.float32),
    "company": tf.io.FixedLenFeature([], tf.int64),
    "image": tf.io.FixedLenFeature([], tf.string),
    "vector": tf.io.FixedLenFeature([2, 3], tf.float32),
    "words": tf.io.RaggedFeature(tf.int64, "words$ragged_values"),
    "tags": tf.io.VarLenFeature(tf.string),
}


def rows(count: int) -> st.SearchStrategy[dict[str, list[object]]]:
    """Values of `count` rows of SPEC."""
    single = st.floats(width=32), st.integers(0, 200), st.binary(max_size=5)
    several = (
        st.lists(st.floats(width=32), min_size=6, max_size=6),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
        st.lists(st.binary(max_size=3), max_size=2),
    )
    columns = (st.lists(one, min_size=count, max_size=count) for one in (*single, *several))
    return st.tuples(*columns).map(lambda values: dict(zip(SPEC, map(list, values), strict=True)))


TYPES = [pa.float32(), pa.int64(), pa.binary(), *map(pa.list_, (pa.float32(), pa.int64(), pa.binary()))]
BATCHES = st.lists(st.integers(0, 4).flatmap(rows), max_size=3)


@settings(max_examples=50, deadline=None)
@given(batches=BATCHES)
def test_rows_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, batches: list[dict[str, list[object]]]
) -> None:
    path = str(tmp_path_factory.mktemp("columns") / file_name(0, 1))
    schema = columns_schema(SPEC, {"company"})
    assert schema is not None
    with ColumnsWriter(path, schema) as writer:
        for batch in batches:
            writer.add(
                {name: pa.array(values, kind) for (name, values), kind in zip(batch.items(), TYPES, strict=True)}
            )
    table = open_columns(path)
    assert table.schema == schema
    assert table.column_names == sorted(SPEC)
    for name in SPEC:
        written = [value for batch in batches for value in batch[name]]
        np.testing.assert_equal(table[name].to_pylist(), written)


def test_codes_are_stored_as_their_values(tmp_path: Path) -> None:
    path = str(tmp_path / file_name(0, 1))
    schema = columns_schema({"company": SPEC["company"]})
    assert schema is not None
    codes = pa.DictionaryArray.from_arrays(pa.array([2, 0, 0], pa.int32()), pa.array([10, 20, 30]))
    with ColumnsWriter(path, schema) as writer:
        writer.add({"company": codes})
    assert open_columns(path)["company"].to_pylist() == [30, 10, 10]


def test_few_batches_are_written_of_many(tmp_path: Path) -> None:
    path = str(tmp_path / file_name(0, 1))
    schema = columns_schema({"fare": SPEC["fare"]})
    assert schema is not None
    with ColumnsWriter(path, schema) as writer:
        for number in range(100):
            writer.add({"fare": pa.array(np.full(7, number, np.float32))})
    (chunk,) = open_columns(path)["fare"].chunks
    np.testing.assert_array_equal(chunk, np.repeat(np.arange(100, dtype=np.float32), 7))


def test_rows_that_wait_are_joined_in_little_more_memory_than_they_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformed_columns, "BATCH_BYTES", 1 << 20)
    schema = columns_schema({f"fare {number}": SPEC["fare"] for number in range(16)})
    assert schema is not None
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with ColumnsWriter(str(tmp_path / file_name(0, 1)), schema) as writer:
            for _ in range(64):
                writer.add({name: pc.random(1024, initializer=0).cast(pa.float32()) for name in schema.names})
    finally:
        pa.set_memory_pool(usual)
    assert pool.max_memory() < 1.2 * (1 << 20)  # twice as much if all columns are joined at once
    assert len(open_columns(str(tmp_path / file_name(0, 1)))["fare 0"].chunks) == 4


def test_only_integers_that_fit_are_small() -> None:
    schema = columns_schema(SPEC, {"company", "fare"})
    assert schema is not None
    types = {field.name: field.type for field in schema}
    assert (types["company"], types["fare"]) == (pa.int32(), pa.float32())
    assert types["words"] == pa.large_list(pa.int64())


def test_a_feature_that_is_no_column_gives_no_schema() -> None:
    sparse = tf.io.SparseFeature("index", "value", tf.float32, 5)
    nested = tf.io.RaggedFeature(tf.int64, "v", [tf.io.RaggedFeature.RowLengths("n")])
    assert columns_schema({**SPEC, "one": sparse}) is None
    assert columns_schema({**SPEC, "one": nested}) is None


def write(path: Path) -> Path:
    """A file of one column and 100 rows."""
    schema = columns_schema({"fare": SPEC["fare"]})
    assert schema is not None
    with ColumnsWriter(str(path), schema) as writer:
        writer.add({"fare": pa.array(np.arange(100, dtype=np.float32))})
    return path


def fail_after_some_rows(path: Path) -> None:
    """Start a file, and stop by an error."""
    schema = columns_schema({"fare": SPEC["fare"]})
    assert schema is not None
    with ColumnsWriter(str(path), schema) as writer:
        writer.add({"fare": pa.array(np.arange(100, dtype=np.float32))})
        raise RuntimeError("stop")


def test_nothing_is_left_of_a_file_whose_writer_failed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"):
        fail_after_some_rows(tmp_path / file_name(0, 1))
    assert list(tmp_path.iterdir()) == []


def test_a_file_whose_writer_was_killed_is_damaged(tmp_path: Path) -> None:
    path, schema = tmp_path / file_name(0, 1), columns_schema({"fare": SPEC["fare"]})
    assert schema is not None
    if (child := os.fork()) == 0:
        writer = ColumnsWriter(str(path), schema)
        writer.add({"fare": pa.array(np.zeros(BATCH_BYTES // 4, np.float32))})  # enough to be written at once
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert path.stat().st_size > BATCH_BYTES
    with pytest.raises(TrainingError, match="damaged"):
        open_columns(str(path))


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_a_file_that_was_cut_off_is_damaged(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path / file_name(0, 1))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(TrainingError, match=r"00000-of-00001\.arrow is damaged.*--fresh"):
        open_columns(str(path))


def test_a_missing_file_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="gone"):
        open_columns(str(tmp_path / file_name(0, 1)))
    for metadata in (None, {VERSION_KEY: b"2"}):
        path, schema = tmp_path / file_name(0, 1), pa.schema([("fare", pa.float32())], metadata)
        with pa.ipc.new_file(str(path), schema):
            pass
        with pytest.raises(TrainingError, match="2" if metadata else "another program"):
            open_columns(str(path))


def test_files_are_listed_in_order_and_none_may_be_missing(tmp_path: Path) -> None:
    assert column_files(str(tmp_path)) == []
    (tmp_path / "transformed_examples-00000-of-00001.gz").touch()
    assert column_files(str(tmp_path)) == []
    files = [tmp_path / file_name(number, 3) for number in (2, 0, 1)]
    for file in files:
        file.touch()
    assert column_files(str(tmp_path)) == sorted(map(str, files))
    files[0].unlink()
    with pytest.raises(TrainingError, match=r"00002-of-00003.*missing"):
        column_files(str(tmp_path))
    files[0].touch()
    (tmp_path / file_name(0, 2)).touch()
    with pytest.raises(TrainingError, match="several"):
        column_files(str(tmp_path))
