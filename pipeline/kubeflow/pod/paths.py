"""Where files are in a pod: remote URIs and the local paths that stand for them, and placeholders for a pod's folders.

Kubeflow's launcher copies `s3://bucket/x` to and from `/s3/bucket/x`, and likewise for `gs` (`/gcs`) and `minio`. With
`kubeflow.storage: reference`, the same paths are below the mount of the shared volume, where the launcher finds nothing
to copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = "HEADRACE_POD"
"""Environment variable for tests: a folder that stands for the pod's root."""
SCHEMES = {"gs://": "/gcs/", "s3://": "/s3/", "minio://": "/minio/"}
"""As in the launcher's LocalPathForURI."""
RECORD = "record"
"""Output artifact of a component that has no other: a file with the values of its output parameters."""
PARTS_BELOW_HOME = 4
"""The URI of an output is `<the pipeline's folder>/<run>/<task>/<salt>/<output>`."""
HOME = "/headrace-home"
"""Placeholder for the pipeline's folder in the properties of a compiled component."""
FILES = "/headrace-files"
"""Placeholder for the folder of the files that were compiled in."""


@dataclass(frozen=True)
class PodPaths:
    """The mapping between remote URIs and paths in a pod.

    root: prefix of all paths of the pod, "" in a real one; mount: mount path of the shared volume, "" with
    `kubeflow.storage: staged`.
    """

    root: str = ""
    mount: str = ""

    @property
    def shared(self) -> str:
        return self.root + self.mount

    def launcher_file(self, path: str) -> Path:
        """The file at a path that the launcher gave, such as the output file."""
        return Path(self.root + path)

    def local(self, uri: str) -> Path:
        """The path that stands for a remote URI. Raises ValueError for a scheme that Kubeflow does not copy from."""
        for scheme, folder in SCHEMES.items():
            if uri.startswith(scheme):
                return Path(self.root + self.mount + folder + uri.removeprefix(scheme))
        raise ValueError(f"{uri} is not in an object store that Kubeflow copies from ({', '.join(SCHEMES)})")

    def remote(self, path: str | Path) -> str | None:
        """The URI that a path stands for, or None if it stands for none."""
        for scheme, folder in SCHEMES.items():
            start = self.root + self.mount + folder
            if str(path).startswith(start):
                return scheme + str(path).removeprefix(start)
        return None


def home_of(output_uri: str) -> str:
    """The URI of the pipeline's folder, which holds the artifacts of all runs, from the URI of any output."""
    return output_uri.rsplit("/", PARTS_BELOW_HOME)[0]


def sibling(uri: str, name: str) -> str:
    """The URI of a file or folder next to an object."""
    return f"{uri.rpartition('/')[0]}/{name}"


def fill_placeholders(properties: Mapping[str, Any], home: Path, files: Path) -> dict[str, Any]:
    """The properties with this pod's own paths instead of the placeholders HOME and FILES."""
    return {
        key: value.replace(HOME, str(home)).replace(FILES, str(files)) if isinstance(value, str) else value
        for key, value in properties.items()
    }
