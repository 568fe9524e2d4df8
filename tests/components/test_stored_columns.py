"""The columns that ExampleGen stores beside shards: what is read of them is what the shards would be decoded to."""

import gzip
import itertools
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from test_statistics_parts import assert_same_batch, tables
from tfx.types import standard_artifacts
from tfx.utils import io_utils

from headrace.components.example_gen.ingest import ingest
from headrace.components.example_gen.span_store import SpanStore
from headrace.components.examples import column_files
from headrace.components.examples.arrow_columns import offsets_of
from headrace.components.examples.column_files import ColumnWriter, finish, path_beside
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.components.statistics import component, read
from headrace.components.transform.record_blocks import ColumnBlock, RecordBlock, record_blocks
from headrace.configs.schema.data import DataConfig

SHARD = "Split-train/data_tfrecord-00000-of-00001.gz"


def write(folder: Path, parts: list[list[pa.RecordBatch]]) -> Path:
    """A shard of some partitions, each encoded in batches, and its columns."""
    shard = folder / SHARD
    for file in (shard, path_beside(shard)):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"")
    for number, batches in enumerate(parts):
        piece = folder / f"{number}.arrow"
        writer = ColumnWriter(piece)
        for batch in batches:
            records = framed_examples(batch)
            with shard.open("ab") as out:
                out.write(gzip.compress(memoryview(records.buffers()[2]), 1))
            writer.add(batch, np.diff(offsets_of(records)))
        writer.close()
        with path_beside(shard).open("ab") as out:
            out.write(piece.read_bytes())
    finish(path_beside(shard), shard)
    return shard


def texts_of(tensor: tf.Tensor) -> list[bytes]:
    found: list[bytes] = tensor.numpy().tolist()
    return found


@given(tables().filter(lambda table: table.num_columns), st.lists(st.integers(0, 9)), st.integers(1, 400), st.data())
@settings(deadline=None, max_examples=40)
def test_stored_columns_are_read_in_the_batches_of_decoded_ones(
    table: pa.RecordBatch, cuts: list[int], block: int, data: st.DataObject
) -> None:
    edges = sorted({0, table.num_rows, *(min(cut, table.num_rows) for cut in cuts)})
    batches = [table.slice(first, last - first) for first, last in itertools.pairwise(edges)]
    split, rows = data.draw(st.integers(1, len(batches))), data.draw(st.integers(1, 10))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        patched.setattr(read, "BYTES", block)
        shard = write(Path(name), [own for own in (batches[:split], batches[split:]) if own])
        stored, blocks = list(read.batches(str(shard))), list(record_blocks(str(shard), rows))
        shutil.rmtree(Path(name, "columns"))
        for mine, other in zip(stored, read.batches(str(shard)), strict=True):
            assert_same_batch(mine, other)
        for own, decoded in zip(blocks, record_blocks(str(shard), rows), strict=True):
            assert isinstance(own, ColumnBlock)
            assert isinstance(decoded, RecordBlock)
            assert decoded.columns is not None
            assert len(own) == len(decoded)
            assert_same_batch(own.columns, decoded.columns)
            assert texts_of(own.serialized()) == texts_of(decoded.serialized())


def damage_columns(shard: Path) -> None:
    content = bytearray(path_beside(shard).read_bytes())
    content[len(content) // 2] ^= 1
    path_beside(shard).write_bytes(content)


def cut_columns(shard: Path) -> None:
    path_beside(shard).write_bytes(path_beside(shard).read_bytes()[:20])


def replace_shard(shard: Path) -> None:
    records = framed_examples(pa.record_batch({"n": pa.array([4, 5, 6])})).buffers()[2]
    shard.write_bytes(gzip.compress(memoryview(records)))


@pytest.mark.parametrize(
    ("change", "warned", "found"),
    [(damage_columns, "damaged", [1, 2, 3]), (cut_columns, "", [1, 2, 3]), (replace_shard, "", [4, 5, 6])],
)
def test_columns_that_do_not_belong_are_not_read(
    change: Callable[[Path], None], warned: str, found: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shard = write(tmp_path, [[pa.record_batch({"n": pa.array([1, 2, 3])})]])
    assert column_files.stored_rows(str(shard)) is not None
    change(shard)
    with caplog.at_level(logging.WARNING):
        assert column_files.stored_rows(str(shard)) is None
    assert warned in caplog.text
    assert bool(warned) == bool(caplog.text)
    (batch,) = read.batches(str(shard))
    assert batch.column("n").flatten().to_pylist() == found


ROWS = 3000


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CSV file for each of two days: integers, floats and texts with gaps."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(3)
    for day in ("2026-11-20", "2026-11-21"):
        lines = ["n,x,word,none"]
        for n, x, word in zip(*random.integers(0, 60, (3, ROWS)).tolist(), strict=True):
            lines.append(f"{n or ''},{x / 7 if x else ''},{'w' * (word % 5) and f'w{word}'},")
        (folder / f"{day}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def examples(csv: Path, out: Path, path: str = "*.csv", store: SpanStore | None = None) -> standard_artifacts.Examples:
    """ExampleGen's output."""
    source = {"kind": "csv", "path": str(csv / path)}
    given = {"source": source, "splits": {"train": 4, "eval": 1}, "shards": 2, "window": 2 if store else 1}
    data = DataConfig.model_validate(given)
    ingest(data, find_spans(data), out, lambda _: serial_map, store)
    made = standard_artifacts.Examples()
    made.uri, made.split_names = str(out), '["train", "eval"]'
    made.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    made.set_string_custom_property("file_format", "tfrecords_gzip")
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def statistics(given: standard_artifacts.Examples, out: Path) -> dict[str, bytes]:
    made = standard_artifacts.ExampleStatistics()
    made.uri = str(out)
    component.Executor().Do({"examples": [given]}, {"statistics": [made]}, {"exclude_splits": "[]"})
    return files(out)


def test_shards_and_statistics_are_the_same_with_columns(
    csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = examples(csv, tmp_path / "plain")
    assert not (tmp_path / "plain" / "columns").exists()  # such small data is as quickly decoded
    monkeypatch.setattr(column_files, "LEAST_BYTES", 0)
    stored = examples(csv, tmp_path / "stored")
    made, shards = files(tmp_path / "stored"), files(tmp_path / "plain")
    assert {name for name in made if name not in shards} == {f"columns/{name}.arrow" for name in shards}
    assert {name: made[name] for name in shards} == shards
    found = {tuple(tf.io.gfile.glob(io_utils.all_files_pattern(f"{stored.uri}/Split-{s}"))) for s in ("train", "eval")}
    assert sum(map(len, found)) == len(shards) == 4  # what TFX's readers take
    monkeypatch.setattr(read, "decode", None)  # nothing is decoded
    with_columns = statistics(stored, tmp_path / "a")
    monkeypatch.undo()
    assert with_columns == statistics(plain, tmp_path / "b")
    rows = sum(len(block) for name in shards for block in record_blocks(f"{stored.uri}/{name}", 1000))
    assert rows == 2 * ROWS


def test_days_keep_their_columns_in_the_store(csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_files, "LEAST_BYTES", 0)
    store = SpanStore(tmp_path / "store")
    examples(csv, tmp_path / "first", "{YYYY}-{MM}-{DD}.csv", store)
    examples(csv, tmp_path / "second", "{YYYY}-{MM}-{DD}.csv", store)
    first, second = files(tmp_path / "first"), files(tmp_path / "second")
    assert first == second
    shards = [name for name in second if name.startswith("Split-")]
    assert len(shards) == 8
    assert sorted(second) == sorted([*shards, *(f"columns/{name}.arrow" for name in shards)])
    assert all(column_files.stored_rows(str(tmp_path / "second" / name)) is not None for name in shards)
    for stored in (tmp_path / "store").rglob("*.arrow"):
        stored.unlink()
    examples(csv, tmp_path / "third", "{YYYY}-{MM}-{DD}.csv", store)  # the days are read again
    assert files(tmp_path / "third") == first


@pytest.mark.parametrize("column", [pa.array([[1, 2]] * 9), pa.array([1] * 9)])
def test_several_values_in_a_row_are_not_stored(column: pa.Array, tmp_path: Path) -> None:
    writer = ColumnWriter(tmp_path / "file")
    writer.add(pa.record_batch({"n": column}), np.ones(9, np.int64))
    writer.close()
    assert (tmp_path / "file").exists() == pa.types.is_integer(column.type)


@pytest.mark.parametrize(
    ("held", "rows", "columns", "worth"),
    [(4e7, 100_000, 40, True), (3e7, 100_000, 40, False), (4e7, 100, 40, False), (4e9, 100_000, 2000, False)],
)
def test_columns_are_stored_where_decoding_takes_long(held: float, rows: int, columns: int, worth: bool) -> None:
    assert column_files.worth_writing(held, rows, columns) == worth
