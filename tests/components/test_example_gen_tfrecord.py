"""Reading TFRecords: what TensorFlow writes comes back, and damage is reported with its place."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.tfrecord import frames as frames_module
from headrace.configs.schema.sources import TfrecordSource

FLOAT = st.floats(width=32, allow_nan=False)
VALUES = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": FLOAT,
    "string": st.text(max_size=4),
    "bytes": st.binary(max_size=4),
}
Row = dict[str, list[Any] | None]


def feature(values: Sequence[Any] | None) -> tf.train.Feature:
    if values is None:
        return tf.train.Feature()
    if any(isinstance(value, float) for value in values):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if any(isinstance(value, int) for value in values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))


def features(row: Row) -> tf.train.Features:
    return tf.train.Features(feature={name: feature(values) for name, values in row.items()})


def example(**row: Any) -> bytes:
    return tf.train.Example(features=features(row)).SerializeToString()


def sequence(context: Row, **lists: Sequence[Sequence[Any] | None]) -> bytes:
    own = {name: tf.train.FeatureList(feature=map(feature, steps)) for name, steps in lists.items()}
    message = tf.train.SequenceExample(context=features(context), feature_lists=tf.train.FeatureLists(feature_list=own))
    return message.SerializeToString()


def write(path: Path, records: Sequence[bytes], *, packed: bool = False) -> str:
    with tf.io.TFRecordWriter(str(path), "GZIP" if packed else None) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def read(
    path: str,
    declared: dict | None = None,
    columns: tuple[str, ...] | None = None,
    *,
    skip_bad: bool = False,
    **how: Any,
) -> tuple[ScanResult, list[dict[str, Any]]]:
    """What the scan says, and all the rows."""
    opened = open_source(TfrecordSource(kind="tfrecord", path=path, **how), options=ReadOptions(columns, skip_bad))
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, declared or {}) for part in parts), ScanResult())
    kinds = {**scan.kinds, **(declared or {})}
    return scan, [row for part in parts for batch in opened.batches(part, kinds) for row in batch.to_pylist()]


@pytest.fixture(params=[1 << 21, 60])
def _chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, "CHUNK", request.param)


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    columns: dict[str, st.SearchStrategy[Any]] = {}
    for name in ("a", "b", "é"):
        value = VALUES[draw(st.sampled_from(sorted(VALUES)))]
        columns[name] = st.none() | st.lists(value, min_size=1, max_size=draw(st.sampled_from([1, 3]))) | st.just([])
    return draw(st.lists(st.fixed_dictionaries({}, optional=columns), min_size=1, max_size=12))


def expected_kind(values: list[list[Any] | None]) -> str:
    items = [item for value in values for item in value or []]
    if not items:
        return "missing"
    kind = {int: "int", float: "float", str: "string"}.get(type(items[0]), "")
    return (kind or _text_or_bytes(items)) + (" list" if max(len(value or []) for value in values) > 1 else "")


def _text_or_bytes(items: list[bytes]) -> str:
    try:
        [item.decode() for item in items]
    except UnicodeDecodeError:
        return "bytes"
    return "string"


def expected_value(value: list[Any] | None, kind: str) -> Any:
    if value is None or kind == "missing":
        return None
    if kind.startswith("string"):
        value = [item.decode() if isinstance(item, bytes) else item for item in value]
    return value if kind.endswith(" list") else (value[0] if value else None)


@settings(max_examples=150, deadline=None)
@given(table=tables(), chunk=st.sampled_from([40, 1 << 21]), packed=st.booleans())
def test_what_tensorflow_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, table: list[Row], chunk: int, *, packed: bool
) -> None:
    names = {name for row in table for name in row}
    assume(names)
    path = write(tmp_path_factory.mktemp("records") / "f", [example(**row) for row in table], packed=packed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames_module, "CHUNK", chunk)
        scan, rows = read(path)
    # A feature without values is of no kind here, so a column of nothing else may be missing or empty.
    assert scan.kinds == {name: expected_kind([row.get(name) for row in table]) for name in names}
    assert scan.rows == {path: len(table)}
    expected = [{name: expected_value(row.get(name), scan.kinds[name]) for name in names} for row in table]
    wide = [name for name, kind in scan.kinds.items() if kind.endswith(" list")]
    for row, found in zip(expected, rows, strict=True):
        assert {**found, **{name: found[name] or None for name in wide}} == {
            **row, **{name: row[name] or None for name in wide}
        }  # fmt: skip


@pytest.mark.usefixtures("_chunk")
def test_missing_and_empty_lists_are_distinguished(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [example(a=[1, 2]), example(a=None), example(), b"", _empty("a")])
    scan, rows = read(path)
    assert scan.kinds == {"a": "int list"}
    assert [row["a"] for row in rows] == [[1, 2], None, None, None, []]


def _empty(name: str) -> bytes:
    own = tf.train.Feature(int64_list=tf.train.Int64List())
    return tf.train.Example(features=tf.train.Features(feature={name: own})).SerializeToString()


@pytest.mark.usefixtures("_chunk")
def test_a_file_of_several_gzip_members_is_reported_by_its_first_bytes(tmp_path: Path) -> None:
    plain = Path(write(tmp_path / "plain", [example(a=[i]) for i in range(100)])).read_bytes()
    (tmp_path / "f").write_bytes(gzip.compress(plain) + gzip.compress(plain))
    assert [row["a"] for row in read(str(tmp_path / "f"))[1]] == [*range(100), *range(100)]


def test_a_length_that_looks_like_gzip_is_none(tmp_path: Path) -> None:
    record = example(a=[b"x" * (0x088B1F - 30)])
    record += b"\x12" + bytes([0x088B1F - len(record) - 2]) + b"y" * (0x088B1F - len(record) - 2)
    assert len(record) == 0x088B1F
    path = write(tmp_path / "f", [record])
    assert Path(path).read_bytes()[:3] == b"\x1f\x8b\x08"
    assert len(read(path)[1]) == 1


@pytest.mark.usefixtures("_chunk")
def test_feature_lists_become_lists_with_the_lengths_of_uneven_steps(tmp_path: Path) -> None:
    records = [
        sequence({"id": [7]}, words=[["a", "b"], [], ["c"]], score=[[0.5], [1.5], [2.5]], none=[]),
        sequence({"id": [8]}, words=[["d"]], score=[]),
        sequence({}, score=[[3.5]]),
    ]
    path = write(tmp_path / "f", records)
    scan, rows = read(path, payload="sequence_example")
    assert scan.kinds == {
        "id": "int", "words": "string list", "words.lengths": "int list", "score": "float list", "none": "missing",
    }  # fmt: skip
    assert rows[0] == {
        "id": 7,
        "words": ["a", "b", "c"],
        "words.lengths": [2, 0, 1],
        "score": [0.5, 1.5, 2.5],
        "none": None,
    }
    assert rows[1] == {"id": 8, "words": ["d"], "words.lengths": [1], "score": [], "none": None}
    assert rows[2] == {"id": None, "words": None, "words.lengths": None, "score": [3.5], "none": None}
    source = TfrecordSource(kind="tfrecord", path=path, payload="sequence_example")
    assert open_source(source).columns() == ["id", "none", "score", "words", "words.lengths"]
    pruned = read(path, payload="sequence_example", columns=("words", "id"))[1]
    assert pruned[0] == {"id": 7, "words": ["a", "b", "c"]}


def test_steps_of_different_kinds_are_joined_as_if_they_were_decoded_together(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [sequence({}, x=[[1], [2.5, 3.5]]), sequence({}, x=[[4]]), sequence({}, x=[[], None])])
    scan, rows = read(path, payload="sequence_example")
    assert scan.kinds == {"x": "float list", "x.lengths": "int list"}
    assert [row["x"] for row in rows] == [[1.0, 2.5, 3.5], [4.0], []]
    assert [row["x.lengths"] for row in rows] == [[1, 2], [1], [0, 0]]


def test_sequence_examples_are_not_taken_for_examples(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [sequence({"id": [7]}, words=[["a"]])])
    with pytest.raises(DataError, match="feature lists") as caught:
        open_source(TfrecordSource(kind="tfrecord", path=path)).columns()
    assert "payload: sequence_example" in caught.value.hint


@pytest.mark.usefixtures("_chunk")
def test_integers_among_floats_are_floats(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [example(a=[1]), example(a=[2.5]), example(a=[3, 4])])
    scan, rows = read(path)
    assert scan.kinds == {"a": "float list"}
    assert [row["a"] for row in rows] == [[1.0], [2.5], [3.0, 4.0]]


@pytest.mark.usefixtures("_chunk")
def test_numbers_among_texts_are_refused_unless_declared(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [example(a=[i]) for i in range(10)] + [example(a=["x"])])
    with pytest.raises(DataError, match=r"record 11, .* a number where .* bytes") as caught:
        read(path)
    assert caught.value.column == "a"
    assert [row["a"] for row in read(path, {"a": "string"})[1]] == [*map(str, range(10)), "x"]


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize(
    ("kind", "bad", "words"),
    [
        ("int", [2.5], "cannot be read as int"),
        ("int", [1, 2], "multiple values"),
        ("int", ["x"], "cannot be read as int"),
        ("string", [b"\xff"], "cannot be read as string"),
        ("float list", ["x", "y"], "cannot be read as float"),
    ],
)
def test_a_value_not_of_its_declared_type_is_reported_or_left_out(
    tmp_path: Path, kind: str, bad: list[Any], words: str
) -> None:
    path = write(
        tmp_path / "f", [example(a=[i], b=[i]) for i in range(20)] + [example(a=bad, b=[0])] + [example(a=[7])] * 5
    )
    with pytest.raises(DataError, match=r"record 21, which starts at byte [0-9,]+, ") as caught:
        read(path, {"a": kind})
    assert caught.value.column == "a"
    assert words in caught.value.what
    scan, rows = read(path, {"a": kind}, skip_bad=True)
    assert scan.skipped.count == 1
    assert scan.rows == {path: 25}
    assert len(rows) == 25


def _records(tmp_path: Path) -> tuple[bytes, int]:
    """A file of a hundred records, and the bytes of each."""
    data = Path(write(tmp_path / "good", [example(a=[1000 + i]) for i in range(100)])).read_bytes()
    return data, len(data) // 100


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("packed", [False, True])
def test_a_wrong_checksum_is_reported_or_left_out(tmp_path: Path, *, packed: bool) -> None:
    data, size = _records(tmp_path)
    for place in (size * 41 + 12 + 5, size * 42 - 2, size * 41 + 9):
        bad = bytearray(data)
        bad[place] ^= 4
        path = tmp_path / "f"
        path.write_bytes(gzip.compress(bytes(bad)) if packed else bytes(bad))
        with pytest.raises(DataError, match=f"record 42, which starts at byte {size * 41:,},"):
            read(str(path))
        scan, rows = read(str(path), skip_bad=True)
        assert scan.skipped.count == 1
        assert [row["a"] for row in rows] == [1000 + i for i in range(100) if i != 41]


@pytest.mark.usefixtures("_chunk")
def test_a_damaged_length_is_an_error_in_any_case(tmp_path: Path) -> None:
    data, size = _records(tmp_path)
    bad = bytearray(data)
    bad[size * 41] ^= 4
    (tmp_path / "f").write_bytes(bytes(bad))
    for skip_bad in (False, True):
        with pytest.raises(DataError, match=r"record 42, .* has a damaged length"):
            read(str(tmp_path / "f"), skip_bad=skip_bad)


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("lost", [1, 7, 20, 40])
def test_a_file_cut_off_is_reported_or_keeps_what_is_whole(tmp_path: Path, lost: int, *, packed: bool) -> None:
    data, size = _records(tmp_path)
    data = (gzip.compress(data) if packed else data)[:-lost]
    path = tmp_path / "f"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"truncated in or before record [0-9]+, "):
        read(str(path))
    scan, rows = read(str(path), skip_bad=True)
    assert scan.skipped.count == 1
    assert [row["a"] for row in rows] == [1000 + i for i in range(len(rows))]
    assert packed or len(rows) == 100 - -(-lost // size)


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("other", [b"no example", example(xx=[1]).replace(b"xx", b"\xff\xfe")])
def test_a_record_that_is_not_an_example_is_reported_or_left_out(tmp_path: Path, other: bytes) -> None:
    path = write(tmp_path / "f", [example(a=[1], b=[0.5]), other, example(a=[2])])
    with pytest.raises(DataError, match=r"record 2, .*byte \d+, .*tf\.Example"):
        read(path)
    scan, rows = read(path, skip_bad=True)
    assert scan.skipped.count == 1
    assert rows == [{"a": 1, "b": 0.5}, {"a": 2, "b": None}]


@pytest.mark.parametrize(
    "content", [b"hello, world, this is text\n" * 9, b"\x00" * 100, np.random.default_rng(0).bytes(5000)]
)
def test_what_is_not_a_tfrecord_file_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(DataError, match="is not a TFRecord file"):
        read(str(tmp_path / "f"))
