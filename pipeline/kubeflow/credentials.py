"""No credential goes into the compiled file: it is stored by Kubeflow, and shown to all who may see the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from configs.errors import RunError

SECRETIVE = re.compile(r"(PASSW|SECRET|TOKEN|CREDENTIAL|PRIVATE_?KEY|ACCESS_?KEY|API_?KEY)", re.IGNORECASE)
"""Names that stand for secrets."""
SHORTEST = 8
"""Characters that the value of a variable must have to be looked for: shorter ones stand everywhere."""
SHAPES = {
    "a URL with a password": re.compile(
        r"[a-z][a-z0-9+.-]*://[^\s/\"'@:\\]*:(?P<secret>[^\s/\"'@\\]+)@", re.IGNORECASE
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an access key of AWS": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of GitHub": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}\b"),
    "an API key of Google": re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b"),
    "an option with a credential": re.compile(
        r"--[a-z0-9_-]*(?:password|secret|token|credential|access_key|api_key)[a-z0-9_-]*[= ][^\s\"'\\]+", re.IGNORECASE
    ),
}


def check(text: str, environ: Mapping[str, str]) -> None:
    """Raise RunError if `text` holds what looks like a credential, or the value of a variable named like one."""
    found = [*_shapes(text), *_values(text, environ)]
    if found:
        raise RunError(
            f"the compiled pipeline would hold {' and '.join(found)}, for everyone to see who may see the run.\n"
            "  Put it into a Kubernetes Secret, and name that under kubeflow.defaults.secrets or"
            " kubeflow.components.<component>.secrets."
        )


def _shapes(text: str) -> Iterator[str]:
    return (name for name, pattern in SHAPES.items() if pattern.search(text))


def _values(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(environ.items()):
        if SECRETIVE.search(name) and len(value) >= SHORTEST and value in text:
            yield f"the value of the environment variable {name}"
