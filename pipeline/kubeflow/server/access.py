"""What the config must say before a server can be asked: its address, and where the secret and the authority are.

Imports no client of Kubeflow, so that commands find such mistakes at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.common.errors import ConfigError, Problem
from headrace.configs.rules.kubeflow import AUTH
from headrace.configs.rules.rule import Rule, Violation
from headrace.configs.schema.kubeflow import KubeflowConfig, ServerAuth

POD_TOKEN = "/var/run/secrets/kubeflow/pipelines/token"  # noqa: S105 - a path


def endpoint_is_named(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if kubeflow.server.endpoint is None:
        what = "name the address of the Kubeflow Pipelines server, such as https://kubeflow.example/pipeline"
        yield ("kubeflow", "server", "endpoint"), what


def secret_is_readable(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    try:
        read_secret(kubeflow.server.auth)
    except ConfigError as error:
        for problem in error.problems:
            yield AUTH, problem.what


def authority_exists(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    file = kubeflow.server.ca_file
    if file is not None and not Path(file).expanduser().is_file():
        yield ("kubeflow", "server", "ca_file"), f"{Path(file).expanduser()} does not exist"


RULES: tuple[Rule, ...] = (endpoint_is_named, secret_is_readable, authority_exists)


def read_secret(auth: ServerAuth, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token or cookie, or None if the config names none. Raises ConfigError if it cannot be read."""
    if auth.kind == "none":
        return None
    if auth.env is not None:
        text, source = environ.get(auth.env, ""), f"the environment variable {auth.env}"
    else:
        file = Path(auth.file or POD_TOKEN).expanduser()
        text, source = _content(file), str(file)
    text = text.strip()
    if not text:
        raise _error(f"{source} is missing or empty; it must hold the {auth.kind}")
    if not text.isprintable():
        raise _error(f"{source} holds more than one line")
    if auth.kind == "cookie" and "=" not in text:
        raise _error(f"{source} does not hold a cookie of the form `name=value`")
    return text


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise _error(f"{file} cannot be read ({type(error).__name__})") from None


def _error(what: str) -> ConfigError:
    return ConfigError(Problem(".".join(map(str, AUTH)), what))
