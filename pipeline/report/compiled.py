"""Compiled templates in the user's cache folder: compiling them takes longer than all else that writes a report.

Environment(..., bytecode_cache=CompiledTemplates("page"))

An entry counts only for the same source of the template, the same Jinja and Python, and with an intact checksum. If the
folder cannot be written, each process compiles for itself.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from headrace.common.durable import write_bytes
from headrace.common.environment import cache_folder

_CRC_BYTES = 4


class CompiledTemplates(BytecodeCache):
    """environment: names the settings of the environment, which decide what templates are compiled to."""

    def __init__(self, environment: str) -> None:
        self._environment = environment

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            content = self._file(bucket).read_bytes()
            if content[:_CRC_BYTES] == _crc(content[_CRC_BYTES:]):
                bucket.bytecode_from_string(content[_CRC_BYTES:])

    def dump_bytecode(self, bucket: Bucket) -> None:
        content = bucket.bytecode_to_string()
        with contextlib.suppress(OSError, RuntimeError):
            write_bytes(self._file(bucket), _crc(content) + content)

    def _file(self, bucket: Bucket) -> Path:
        return cache_folder() / "templates" / f"{self._environment}-{bucket.key}"


def _crc(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CRC_BYTES, "big")
