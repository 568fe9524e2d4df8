"""The folder in a bucket of S3 or Google Cloud Storage, as a static website has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.configs.errors import DataError, RunError

if TYPE_CHECKING:
    from headrace.components.example_gen.remote.filesystems import ObjectLocation
    from headrace.pipeline.report.run_folder import RunFolder

SCHEMES = ("gs://", "s3://", "minio://")
_TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json"}
_RIGHTS = {"s3": "s3:PutObject", "gs": "storage.objects.create"}


@dataclass(frozen=True)
class BucketUpload:
    """A place in a bucket; what lies there under the same names is replaced."""

    place: ObjectLocation

    @classmethod
    def of(cls, url: str) -> BucketUpload:
        """RunError where it is no such place."""
        from headrace.components.example_gen.remote.filesystems import parse_location

        if not url.startswith(SCHEMES):
            raise RunError(f"--to {url}: not a bucket; write gs://bucket/path or s3://bucket/path")
        try:
            return cls(replace(place := parse_location(url), key=place.key.strip("/")))
        except DataError as error:
            raise RunError(f"--to {url}: {error}") from None

    def send(self, folder: Path, folders: Sequence[RunFolder], name: str, description: str) -> str:  # noqa: ARG002
        """Copy all files, the page last, so that it never shows what is not there yet; returns the page's address."""
        from headrace.pipeline.share import PAGE

        files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name == PAGE)
        for file in files:
            self._put(file, file.relative_to(folder).as_posix())
        return f"{self._at(PAGE)}  {len(files)} files"

    def _at(self, name: str) -> ObjectLocation:
        return replace(self.place, key=f"{self.place.key}/{name}" if self.place.key else name)

    def _put(self, file: Path, name: str) -> None:
        from headrace.components.example_gen.remote.errors import object_error
        from headrace.components.example_gen.remote.filesystems import filesystem

        place = self._at(name)
        try:
            system = filesystem(place)
            with system.open_output_stream(place.arrow, metadata={"Content-Type": content_type(name)}) as stream:
                stream.write(file.read_bytes())
        except OSError as error:
            why = object_error(error, str(place))
            denied = f"; writing needs {_RIGHTS[place.scheme]}" if "denied" in why.what else ""
            raise RunError(f"the page was not uploaded: {why}{denied}") from None


def content_type(name: str) -> str:
    """What a browser is told that the file is; an object without it would be downloaded, not shown."""
    return _TYPES.get(Path(name).suffix, "application/octet-stream")
