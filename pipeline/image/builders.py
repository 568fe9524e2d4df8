"""docker, podman and buildah, each through its own command line, with the credentials that it keeps itself."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.configs.errors import MissingDependencyError, RunError
from headrace.pipeline.image.faults import LAST, fault, no_daemon

NAMES = ("docker", "podman", "buildah")
PLATFORM = "linux/amd64"
"""The only one that TFX's libraries have wheels for."""
DOCKERS = "docker.io/library/python"
"""Where the Dockerfile takes the base image from where no other is named."""
EPOCH = "315619200"
"""What is told as the time of building, as in the Dockerfile: the same content is the same image, wherever built."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?/")
QUIETLY = {"DOCKER_CLI_HINTS": "false", "BUILDKIT_PROGRESS": "plain", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
"""Lines, and one manifest for one platform: with attestations it would be an index."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Builder:
    """One of the tools. `tell` is given each line that it prints."""

    name: str
    tell: Tell
    ca: Path | None = None
    """Authorities that a registry may be signed by, beside the system's. docker's daemon has its own."""

    def build(self, context: Path, reference: str, arguments: Mapping[str, str]) -> None:
        """Build the image of the folder under a name. RunError, ServerError or MissingDependencyError if it failed."""
        layers = ["--layers"] if self.name == "buildah" else []
        time = [] if self.name == "docker" else ["--timestamp", EPOCH]  # docker reads it of the arguments
        arguments = {**arguments, "SOURCE_DATE_EPOCH": EPOCH}
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        with self._certificates() as certificates:
            options = [*layers, *time, *certificates, "--platform", PLATFORM, "-t", reference, *given]
            self._run("build", arguments.get("BASE", DOCKERS), ["build", *options, str(context)])

    def push(self, reference: str) -> str:
        """Push an image that was built; its digest in the registry."""
        if self.name == "docker":
            lines = self._run("push", reference, ["push", reference])
            found = next((found[0] for line in reversed(lines) if (found := DIGEST.search(line))), None)
            if found is None:
                last = "\n  ".join([f"docker pushed {reference}, and named no digest of it:", *lines[-LAST:]])
                raise RunError(f"{last}\n  `docker manifest inspect --verbose {reference}` tells it.")
            return found
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder, self._certificates() as certificates:
            file = Path(folder, "digest")
            options = [*certificates, "--digestfile", str(file)]
            self._run("push", reference, ["push", *options, reference, f"docker://{reference}"])
            return file.read_text(encoding="utf-8").strip()

    def pushed(self, reference: str) -> str | None:
        """The digest of an image in its registry; None if it is not there, or nothing here can ask."""
        if self.name == "docker":
            plain = ["--insecure"] if LOOPBACK.match(reference) else []  # as docker itself pushes to such a host
            asked = _asked(["docker", "manifest", "inspect", "--verbose", *plain, reference])
            answer = json.loads(asked.stdout) if asked.returncode == 0 else None
            return str(answer["Descriptor"]["digest"]) if isinstance(answer, dict) else None
        if shutil.which("skopeo") is None:  # which podman and buildah leave such questions to
            return None
        with self._certificates() as certificates:
            asked = _asked(["skopeo", "inspect", *certificates, "--format", "{{.Digest}}", f"docker://{reference}"])
        return asked.stdout.strip() or None

    @contextlib.contextmanager
    def _certificates(self) -> Iterator[list[str]]:
        """The option by which podman, buildah and skopeo trust the authorities too: a folder with a `.crt` in it."""
        if self.ca is None or self.name == "docker":
            yield []
            return
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            shutil.copy(self.ca, Path(folder, "ca.crt"))
            yield ["--cert-dir", folder]

    def _run(self, doing: str, reference: str, arguments: Sequence[str]) -> list[str]:
        """The lines that it printed."""
        environment = {**os.environ, **QUIETLY}
        lines: list[str] = []
        with subprocess.Popen(  # noqa: S603 - the user's own tool
            [self.name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            encoding="utf-8",
        ) as process:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                self.tell(lines[-1])
        if process.returncode:
            raise fault(self.name, doing, reference, lines)
        return lines


def find_builder(wanted: str | None, tell: Tell, ca: Path | None = None) -> Builder:
    """The tool that was asked for, or the first that is there and works. MissingDependencyError if there is none."""
    down = ""
    for name in [wanted] if wanted else NAMES:
        if shutil.which(name) is None:
            continue
        down = _daemon_down() if name == "docker" else ""
        if not down:
            return Builder(name, tell, ca)
    if down:
        raise no_daemon("docker", down)
    raise MissingDependencyError(
        f"{wanted or 'neither docker nor podman nor buildah'} is {'not ' if wanted else ''}on this machine\n"
        "  Install one of docker, podman and buildah: each builds the image from the same Dockerfile."
    )


def _daemon_down() -> str:
    """What docker says where its daemon does not answer; empty where it does."""
    asked = _asked(["docker", "version", "--format", "{{.Server.Version}}"])
    return (asked.stderr.strip() or "no answer").splitlines()[-1] if asked.returncode else ""


def _asked(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, encoding="utf-8"
    )
