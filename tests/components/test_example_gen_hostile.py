"""A hundred hostile files: each a clear error with its place and an empty output, or the right rows and no others.

Every good record has an id from which its other values follow, so that a wrong value cannot pass for a right one.
"""

import gzip
import json
import os
import random
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from hostile_files import BAD_LINES, HEAD, KINDS, ROWS, WHOLE_FILES, content, framed, record, values, whole

from headrace.common.errors import DataError
from headrace.common.storage import files as storage
from headrace.components.example_gen.ingest import IngestResult, ingest
from headrace.components.sources import open_source, serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig

NOBODY = 65534


def name(kind: str, *, packed: bool = False) -> str:
    return f"f.{kind}" + (".gz" if packed else "")


def config(path: Path, **data: Any) -> DataConfig:
    kind = next(kind for kind in KINDS if f".{kind}" in path.name)
    return DataConfig.model_validate({"source": {"kind": kind, "path": str(path)}, **data})


def run(path: Path, out: Path, **data: Any) -> IngestResult:
    parsed = config(path, **data)
    return ingest(parsed, find_spans(parsed), out, lambda _work: serial_map)


def ids_written(out: Path) -> list[int]:
    """The ids of all rows written; asserts that each row is whole."""
    files = [str(file) for file in out.glob("Split-*/*")]
    found = []
    for serialized in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator():
        feature = tf.train.Example.FromString(serialized).features.feature
        number = feature["id"].int64_list.value[0]
        expected = values(number)
        assert feature["text"].bytes_list.value[0].decode() == expected["text"]
        assert feature["number"].float_list.value[0] == expected["number"]
        found.append(number)
    return sorted(found)


def check(path: Path, out: Path, **data: Any) -> tuple[DataError | None, list[int], IngestResult | None]:
    """Ingest; either an error and an empty output, or rows that are right."""
    try:
        reported = run(path, out, **data)
    except DataError as error:
        assert list(out.rglob("*")) == []
        return error, [], None
    found = ids_written(out)
    assert len(found) == sum(reported.rows.values())
    assert len(set(found)) == len(found)
    return None, found, reported


SKIP = {"on_bad_record": "skip", "max_bad_fraction": 1.0}
TYPES = {"types": {"id": "int", "number": "float", "text": "string"}}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("kind", "number"), [(kind, number) for kind in KINDS for number in range(len(BAD_LINES[kind]))]
)
def test_a_bad_record_is_reported_or_left_out(tmp_path: Path, kind: str, number: int, *, packed: bool) -> None:
    bad = bytes(BAD_LINES[kind][number])
    text = content(kind, bad)
    path = tmp_path / name(kind, packed=packed)
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    error, _, _ = check(path, tmp_path / "out", **TYPES)
    assert error is not None
    assert error.file == str(path)
    line = ROWS // 2 + 1 + (kind == "csv")
    assert error.line == line if kind != "tfrecord" else f"record {line}, " in error.what
    error, found, reported = check(path, tmp_path / "out", **TYPES, **SKIP)
    assert error is None
    assert reported is not None
    assert found == list(range(ROWS))
    assert reported.skipped.count == 1
    assert reported.skipped.reported[0].startswith(f"{path}:")
    strict = check(path, tmp_path / "out", **TYPES, on_bad_record="skip", max_bad_fraction=0.001)[0]
    assert strict is not None
    assert "max_bad_fraction" in strict.what


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.77, 0.999])
def test_a_gzip_file_cut_off_is_reported_or_keeps_its_whole_records(tmp_path: Path, kind: str, share: float) -> None:
    path = tmp_path / name(kind, packed=True)
    packed = gzip.compress(content(kind), 1)
    path.write_bytes(packed[: int(len(packed) * share)])
    error, _, _ = check(path, tmp_path / "out")
    assert error is not None
    assert error.file == str(path)
    assert "truncated" in error.what
    error, found, reported = check(path, tmp_path / "out", **SKIP)
    if error is None:
        assert reported is not None
        assert found == list(range(len(found)))
        assert reported.skipped.count == 1
        assert f"{path}:" in reported.skipped.reported[0]
    else:
        assert share < 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [1, 5, 9, 14])
@pytest.mark.parametrize("before", [3, 200, 399])
def test_a_plain_file_cut_off_inside_a_record_is_reported_or_keeps_its_whole_records(
    tmp_path: Path, kind: str, left: int, before: int
) -> None:
    path = tmp_path / name(kind)
    good = [record(kind, number) for number in range(before + 1)]
    text = (HEAD if kind == "csv" else b"") + b"".join(good)
    path.write_bytes(text[: -len(good[-1]) + left])
    error, _, _ = check(path, tmp_path / "out", **TYPES)
    assert error is not None
    assert error.file == str(path)
    if kind == "tfrecord":
        assert f"record {before + 1}, " in error.what
    else:
        assert error.line == before + 1 + (kind == "csv")
    error, found, reported = check(path, tmp_path / "out", **TYPES, **SKIP)
    if error is None:
        assert reported is not None
        assert found == list(range(before))
        assert reported.skipped.count == 1
    else:
        assert "is empty" in error.what or (kind == "csv" and "never closes" in error.what)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_a_gzip_file_with_a_flipped_bit_is_reported(tmp_path: Path, kind: str, seed: int) -> None:
    path = tmp_path / name(kind, packed=True)
    packed = bytearray(gzip.compress(content(kind), 1))
    place = random.Random(seed).randrange(20, len(packed))
    packed[place] ^= 1 << seed
    path.write_bytes(bytes(packed))
    for data in ({}, SKIP):
        error, found, _ = check(path, tmp_path / "out", **data)
        assert error is not None or found == list(range(ROWS))


@pytest.mark.parametrize("seed", range(8))
def test_a_tfrecord_file_with_a_flipped_bit_is_reported_or_leaves_out_that_record(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "f.tfrecord"
    data = bytearray(content("tfrecord"))
    place = random.Random(seed).randrange(len(data))
    data[place] ^= 1 << seed
    path.write_bytes(bytes(data))
    hit = whole("tfrecord", bytes(data[:place]))
    error, _, _ = check(path, tmp_path / "out")
    assert error is not None
    assert f"record {hit + 1}, " in error.what
    error, found, _ = check(path, tmp_path / "out", **SKIP)
    assert found == [number for number in range(ROWS) if number != hit] if error is None else "length" in error.what


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", WHOLE_FILES)
def test_what_is_another_kind_of_file_is_reported(tmp_path: Path, kind: str, what: str) -> None:
    path = tmp_path / name(kind)
    path.write_bytes(WHOLE_FILES[what](content(kind)))
    error, found, _ = check(path, tmp_path / "out")
    if kind == "tfrecord" and what == "gzip under a plain name":
        assert found == list(range(ROWS))
        return
    assert error is not None
    assert error.file == str(path)
    error, found, _ = check(path, tmp_path / "out", on_bad_record="skip")
    assert error is not None


@pytest.mark.parametrize("kind", KINDS)
def test_plain_records_under_a_gzip_name_are_reported_or_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / name(kind, packed=True)
    path.write_bytes(content(kind))
    error, found, _ = check(path, tmp_path / "out")
    assert found == list(range(ROWS)) if kind == "tfrecord" else error is not None and "not valid gzip" in error.what


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_odd_but_sound_is_read(tmp_path: Path, kind: str, *, packed: bool) -> None:
    text = content(kind)
    if kind != "tfrecord":
        text = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n").replace(b"\r\n", b"\r\n\r\n", 50)[:-2]
    path = tmp_path / name(kind, packed=packed)
    path.write_bytes(gzip.compress(text[:3000]) + gzip.compress(text[3000:]) + gzip.compress(b"") if packed else text)
    assert check(path, tmp_path / "out")[1] == list(range(ROWS))


@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_columns_are_read(tmp_path: Path, kind: str) -> None:
    names = [f"c{number}" for number in range(10_000)]
    rows = [{key: row * 10_000 + place for place, key in enumerate(names)} for row in range(8)]
    if kind == "csv":
        text = "\n".join(",".join(map(str, line)) for line in [names, *(row.values() for row in rows)]).encode()
    elif kind == "jsonl":
        text = "\n".join(map(json.dumps, rows)).encode()
    else:
        text = b"".join(framed(_integers(row)) for row in rows)
    path = tmp_path / name(kind)
    path.write_bytes(text)
    source = open_source(config(path).source)
    (part,) = source.parts(serial_map)
    kinds = source.scan(part, {}).kinds
    assert kinds == dict.fromkeys(names, "int")
    assert [row for batch in source.batches(part, kinds) for row in batch.to_pylist()] == rows


def _integers(row: dict[str, int]) -> bytes:
    feature = {key: tf.train.Feature(int64_list=tf.train.Int64List(value=[value])) for key, value in row.items()}
    return bytes(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_or_a_pipe_where_a_file_should_be_is_reported(tmp_path: Path, kind: str) -> None:
    (tmp_path / name(kind)).mkdir()
    with pytest.raises(DataError, match="is a directory"):
        find_spans(config(tmp_path / name(kind)))
    os.mkfifo(tmp_path / f"pipe.{kind}")
    with pytest.raises(DataError, match="a pipe or a device"):
        find_spans(config(tmp_path / f"pipe.{kind}"))
    with pytest.raises(DataError):
        find_spans(config(tmp_path / f"gone.{kind}"))
    (tmp_path / f"link.{kind}").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError):
        find_spans(config(tmp_path / f"link.{kind}"))
    (tmp_path / f"null.{kind}").symlink_to("/dev/null")
    with pytest.raises(DataError, match="a pipe or a device"):
        find_spans(config(tmp_path / f"null.{kind}"))


def in_child(function: Callable[[], str]) -> str:
    """What a function says in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = function()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("closed", ["file", "folder"])
def test_what_may_not_be_read_is_reported(tmp_path: Path, kind: str, closed: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / name(kind)
    path.write_bytes(content(kind))
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    data = config(path)
    manifest = find_spans(data)
    (path if closed == "file" else folder).chmod(0)

    def read() -> str:
        if os.geteuid() == 0:
            os.seteuid(NOBODY)
        out = Path(f"/tmp/headrace-hostile-{os.getpid()}")
        with pytest.raises(DataError, match="Permission denied") as caught:
            ingest(data, manifest, out, lambda _work: serial_map)
        assert caught.value.file == str(path)
        if closed == "folder":
            with pytest.raises(DataError, match="Permission denied") as caught:
                find_spans(data)
            assert caught.value.file == str(path)
        assert not list(out.rglob("*"))
        out.rmdir()
        return "reported"

    assert in_child(read) == "reported"
    folder.chmod(0o755)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["grows", "shrinks", "vanishes", "is replaced"])
@pytest.mark.parametrize("read", [1, 2, 5])
def test_a_file_that_changes_while_it_is_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, change: str, read: int
) -> None:
    path = tmp_path / name(kind)
    path.write_bytes(content(kind))
    os.utime(path, (1, 1))  # clocks of file systems may not tell one millisecond from the next
    data = config(path)
    manifest = find_spans(data)
    reads = iter(range(1, sys.maxsize))
    true = storage._LocalFile.read

    def changing(self: Any, size: int = -1, /) -> bytes:
        if next(reads) == read:
            _change(path, change, record(kind, ROWS))
        return bytes(true(self, size))

    monkeypatch.setattr(storage._LocalFile, "read", changing)
    out = tmp_path / "out"
    with pytest.raises(DataError) as caught:
        ingest(data, manifest, out, lambda _work: serial_map)
    assert caught.value.file == str(path)
    assert list(out.rglob("*")) == []


def _change(path: Path, change: str, more: bytes) -> None:
    if change == "grows":
        with path.open("ab") as file:
            file.write(more)
    elif change == "shrinks":
        os.truncate(path, path.stat().st_size // 2)
    elif change == "vanishes":
        path.unlink()
    else:
        other = path.with_suffix(".new")
        other.write_bytes(path.read_bytes().replace(b"text", b"test"))
        other.replace(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / name(kind)
    path.write_bytes(content(kind))
    out = tmp_path / "out"

    def write() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        with pytest.raises(DataError, match="cannot be written: File too large") as caught:
            run(path, out)
        assert caught.value.file == str(out)
        return "reported"

    assert in_child(write) == "reported"
    assert list(out.rglob("*")) == []


def test_one_bad_file_among_good_ones_is_named(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_bytes(content("jsonl", *([b"{\n"] if number == 1 else [])))
    error = _error(tmp_path / "*.jsonl", tmp_path / "out")
    assert error.file == str(tmp_path / "1.jsonl")


def _error(path: Path, out: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        run(path, out)
    return caught.value
