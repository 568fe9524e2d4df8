"""A PostgreSQL server of the test's own: in a temporary folder, on a free port and a Unix socket, gone afterwards."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.trainer.service.ports import free_port

PASSWORD = "s3cret-of-the-test"


def binaries() -> str | None:
    """The folder of the newest server that Debian's package `postgresql` installed; None where there is none."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    return str(Path(max(found, key=lambda path: int(path.split("/")[4]))).parent) if found else None


@dataclass
class Server:
    """A running server. `url`: without the password, which is PASSWORD."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        """The URL for SQLAlchemy."""
        return f"postgresql+psycopg://reader@127.0.0.1:{self.port}/postgres"

    @property
    def conninfo(self) -> str:
        """What psycopg connects with."""
        return f"host=127.0.0.1 port={self.port} user=reader dbname=postgres password={PASSWORD}"

    def start(self) -> None:
        """Take connections."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=50"
        self._control("-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        """Break off all connections at once."""
        self._control("-m", "immediate", "stop")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-t", "600", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        run_as_owner([f"{binaries()}/{program}", *arguments], self.folder)


@contextmanager
def server() -> Iterator[Server]:
    """A new database cluster with the superuser `reader`, who needs a password."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # not below pytest's folder, which others than root cannot enter
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
    made = Server(folder, port)
    try:
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        made._run(
            *("initdb", "-D", str(folder / "data"), "-U", "reader", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"),
            *("--pwfile", str(folder / "password"), "--locale=C"),
        )
        made.start()
        try:
            yield made
        finally:
            subprocess.run(
                [f"{binaries()}/pg_ctl", "-D", str(folder / "data"), "-m", "immediate", "stop"],
                check=False,
                **_owner(),
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_as_owner(command: Sequence[str], folder: Path) -> None:
    """Run a program of the server, which refuses to run as root."""
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, **_owner())


def _owner() -> dict[str, Any]:
    return {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
