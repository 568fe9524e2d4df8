"""What went wrong in an object store, in the user's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from components.example_gen.remote.place import Place, endpoint_url, place_of
from configs.errors import DataError

_AMAZON = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation(?:: (.*))?", re.DOTALL)
_GOOGLE = re.compile(r"google::cloud::Status\((\w+): (.*)", re.DOTALL)
_CURL = re.compile(r"(?:curlCode: |CURL error \[)(\d+)[],=]+ ?([^.:\n(]*)")
_DENIED = re.compile(r"DENIED|FORBIDDEN|UNAUTH|TOKEN|SIGNATURE|ACCESS_KEY|CREDENTIAL")
_TLS = {"35", "51", "58", "60", "77", "83"}

_CREDENTIALS = {
    "s3": "Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from the profiles in ~/.aws"
    " (AWS_PROFILE), or from the machine's role; they must allow s3:GetObject and s3:ListBucket",
    "gs": "Credentials come from GOOGLE_APPLICATION_CREDENTIALS, from `gcloud auth application-default login`, or from"
    " the machine's account; they must allow storage.objects.get and storage.objects.list",
}


@contextmanager
def telling(path: str) -> Iterator[None]:
    """What goes wrong inside becomes a DataError that names `path`."""
    try:
        yield
    except OSError as error:
        raise explained(error, path) from None


def explained(error: OSError, path: str) -> DataError:
    """The DataError for what a filesystem raised."""
    place, text = place_of(path), str(error)
    if isinstance(error, FileNotFoundError):
        return DataError("there is no such object", file=path)
    code, status, message = _parts(text)
    if code == "NO_SUCH_BUCKET" or "Bucket not found" in text or ("resolve region" in text and "404" in text):
        return no_bucket(place)
    if found := _CURL.search(text):
        return _unreachable(place, path, found[1], found[2].strip())
    if _DENIED.search(code) or status in {"401", "403"} or "OAuth2" in text:
        return DataError("access is denied", file=path, hint=_CREDENTIALS[place.scheme])
    said = message or code.replace("_", " ").lower() or "no reason given"
    return DataError(f"cannot be read: the server of {server(place)} answers: {said}", file=path)


def no_bucket(place: Place) -> DataError:
    """The error for a bucket that does not exist."""
    more = "; for a server other than Amazon's, set AWS_ENDPOINT_URL" if place.scheme == "s3" else ""
    return DataError(
        f"there is no bucket {place.bucket!r} on {server(place)}", file=str(place), hint=f"Mend the name{more}"
    )


def server(place: Place) -> str:
    """What to call the server of a place."""
    if place.scheme == "gs":
        return "Google Cloud Storage"
    return endpoint_url() or "Amazon S3"


def _unreachable(place: Place, path: str, curl: str, reason: str) -> DataError:
    if curl in _TLS:
        return DataError(
            f"{server(place)} does not prove who it is: {reason}",
            file=path,
            hint="Its certificate must be signed by an authority that this machine trusts; a server without TLS is"
            " named with http:// in AWS_ENDPOINT_URL",
        )
    ask = " and AWS_ENDPOINT_URL" if place.scheme == "s3" else ""
    return DataError(
        f"{server(place)} cannot be reached: {reason}", file=path, hint=f"Check the network{ask}, and try again"
    )


def _parts(text: str) -> tuple[str, str, str]:
    """Code, HTTP status and message."""
    if found := _AMAZON.search(text):
        message = (found[3] or "").strip()
        return found[1], found[2] or "", "" if message == "No response body." else message.splitlines()[0]
    if found := _GOOGLE.search(text):
        status = re.search(r"HTTP status code: (\d+)", found[2])
        return found[1], status[1] if status else "", ""
    return "", "", ""
