"""Good records, of which every value follows from an id, and bad ones, lines and whole files."""

import gzip
import json
import random
import struct
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from google_crc32c import value as crc32c

KINDS = ["csv", "jsonl", "tfrecord"]
ROWS = 400
HEAD = b"id,text,number\n"


def values(number: int) -> dict[str, Any]:
    return {"id": number, "text": f"text {number}, \N{LATIN SMALL LETTER E WITH ACUTE}", "number": number / 2}


def framed(record: bytes) -> bytes:
    """A TFRecord, by its specification."""

    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def example(row: dict[str, Any]) -> bytes:
    train = tf.train
    feature = {
        "id": train.Feature(int64_list=train.Int64List(value=[row["id"]])),
        "text": train.Feature(bytes_list=train.BytesList(value=[row["text"].encode()])),
        "number": train.Feature(float_list=train.FloatList(value=[row["number"]])),
    }
    return bytes(train.Example(features=train.Features(feature=feature)).SerializeToString())


def record(kind: str, number: int) -> bytes:
    row = values(number)
    if kind == "csv":
        return f'{row["id"]},"{row["text"]}",{row["number"]}\n'.encode()
    if kind == "jsonl":
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    return framed(example(row))


def content(kind: str, *bad: bytes, at: int = ROWS // 2) -> bytes:
    """Good records, with some bad ones among them."""
    good = [record(kind, number) for number in range(ROWS)]
    return (HEAD if kind == "csv" else b"") + b"".join([*good[:at], *bad, *good[at:]])


BAD_LINES: dict[str, list[bytes | bytearray]] = {
    "csv": [
        b"7,x\n",
        b"7,x,1,2\n",
        b"7" + b",x" * 10_000 + b"\n",
        b"seven,x,1\n",
        b"7.5,x,1\n",
        b"99999999999999999999,x,1\n",
        b"7,\xe9,1\n",
        b"\xff\xfe,x,1\n",
        b"7,x,one\n",
        b"7\0,x,1\n",
        b"\0\0\0\0\n",
        b"<<<<<<< HEAD\n",
        b"7;x;1\n",
        b"{\"id\":7}\n",
    ],
    "jsonl": [
        b'{"id":7,"text":"x"\n',
        b'{"id":"seven","text":"x","number":1}\n',
        b'{"id":7.5,"text":"x","number":1}\n',
        b'{"id":99999999999999999999,"text":"x","number":1}\n',
        b'{"id":7,"text":"\xe9","number":1}\n',
        b'{"id":7,"text":"x","number":"one"}\n',
        b'{"id":7,"text":"x","number":NaN}\n',
        b'{"id":7,"text":"x","number":1e999}\n',
        b'{"id":7,"text":"x","number":1,"id":8}\n',
        b'{"id":7,"text":{"x":1},"number":1}\n',
        b'{"id":7,"text":["x"],"number":1}\n',
        b'{"id":7,"text":"x\0","number":1}\n',
        b'{"id":7,"text":"\\udc00","number":1}\n',
        b"\0\0\0\0\n",
        b"[7]\n",
        b'{"id":7} {"id":8}\n',
        b'{"id":' + b"[" * 50_000 + b"\n",
        b"{" + b",".join(b'"c%d":%d' % (number, number) for number in range(10_000)) + b',"id":[[]]}\n',
        b"<<<<<<< HEAD\n",
    ],
    "tfrecord": [
        framed(b"no example"),
        framed(b"\xff" * 100),
        framed(b"\x0a\x7f"),
        framed(example({"id": 7, "text": "x", "number": 1.0}) + b"\x0a"),
        framed(example({"id": 7, "text": "x", "number": 1.0}))[:-1] + b"?",
        bytearray(framed(example({"id": 7, "text": "x", "number": 1.0}))[:8]) + b"????"
        + framed(example({"id": 7, "text": "x", "number": 1.0}))[12:],
        framed(example({"id": 7, "text": "x", "number": 1.0}).replace(b"\x0a\x01x", b"\x0a\x01\xff")),
        framed(tf.train.Example(features=tf.train.Features(feature={
            "id": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"seven"]))})).SerializeToString()),
        framed(tf.train.Example(features=tf.train.Features(feature={
            "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[7, 8]))})).SerializeToString()),
        framed(tf.train.Example(features=tf.train.Features(feature={
            "id": tf.train.Feature(float_list=tf.train.FloatList(value=[7.5]))})).SerializeToString()),
    ],
}  # fmt: skip


def whole(kind: str, text: bytes) -> int:
    """The records that are whole in the first bytes of a file."""
    if kind != "tfrecord":
        return text.count(b"\n") - (kind == "csv")
    ends, place = [], 0
    for number in range(ROWS):
        place += len(record(kind, number))
        ends.append(place)
    return sum(end <= len(text) for end in ends)


def _random(_text: bytes) -> bytes:
    return random.Random(1).randbytes(20_000)


WHOLE_FILES: dict[str, Callable[[bytes], bytes]] = {
    "no bytes": lambda _text: b"",
    "only newlines": lambda _text: b"\n" * 1000,
    "only carriage returns and newlines": lambda _text: b"\r\n" * 1000,
    "only zero bytes": lambda _text: b"\0" * 1000,
    "only a byte order mark": lambda _text: b"\xef\xbb\xbf",
    "random bytes": _random,
    "UTF-16 with a mark": lambda text: text.decode("latin-1").encode("utf-16"),
    "UTF-16 without a mark": lambda text: text.decode("latin-1").encode("utf-16-le"),
    "UTF-32": lambda text: text.decode("latin-1").encode("utf-32"),
    "a web page": lambda _text: b"<!DOCTYPE html>\n<html><body>404, not found</body></html>\n",
    "gzip under a plain name": gzip.compress,
    "gzip twice": lambda text: gzip.compress(gzip.compress(text)),
    "a ZIP file": lambda text: b"PK\x03\x04\x14\0\0\0\x08\0" + _random(text),
    "a Parquet file": lambda text: b"PAR1\x15\0\x15" + text[:100] + b"PAR1",
    "records in reverse": lambda text: text[::-1],
}
