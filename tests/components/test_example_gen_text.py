"""Reading text: the documentation in Python's standard library, compared with windows cut by plain Python."""

import gzip
import re
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import Bucket

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples import parts as parts_module
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.text import read as read_module
from headrace.components.sources.text import source as windows_module
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import TextSource


@pytest.fixture(scope="module")
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("topics")
    for name, text in topics.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def source_of(path: Path | str, **more: Any) -> TextSource:
    return TextSource(kind="text", path=str(path), **more)


def read(source: TextSource, *, skip_bad: bool = False) -> tuple[ScanResult, list[dict]]:
    opened = open_source(source, options=ReadOptions(skip_bad=skip_bad))
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, {}) for part in parts), ScanResult())
    rows = [row for part in parts for batch in opened.batches(part, scan.kinds) for row in batch.to_pylist()]
    assert sum(scan.rows.values()) == len(rows)
    return scan, rows


def windows(texts: list[str], width: int, stride: int = 1) -> list[tuple[list[str], str]]:
    """By plain Python."""
    split = [text.split() for text in texts]
    return [
        (words[start : start + width], words[start + width])
        for words in split
        for start in range(0, len(words) - width, stride)
    ]


@pytest.mark.parametrize("unit", ["line", "file"])
def test_windows_of_the_documentation_are_those_that_plain_python_cuts(documentation: Path, unit: str) -> None:
    scan, rows = read(source_of(documentation / "*.txt", unit=unit, window=6, stride=3, lowercase=True))
    texts = [topics[name].lower() for name in sorted(topics, key=lambda name: f"{name}.txt")]
    if unit == "line":
        texts = [line for text in texts for line in text.split("\n")]
    expected = windows(texts, 6, 3)
    assert len(expected) > 5000
    assert [(row["words"], row["next_word"]) for row in rows] == expected
    assert scan.kinds == {"words": "string list", "next_word": "string"}
    assert scan.size == pytest.approx(sum(len("".join(words)) + len(word) for words, word in expected), rel=1)


@pytest.mark.parametrize("window", [None, 2])
def test_the_folder_of_a_file_is_the_label_of_its_texts(tmp_path: Path, window: int | None) -> None:
    texts = {"good/1": "it is fine", "good/2": " ", "bad/1": "it is broken", "bad/2": "one two three four"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    source = source_of(tmp_path / "*" / "*.txt", unit="file", labels="folders", window=window, text_key="place")
    _, rows = read(source)
    labels = {row["place"]: row["label"] for row in rows}
    assert labels == {"bad/1.txt:0": "bad", "bad/2.txt:0": "bad", "good/1.txt:0": "good"}
    assert len(rows) == (3 if window is None else 4)
    assert [*rows[0]] == [*(["text"] if window is None else ["words", "next_word"]), "place", "label"]


def test_lines_of_the_documentation_are_filtered(documentation: Path) -> None:
    lines = [
        line.strip() for name in sorted(topics, key=lambda name: f"{name}.txt") for line in topics[name].split("\n")
    ]
    expected = [line for line in lines if 20 <= len(line) <= 60 and re.search(r"\bclass(es)?\b", line)]
    scan, rows = read(source_of(documentation / "*", min_length=20, max_length=60, keep=r"\bclass(es)?\b"))
    assert len(expected) > 100
    assert [row["text"] for row in rows] == expected
    assert scan.kinds == {"text": "string"}


def test_windows_of_one_text_share_a_split_by_its_key(documentation: Path, tmp_path: Path) -> None:
    source = source_of(documentation / "a*.txt", unit="file", window=3, text_key="from")
    _, rows = read(source)
    assert {row["from"] for row in rows} <= {f"{name}.txt:0" for name in topics}
    data = DataConfig.model_validate(
        {"source": source.model_dump(), "split_key": "from", "splits": {"train": 1, "eval": 1}}
    )
    manifest = SpanManifest.of(sorted(map(str, documentation.glob("a*.txt"))))
    ingested = ingest(data, manifest, tmp_path / "out", lambda _work: serial_map)
    assert sum(ingested.rows.values()) == len(rows)
    assert set(ingested.rows.values()) <= {
        sum(count for name, count in Counter(row["from"] for row in rows).items() if name in chosen)
        for chosen in _subsets(sorted({row["from"] for row in rows}))
    }


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ("d/*/body.txt", [f"{number}/body.txt:0" for number in range(1, 10)]),
        ("d/**/*.txt", [f"{number}/body.txt:0" for number in range(1, 10)]),
        ("d/{SPAN}/body.txt", [f"{number}/body.txt:0" for number in range(1, 10)]),
        ("d/1/body.txt", ["body.txt:0"]),
        (("d/1/*.txt", "d/2/*.txt"), ["1/body.txt:0", "2/body.txt:0"]),
    ],
)
def test_files_of_one_name_have_keys_of_their_own_that_other_files_do_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: str | tuple[str, ...], names: list[str]
) -> None:
    for number in range(1, 10):
        (tmp_path / f"d/{number}").mkdir(parents=True)
        (tmp_path / f"d/{number}/body.txt").write_text("some text")
    monkeypatch.chdir(tmp_path)
    source = TextSource(kind="text", path=paths, text_key="from", unit="file")
    files = [str(tmp_path / "d" / name.rpartition(":")[0]) for name in names]
    if names == ["body.txt:0"]:
        files = [str(tmp_path / "d/1/body.txt")]

    def keys(files: list[str]) -> list[str]:
        opened = open_source(source, files)
        parts = opened.parts(serial_map)
        kinds = opened.scan(parts[0], {}).kinds
        return [row["from"] for part in parts for batch in opened.batches(part, kinds) for row in batch.to_pylist()]

    assert keys(files) == names
    assert [key for file in files for key in keys([file])] == names


def _subsets(names: list[str]) -> list[set[str]]:
    return [{name for place, name in enumerate(names) if number >> place & 1} for number in range(1 << len(names))]


LINES = st.text(st.sampled_from("ab é\t\u2003\x0b\r\n"), max_size=60)


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(LINES, min_size=1, max_size=3),
    chunk=st.integers(4, 40),
    part=st.integers(1, 40),
    mark=st.booleans(),
    packed=st.booleans(),
)
def test_any_cut_of_the_files_gives_all_lines_once(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], chunk: int, part: int, *, mark: bool, packed: bool
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    for number, text in enumerate(texts):
        data = text.encode("utf-8-sig" if mark else "utf-8")
        (folder / f"{number}{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_module, "CHUNK", chunk)
        patch.setattr(windows_module, "BATCH", chunk)
        for name in ("SMALLEST_PART", "LARGEST_PART"):
            patch.setattr(parts_module, name, part)
        _, rows = read(source_of(folder / "*", text_key="at"))
        _, words = read(source_of(folder / "*", window=2))
    lines = [line for text in texts for line in text.split("\n")]
    assert [row["text"] for row in rows] == [line.strip() for line in lines if line.strip()]
    assert [(row["words"], row["next_word"]) for row in words] == windows(lines, 2)
    for row in rows:
        name, _, at = row["at"].rpartition(":")
        encoded = texts[int(name.removesuffix(".gz"))].encode("utf-8-sig" if mark else "utf-8")
        assert encoded[int(at) :].split(b"\n")[0].decode().strip() == row["text"]


@pytest.mark.parametrize("unit", ["line", "file"])
def test_texts_of_an_object_store_are_read(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    for name in ("SMALLEST_PART", "LARGEST_PART"):
        monkeypatch.setattr(parts_module, name, 7)
    s3_bucket.put("a.txt", "one two\nthree four five\nsix\n")
    s3_bucket.put("b.txt.gz", gzip.compress(b"seven eight\n"))
    _, rows = read(source_of(f"{s3_bucket.url}/*", unit=unit, window=1))
    expected = [("one", "two"), ("three", "four"), ("four", "five"), ("seven", "eight")]
    across = [("two", "three"), ("five", "six")] if unit == "file" else []
    assert sorted((row["words"][0], row["next_word"]) for row in rows) == sorted(expected + across)
    _, rows = read(source_of(f"{s3_bucket.url}/*", unit="file", text_key="from"))
    assert [row["from"] for row in rows] == ["a.txt:0", "b.txt.gz:0"]


@pytest.mark.parametrize("unit", ["line", "file"])
def test_what_is_not_utf8_is_reported_with_its_line_or_left_out(tmp_path: Path, unit: str) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\nth\xe9ree\r\nfour\n\xff\n")
    (tmp_path / "b.txt").write_bytes("fünf".encode())
    source = source_of(tmp_path / "*.txt", unit=unit)
    with pytest.raises(DataError, match=r"a\.txt:3: is not UTF-8: byte 0xe9"):
        read(source)
    scan, rows = read(source, skip_bad=True)
    assert [row["text"] for row in rows] == (["one", "two", "four", "fünf"] if unit == "line" else ["fünf"])
    assert scan.skipped.count == len(scan.skipped.reported) == (2 if unit == "line" else 1)
    assert scan.skipped.reported[0].startswith(f"{tmp_path}/a.txt:3: is not UTF-8")


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        (b"\x1f\x8b\x08", {"path": "x.gz"}, "truncated"),
        (b"plain text, not packed" * 9, {"path": "x.gz"}, "not valid gzip"),
        ("zwölf".encode("utf-16"), {}, "not UTF-8: byte 0xff"),
        (b"text", {"keep": "(open"}, "`data.source.keep` is not a valid RE2"),
        (b"", {}, "has no rows"),
        (b" \n\n", {}, "has no rows"),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path: Path, content: bytes, more: dict, message: str) -> None:
    path = tmp_path / more.pop("path", "x.txt")
    path.write_bytes(content)
    data = DataConfig.model_validate({"source": {"kind": "text", "path": str(path), **more}})
    with pytest.raises(DataError, match=message):
        ingest(data, SpanManifest.of([str(path)]), tmp_path / "out", lambda _work: serial_map)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="below min_length"):
        source_of("x", min_length=9, max_length=3)
    with pytest.raises(ValueError, match="the name of another column"):
        source_of("x", text_key="words")
