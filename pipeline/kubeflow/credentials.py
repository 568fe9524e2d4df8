"""No credential goes into the compiled file: it is stored by Kubeflow, and shown to all who may see the run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from configs.errors import RunError

SECRETIVE = re.compile(
    r"(PASSW|PASSPHRASE|(^|_)PASS$|_PWD$|SECRET|TOKEN|CREDENTIAL|PRIVATE_?KEY|ACCESS_?KEY|API_?KEY)", re.IGNORECASE
)
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
_TWO_ARGUMENTS = re.compile(
    r"^--[a-z0-9_-]*(?:password|secret|token|credential|access_key|api_key)[a-z0-9_-]*$\n(?!-)\S+",
    re.IGNORECASE | re.MULTILINE,
)
"""An option and its value as one text after the other."""


def texts(told: Any) -> Iterator[str]:
    """All texts in a document, and in the JSON within a text, where quotes and other letters are written otherwise."""
    if isinstance(told, Mapping):
        for name, value in told.items():
            yield from texts(name)
            yield from texts(value)
    elif isinstance(told, list):
        for one in told:
            yield from texts(one)
    elif isinstance(told, str):
        yield told
        try:
            inner = json.loads(told)
        except ValueError:
            return
        yield from texts(inner)


def check(told: Any, environ: Mapping[str, str]) -> None:
    """Raise RunError if the texts of a document hold what looks like a credential, or the value of a variable that is
    named like one.
    """
    text = "\n".join(texts(told))
    found = [*_shapes(text), *_values(text, environ)]
    if found:
        raise RunError(
            f"the compiled pipeline would hold {' and '.join(found)}, for everyone to see who may see the run.\n"
            "  Put it into a Kubernetes Secret, and name that under kubeflow.defaults.secrets or"
            " kubeflow.components.<component>.secrets."
        )


def _shapes(text: str) -> Iterator[str]:
    patterns = {**SHAPES, "an option and a credential": _TWO_ARGUMENTS}
    return (name for name, pattern in patterns.items() if pattern.search(text))


def _values(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(environ.items()):
        if SECRETIVE.search(name) and len(value) >= SHORTEST and value in text:
            yield f"the value of the environment variable {name}"
