"""The strings in Python files as texts: documentation, and all else that stands in quotes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.components.example_gen.text.read import Texts, whole
from headrace.configs.errors import DataError


def strings(paths: Sequence[str]) -> Iterator[Texts]:
    """The strings of some files at a time, in the order in which they stand there; those inside an f-string are left
    out, and adjacent ones are one, as Python has it.
    """
    for files in whole(paths):
        values, own, offsets = [], [], []
        for path, source in zip(files.paths, files.values.to_pylist(), strict=True):
            for offset, text in _strings(source, path):
                values.append(text)
                own.append(path)
                offsets.append(offset)
        yield Texts(pa.array(values, pa.binary()), own, np.array(offsets, np.int64))


def _strings(source: bytes, path: str) -> list[tuple[int, bytes]]:
    """(byte at which it starts, text)."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        hint = "With `data.source.unit: file` a file is one text, whatever it holds"
        raise DataError(f"is no Python of this version: {error}", file=path, line=line, hint=hint) from None
    starts = np.cumsum([0, *map(len, source.splitlines(keepends=True))])
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    found = [
        (int(starts[node.lineno - 1]) + node.col_offset, node.value.encode("utf-8", "replace"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside
    ]
    return sorted(found)
