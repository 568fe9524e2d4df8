"""What folders of images and texts show before a run, without opening all of them."""

from __future__ import annotations

import logging
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import LoadedConfig
from headrace.pipeline.api import load_checked

IMAGES: dict[str, Any] = {
    "pipeline": {"name": "digits"},
    "data": {"source": {"kind": "images", "path": "images", "labels": "folders"}},
    "label": {"key": "label", "kind": "multiclass", "classes": ["cat", "dog"]},
    "features": {"image": {"column": "image", "height": 4, "width": 4}},
    "model": {"kind": "image"},
}
TEXTS: dict[str, Any] = {
    "pipeline": {"name": "reviews"},
    "data": {"source": {"kind": "text", "path": "texts/*/*.txt", "unit": "file", "labels": "folders"}},
    "label": {"key": "label", "kind": "binary", "classes": ["bad", "good"]},
    "features": {"text": {"column": "text"}},
}


def png(number: int) -> bytes:
    """A gray image of one pixel, written by hand."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    pixel = chunk(b"IDAT", zlib.compress(bytes([0, number % 256])))
    return b"\x89PNG\r\n\x1a\n" + header + pixel + chunk(b"IEND", b"")


def images(count: int = 40, **folders: str) -> None:
    for name in folders.values() or ("cat", "dog"):
        for number in range(count):
            write(f"images/{name}/{number:05}.png", png(number))


def texts(count: int = 40) -> None:
    for name in ("bad", "good"):
        for number in range(count):
            write(f"texts/{name}/{number:05}.txt", f"text {number} of {name}".encode())


def write(path: str, content: bytes) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)


def check(config: dict[str, Any], **data: Any) -> LoadedConfig:
    return load_checked({**config, "data": {**config["data"], **data}}, None, (), data=True)


def mistake(config: dict[str, Any], **data: Any) -> str:
    with pytest.raises(ConfigError) as found:
        check(config, **data)
    (problem,) = found.value.problems
    return problem.what


@pytest.fixture(autouse=True)
def notes(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, logger="headrace")
    return caplog


def test_good_folders_are_silent(notes: pytest.LogCaptureFixture) -> None:
    images()
    texts()
    for config in (IMAGES, TEXTS):
        for stratify in (False, True):
            seen = check(config, stratify=stratify).rows_seen
            assert (seen.by_split, seen.whole) == ({"": 80}, frozenset({""}))
    assert notes.messages == []


def test_a_class_folder_without_files_is_noted(notes: pytest.LogCaptureFixture) -> None:
    images()
    texts()
    for folder in ("images/horse", "images/.cache", "texts/fair", "texts/mixed", "texts/.cache"):
        Path(folder).mkdir()
    check(IMAGES)
    check(TEXTS)
    of_images, of_texts = notes.messages
    assert of_images.endswith("no images in the class folder 'horse'")
    assert of_texts.endswith("class folders 'fair', 'mixed'")


@pytest.mark.slow
def test_folders_that_are_not_the_classes_are_found() -> None:
    images(4_000, a="cat", b="dog", c="horse")
    assert "label.classes: the data has horse, " in mistake(IMAGES)
    texts()
    config = {**TEXTS, "label": {"key": "label", "kind": "binary", "classes": ["negative", "good"]}}
    assert "label.classes: the data has bad, " in mistake(config)


def test_images_of_one_folder_have_nothing_to_learn() -> None:
    images(40, a="cat")
    assert "label.key: every label is cat" in mistake(IMAGES)


def test_what_is_not_an_image_is_found(notes: pytest.LogCaptureFixture) -> None:
    images(2)
    write("images/dog/00001.png", b"GIF89a" + bytes(20))
    assert "images/dog/00001.png: is GIF, " in mistake(IMAGES)
    assert check(IMAGES, on_bad_record="skip").rows_seen.by_split == {"": 4}
    assert notes.messages == []
    for path in Path("images").rglob("*.png"):
        path.write_bytes(b"")
    assert "none of 4 images " in mistake(IMAGES, on_bad_record="skip")


def test_an_image_beside_the_folders_is_found() -> None:
    images()
    write("images/stray.png", png(1))
    assert "images/stray.png: is not in a class folder" in mistake(IMAGES)
    assert check(IMAGES, on_bad_record="skip").rows_seen.by_split == {"": 80}


@pytest.mark.parametrize("unit", ["file", "line"])
def test_a_text_that_is_not_utf_8_is_found(unit: str) -> None:
    texts()
    Path("texts/good/00003.txt").write_bytes("groß".encode("latin-1"))
    source = {**TEXTS["data"]["source"], "unit": unit}
    assert "texts/good/00003.txt:1: is not UTF-8: byte 0xdf" in mistake(TEXTS, source=source)


def test_lines_of_eight_files_in_turn_of_the_folders_are_looked_at() -> None:
    texts(10)
    source = {**TEXTS["data"]["source"], "unit": "line"}
    seen = check(TEXTS, source=source).rows_seen
    assert (seen.by_split, seen.whole) == ({"": 8}, frozenset())
