"""The rules of `kubeflow.server:`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.configs.kubeflow import KubeflowConfig
from headrace.configs.tree import Where

Finding = tuple[Where, str]
AUTH: Where = ("kubeflow", "server", "auth")


def secret_has_one_place(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    auth = kubeflow.server.auth
    given = [name for name in ("file", "env") if getattr(auth, name) is not None]
    if auth.kind in ("bearer", "cookie") and len(given) != 1:
        yield (*AUTH, "kind"), f"`{auth.kind}` needs either `file:` or `env:`, where the {_what(auth.kind)} is"
    if auth.kind == "none" and given:
        yield (
            (*AUTH, given[0]),
            f"nothing is shown to the server with `kind: none`; say bearer or cookie, or remove {given[0]}",
        )
    if auth.kind == "in_cluster" and auth.env is not None:
        yield (*AUTH, "env"), "the token in a cluster is a file; remove `env`, or use `kind: bearer`"


def authority_needs_tls(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    server = kubeflow.server
    plain = server.endpoint is not None and server.endpoint.startswith("http://")
    if server.ca_file is not None and plain:
        yield ("kubeflow", "server", "ca_file"), "the endpoint is http://, which has no certificate; use https://"
    if server.ca_file is not None and not server.verify_tls:
        yield ("kubeflow", "server", "verify_tls"), "`ca_file` is of no use where certificates are not checked"


def _what(kind: str) -> str:
    return "token" if kind == "bearer" else "cookie"


RULES = (secret_has_one_place, authority_needs_tls)
