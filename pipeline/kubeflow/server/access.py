"""The secret that opens the server: read where the config says, never printed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from headrace.configs.errors import ConfigError, Problem
from headrace.configs.kubeflow_server import ServerAuth

POD_TOKEN = "/var/run/secrets/kubeflow/pipelines/token"  # noqa: S105 - a path
WHERE = "kubeflow.server.auth"


def secret(auth: ServerAuth, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token or the cookie; None where there is none. Raises ConfigError if it cannot be had."""
    if auth.kind == "none":
        return None
    if auth.env is not None:
        text, place = environ.get(auth.env, ""), f"the environment variable {auth.env}"
    else:
        file = Path(auth.file or POD_TOKEN).expanduser()
        text, place = _content(file), str(file)
    text = text.strip()
    if not text:
        raise ConfigError(Problem(WHERE, f"{place} is not there or empty; the {auth.kind} secret belongs there"))
    if not text.isprintable():
        raise ConfigError(Problem(WHERE, f"{place} holds more than one line"))
    if auth.kind == "cookie" and "=" not in text:
        raise ConfigError(Problem(WHERE, f"{place} holds no `name=value`, as a cookie is"))
    return text


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(Problem(WHERE, f"{file} cannot be read ({type(error).__name__})")) from None
