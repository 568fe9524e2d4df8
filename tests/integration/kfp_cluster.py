"""A cluster around a stock release's API server, driver and launcher, and what a pipeline does in it.

with bucket_of_runs(s3_server) as bucket, cluster(server, binary, bucket, folder) as there:
    chosen = there.uploaded(file)
    tasks = ended_tasks(there.database, there.run(chosen, epochs=3).run_id)

What stands for the rest of it: a process that follows the Argo workflow (kfp_argo), pods as processes that have their
own `/minio` (kfp_kubernetes), ML Metadata's own store behind gRPC (kfp_metadata), and the S3 server of s3_servers.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from go_programs import started
from kfp_argo import Argo, Programs
from kfp_kubernetes import Kubernetes, Pod, pods_work
from kfp_server import Server, build_command
from kfp_workflows import tell
from s3_servers import S3Server

BUCKET = "mlpipeline"
PIPELINE_ROOT = f"minio://{BUCKET}/v2/artifacts"
SECRET = "mlpipeline-minio-artifact"
PROVIDERS = """
minio:
  default:
    endpoint: %s
    region: %s
    disableSSL: true
    credentials: {fromEnv: false, secretRef: {secretName: %s, accessKeyKey: accesskey, secretKeyKey: secretkey}}
"""


@dataclass(frozen=True)
class Bucket:
    """The bucket of the runs on an S3 server."""

    at: S3Server
    client: Any

    @property
    def server(self) -> str:
        """Its URL."""
        return self.at.url

    def names(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def copy(self, folder: Path) -> Path:
        """All of it in a folder."""
        for name in self.names():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(BUCKET, name, str(path))
        return folder


@contextlib.contextmanager
def bucket_of_runs(server: S3Server) -> Iterator[Bucket]:
    """An empty bucket."""
    with server.bucket(BUCKET) as made:
        yield Bucket(server, made.meta.client)


@dataclass(frozen=True)
class ClusterRun:
    """A run that ended. `pods`: the last of each task; `nodes`: Argo's, by their names after the workflow's."""

    run_id: str
    name: str
    pods: Mapping[str, Pod]
    nodes: Mapping[str, Any]


@dataclass(frozen=True)
class Cluster:
    """All that a run needs."""

    server: Server
    kubernetes: Kubernetes
    programs: Programs
    metadata: str
    database: Path
    _numbers: list[int] = field(default_factory=list)

    def argo(self, workflow: Any, *, stops: bool = False) -> Argo:
        """What runs a workflow."""
        return Argo(workflow, self.kubernetes, self.programs, services(self.server, self.metadata), stops)

    def uploaded(self, file: Path, name: str = "") -> Mapping[str, str]:
        """A compiled pipeline, as a version on the server; it is called as the folder is, unless there is a name."""
        pipeline = self._client.upload_pipeline(str(file), pipeline_name=name or file.parent.name)
        version = self._client.list_pipeline_versions(pipeline.pipeline_id).pipeline_versions[0]
        return {"pipeline_id": pipeline.pipeline_id, "version_id": version.pipeline_version_id}

    def run(self, chosen: Mapping[str, str], **parameters: object) -> ClusterRun:
        """Run it to its end."""
        run = self.submitted(chosen, **parameters)
        argo = self.argo(self.server.executed(run.run_id))
        try:
            argo.run()
        finally:
            tell(self.server, run.run_id, argo.status)
        nodes = {name.removeprefix(argo.name): node for name, node in argo.nodes.items()}
        return ClusterRun(run.run_id, run.display_name, argo.pods, nodes)

    def submitted(self, chosen: Mapping[str, str], **parameters: object) -> Any:
        """The run, which nothing runs yet."""
        self._numbers.append(len(self._numbers))
        experiment = self._client.create_experiment("Default").experiment_id
        name = "-".join(map(str, ["run", self._numbers[-1], *parameters.values()]))
        return self._client.run_pipeline(experiment, name, params=parameters, pipeline_root=PIPELINE_ROOT, **chosen)

    @property
    def _client(self) -> Any:
        from kfp.client import Client

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of the client, about servers before 2.0
            return Client(host=self.server.url)


@contextlib.contextmanager
def cluster(
    server: Server,
    binary: Path,
    bucket: Bucket,
    folder: Path,
    *,
    shared: Sequence[Path] = (),
    claims: Mapping[str, Path] | None = None,
) -> Iterator[Cluster]:
    """A cluster whose own files are in a folder. `shared`: folders that every pod sees; `claims`: the volumes that
    there are, each a folder. Skips the test where no pods can be run.
    """
    if why := pods_work():
        pytest.skip(why)
    programs = Programs(build_command(binary, "driver"), build_command(binary, "launcher-v2"))
    providers = PROVIDERS % (bucket.server.removeprefix("http://"), bucket.at.region, SECRET)
    launcher = {"defaultPipelineRoot": PIPELINE_ROOT, "providers": providers}
    keys = {"accesskey": bucket.at.access_key, "secretkey": bucket.at.secret_key}
    objects = {"secrets": {SECRET: keys}, "configmaps": {"kfp-launcher": launcher}}
    database = folder / "metadata.sqlite"
    program = (sys.executable, str(Path(__file__).with_name("kfp_metadata.py")), str(database))
    with (
        started(folder / "metadata.log", *program) as metadata,
        Kubernetes(folder, objects, [binary.parent, *shared], claims or {}) as kubernetes,
    ):
        yield Cluster(server, kubernetes, programs, metadata, database)


def services(server: Server, metadata: str) -> dict[str, str]:
    """Where the driver finds what a cluster has names for."""
    found = {"--ml_pipeline_server": server.services, "--mlmd_server": metadata}
    split = {name: address.split(":") for name, address in found.items()}
    return {
        option: value
        for name, (host, port) in split.items()
        for option, value in ((f"{name}_address", host), (f"{name}_port", port))
    }
