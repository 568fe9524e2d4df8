"""The check that no credential enters the compiled file, which Kubeflow stores and shows to all who may see the run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from headrace.common.credentials import CREDENTIAL_PATTERNS, SECRET_FIELD, SECRET_VARIABLE, SUSPICIOUS_VARIABLE
from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.data import ColumnType

KEY_OF_SECRET = "secretKey"  # noqa: S105 - a name
"""A field of the Kubernetes document that names a key of a Secret."""
HARMLESS = frozenset({*get_args(ColumnType), "float64", "true", "false", "yes", "no", "null", "none", ""})
"""Values that are not secrets, whatever their field is called: columns and labels may have such names too."""
ELSEWHERE = re.compile(r"/|\$[({]|\{\{|<|pkg://")
"""The beginning of a text that says where a secret is: a path, a variable, a template."""
LONG = 8
"""Characters from which the value of a variable is searched for anywhere in the text."""
DIGITS = 6
"""Digits from which a whole number may be a secret; sizes and counts have fewer."""
SHORT = 4
"""Characters from which a value that mixes letters with others is searched for as a separate word, if its variable can
hold nothing but a secret."""
_TWO_ARGUMENTS = re.compile(
    r"^--[a-z0-9_-]*(?:password|secret|token|credential|access_key|api_key)[a-z0-9_-]*$\n(?!-)\S+",
    re.IGNORECASE | re.MULTILINE,
)
"""An option and its value as two texts, one after the other."""


def declared(config: PipelineConfig) -> frozenset[str]:
    """The environment variables that the config declares to hold a secret."""
    kubeflow = config.kubeflow
    named = [variable for _, one in kubeflow.pods() for secret in one.secrets for variable in secret.env]
    passwords = [getattr(source, "password_env", None) for source in config.sources]
    return frozenset(filter(None, [*named, kubeflow.server.auth.env, *passwords]))


def check(document: Any, environ: Mapping[str, str], declared: frozenset[str] = frozenset()) -> None:
    """Raise RunError if a text in the document looks like a credential, or contains the value of a secret variable.

    A variable is secret if its name says so, or if it is one of `declared`.
    """
    text = "\n".join(texts(document))
    found = dict.fromkeys([*_shapes(text), *_fields(document), *_values(text, environ, declared)])
    if found:
        raise RunError(
            f"the compiled pipeline would contain {' and '.join(found)}, visible to everyone who may see the run.\n"
            "  Put it into a Kubernetes Secret, and name that under kubeflow.defaults.secrets or"
            " kubeflow.components.<component>.secrets."
        )


def texts(document: Any) -> Iterator[str]:
    """All texts in a document, including those in JSON within a text, where quotes and other letters are escaped."""
    for name, value in _walk(document):
        yield from filter(None, (name, value))


def _walk(document: Any, name: str = "", *, numbers: bool = False) -> Iterator[tuple[str, str]]:
    """Every text with the name of its field, or "". The name of a field that contains more fields comes with "".

    An environment variable of a container, `{name: A, value: b}`, counts as a field of that name. numbers: whether
    whole numbers of DIGITS or more count as texts.
    """
    if isinstance(document, Mapping):
        for key, value in document.items():
            is_variable = key == "value" and "name" in document and isinstance(value, str)
            named = str(document["name"]) if is_variable else str(key)
            if not isinstance(value, str):
                yield named, ""
            yield from _walk(value, named, numbers=numbers)
    elif isinstance(document, list):
        for one in document:
            yield from _walk(one, name, numbers=numbers)
    elif isinstance(document, str):
        yield name, document
        yield from _walk_json(document, numbers=numbers)
    elif numbers and isinstance(document, int) and len(str(document)) >= DIGITS:
        yield name, str(document)


def _walk_json(text: str, *, numbers: bool) -> Iterator[tuple[str, str]]:
    try:
        inner = json.loads(text)
    except ValueError:
        return
    if not isinstance(inner, int | float):
        yield from _walk(inner, numbers=numbers)


def _shapes(text: str) -> Iterator[str]:
    patterns = {**CREDENTIAL_PATTERNS, "an option and a credential": _TWO_ARGUMENTS}
    return (name for name, pattern in patterns.items() if pattern.search(text))


def _fields(document: Any) -> Iterator[str]:
    """Values with a secret's name: texts of any length, also in lists, and long whole numbers."""
    for name, value in _walk(document, numbers=True):
        is_secret = SECRET_FIELD.search(name) and name != KEY_OF_SECRET
        if is_secret and value.lower() not in HARMLESS and not ELSEWHERE.match(value):
            yield f"a value of `{name}`"


def _values(text: str, environ: Mapping[str, str], declared: frozenset[str]) -> Iterator[str]:
    for name, given in sorted(environ.items()):
        value = given.strip()
        is_secret = name in declared or SUSPICIOUS_VARIABLE.search(name)
        only_secret = name in declared or SECRET_VARIABLE.search(name)
        if is_secret and (_has_long(value, text) or (only_secret and _has_short(value, text))):
            yield f"the value of the environment variable {name}"


def _has_long(value: str, text: str) -> bool:
    return len(value) >= LONG and value in text


def _has_short(value: str, text: str) -> bool:
    """Whether the value is a separate word of the text, and not an ordinary word or number."""
    mixed = any(map(str.isalpha, value)) and not value.isalpha()
    return len(value) >= SHORT and mixed and bool(re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w.-])", text))
