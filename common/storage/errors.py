"""Errors of object stores as DataErrors that a user understands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from headrace.common.errors import DataError
from headrace.common.storage.filesystems import ObjectLocation, endpoint_url, parse_location

NO_OBJECT = "the object does not exist"

_AMAZON = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation(?:: (.*))?", re.DOTALL)
_GOOGLE = re.compile(r"google::cloud::Status\((\w+): (.*)", re.DOTALL)
_CURL = re.compile(r"(?:curlCode: |CURL error \[)(\d+)[],=]+ ?(.*?)(?: error_info|[.:;(\n]|$)")
_NAMED = re.compile(r"Unable to parse ExceptionName: (\S+) Message: (.*)")
_NOTHING = {None, "", "No response body.", "unknown"}
_DENIED = re.compile(r"DENIED|FORBIDDEN|UNAUTH|TOKEN|SIGNATURE|ACCESS_KEY|CREDENTIAL")
_TLS = {"35", "51", "58", "60", "77", "83"}

_CREDENTIALS = {
    "s3": "Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from the profiles in ~/.aws"
    " (AWS_PROFILE), or from the machine's role; they must allow s3:GetObject and s3:ListBucket",
    "gs": "Credentials come from GOOGLE_APPLICATION_CREDENTIALS, from `gcloud auth application-default login`, or from"
    " the machine's account; they must allow storage.objects.get and storage.objects.list",
}


@contextmanager
def object_errors(path: str) -> Iterator[None]:
    """Turn errors inside the block into DataErrors that name `path`."""
    try:
        yield
    except OSError as error:
        raise object_error(error, path) from None
    except ValueError as error:  # what pyarrow raises for names that it does not accept
        hint = "Rename the object, or narrow the pattern" if "Empty path component" in str(error) else ""
        raise DataError(f"cannot be read: {error}", file=path, hint=hint) from None


def object_error(error: OSError, path: str) -> DataError:
    """The DataError for an error of a filesystem."""
    location, text = parse_location(path), str(error)
    if isinstance(error, FileNotFoundError):
        return DataError(NO_OBJECT, file=path)
    code, status, message = _parts(text)
    if code == "NO_SUCH_BUCKET" or "Bucket not found" in text or ("resolve region" in text and "404" in text):
        return no_bucket(location)
    if found := _CURL.search(text):
        return _unreachable(location, path, found[1], found[2].strip())
    if _DENIED.search(code) or status in {"401", "403"} or "OAuth2" in text:
        return DataError("access is denied", file=path, hint=_CREDENTIALS[location.scheme])
    if "flush response stream" in message:  # pyarrow got fewer bytes than announced
        what = "the object changed or vanished while it was read, or the connection was lost"
        return DataError(what, file=path, hint="Run again when nothing writes to it")
    answer = message or (f"HTTP status {status}" if status else text.splitlines()[0])
    hint = "Try again later" if status.startswith("5") else ""
    if status == "400" and not message:  # the only sign of an expired token when an object is read
        hint = f"Have the credentials expired? {_CREDENTIALS[location.scheme]}"
    return DataError(f"cannot be read: {_server(location)} answers: {answer}", file=path, hint=hint)


def no_bucket(location: ObjectLocation) -> DataError:
    """The error for a bucket that does not exist."""
    amazon = location.scheme == "s3" and endpoint_url() is None
    more = "; for a server other than Amazon's, set AWS_ENDPOINT_URL" if amazon else ""
    return DataError(
        f"there is no bucket {location.bucket!r} on {_server(location)}",
        file=str(replace(location, key="")),
        hint=f"Correct the name{more}",
    )


def _server(location: ObjectLocation) -> str:
    """The name of the server in messages."""
    if location.scheme == "gs":
        return "Google Cloud Storage"
    return endpoint_url() or "Amazon S3"


def _unreachable(location: ObjectLocation, path: str, curl: str, reason: str) -> DataError:
    if curl in _TLS:
        return DataError(
            f"the certificate of {_server(location)} is not accepted: {reason}",
            file=path,
            hint="It must be signed by an authority that this machine trusts or that is in the file SSL_CERT_FILE"
            f"{'; for a server without TLS, AWS_ENDPOINT_URL starts with http://' if location.scheme == 's3' else ''}",
        )
    ask = " and AWS_ENDPOINT_URL" if location.scheme == "s3" else ""
    return DataError(
        f"{_server(location)} cannot be reached: {reason}", file=path, hint=f"Check the network{ask}, and try again"
    )


def _parts(text: str) -> tuple[str, str, str]:
    """The error code, the HTTP status and the message in an error text; empty where it has none."""
    if found := _AMAZON.search(text):
        message = "" if found[3] in _NOTHING else found[3].splitlines()[0]
        if named := _NAMED.match(message):
            return named[1].upper(), found[2] or "", named[2]
        return found[1], found[2] or "", message
    if found := _GOOGLE.search(text):
        status = re.search(r"HTTP status code: (\d+)", found[2])
        return found[1], status[1] if status else "", ""
    return "", "", ""
