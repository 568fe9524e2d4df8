"""No credential in a URL of the config, which is kept as it is in artifacts, metadata, logs and what is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from configs.credentials import without
from configs.rule import Finding
from configs.tree import Where

_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_ELSEWHERE = {
    "s3": "s3:// takes its keys from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "minio": "minio:// takes its keys from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "gs:// takes its credentials from the file that GOOGLE_APPLICATION_CREDENTIALS names",
}
"""Where what reads such a URL finds its credentials."""
_ANYWHERE = "give the URL without it"


def credentials_in(config: Any, where: Where = ()) -> Iterator[Finding]:
    """The URLs in a config, as plain values, that hold a password, a token or a signature."""
    if isinstance(config, dict):
        for name, value in config.items():
            yield from credentials_in(value, (*where, name))
    elif isinstance(config, list):
        for place, value in enumerate(config):
            yield from credentials_in(value, (*where, place))
    elif isinstance(config, str) and _URL.fullmatch(config) and without(config) != config:
        scheme = config.partition("://")[0].lower()
        way_out = _ELSEWHERE.get(scheme, _ANYWHERE)
        yield where, f"{without(config)} holds a credential, which logs and artifacts would keep; {way_out}"
