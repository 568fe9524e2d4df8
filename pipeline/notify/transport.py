"""How bytes get to a receiver: by HTTP or SMTP, with a time limit, verified certificates and a few tries.

No error of this module shows a URL, a header or a user: they may hold a credential. It names the host, or, if the URL
came from the environment, the variable.
"""

from __future__ import annotations

import contextlib
import http.client
import smtplib
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

Result = TypeVar("Result")

TIMEOUT = 5.0
"""Seconds to connect, and to wait for each answer."""
WAITS = (0.5, 2.0)
"""Seconds before each further try: with TIMEOUT, a receiver that does not answer takes 17.5 s."""
ANSWER = 4096
"""Bytes of a refusal that are read."""
TRANSIENT = frozenset({408, 425, 429})
"""HTTP statuses besides those from 500 that may be different next time."""


class DeliveryError(Exception):
    """A message could not be delivered. `str(error)` is the reason.

    again: whether a further try may help; status: that of the server's answer, None if there was none; answer: the
    beginning of its body, which may repeat what was sent.
    """

    def __init__(self, why: str, *, again: bool = False, status: int | None = None, answer: bytes = b"") -> None:
        super().__init__(why)
        self.again, self.status, self.answer = again, status, answer

    @property
    def unanswered(self) -> bool:
        """Whether there was no answer, so that a server may be away."""
        return self.again and self.status is None


@dataclass(frozen=True)
class Endpoint:
    """An HTTP server. url: may hold a credential; shown: what messages call it."""

    url: str
    shown: str
    authorization: str | None = None
    ca_file: str | None = None


def with_tries(send: Callable[[], Result], sleep: Callable[[float], None] = time.sleep) -> Result:
    """Call `send`, again if that may help. Raises DeliveryError."""
    for wait in WAITS:
        try:
            return send()
        except DeliveryError as error:
            if not error.again:
                raise
            sleep(wait)
    return send()


def request(to: Endpoint, method: str, body: bytes, content_type: str) -> None:
    """Send one request, and follow no redirect: it would lead elsewhere. Raises DeliveryError."""
    exchange(to, method, body, {"Content-Type": content_type}, most=1)


def exchange(
    to: Endpoint,
    method: str,
    body: bytes | BinaryIO | None,
    headers: Mapping[str, str],
    *,
    timeout: float = TIMEOUT,
    most: int | None = None,
) -> bytes:
    """Send one request, and return the body of the answer, or its first `most` bytes. Follows no redirect.

    timeout: seconds to connect, and to wait for each part of the answer. Raises DeliveryError.
    """
    headers = {**headers, "User-Agent": "headrace"}
    if to.authorization is not None:
        headers["Authorization"] = to.authorization
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=trusting(to.ca_file)))
    try:
        made = urllib.request.Request(to.url, body, headers, method=method)  # noqa: S310 - checked to be http or https
        with opener.open(made, timeout=timeout) as answer:
            return bytes(answer.read(most))
    except urllib.error.HTTPError as error:
        why, again = f"{to.shown} answers with status {error.code}", error.code in TRANSIENT or error.code >= 500
        raise DeliveryError(why, again=again, status=error.code, answer=_beginning(error)) from None
    except urllib.error.URLError as error:
        raise _failed(to.shown, error.reason, timeout) from None
    except (OSError, http.client.HTTPException) as error:
        raise _failed(to.shown, error, timeout) from None
    except ValueError:  # a header or URL that cannot be sent, which the error would repeat
        raise DeliveryError(f"{to.shown} is not a URL, or its header `Authorization` has a line break") from None


@dataclass(frozen=True)
class MailServer:
    """An SMTP server. login: user and password."""

    host: str
    port: int
    security: str
    login: tuple[str, str] | None = None
    ca_file: str | None = None


def send_mail(server: MailServer, message: EmailMessage) -> None:
    """Hand over one message. Raises DeliveryError."""
    shown = f"{server.host}:{server.port}"
    try:
        with _connected(server) as connection:
            if server.security == "starttls":
                connection.starttls(context=trusting(server.ca_file))
            if server.login is not None:
                connection.login(*server.login)
            refused = connection.send_message(message)
    except smtplib.SMTPResponseException as error:  # whose text may repeat what was sent
        raise DeliveryError(f"{shown} answers with code {error.smtp_code}", again=error.smtp_code < 500) from None
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        why = f"{shown} refuses every address (code {', '.join(map(str, codes))})"
        raise DeliveryError(why, again=all(code < 500 for code in codes)) from None
    except smtplib.SMTPServerDisconnected:
        raise DeliveryError(f"{shown} closed the connection", again=True) from None
    except smtplib.SMTPException as error:
        raise DeliveryError(f"{shown} does not offer what is needed ({type(error).__name__})") from None
    except UnicodeError:
        raise DeliveryError("the user or the password has characters that SMTP cannot send") from None
    except OSError as error:
        raise _failed(shown, error) from None
    if refused:
        raise DeliveryError(f"{shown} took the message, but refuses {len(refused)} of its addresses")


def _connected(server: MailServer) -> contextlib.AbstractContextManager[smtplib.SMTP]:
    if server.security == "tls":
        return smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT, context=trusting(server.ca_file))
    return smtplib.SMTP(server.host, server.port, timeout=TIMEOUT)


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """A context that verifies certificates and host names. Raises DeliveryError if the file cannot be read."""
    path = None if ca_file is None else str(Path(ca_file).expanduser())
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:  # among them ssl.SSLError
        raise DeliveryError(f"`ca_file`: {path}: {error.strerror or 'not a PEM file'}") from None


def host_of(url: str) -> str:
    """The host and port of a URL, for messages."""
    parts = urllib.parse.urlsplit(url)
    return parts.netloc.rpartition("@")[2]


def _beginning(error: urllib.error.HTTPError) -> bytes:
    with error, contextlib.suppress(OSError, http.client.HTTPException):
        return bytes(error.read(ANSWER))
    return b""


def _failed(shown: str, why: object, timeout: float = TIMEOUT) -> DeliveryError:
    """A connection that failed; only a certificate that is not trusted stays so."""
    if isinstance(why, ssl.SSLCertVerificationError):
        return DeliveryError(f"{shown}: its certificate is not valid here: {why.verify_message}; see `ca_file`")
    if isinstance(why, TimeoutError):
        return DeliveryError(f"{shown} did not answer within {timeout:g} s", again=True)
    reason = why.strerror if isinstance(why, OSError) and why.strerror else type(why).__name__
    return DeliveryError(f"{shown} cannot be reached: {reason}", again=True)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Leave the redirect as the answer, which is then an HTTPError."""


def environment(name: str, environ: Mapping[str, str]) -> str:
    """The value of a variable. Raises DeliveryError if it is not set."""
    if not (value := environ.get(name, "").strip()):
        raise DeliveryError(f"the environment variable {name} is not set")
    return value
