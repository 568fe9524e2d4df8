"""What there is to read: spans, the files of each, and a fingerprint that changes when they do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from headrace.components.example_gen.storage import FileState, stats
from headrace.configs.errors import DataError


@dataclass(frozen=True)
class Span:
    """Data that arrived together. `name`: as people know it (`12`, `2026-11-20`); "" for data without spans."""

    number: int
    files: tuple[FileState, ...]
    name: str = ""
    version: int | None = None

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [file.path for file in self.files]

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal digits, of all paths, sizes and marks."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


@dataclass(frozen=True)
class Manifest:
    """Spans in the order of their numbers. `checksums`: whether marks are checksums of the content; `missing`: names of
    the first spans that are asked for and are not there, `missing_count`: how many there are of them; `repeated`: lines
    on files that were found under several names.
    """

    spans: tuple[Span, ...]
    checksums: bool = False
    missing: tuple[str, ...] = ()
    missing_count: int = 0
    repeated: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[str]) -> Manifest:
        """Data without spans: the files as they are now."""
        return cls((Span(0, tuple(stats(sorted(paths)))),))

    @property
    def paths(self) -> list[str]:
        """The paths of all files."""
        return [path for span in self.spans for path in span.paths]

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal digits, of those of the spans."""
        return hashlib.sha256("".join(span.fingerprint for span in self.spans).encode()).hexdigest()

    def to_json(self) -> str:
        """The manifest as it stands in the artifact of Spans."""
        return json.dumps({**asdict(self), "fingerprint": self.fingerprint})

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` wrote."""
        told = json.loads(text)
        spans = [
            Span(**{**span, "files": tuple(FileState(**file) for file in span["files"])}) for span in told["spans"]
        ]
        missing, repeated = tuple(told["missing"]), tuple(told["repeated"])
        return cls(tuple(spans), told["checksums"], missing, told["missing_count"], repeated)


def check_unchanged(span: Span, *, checksums: bool) -> None:
    """Raise DataError if a file of the span is no longer as it was."""
    for file, now in zip(span.files, stats(span.paths), strict=True):
        if now.size != file.size or (not checksums and now.mark != file.mark):
            raise DataError(
                "the file changed during the run", file=file.path, hint="Run again when nothing writes to it"
            )
