"""No credential goes into the compiled file: it is stored by Kubeflow, and shown to all who may see the run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from configs.config import PipelineConfig
from configs.data import ColumnType
from configs.errors import RunError

SECRETIVE = re.compile(
    r"(PASSW|PASSPHRASE|(^|_)PASS$|_PWD$|SECRET|TOKEN|CREDENTIAL|PRIVATE_?KEY|ACCESS_?KEY|API_?KEY)", re.IGNORECASE
)
"""Names that stand for secrets, or have to do with them."""
FIELD = re.compile(
    r"(?:^|[_.-])(?:passphrase|pwd|secret|(?:api|access|account|private|secret|signing)[_-]?key|credentials?)$"
    r"|passw(?:or)?d$|^pass$|(?:^|[_.-])(?:access|auth|api|bearer|refresh|session|security)[_-]?token$|^token$",
    re.IGNORECASE,
)
"""Names that hold a secret and nothing else: `db_password`, `api_key`; not `pad_token`, nor `max_tokens`."""
VARIABLE = re.compile(rf"{FIELD.pattern}|_PASS$|_TOKEN$", re.IGNORECASE)
"""The same of environment variables."""
OF_A_SECRET = "secretKey"  # noqa: S105 - a name
"""In the Kubernetes document: which key of a Secret is meant."""
NO_SECRETS = frozenset({*get_args(ColumnType), "true", "false", "yes", "no", "null", "none", ""})
"""What may stand under such a name, as columns and labels are called so too."""
ELSEWHERE = re.compile(r"/|\$[({]|\{\{|<|pkg://")
"""How a text begins that says where a secret is: a path, a variable, a template."""
LONG = 8
"""Characters of a variable's value from which on it is looked for wherever it stands."""
SHORT = 4
"""The same, as a word of its own, of a value with letters and others in it; its variable must hold nothing else."""
SHAPES = {
    "a URL with a password": re.compile(
        r"[a-z][a-z0-9+.-]*://[^\s/\"'@:\\]*:(?P<secret>[^\s/\"'@\\]+)@"
        r"|://\S*[?&;](?:password|passwd|pwd|secret|sig|token|access_token|api_?key)=[^&\s\"'\\]",
        re.IGNORECASE,
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an access key of AWS": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of GitHub": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}\b"),
    "an API key of Google": re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b"),
    "an option with a credential": re.compile(
        r"--[a-z0-9_-]*(?:password|secret|token|credential|access_key|api_key)[a-z0-9_-]*[= ][^\s\"'\\]+", re.IGNORECASE
    ),
    "a header with a credential": re.compile(
        r"\bauthorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer)\s+\S", re.IGNORECASE
    ),
    "a connection with a password": re.compile(
        r"^(?=.*\b(?:host|hostaddr|server|user|uid|user id|dbname|database)\s*=)"
        r".*(?<![\w-])(?:password|passwd|pwd)\s*=\s*[^\s;$<{*].*$",
        re.IGNORECASE | re.MULTILINE,
    ),
}
_TWO_ARGUMENTS = re.compile(
    r"^--[a-z0-9_-]*(?:password|secret|token|credential|access_key|api_key)[a-z0-9_-]*$\n(?!-)\S+",
    re.IGNORECASE | re.MULTILINE,
)
"""An option and its value as one text after the other."""


def declared(config: PipelineConfig) -> frozenset[str]:
    """The environment variables that a config says hold a secret."""
    kubeflow = config.kubeflow
    pods = (kubeflow.defaults, *kubeflow.components.values())
    named = [variable for one in pods for secret in one.secrets for variable in secret.env]
    return frozenset(
        filter(None, [*named, kubeflow.server.auth.env, getattr(config.data.source, "password_env", None)])
    )


def check(told: Any, environ: Mapping[str, str], declared: frozenset[str] = frozenset()) -> None:
    """Raise RunError if the texts of a document hold what looks like a credential, or the value of a variable that is
    named like one, or is `declared` to be one.
    """
    text = "\n".join(texts(told))
    found = dict.fromkeys([*_shapes(text), *_fields(told), *_values(text, environ, declared)])
    if found:
        raise RunError(
            f"the compiled pipeline would hold {' and '.join(found)}, for everyone to see who may see the run.\n"
            "  Put it into a Kubernetes Secret, and name that under kubeflow.defaults.secrets or"
            " kubeflow.components.<component>.secrets."
        )


def texts(told: Any) -> Iterator[str]:
    """All texts in a document, and in the JSON within a text, where quotes and other letters are written otherwise."""
    for name, value in _walked(told):
        yield from filter(None, (name, value))


def _walked(told: Any) -> Iterator[tuple[str, str]]:
    """Every text with the name that it stands under; "" where it has none. A name that stands over more is one with "".

    An environment variable of a container, `{name: A, value: b}`, stands under its name.
    """
    if isinstance(told, Mapping):
        for name, value in told.items():
            if isinstance(value, str):
                yield str(told["name"]) if name == "value" and "name" in told else str(name), value
                yield from _within(value)
            else:
                yield str(name), ""
                yield from _walked(value)
    elif isinstance(told, list):
        for one in told:
            yield from _walked(one)
    elif isinstance(told, str):
        yield "", told
        yield from _within(told)


def _within(text: str) -> Iterator[tuple[str, str]]:
    try:
        inner = json.loads(text)
    except ValueError:
        return
    if not isinstance(inner, int | float):
        yield from _walked(inner)


def _shapes(text: str) -> Iterator[str]:
    patterns = {**SHAPES, "an option and a credential": _TWO_ARGUMENTS}
    return (name for name, pattern in patterns.items() if pattern.search(text))


def _fields(told: Any) -> Iterator[str]:
    """Values of any length, by the names that they stand under."""
    for name, value in _walked(told):
        holds = FIELD.search(name) and name != OF_A_SECRET
        if holds and value.lower() not in NO_SECRETS and not ELSEWHERE.match(value):
            yield f"a value of `{name}`"


def _values(text: str, environ: Mapping[str, str], declared: frozenset[str]) -> Iterator[str]:
    for name, value in sorted(environ.items()):
        named = name in declared or SECRETIVE.search(name)
        if named and (_long(value, text) or ((name in declared or VARIABLE.search(name)) and _short(value, text))):
            yield f"the value of the environment variable {name}"


def _long(value: str, text: str) -> bool:
    return len(value) >= LONG and value in text


def _short(value: str, text: str) -> bool:
    """Whether the value stands there as a word of its own, and is none of those that stand everywhere."""
    odd = any(map(str.isalpha, value)) and not value.isalpha()
    return len(value) >= SHORT and odd and bool(re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w.-])", text))
