"""No credential goes into the compiled file: it is stored by Kubeflow, and shown to all who may see the run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from headrace.configs.config import PipelineConfig
from headrace.configs.credentials import FIELD, SECRETIVE, SHAPES, VARIABLE
from headrace.configs.data import ColumnType
from headrace.configs.errors import RunError

OF_A_SECRET = "secretKey"  # noqa: S105 - a name
"""In the Kubernetes document: which key of a Secret is meant."""
NO_SECRETS = frozenset({*get_args(ColumnType), "true", "false", "yes", "no", "null", "none", ""})
"""What may stand under such a name, as columns and labels are called so too."""
ELSEWHERE = re.compile(r"/|\$[({]|\{\{|<|pkg://")
"""How a text begins that says where a secret is: a path, a variable, a template."""
LONG = 8
"""Characters of a variable's value from which on it is looked for wherever it stands."""
DIGITS = 6
"""Of a whole number that may be a secret; sizes and counts have fewer."""
SHORT = 4
"""The same, as a word of its own, of a value with letters and others in it; its variable must hold nothing else."""
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


def _walked(told: Any, name: str = "", *, numbers: bool = False) -> Iterator[tuple[str, str]]:
    """Every text with the name that it stands under; "" where it has none. A name that stands over more is one with "".

    An environment variable of a container, `{name: A, value: b}`, stands under its name. numbers: those of DIGITS too.
    """
    if isinstance(told, Mapping):
        for key, value in told.items():
            named = str(told["name"]) if key == "value" and "name" in told and isinstance(value, str) else str(key)
            if not isinstance(value, str):
                yield named, ""
            yield from _walked(value, named, numbers=numbers)
    elif isinstance(told, list):
        for one in told:
            yield from _walked(one, name, numbers=numbers)
    elif isinstance(told, str):
        yield name, told
        yield from _within(told, numbers=numbers)
    elif numbers and isinstance(told, int) and len(str(told)) >= DIGITS:
        yield name, str(told)


def _within(text: str, *, numbers: bool) -> Iterator[tuple[str, str]]:
    try:
        inner = json.loads(text)
    except ValueError:
        return
    if not isinstance(inner, int | float):
        yield from _walked(inner, numbers=numbers)


def _shapes(text: str) -> Iterator[str]:
    patterns = {**SHAPES, "an option and a credential": _TWO_ARGUMENTS}
    return (name for name, pattern in patterns.items() if pattern.search(text))


def _fields(told: Any) -> Iterator[str]:
    """Values by the names that they stand under: texts of any length, also in lists, and long whole numbers."""
    for name, value in _walked(told, numbers=True):
        holds = FIELD.search(name) and name != OF_A_SECRET
        if holds and value.lower() not in NO_SECRETS and not ELSEWHERE.match(value):
            yield f"a value of `{name}`"


def _values(text: str, environ: Mapping[str, str], declared: frozenset[str]) -> Iterator[str]:
    for name, given in sorted(environ.items()):
        value = given.strip()
        named = name in declared or SECRETIVE.search(name)
        if named and (_long(value, text) or ((name in declared or VARIABLE.search(name)) and _short(value, text))):
            yield f"the value of the environment variable {name}"


def _long(value: str, text: str) -> bool:
    return len(value) >= LONG and value in text


def _short(value: str, text: str) -> bool:
    """Whether the value stands there as a word of its own, and is none of those that stand everywhere."""
    odd = any(map(str.isalpha, value)) and not value.isalpha()
    return len(value) >= SHORT and odd and bool(re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w.-])", text))
