"""What there is to read: spans, their files, and a fingerprint that changes when the files do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from headrace.common.errors import DataError
from headrace.common.storage.files import FileState, stats


@dataclass(frozen=True)
class Span:
    """Data that arrived together.

    Attributes:
        number: the span's number; for dates, days since 1970-01-01.
        files: the files in it.
        name: what users call it, such as `12` or `2026-11-20`; "" for data without spans.
        version: of the span, if its path has one.
        splits: the split of each file, if splits have their own files.
    """

    number: int
    files: tuple[FileState, ...]
    name: str = ""
    version: int | None = None
    splits: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    def of_split(self, split: str) -> Span:
        own = [file for file, its in zip(self.files, self.splits, strict=True) if its == split]
        return replace(self, files=tuple(own), splits=())

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal digits, of all paths, sizes and marks."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


@dataclass(frozen=True)
class SpanManifest:
    """The spans that a run reads.

    Attributes:
        spans: in the order of their numbers.
        checksums: whether the files' marks are checksums of their content.
        missing: the names of the first spans that were asked for and do not exist.
        missing_count: the number of all such spans.
        repeated: lines about files that were found under several names.
    """

    spans: tuple[Span, ...]
    checksums: bool = False
    missing: tuple[str, ...] = ()
    missing_count: int = 0
    repeated: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[str]) -> SpanManifest:
        """Data without spans: the files as they are now."""
        return cls((Span(0, tuple(stats(sorted(paths)))),))

    @property
    def paths(self) -> list[str]:
        return [path for span in self.spans for path in span.paths]

    @property
    def to_train_on(self) -> tuple[Span, ...]:
        """The spans; if splits have files of their own, those with files of `train`."""
        return tuple(span for span in self.spans if not span.splits or "train" in span.splits)

    @property
    def newest_to_train_on(self) -> Span:
        """The newest of these; the newest span if there are none."""
        return (self.to_train_on or self.spans)[-1]

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal digits, of the spans' fingerprints."""
        return hashlib.sha256("".join(span.fingerprint for span in self.spans).encode()).hexdigest()

    def to_json(self) -> str:
        """The manifest as the artifact of Spans holds it."""
        return json.dumps({**asdict(self), "fingerprint": self.fingerprint})

    @classmethod
    def from_json(cls, text: str) -> SpanManifest:
        """Read the output of `to_json`."""
        values = json.loads(text)
        spans = [
            Span(**{**span, "files": tuple(FileState(**file) for file in span["files"]), "splits": tuple(splits)})
            for span in values["spans"]
            for splits in (span.get("splits", ()),)  # older versions wrote none
        ]
        missing, repeated = tuple(values["missing"]), tuple(values["repeated"])
        return cls(tuple(spans), values["checksums"], missing, values["missing_count"], repeated)


def check_unchanged(span: Span, *, checksums: bool) -> None:
    """Raise DataError if a file of the span has changed since it was listed."""
    for file, now in zip(span.files, stats(span.paths), strict=True):
        if now.size != file.size or (not checksums and now.mark != file.mark):
            raise DataError(
                "the file changed during the run", file=file.path, hint="Run again when nothing writes to it"
            )
