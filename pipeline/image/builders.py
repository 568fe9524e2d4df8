"""docker, podman and buildah, each through its own command line and with the credentials it stores itself."""

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

from headrace.common.errors import MissingDependencyError, RunError
from headrace.pipeline.image.errors import LAST, builder_error, no_daemon

NAMES = ("docker", "podman", "buildah")
PLATFORM = "linux/amd64"
"""The only platform that TFX's libraries have wheels for."""
DEFAULT_BASE = "docker.io/library/python"
"""The repository of the Dockerfile's default base image."""
EPOCH = "315619200"
"""The time that is recorded as the build time, as in the Dockerfile, so that equal content makes equal images."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?/")
ENVIRONMENT = {"DOCKER_CLI_HINTS": "false", "BUILDKIT_PROGRESS": "plain", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
"""Plain lines of output, and a manifest for one platform; attestations would make it an index."""
Report = Callable[[str], None]


@dataclass(frozen=True)
class Builder:
    """One of the tools. `report` receives each line that it prints."""

    name: str
    report: Report
    ca: Path | None = None
    """Certificate authorities to trust in addition to the system's. docker's daemon has its own."""

    def build(self, context: Path, reference: str, arguments: Mapping[str, str]) -> None:
        """Build and name the image. Raises RunError, ServerError or MissingDependencyError if that fails."""
        layers = ["--layers"] if self.name == "buildah" else []
        time = [] if self.name == "docker" else ["--timestamp", EPOCH]  # docker takes it from the arguments
        arguments = {**arguments, "SOURCE_DATE_EPOCH": EPOCH}
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        with self._certificates() as certificates:
            options = [*layers, *time, *certificates, "--platform", PLATFORM, "-t", reference, *given]
            self._run("build", arguments.get("BASE", DEFAULT_BASE), ["build", *options, str(context)])

    def push(self, reference: str) -> str:
        """Push an image that was built, and return its digest in the registry."""
        if self.name == "docker":
            lines = self._run("push", reference, ["push", reference])
            digest = next((match[0] for line in reversed(lines) if (match := DIGEST.search(line))), None)
            if digest is None:
                last = "\n  ".join([f"docker pushed {reference} but printed no digest:", *lines[-LAST:]])
                raise RunError(f"{last}\n  `docker manifest inspect --verbose {reference}` prints it.")
            return digest
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder, self._certificates() as certificates:
            file = Path(folder, "digest")
            options = [*certificates, "--digestfile", str(file)]
            self._run("push", reference, ["push", *options, reference, f"docker://{reference}"])
            return file.read_text(encoding="utf-8").strip()

    def pushed(self, reference: str) -> str | None:
        """The digest of an image in its registry; None if it is not there, or no tool here can look it up."""
        if self.name == "docker":
            plain = (
                ["--insecure"] if LOOPBACK.match(reference) else []
            )  # docker itself pushes to such hosts without TLS
            done = _completed(["docker", "manifest", "inspect", "--verbose", *plain, reference])
            answer = json.loads(done.stdout) if done.returncode == 0 else None
            return str(answer["Descriptor"]["digest"]) if isinstance(answer, dict) else None
        if shutil.which("skopeo") is None:  # podman and buildah have no command for this; skopeo does
            return None
        with self._certificates() as certificates:
            done = _completed(["skopeo", "inspect", *certificates, "--format", "{{.Digest}}", f"docker://{reference}"])
        return done.stdout.strip() or None

    @contextlib.contextmanager
    def _certificates(self) -> Iterator[list[str]]:
        """The option that makes podman, buildah and skopeo trust the authorities: a folder with a `.crt` file."""
        if self.ca is None or self.name == "docker":
            yield []
            return
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            shutil.copy(self.ca, Path(folder, "ca.crt"))
            yield ["--cert-dir", folder]

    def _run(self, action: str, reference: str, arguments: Sequence[str]) -> list[str]:
        """Run the tool and return the lines that it printed."""
        environment = {**os.environ, **ENVIRONMENT}
        lines: list[str] = []
        with subprocess.Popen(  # noqa: S603 - a tool that the user chose
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
                self.report(lines[-1])
        if process.returncode:
            raise builder_error(self.name, action, reference, lines)
        return lines


def find_builder(wanted: str | None, report: Report, ca: Path | None = None) -> Builder:
    """Find the wanted tool, or the first one that works. Raises MissingDependencyError if there is none."""
    down = ""
    for name in [wanted] if wanted else NAMES:
        if shutil.which(name) is None:
            continue
        down = _daemon_down() if name == "docker" else ""
        if not down:
            return Builder(name, report, ca)
    if down:
        raise no_daemon("docker", down)
    raise MissingDependencyError(
        f"{wanted or 'neither docker nor podman nor buildah'} is {'not ' if wanted else ''}installed\n"
        "  Install docker, podman or buildah; each builds the image from the same Dockerfile."
    )


def _daemon_down() -> str:
    """Docker's error if its daemon does not answer; empty if it does."""
    done = _completed(["docker", "version", "--format", "{{.Server.Version}}"])
    return (done.stderr.strip() or "no answer").splitlines()[-1] if done.returncode else ""


def _completed(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, encoding="utf-8"
    )
