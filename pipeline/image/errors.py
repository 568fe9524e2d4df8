"""Errors of the build tools: what their output means, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.common.errors import HeadraceError, MissingDependencyError, RunError, ServerError

LAST = 8
"""How many lines of output an error quotes if their meaning is unknown."""
PRUNE = {"docker": "docker system prune", "podman": "podman system prune", "buildah": "buildah rmi --prune"}

_REGISTRIES = "List it in /etc/containers/registries.conf as a [[registry]] with its `location` and `insecure = true`"
INSECURE = {
    "docker": "List it under `insecure-registries` in /etc/docker/daemon.json",
    "podman": _REGISTRIES,
    "buildah": _REGISTRIES,
}


class BuilderFailure(NamedTuple):
    """What a tool was doing, and the line of its output that gives the reason for its failure."""

    tool: str
    action: str
    """`build` or `push`."""
    reference: str
    """The image that was being pushed, or the base image of the one that was being built."""
    line: str

    @property
    def host(self) -> str:
        return registry(self.reference)


def builder_error(tool: str, action: str, reference: str, output: Sequence[str]) -> HeadraceError:
    """The error to raise when a tool fails; `output` is the lines that it printed."""
    for pattern, error in MEANINGS.items():
        for line in reversed(output):  # earlier lines may be from attempts that were retried
            if re.search(pattern, line, re.IGNORECASE):
                return error(BuilderFailure(tool, action, reference, line.strip()))
    return RunError("\n  ".join([f"{tool} {action} failed:", *output[-LAST:]]))


def no_daemon(tool: str, line: str) -> MissingDependencyError:
    """The error for a client without a running daemon."""
    return MissingDependencyError(
        f"{tool} is installed, but its daemon does not answer: {line}\n"
        "  Start it (`sudo systemctl start docker`), or install podman or buildah, which need no daemon."
    )


def registry(reference: str) -> str:
    """The host at the start of an image's name; docker.io if it has none."""
    first, slash, _ = reference.partition("/")
    return first if slash and (first == "localhost" or "." in first or ":" in first) else "docker.io"


def _no_space(failure: BuilderFailure) -> HeadraceError:
    return RunError(
        f"{failure.tool} {failure.action}: the disk is full: {failure.line}\n"
        f"  `{PRUNE[failure.tool]}` removes what no image uses. A build needs about 10 GB."
    )


def _not_logged_in(failure: BuilderFailure) -> HeadraceError:
    allowed, what = ("push", "") if failure.action == "push" else ("pull", "the base image ")
    return ServerError(
        f"{failure.host} does not let {failure.tool} {allowed} {what}{failure.reference}: {failure.line}\n"
        f"  Log in with `{failure.tool} login {failure.host}`, to an account that is allowed to {allowed}.",
        401,
    )


def _not_reached(failure: BuilderFailure) -> HeadraceError:
    return ServerError(f"{failure.tool} {failure.action}: {failure.host} cannot be reached: {failure.line}")


def _not_trusted(failure: BuilderFailure) -> HeadraceError:
    registries = (
        f" docker's daemon pulls by itself: also copy the file to /etc/docker/certs.d/{failure.host}/ca.crt."
        if failure.tool == "docker"
        else ""
    )
    return ServerError(
        f"{failure.tool} {failure.action}: a certificate is signed by an untrusted authority: {failure.line}\n"
        "  Behind a proxy that inspects TLS, name its certificate authority: `headrace image --ca FILE`."
        f"{registries}"
    )


def _without_tls(failure: BuilderFailure) -> HeadraceError:
    return ServerError(
        f"{failure.tool} {failure.action}: {failure.host} uses plain HTTP, without TLS: {failure.line}\n"
        f"  {INSECURE[failure.tool]} if you trust that registry."
    )


MEANINGS: dict[str, Callable[[BuilderFailure], HeadraceError]] = {
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
"""Patterns in the output and the errors that they mean; the first match wins."""
