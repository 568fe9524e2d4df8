"""Reading images: scikit-learn's handwritten digits as PNG files, and all that a folder of images may hold."""

import csv
import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_digits
from stores import Bucket

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples import parts as parts_module
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.images import source as images_module
from headrace.components.sources.images.image import BadImageError, read_header
from headrace.components.sources.images.listing import has_images
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import ImagesSource


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    found = load_digits()
    with open(folder / "index.csv", "w", encoding="utf-8", newline="") as file:
        index = csv.writer(file)
        index.writerow(["image", "digit", "code"])
        for number, (pixels, target) in enumerate(zip(found.images, found.target, strict=True)):
            path = folder / "by_class" / f"digit {target}" / f"{number % 900:04}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tf.io.encode_png(pixels[:, :, None].astype(np.uint8)).numpy())
            index.writerow([path.relative_to(folder), target, f"{number:05}"])
    return folder


def config(**source: object) -> DataConfig:
    return DataConfig.model_validate({"source": {"kind": "images", **source}})


def read(source: dict, *, skip_bad: bool = False, declared: dict | None = None) -> tuple[ScanResult, list[dict]]:
    opened = open_source(config(**source).source, options=ReadOptions(skip_bad=skip_bad))
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, declared or {}) for part in parts), ScanResult())
    rows = [row for part in parts for batch in opened.batches(part, scan.kinds) for row in batch.to_pylist()]
    assert sum(scan.rows.values()) == len(rows)
    assert list(scan.kinds) == opened.columns()
    return scan, rows


def examples(folder: Path) -> Iterator[dict]:
    for path in sorted(folder.rglob("*.gz")):
        for record in tf.data.TFRecordDataset(str(path), compression_type="GZIP"):
            features = tf.train.Example.FromString(record.numpy()).features.feature
            yield {name: getattr(value, value.WhichOneof("kind")).value[0] for name, value in features.items()}


@pytest.mark.parametrize("decode", [False, True])
def test_all_the_digits_come_out_as_the_arrays_that_went_in(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, decode: bool
) -> None:
    monkeypatch.setattr(images_module, "BATCH", 10_000)
    for name in ("SMALLEST_PART", "LARGEST_PART"):
        monkeypatch.setattr(parts_module, name, 50_000)
    data = config(path=str(digits / "by_class"), decode=decode)
    ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    found = list(examples(tmp_path / "out"))
    originals = load_digits()
    expected = sorted((f"digit {target}".encode(), pixels.astype(np.uint8).tobytes()) for pixels, target in
                      zip(originals.images, originals.target, strict=True))  # fmt: skip
    pixels = [
        (row["label"], row["image"] if decode else tf.io.decode_png(row["image"]).numpy().tobytes()) for row in found
    ]
    assert len(found) == 1797
    assert sorted(pixels) == expected
    assert {(row["height"], row["width"], row["channel"]) for row in found} == {(8, 8, 1)}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_index_gives_its_own_columns(digits: Path, tmp_path: Path, form: str) -> None:
    index = digits / "index.csv"
    if form == "parquet":
        rows = list(csv.DictReader(index.open()))
        index = tmp_path / "index.parquet"
        table = {"image": [row["image"] for row in rows], "digit": [int(row["digit"]) for row in rows]}
        pq.write_table(pa.table({**table, "code": [row["code"] for row in rows]}), index)
    scan, found = read({"index": str(index), "path": str(digits)})
    originals = load_digits()
    assert scan.kinds == {
        **dict.fromkeys(("height", "width", "channel", "digit"), "int"),
        "image": "bytes",
        "code": "string",
    }
    assert [row["digit"] for row in found] == originals.target.tolist()
    assert [row["code"] for row in found[:2]] == ["00000", "00001"]
    assert all(
        np.array_equal(tf.io.decode_png(row["image"])[:, :, 0], pixels)
        for row, pixels in zip(found[::100], originals.images[::100], strict=True)
    )
    manifest = find_spans(config(index=str(index), path=str(digits)))
    assert len(manifest.paths) == 1798


def test_a_declared_type_of_the_index_takes_values_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(packed(Image.new("L", (2, 3)), "PNG"))
    (tmp_path / "i.csv").write_text("image,x\na.png,1.50\n")
    source = {"index": str(tmp_path / "i.csv")}
    assert read(source)[1][0]["x"] == 1.5
    assert read(source, declared={"x": "string"})[1][0]["x"] == "1.50"


def packed(image: Image.Image, form: str, **more: object) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **more)
    return out.getvalue()


def noise(*shape: int, kind: type = np.uint8) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, np.iinfo(kind).max, shape, dtype=kind))


RGB = noise(20, 30, 3)
READABLE = {
    "rgb.png": packed(RGB, "PNG"),
    "gray.png": packed(RGB.convert("L"), "PNG"),
    "gray_transparent.png": packed(RGB.convert("L"), "PNG", transparency=3),
    "gray_alpha.png": packed(RGB.convert("LA"), "PNG"),
    "one_bit.png": packed(RGB.convert("1"), "PNG"),
    "palette.png": packed(RGB.convert("P"), "PNG"),
    "palette_transparent.png": packed(RGB.convert("P"), "PNG", transparency=0),
    "rgba.png": packed(RGB.convert("RGBA"), "PNG"),
    "sixteen_bits.png": packed(noise(20, 30, kind=np.uint16), "PNG"),
    "animated.png": packed(RGB, "PNG", save_all=True, append_images=[noise(20, 30, 3)] * 2),
    "rgb.jpg": packed(RGB, "JPEG"),
    "gray.jpg": packed(RGB.convert("L"), "JPEG"),
    "progressive.jpg": packed(RGB, "JPEG", progressive=True),
    "cmyk.jpg": packed(RGB.convert("CMYK"), "JPEG"),
    "turned.jpg": packed(RGB, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"),
    "thumbnail.jpg": packed(RGB, "JPEG", exif=b"Exif\0\0" + packed(RGB.resize((4, 4)), "JPEG")),
    "comment_after.jpg": packed(RGB, "JPEG") + b"more",
    "a_png_by.jpg": packed(RGB, "PNG"),
    "no_ending": packed(RGB, "JPEG"),
}


@pytest.mark.parametrize("name", READABLE)
def test_size_and_channels_are_what_the_decoder_gives(tmp_path: Path, name: str) -> None:
    (tmp_path / "all" / "x").mkdir(parents=True)
    (tmp_path / "all" / "x" / name).write_bytes(READABLE[name])
    decoded = tf.io.decode_image(READABLE[name], expand_animations=False).numpy()
    for decode in (False, True):
        (row,) = read({"path": str(tmp_path / "all"), "decode": decode})[1]
        assert (row["height"], row["width"], row["channel"]) == decoded.shape
        assert row["image"] == (decoded.tobytes() if decode else READABLE[name])


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]


PNG, JPEG = READABLE["rgb.png"], READABLE["rgb.jpg"]
HUGE = struct.pack(">IIBBBBB", 10**9, 10**9, 8, 2, 0, 0, 0)
BAD = {
    "empty.png": (b"", "is empty"),
    "zeros.jpg": (bytes(500), "nothing but zeros"),
    "notes.txt": (b"these are notes", "something else, not a JPEG or PNG"),
    "moving.gif": (packed(RGB, "GIF"), "is GIF, not"),
    "web.jpg": (packed(RGB, "WEBP"), "is WebP, not"),
    "half.png": (PNG[: len(PNG) // 2], "truncated"),
    "almost.png": (PNG[:-1], "truncated"),
    "head.png": (PNG[:20], "truncated"),
    "flipped.png": (flipped(PNG, len(PNG) // 2), "the checksum of b'IDAT' at byte 33 is wrong"),
    "unpackable.png": (PNG[:33] + chunk(b"IDAT", b"no zlib") + chunk(b"IEND", b""), "cannot be decoded"),
    "pixelless.png": (PNG[:33] + chunk(b"IEND", b""), "without pixels"),
    "endless.png": (PNG[:8] + chunk(b"IHDR", HUGE) + PNG[33:], "larger|decoded"),
    "half.jpg": (JPEG[: len(JPEG) // 2], "truncated"),
    "almost.jpg": (JPEG[:-2], "truncated"),
    "head.jpg": (JPEG[:30], "truncated"),
    "no_marker.jpg": (JPEG[:2] + JPEG[4:], "not a JPEG|no marker"),
    "twelve_bits.jpg": (JPEG.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c"), "12 bits each"),
    "no_tables.jpg": (JPEG.replace(b"\xff\xdb", b"\xff\xe4"), "cannot be decoded"),
}  # fmt: skip


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_what_is_not_a_whole_image_stops_the_run_or_is_left_out(tmp_path: Path, name: str, *, decode: bool) -> None:
    content, message = BAD[name]
    folder = tmp_path / "all" / "x"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    (folder / "sound").write_bytes(PNG)
    source = {"path": str(tmp_path / "all"), "decode": decode}
    with pytest.raises(DataError, match=message) as reported:
        read(source)
    assert reported.value.file == str(folder / name)
    scan, rows = read(source, skip_bad=True)
    assert [row["width"] for row in rows] == [30]
    assert scan.skipped.count == len(scan.skipped.reported) == 1
    assert scan.skipped.reported[0].startswith(f"{folder / name}: ")


def test_folders_hold_what_desktops_leave_and_two_classes_the_same_name(tmp_path: Path) -> None:
    for name in (
        "cat/1.png",
        "dog/1.png",
        "dog/deep/er/2.png",
        "dog/.DS_Store",
        "cat/Thumbs.db",
        ".git/x",
        "__MACOSX/1.png",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(PNG if name.endswith(".png") else b"no image")
    assert [row["label"] for row in read({"path": str(tmp_path)})[1]] == ["cat", "dog", "dog"]
    (tmp_path / "loose.png").write_bytes(PNG)
    with pytest.raises(DataError, match=r"loose\.png: .*class folder"):
        read({"path": f"{tmp_path}/"})
    assert read({"path": str(tmp_path)}, skip_bad=True)[0].skipped.count == 1


def test_images_without_labels_have_their_files(tmp_path: Path) -> None:
    for name in ("b.png", "a.jpg", "sub/b.png", "Thumbs.db", ".hidden.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(JPEG if name.endswith("jpg") else PNG)
    scan, rows = read({"path": str(tmp_path), "labels": "none"})
    assert list(scan.kinds) == ["image", "height", "width", "channel", "file"]
    assert [(row["file"], row["image"]) for row in rows] == [("a.jpg", JPEG), ("b.png", PNG), ("sub/b.png", PNG)]
    (tmp_path / "c.png").write_bytes(PNG[:20])
    with pytest.raises(DataError, match=r"c\.png: "):
        read({"path": str(tmp_path), "labels": "none"})
    assert len(read({"path": str(tmp_path), "labels": "none"}, skip_bad=True)[1]) == 3


def test_images_in_the_folder_itself_are_told_from_class_folders(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(PNG)
    assert not has_images(str(tmp_path))
    (tmp_path / "notes.txt").write_text("PNG")
    (tmp_path / ".1.png").write_bytes(PNG)
    (tmp_path / "Thumbs.db").write_bytes(PNG)
    os.mkfifo(tmp_path / "pipe")
    assert not has_images(str(tmp_path))
    (tmp_path / "picture").write_bytes(JPEG)
    assert has_images(f"{tmp_path}/")
    assert not has_images(str(tmp_path / "picture"))
    assert not has_images(str(tmp_path / "nowhere"))


def test_rows_of_an_index_without_an_image_are_reported_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "i.csv").write_text("file,y\na.png,1\ngone.png,2\n,3\na.png,4\n")
    source = {"index": str(tmp_path / "i.csv"), "index_column": "file"}
    with pytest.raises(DataError, match=r"gone\.png: is in the index, but"):
        read(source)
    scan, rows = read(source, skip_bad=True)
    assert [row["y"] for row in rows] == [1, 4]
    assert "has no path in its column 'file'" in scan.skipped.reported[1]
    assert find_spans(config(**source)).paths == [str(tmp_path / "a.png"), str(tmp_path / "i.csv")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"path": "{}/nowhere"}, "is not a folder"),
        ({"path": "{}/i.csv"}, "is not a folder"),
        ({"path": "{}/none"}, "no file matches"),
        ({"index": "{}/i.csv"}, "`data.source.index_column` is 'image', which is not a column"),
        ({"index": "{}/own.csv"}, "the index has a column 'height'"),
        ({"index": "{}/empty.csv"}, "the index has no rows"),
        ({"index": "{}/gone.csv"}, "no file matches"),
    ],
)
def test_what_names_no_images_is_reported(tmp_path: Path, source: dict[str, str], message: str) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "i.csv").write_text("file\na.png\n")
    (tmp_path / "own.csv").write_text("image,height\na.png,3\n")
    (tmp_path / "empty.csv").write_text("image,x\n")
    with pytest.raises(DataError, match=message):
        read({name: value.format(tmp_path) for name, value in source.items()})


def test_images_of_an_object_store_are_read_by_folder_and_by_index(s3_bucket: Bucket) -> None:
    s3_bucket.put("all/cat/1.png", PNG)
    s3_bucket.put("all/dog/deep/1.jpg", JPEG)
    s3_bucket.put("all/dog/.DS_Store", b"no image")
    s3_bucket.put("all/i.csv", "image,n\ndog/deep/1.jpg,5\ncat/1.png,6\n")
    by_index = read({"index": f"{s3_bucket.url}/all/i.csv"})[1]
    assert [(row["n"], row["image"]) for row in by_index] == [(5, JPEG), (6, PNG)]
    with pytest.raises(DataError, match=r"i\.csv: .*class folder"):
        read({"path": f"{s3_bucket.url}/all/"})
    s3_bucket.remove("all/i.csv")
    data = config(path=f"{s3_bucket.url}/all")
    assert [row["label"] for row in read({"path": f"{s3_bucket.url}/all"})[1]] == ["cat", "dog"]
    assert find_spans(data).paths == [f"{s3_bucket.url}/all/cat/1.png", f"{s3_bucket.url}/all/dog/deep/1.jpg"]
    assert [row["file"] for row in read({"path": f"{s3_bucket.url}/all", "labels": "none"})[1]] == [
        "cat/1.png",
        "dog/deep/1.jpg",
    ]
    assert [has_images(f"{s3_bucket.url}/{folder}") for folder in ("all", "all/cat/", "none")] == [False, True, False]


def test_a_pipe_among_the_images_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.png").write_bytes(PNG)
    os.mkfifo(tmp_path / "x" / "pipe")
    assert len(read({"path": str(tmp_path)})[1]) == 1


@pytest.mark.parametrize("name", READABLE)
def test_the_header_of_a_file_cut_anywhere_is_refused(name: str) -> None:
    data = READABLE[name]
    ends = {"comment_after.jpg": 4}.get(name, 0)
    for size in range(0, len(data) - 1 - ends, 7):
        with pytest.raises(BadImageError):
            read_header(data[:size])


def test_images_are_read_with_the_header_alone_where_asked(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "bad.png").write_bytes(BAD["unpackable.png"][0])
    assert len(read({"path": str(tmp_path), "check": "header"})[1]) == 1


def test_something_to_read_is_needed() -> None:
    with pytest.raises(ValueError, match="needs a `path`"):
        ImagesSource(kind="images")
    with pytest.raises(ValueError, match="`labels: none` is for a folder"):
        ImagesSource(kind="images", index="i.csv", labels="none")
