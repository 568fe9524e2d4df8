"""Columns as codes of their distinct values: the same texts, examples, counts and features, whatever their codes."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from test_example_gen_framing import batches, records_of

from headrace.common.value_counts import NO_COUNTS, counted, summed
from headrace.components.example_gen.ingest import ingest
from headrace.components.example_gen.shards.coded_columns import (
    MOST_DISTINCT,
    MOST_DISTINCT_INTEGERS,
    SAMPLE,
    coded,
    coded_integers,
    coded_texts,
    with_columns,
)
from headrace.components.examples import column_files
from headrace.components.examples.arrow_columns import offsets_of, plain
from headrace.components.examples.column_files import ColumnWriter, finish, path_beside
from headrace.components.examples.tfexample.encode import encode, feature_dictionary
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.components.statistics import categories, read
from headrace.components.statistics.accumulators import from_bytes, to_bytes
from headrace.components.statistics.columns import values_of
from headrace.components.statistics.combine import StatisticsCombiner
from headrace.components.statistics.stored_columns import as_decoded
from headrace.components.transform.record_blocks import record_blocks
from headrace.components.transform.single_values import single_values
from headrace.configs.schema.data import DataConfig

NUMBERS = {"w": tf.io.VarLenFeature(tf.int64)}
texts = st.lists(st.sampled_from([b"", b"a", b"b", b"\xff", "京".encode()]) | st.binary(max_size=2) | st.none())


def as_dictionary(column: pa.Array) -> pa.Array:
    """Texts as codes, with values that no row has, before and after the others."""
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return column
    found = column.dictionary_encode()
    unused = pa.array([str(number) * 3 for number in range(40)], column.type)
    values = pa.concat_arrays([unused, found.dictionary, unused])
    codes = pa.array([None if code is None else code + len(unused) for code in found.indices.to_pylist()], pa.int16())
    return pa.DictionaryArray.from_arrays(codes, values)


@given(texts)
@settings(deadline=None)
def test_codes_are_of_the_texts_in_the_order_in_which_they_occur(values: list[bytes | None]) -> None:
    column = pa.array(values, pa.binary())
    found = coded(column)
    distinct = [value for value in dict.fromkeys(values) if value is not None]
    if found is None:
        assert len({*values}) > MOST_DISTINCT * len(values)
        return
    found.validate(full=True)
    assert plain(found).to_pylist() == values
    assert found.dictionary.to_pylist() == distinct


@pytest.mark.parametrize(("distinct", "kind"), [(127, pa.int8()), (129, pa.int16()), (32_769, pa.int32())])
def test_codes_take_as_few_bytes_as_they_can(distinct: int, kind: pa.DataType) -> None:
    found = coded(pa.array(["0"] * SAMPLE + [str(number) for number in range(distinct)] * 2))
    assert found is not None
    assert found.type.index_type == kind


def test_texts_that_mostly_differ_are_not_coded() -> None:
    rows = pa.record_batch({"id": [str(number) for number in range(99)], "word": ["a"] * 99, "n": [1] * 99})
    order = np.arange(99)[::-1]
    assert coded(rows.column("id")) is None
    assert coded(pa.array(["0"] * SAMPLE + [str(number) for number in range(3 * SAMPLE)])) is None
    assert list(coded_texts(rows, order)) == ["word"]


@given(batches(), st.integers(0, 2**32))
@settings(deadline=None)
def test_examples_of_coded_integers_are_those_of_the_integers(batch: pa.RecordBatch, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(batch))
    shuffled, codes = batch.take(pa.array(order)), coded_integers(batch, order)
    for name, column in zip(shuffled.schema.names, shuffled.columns, strict=True):
        few = len(column.unique()) <= MOST_DISTINCT_INTEGERS * len(column) and pa.types.is_integer(column.type)
        assert (name in codes) == few
        assert not few or plain(codes[name]).equals(column)
    known = {name: feature_dictionary(name, column.dictionary) for name, column in codes.items()}
    assert framed_examples(with_columns(shuffled, codes), known).equals(framed_examples(shuffled))


@given(st.lists(texts), st.booleans())
@settings(deadline=None)
def test_counts_are_added_up_in_the_order_of_the_values(parts: list[list[bytes | None]], as_codes: bool) -> None:
    given = [[value for value in part if value is not None] for part in parts]
    tables = []
    for part in given:
        column = pa.array(part, pa.large_binary())
        tables.append(counted(column.dictionary_encode() if as_codes else column))
        assert tables[-1].schema == NO_COUNTS.schema
        assert [tuple(row.values()) for row in tables[-1].to_pylist()] == list(Counter(part).items())
    expected = Counter(value for part in given for value in part)
    assert [tuple(row.values()) for row in summed(tables).to_pylist()] == list(expected.items())


@given(batches())
@settings(deadline=None, max_examples=25)
def test_examples_of_codes_are_those_of_the_texts(batch: pa.RecordBatch) -> None:
    codes = pa.RecordBatch.from_arrays([as_dictionary(column) for column in batch.columns], batch.schema.names)
    known = {
        name: feature_dictionary(name, column.dictionary)
        for name, column in zip(codes.schema.names, codes.columns, strict=True)
        if pa.types.is_dictionary(column.type)
    }
    expected = framed_examples(batch).to_pylist()
    assert records_of(framed_examples(codes, known)) == encode(codes).to_pylist() == encode(batch).to_pylist()
    assert framed_examples(codes).to_pylist() == expected
    few = framed_examples(codes.slice(7, 3), known).to_pylist()  # fewer rows than values
    assert few == expected[7:10]


def test_few_rows_of_many_columns_are_encoded_together() -> None:
    words = {f"w{number}": ["a", None, "b", "a"] * 9 for number in range(40)}
    batch = pa.record_batch(words)
    codes = pa.RecordBatch.from_arrays([as_dictionary(column) for column in batch.columns], batch.schema.names)
    assert framed_examples(codes).to_pylist() == framed_examples(batch).to_pylist()


@pytest.mark.parametrize("words", [[b"a", b"bb", b""], [b"a", b"\xff", b"bb"]], ids=["UTF-8", "other bytes"])
def test_statistics_of_codes_are_those_of_the_texts(words: list[bytes]) -> None:
    random, combiner, found = np.random.default_rng(4), StatisticsCombiner(), []
    table = pa.record_batch({"w": pa.array([*(words[n] for n in random.integers(0, 3, 500)), None] * 2)})
    for rows in (table, pa.record_batch({"w": as_dictionary(table.column(0))})):
        accumulator = combiner.create_accumulator()
        for first in (0, 300):
            accumulator = combiner.add_input(accumulator, as_decoded(rows.slice(first, 700)))
        found.append(combiner.extract_output(accumulator))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(8))
def test_statistics_of_codes_are_those_of_the_texts_when_values_are_dropped(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The codes of a block are in the order of their partition's dictionary, not in that of the block's texts."""
    monkeypatch.setattr(categories, "LIMIT", 64)
    random, combiner, found = np.random.default_rng(seed), StatisticsCombiner(), []
    table = pa.record_batch({"w": pa.array([b"%d" % number for number in random.integers(0, 300, 3000)])})
    codes = coded(table.column(0))
    assert codes is not None
    for rows in (table, pa.record_batch({"w": codes})):
        accumulator = combiner.create_accumulator()
        for first in range(0, 3000, 150):
            accumulator = combiner.compact(combiner.add_input(accumulator, as_decoded(rows.slice(first, 150))))
            accumulator = from_bytes(to_bytes(accumulator))
        assert accumulator.categories["w"].lowered
        found.append(combiner.extract_output(accumulator).SerializeToString(deterministic=True))
    assert found[0] == found[1]


def test_values_of_codes_are_those_of_the_texts() -> None:
    rows = pa.record_batch({"w": pa.array([b"a", None, b"", b"b", b"a"])})
    spec = {"w": tf.io.VarLenFeature(tf.string)}
    for missing in (None, "b", "other"):
        found = []
        for batch in (rows, pa.record_batch({"w": as_dictionary(rows.column(0))})):
            values = single_values(as_decoded(batch), spec)
            assert values is not None
            distinct, codes = values["w"].codes
            assert distinct.type == pa.large_binary()
            by_row = [*distinct.to_pylist(), b""]
            found.append(
                (
                    [by_row[code] for code in codes],
                    values["w"].tensor.numpy().tolist(),
                    Counter(values["w"].texts(missing).to_pylist()),
                )
            )
        assert found[0] == found[1]
    assert single_values(as_decoded(pa.record_batch({"w": as_dictionary(rows.column(0))})), NUMBERS) is None


def test_partitions_with_other_codes_are_read_as_one(tmp_path: Path) -> None:
    """The codes of one partition mean nothing in another, and a third may have plain texts."""
    parts: list[list[str | None]] = [["a", "b", None, "a"] * 3, ["b", "c", "c", "a"] * 3, [*map(str, range(12))]]
    shard = tmp_path / "Split-train" / "shard"
    for file in (shard, path_beside(shard)):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"")
    for number, part in enumerate(parts):
        plain_rows = pa.record_batch({"w": pa.array(part)})
        column = coded(plain_rows.column(0)) or plain_rows.column(0)
        assert pa.types.is_dictionary(column.type) == (number < 2)
        writer, records = ColumnWriter(tmp_path / f"{number}"), framed_examples(plain_rows)
        for piece in (slice(0, 5), slice(5, 12)):
            writer.add(pa.record_batch({"w": column[piece]}), sizes(records)[piece])
        writer.close()
        with path_beside(shard).open("ab") as columns, shard.open("ab") as examples:
            columns.write((tmp_path / f"{number}").read_bytes())
            examples.write(memoryview(records.buffers()[2]))
    finish(path_beside(shard), shard)
    for rows in (3, 5, 12, 13, 40):
        blocks = [block.columns for block in record_blocks(str(shard), rows) if block.columns is not None]
        assert [block.num_rows for block in blocks] == [min(rows, 36 - first) for first in range(0, 36, rows)]
        texts = [plain(values_of(block.column("w"))).to_pylist() for block in blocks]
        expected = [word.encode() for part in parts for word in part if word]
        assert [*itertools.chain.from_iterable(texts)] == expected


def test_shards_of_few_words_are_the_same_with_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, rows = ["w,v", "a,", ",x", "b,y", "a,z"], 3000
    (tmp_path / "data.csv").write_text("\n".join([*words[:1], *(words[1:] * rows)]) + "\n", encoding="utf-8")
    given = {
        "source": {"kind": "csv", "path": str(tmp_path / "data.csv")},
        "splits": {"train": 4, "eval": 1},
        "shards": 1,
    }
    data = DataConfig.model_validate(given)
    for name in ("plain", "coded"):
        ingest(data, find_spans(data), tmp_path / name, lambda _: serial_map, None)
        monkeypatch.setattr(column_files, "LEAST_BYTES", 0)
    shards = sorted((tmp_path / "plain").glob("Split-*/*"))
    assert len(shards) == 2
    for shard in shards:
        other = tmp_path / "coded" / shard.relative_to(tmp_path / "plain")
        assert other.read_bytes() == shard.read_bytes()
        for mine, theirs in zip(read.batches(str(other)), read.batches(str(shard)), strict=True):
            assert pa.types.is_dictionary(mine.schema.field("w").type.value_type)
            for name in ("v", "w"):
                assert plain(values_of(mine.column(name))).to_pylist() == values_of(theirs.column(name)).to_pylist()


def sizes(records: pa.BinaryArray) -> np.ndarray:
    return np.diff(offsets_of(records))
