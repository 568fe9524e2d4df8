"""As much of Kubernetes as Kubeflow's driver and launcher need of it: its API for what they read, and pods.

with Kubernetes(folder, {"secrets": {"keys": {...}}, "configmaps": {}}) as kubernetes:
    pod = kubernetes.run("name", ["driver", "--type", "ROOT_DAG"], {"A": "b"})

A pod is a process in a mount namespace of its own: the machine's files, but for empty `/tmp`, `/run` and `/dev`, and
what Kubernetes mounts into each pod. So programs that write to `/minio` find a `/minio` that is theirs alone. This
takes Linux, and the right to make user namespaces.
"""

from __future__ import annotations

import base64
import datetime as dt
import http.server
import ipaddress
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from command import ROOT

NAMESPACE = "kubeflow"
ACCOUNT = "run/secrets/kubernetes.io/serviceaccount"
ENTER = """
root=$1; shift
for entry in /*; do
  case $entry in
  /tmp|/run|/dev|/minio|/s3|/gcs) mkdir -p "$root$entry" ;;
  *) if [ -L "$entry" ]; then cp -P "$entry" "$root$entry"
     elif [ -d "$entry" ]; then mkdir -p "$root$entry"; mount --rbind "$entry" "$root$entry"; fi ;;
  esac
done
mkdir -p "$root/dev/shm"
for device in null zero full random urandom; do
  touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"
done
while [ "$1" != -- ]; do mkdir -p "$root$2"; mount --rbind "$1" "$root$2"; shift 2; done
shift
exec chroot "$root" "$@"
"""


def pods_work() -> str:
    """Why no pods can be run here; "" if they can."""
    if not sys.platform.startswith("linux"):
        return "pods need Linux"
    done = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-ec",
            'mkdir -p "$0"; mount --rbind /usr "$0"',
            "/mnt",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() and f"no pods can be run here: {done.stderr.strip()}"


@dataclass(frozen=True)
class Pod:
    """A pod that ended. `root`: its own files; `deleted`: somebody deleted it while it ran."""

    name: str
    root: Path
    code: int
    log: str
    deleted: bool = False

    def read(self, path: str) -> str | None:
        """A file of its own."""
        file = Path(f"{self.root}{path}")
        return file.read_text(encoding="utf-8") if file.is_file() else None


class Kubernetes:
    """`objects`: kind (in plural) to name to data. `shared`: folders that every pod sees. `claims`: the volumes that
    pods may mount, each a folder. `asked`: the kinds and names that pods have read.
    """

    def __init__(
        self,
        folder: Path,
        objects: Mapping[str, Mapping[str, Mapping[str, str]]],
        shared: Sequence[Path] = (),
        claims: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self._folder, self._objects, self._claims = folder, objects, claims
        self.asked: set[tuple[str, str]] = set()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._deleted: set[str] = set()
        self._shared = [ROOT, Path(sys.prefix), Path(sys.base_prefix), *shared]
        self._certificate, key = certificate(folder)
        kubernetes = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body = kubernetes._answer(self.path)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def run(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        launcher: Path,
        mounts: Mapping[str, str] = MappingProxyType({}),
    ) -> Pod:
        """Run a pod's one container to its end. `launcher`: what is mounted as /kfp-launcher/launch; `mounts`: paths to
        the claims of the volumes that are mounted there.
        """
        root = self._folder / "pods" / f"{name}-{uuid.uuid4().hex[:8]}"
        self._mount(root, launcher)
        own = {"KFP_POD_NAME": name, "KFP_POD_UID": str(uuid.uuid4())}
        known = {**self._environment(), **own, **environment}
        command = [_with(known, part) for part in command]
        enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", ENTER, "pod", str(root)]
        with (root / "log").open("w") as log:
            process = subprocess.Popen(
                [*enter, *self._seen(mounts), "--", *command],
                env=known,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running[name] = process
            process.wait()
        del self._running[name]
        code = 128 - process.returncode if process.returncode < 0 else process.returncode
        return Pod(name, root, code, (root / "log").read_text(errors="replace"), name in self._deleted)

    def delete(self, name: str) -> None:
        """Delete a pod that runs, as `kubectl delete pod --now` does: its processes are killed."""
        self._deleted.add(name)
        os.killpg(self._running[name].pid, signal.SIGKILL)

    def running(self) -> list[str]:
        """The names of the pods that run."""
        return list(self._running)

    def secret(self, name: str, key: str) -> str:
        """A value of a Secret."""
        return self._objects["secrets"][name][key]

    def _answer(self, path: str) -> tuple[int, Any]:
        *_, namespace, kind, name = path.partition("?")[0].split("/")
        self.asked.add((kind, name))
        data = self._objects.get(kind, {}).get(name) if namespace == NAMESPACE else None
        if data is None:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            return 404, {**status, "message": f"{kind} {name} not found"}
        coded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        reported = coded if kind == "secrets" else data
        return 200, {"apiVersion": "v1", "metadata": {"name": name, "namespace": namespace}, "data": reported}

    def _mount(self, root: Path, launcher: Path) -> None:
        account = root / ACCOUNT
        account.mkdir(parents=True)
        (account / "namespace").write_text(NAMESPACE)
        (account / "token").write_text("a token")
        shutil.copy(self._certificate, account / "ca.crt")
        (root / "kfp-launcher").mkdir()
        (root / "kfp-launcher" / "launch").symlink_to(launcher)

    def _seen(self, mounts: Mapping[str, str]) -> Iterator[str]:
        """Folders, and where a pod has them: volumes, and what is in none of those that each pod has of its own."""
        for folder in self._shared:
            if folder.parts[1] in ("tmp", "run"):
                yield from (str(folder), str(folder))
        for path, claim in mounts.items():
            yield from (str(self._claims[claim]), path)

    def _environment(self) -> dict[str, str]:
        host, port = self._server.server_address[:2]
        return {
            "KUBERNETES_SERVICE_HOST": str(host),
            "KUBERNETES_SERVICE_PORT": str(port),
            "PATH": f"{sys.prefix}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": "/tmp",
        }


def _with(environment: Mapping[str, str], text: str) -> str:
    """As Kubernetes expands commands and arguments."""
    for name, value in environment.items():
        text = text.replace(f"$({name})", value)
    return text


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = dt.datetime.now(dt.UTC)
    day = dt.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, secret = folder / "ca.crt", folder / "ca.key"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return file, secret
