"""The rules of `notify:`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from headrace.configs.rules.rule import Violation
from headrace.configs.schema.notify import AnyReceiver, EmailReceiver, HttpReceiver

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
USE_HTTPS = "the token of `authorization_env` would be sent without encryption; use https"


def is_unencrypted(url: str) -> bool:
    """Whether requests to a URL pass through a network without encryption."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in LOOPBACK


def url_is_given_once(notify: Mapping[str, AnyReceiver]) -> Iterator[Violation]:
    for name, receiver in notify.items():
        if not isinstance(receiver, HttpReceiver):
            continue
        if receiver.url is None and receiver.url_env is None:
            what = "name the environment variable that holds the URL, such as"
            yield (
                ("notify", name, "url_env"),
                f"{what} HEADRACE_WEBHOOK_URL, or give a URL without credentials as `url`",
            )
        if receiver.url is not None and receiver.url_env is not None:
            yield ("notify", name, "url"), "`url_env` gives the URL too; remove one of them"


def token_is_encrypted(notify: Mapping[str, AnyReceiver]) -> Iterator[Violation]:
    for name, receiver in notify.items():
        if not isinstance(receiver, HttpReceiver) or receiver.url is None:
            continue
        if getattr(receiver, "authorization_env", None) is not None and is_unencrypted(receiver.url):
            yield ("notify", name, "url"), USE_HTTPS


def login_is_whole_and_encrypted(notify: Mapping[str, AnyReceiver]) -> Iterator[Violation]:
    for name, receiver in notify.items():
        if not isinstance(receiver, EmailReceiver):
            continue
        if (receiver.user_env is None) != (receiver.password_env is None):
            missing = "user_env" if receiver.user_env is None else "password_env"
            yield ("notify", name), f"a login needs `user_env` and `password_env`; add `{missing}`, or remove the other"
        if receiver.security == "none" and receiver.password_env is not None:
            what = "the password would be sent without encryption; use starttls or tls, or remove the login"
            yield ("notify", name, "security"), what
