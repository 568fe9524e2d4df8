"""No credential in a URL of the config, which is kept as it is in artifacts, metadata, logs and what is compiled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from headrace.configs.credentials import KEYS, value_without
from headrace.configs.passwords import URL_START, hides
from headrace.configs.rule import Finding
from headrace.configs.tree import Where

_ELSEWHERE = {
    "s3": "s3:// takes its keys from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "minio": "minio:// takes its keys from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "gs:// takes its credentials from the file that GOOGLE_APPLICATION_CREDENTIALS names",
}
"""Where what reads such a URL finds its credentials."""
_ANYWHERE = "give the URL without it"


def credentials_in(config: Any) -> Iterator[Finding]:
    """The URLs in a config, as plain values, that hold a password, a token or a signature."""
    for where, url in _urls_with_credentials(config):
        scheme = re.split(r"[:/\\]", url.lstrip(), maxsplit=1)[0].lower()
        way_out = _ELSEWHERE.get(scheme, _ANYWHERE)
        yield where, f"{value_without(url)} holds a credential, which logs and artifacts would keep; {way_out}"


def without_those_of(config: Any, text: str) -> str:
    """A text without the credentials in the URLs of a config, which it may repeat as they are, or as JSON."""
    for _, url in _urls_with_credentials(config):
        for spelled in (json.dumps(url)[1:-1], url):
            text = text.replace(spelled, value_without(url))
    return text


def _urls_with_credentials(config: Any, where: Where = ()) -> Iterator[tuple[Where, str]]:
    if isinstance(config, dict):
        for name, value in config.items():
            yield from _urls_with_credentials(value, (*where, name))
    elif isinstance(config, list):
        for place, value in enumerate(config):
            yield from _urls_with_credentials(value, (*where, place))
    elif isinstance(config, str) and URL_START.match(config.lstrip()) and _holds_one(config):
        yield where, config


def _holds_one(url: str) -> bool:
    return hides(url) or any(shape.search(url) for shape in KEYS.values())
