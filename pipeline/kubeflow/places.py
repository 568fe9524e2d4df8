"""Where things lie: remote URIs, and the paths in a pod that stand for them.

Kubeflow's launcher copies `s3://bucket/x` to and from `/s3/bucket/x`, and so for `gs` (`/gcs`) and `minio`. With
artifacts by reference, the same paths lie below the shared volume's mount, where the launcher finds nothing to copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SCHEMES = {"gs://": "/gcs/", "s3://": "/s3/", "minio://": "/minio/"}
"""As in the launcher's LocalPathForURI."""
RECORD = "record"
"""Output artifact of a component that has no other: what its parameters say, as a file."""
BELOW_HOME = 4
"""`<pipeline's folder>/<run>/<task>/<salt>/<output>` is the URI of an output."""


@dataclass(frozen=True)
class Places:
    """`root`: what stands before a pod's paths, "" in a pod; `mount`: the shared volume's, "" for staged artifacts."""

    root: str = ""
    mount: str = ""

    def launchers(self, path: str) -> Path:
        """A path that the launcher gave, such as that of the output file."""
        return Path(self.root + path)

    def local(self, uri: str) -> Path:
        """The path that stands for a remote URI. ValueError for one that Kubeflow has no path for."""
        for scheme, folder in SCHEMES.items():
            if uri.startswith(scheme):
                return Path(self.root + self.mount + folder + uri.removeprefix(scheme))
        raise ValueError(f"{uri} is in no object store that Kubeflow copies from ({', '.join(SCHEMES)})")

    def remote(self, path: str | Path) -> str | None:
        """The URI that a path stands for; None for a path that stands for none."""
        for scheme, folder in SCHEMES.items():
            start = self.root + self.mount + folder
            if str(path).startswith(start):
                return scheme + str(path).removeprefix(start)
        return None


def home_of(output_uri: str) -> str:
    """The URI of the pipeline's folder, in which runs keep their artifacts, from that of any output."""
    return output_uri.rsplit("/", BELOW_HOME)[0]
