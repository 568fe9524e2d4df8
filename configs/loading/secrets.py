"""Secrets in a config, which is refused: it may only say where a secret is.

Configs are stored unchanged in artifacts, metadata, logs and compiled pipelines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from headrace.common.credentials import KEY_PATTERNS, SECRET_FIELD, URL_START, has_password, redact_value
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.section import KeyPath

FREE_SETTINGS = frozenset({"custom_config", "options"})
"""Settings with names that users choose, whose values go to functions of theirs."""
_ENVIRONMENT = "put it into an environment variable, and the name of the variable here"
_SECRET = "put it into a Secret, and reference it under `secrets:`"  # noqa: S105 - a way out


def inline_secrets(config: Any) -> Iterator[Violation]:
    """The settings of a config (plain values) that hold a secret: in a URL, by its form, or by its name."""
    yield from url_credentials(config)
    for path, text in _texts(config):
        found = next((what for what, pattern in KEY_PATTERNS.items() if pattern.search(text)), None)
        if _is_url(text):
            continue
        if found is None and not _is_named_secret(path, text):
            continue
        way_out = _SECRET if path[0] == "kubeflow" and path[1] != "server" else _ENVIRONMENT
        yield path, f"contains {found or 'a secret'}, which would end up in logs and artifacts; {way_out}"


def _is_named_secret(path: KeyPath, text: str) -> bool:
    """Whether a free setting, or one of an installed source, is called like a secret: `api_key: ...`."""
    free = path[:2] == ("data", "source") or not FREE_SETTINGS.isdisjoint(path[:-1])
    return bool(text) and path[0] != "beam" and free and SECRET_FIELD.search(str(path[-1])) is not None


_OTHER_SOURCES = {
    "s3": "s3:// reads its keys from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "minio": "minio:// reads its keys from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "gs:// reads its credentials from the file in GOOGLE_APPLICATION_CREDENTIALS",
}
"""Where credentials for these URLs come from."""


def url_credentials(config: Any) -> Iterator[Violation]:
    """The URLs in a config (plain values) that contain a password, token or signature."""
    for path, url in _urls_with_credentials(config):
        scheme = re.split(r"[:/\\]", url.lstrip(), maxsplit=1)[0].lower()
        way_out = _OTHER_SOURCES.get(scheme, "use the URL without it")
        yield path, f"{redact_value(url)} contains a credential, which would end up in logs and artifacts; {way_out}"


def redact_url_credentials(config: Any, text: str) -> str:
    """A text without the credentials in the URLs of a config, which it may repeat as they are or as JSON."""
    for _, url in _urls_with_credentials(config):
        for spelled in (json.dumps(url)[1:-1], url):
            text = text.replace(spelled, redact_value(url))
    return text


def _urls_with_credentials(config: Any) -> Iterator[tuple[KeyPath, str]]:
    return ((path, text) for path, text in _texts(config) if _is_url(text) and _has_credential(text))


def _texts(config: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """All strings in a config, each with its path."""
    if isinstance(config, dict):
        for name, value in config.items():
            yield from _texts(value, (*path, name))
    elif isinstance(config, list):
        for number, value in enumerate(config):
            yield from _texts(value, (*path, number))
    elif isinstance(config, str):
        yield path, config


def _is_url(text: str) -> bool:
    return URL_START.match(text.lstrip()) is not None


def _has_credential(url: str) -> bool:
    return has_password(url) or any(pattern.search(url) for pattern in KEY_PATTERNS.values())
