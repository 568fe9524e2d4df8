"""What decides the content of a snapshot, as digests."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from headrace.trainer.input import packing, varying

CODE = (packing, varying)
"""The modules whose code turns records into what is stored."""
_NAMES = {
    "graph": "the transform graph",
    "examples": "the examples",
    "code": "the code that parses them, or TensorFlow",
}


@dataclass(frozen=True)
class Key:
    """Equal keys, equal snapshots."""

    graph: str
    examples: str
    """Of the content of the files, in their order."""
    code: str

    @classmethod
    def of(cls, graph: Path, files: Sequence[str]) -> Key:
        """graph: the Transform component's folder; files: TFRecord files of one split."""
        inside = sorted(path for path in graph.rglob("*") if path.is_file())
        names = [str(path.relative_to(graph)) for path in inside]
        code = [Path(str(module.__file__)) for module in CODE]
        sources = _digest([Path(__file__), *code])
        return cls(
            graph=hashlib.sha256(json.dumps([names, _digest(inside)]).encode()).hexdigest(),
            examples=_digest(map(Path, files)),
            code=hashlib.sha256(f"{tf.__version__} {sources}".encode()).hexdigest(),
        )

    @property
    def digest(self) -> str:
        """Of all of it."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()

    def differs(self, other: Key) -> str:
        """In what, in words."""
        mine, others = dataclasses.asdict(self), dataclasses.asdict(other)
        return " and ".join(words for name, words in _NAMES.items() if mine[name] != others[name])


def _digest(files: Iterable[Path]) -> str:
    """Of the contents of the files, one after the other."""
    parts = []
    for file in files:
        with file.open("rb") as opened:
            parts.append(hashlib.file_digest(opened, "sha256").hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
