"""Failures of requests to the server as ServerErrors whose messages say what to check."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

import urllib3
from kfp_server_api.exceptions import ApiException

from headrace.common.errors import ServerError

OK = 200
NOT_FOUND = 404
MAX_WORDS = 600
"""Characters of a server's own message that are passed on."""
_ADVICE = {
    401: "the token or cookie is missing, wrong or expired; see kubeflow.server.auth",
    403: "this account may not do that; see kubeflow.server.auth, and its rights in kubeflow.namespace",
}
_PAGE = f"it answers with a web page, perhaps its login page\n  {_ADVICE[401]}"
_NO_PAGE = "404 page not found"
"""The answer of a server written in Go to a path that it does not serve."""
_WRONG_PATH = "the API is not at this address; kubeflow.server.endpoint includes the part of the path before /apis"


def reject_page(text: str | bytes) -> None:
    """Raise ValueError if a text is HTML."""
    if text.lstrip()[:1] in ("<", b"<"):
        raise ValueError(_PAGE)


@contextlib.contextmanager
def as_server_error(endpoint: str, what: str) -> Iterator[None]:
    """Turn every failure of a request into a ServerError. what: such as `submit the run`."""
    try:
        yield
    except ApiException as error:
        raise _from_answer(endpoint, what, error) from None
    except urllib3.exceptions.HTTPError as error:
        slow = isinstance(error, urllib3.exceptions.TimeoutError) and not _is_refused(error)
        raise ServerError(f"{endpoint}: cannot {what}: {_cause(error)}", slow=slow) from None
    except ValueError as error:  # an answer of another shape: not this API
        reason = str(error) if str(error) == _PAGE else f"the answer is not one of Kubeflow Pipelines ({error})"
        raise ServerError(f"{endpoint}: cannot {what}: {reason}", OK) from None


def is_unclear(error: ServerError) -> bool:
    """Whether the server may have executed the request although it failed."""
    return error.status is None or error.status >= 500 or error.status == OK


def may_exist(error: ServerError) -> bool:
    """Whether the object of a failed creation may exist: the request may have succeeded, or another command's did."""
    return is_unclear(error) or error.status in (400, 409)


def _from_answer(endpoint: str, what: str, error: ApiException) -> ServerError:
    if not error.status:
        return ServerError(f"{endpoint}: cannot {what}: {_tls(str(error.reason))}")
    if 300 <= error.status < 400:
        return ServerError(
            f"{endpoint}: cannot {what}: the server redirects to a login page (HTTP {error.status});"
            " see kubeflow.server.auth",
            error.status,
        )
    words = _words(error.body) or error.reason or ""
    advice = _ADVICE.get(error.status) or (_WRONG_PATH if words == _NO_PAGE else None)
    reason = f"HTTP {error.status}" + (f": {words}" if words else "")
    return ServerError(f"{endpoint}: cannot {what}: {reason}" + (f"\n  {advice}" if advice else ""), error.status)


def _words(body: str | bytes | None) -> str:
    """The server's message without its stack trace."""
    if not body:
        return ""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    with contextlib.suppress(ValueError):
        fields = json.loads(text)
        if isinstance(fields, dict):
            text = str(fields.get("message") or fields.get("error_message") or fields.get("error") or "")
    if text.lstrip().startswith("<"):
        return ""
    return re.sub(r"\s+", " ", text).strip()[:MAX_WORDS]


def _cause(error: urllib3.exceptions.HTTPError) -> str:
    if _is_refused(error):
        what = f"it cannot be reached ({_last_part(str(error))})"
        return f"{what}; check that it runs, and that `kubectl port-forward` does if the address needs it"
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return "connecting timed out; is the address right, and is it reachable from here?"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in kubeflow.server.timeout_seconds"
    if isinstance(error, urllib3.exceptions.SSLError):
        return _tls(str(error))
    if isinstance(error, urllib3.exceptions.ProtocolError):
        return "it closed the connection"
    return f"the request failed ({_last_part(str(error)) or type(error).__name__})"


def _is_refused(error: BaseException) -> bool:
    """In urllib3 1, a refused connection is a kind of timeout."""
    return isinstance(error, urllib3.exceptions.NewConnectionError)


def _last_part(text: str) -> str:
    return text.rsplit(": ", 1)[-1].strip()


def _tls(text: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        hint = "name the certificate authority as kubeflow.server.ca_file"
        return f"its certificate is not trusted ({_last_part(text)}); {hint}"
    if "WRONG_VERSION_NUMBER" in text:
        return "it does not speak TLS there; should the address begin with http://?"
    return f"no secure connection ({_last_part(text)})"
