"""What a builder's output means when it fails, with the way out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.configs.errors import HeadraceError, MissingDependencyError, RunError, ServerError

LAST = 8
"""Lines of the output that are told where nothing better is known."""
PRUNE = {"docker": "docker system prune", "podman": "podman system prune", "buildah": "buildah rmi --prune"}

_REGISTRIES = "Name it in /etc/containers/registries.conf as a [[registry]] with its `location` and `insecure = true`"
INSECURE = {
    "docker": "Name it under `insecure-registries` in /etc/docker/daemon.json",
    "podman": _REGISTRIES,
    "buildah": _REGISTRIES,
}


class Failure(NamedTuple):
    """What was tried, and the line that tells why it failed."""

    tool: str
    doing: str
    """`build` or `push`."""
    reference: str
    """The image that was pushed, or the base image of the one that was built."""
    line: str

    @property
    def host(self) -> str:
        """The registry that was asked."""
        return registry(self.reference)


def fault(tool: str, doing: str, reference: str, output: Sequence[str]) -> HeadraceError:
    """The error to tell; output: the tool's lines."""
    for pattern, error in MEANINGS.items():
        for line in reversed(output):  # before it are those of tries that were repeated
            if re.search(pattern, line, re.IGNORECASE):
                return error(Failure(tool, doing, reference, line.strip()))
    return RunError("\n  ".join([f"{tool} {doing} failed:", *output[-LAST:]]))


def no_daemon(tool: str, line: str) -> MissingDependencyError:
    """Only the client is there."""
    return MissingDependencyError(
        f"{tool} is here, but its daemon does not answer: {line}\n"
        "  Start it (`sudo systemctl start docker`), or install podman or buildah, which need none."
    )


def registry(reference: str) -> str:
    """The host that an image's name begins with; Docker's own where it names none."""
    first, slash, _ = reference.partition("/")
    return first if slash and (first == "localhost" or "." in first or ":" in first) else "docker.io"


def _no_space(failure: Failure) -> HeadraceError:
    return RunError(
        f"{failure.tool} {failure.doing}: the disk is full: {failure.line}\n"
        f"  `{PRUNE[failure.tool]}` removes what no image needs any more. Building takes about 10 GB."
    )


def _not_logged_in(failure: Failure) -> HeadraceError:
    allowed, what = ("push", "") if failure.doing == "push" else ("pull", "the base image ")
    return ServerError(
        f"{failure.host} does not let {failure.tool} {allowed} {what}{failure.reference}: {failure.line}\n"
        f"  `{failure.tool} login {failure.host}` enters you there; the account must be allowed to {allowed}.",
        401,
    )


def _not_reached(failure: Failure) -> HeadraceError:
    return ServerError(f"{failure.tool} {failure.doing}: {failure.host} cannot be reached: {failure.line}")


def _not_trusted(failure: Failure) -> HeadraceError:
    registries = (
        f" docker's daemon pulls by itself: put it into /etc/docker/certs.d/{failure.host}/ca.crt as well."
        if failure.tool == "docker"
        else ""
    )
    return ServerError(
        f"{failure.tool} {failure.doing}: a certificate is signed by an authority that is not trusted: {failure.line}\n"
        "  Behind a proxy that inspects TLS, name the file of its authority: `headrace image --ca FILE`."
        f"{registries}"
    )


def _without_tls(failure: Failure) -> HeadraceError:
    return ServerError(
        f"{failure.tool} {failure.doing}: {failure.host} speaks HTTP without TLS: {failure.line}\n"
        f"  {INSECURE[failure.tool]}, if that registry may be trusted."
    )


MEANINGS: dict[str, Callable[[Failure], HeadraceError]] = {
    r"cannot connect to the docker daemon|is the docker daemon running|docker daemon socket": lambda failure: no_daemon(
        failure.tool, failure.line
    ),
    r"no space left on device|disk quota exceeded": _no_space,
    r"unauthorized|authentication required|no basic auth credentials|access to the resource is denied|"
    r"(incorrect|invalid) username( or |/)password|\b401\b": _not_logged_in,
    r"HTTP response to HTTPS client": _without_tls,
    r"unknown authority|UnknownIssuer|CERTIFICATE_VERIFY_FAILED|certificate verification failed": _not_trusted,
    r"connection refused|no such host|i/o timeout|TLS handshake|"
    r"network is unreachable": _not_reached,
}
"""A pattern in the output to what it means; the first that is found counts."""
