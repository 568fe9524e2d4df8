"""Google's clients. Credentials are the application's default ones; none is ever in the config."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.configs.errors import DataError

if TYPE_CHECKING:
    from google.cloud.bigquery import Client
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient

CREDENTIALS = (
    "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service"
    " account that may read the data"
)
RIGHTS = (
    "Reading needs the rights of BigQuery Read Session User and BigQuery Data Viewer, and a query those of BigQuery Job"
    " User, too"
)


def rest(project: str) -> Client:
    """For tables, and for queries as jobs."""
    from google.cloud.bigquery import Client

    return Client(project=project)


def storage() -> BigQueryReadClient:
    """For rows, by the Storage Read API."""
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient

    return BigQueryReadClient()


@contextmanager
def telling(place: str) -> Iterator[None]:
    """Errors of the clients become DataErrors that name `place`."""
    try:
        from google.api_core import exceptions as api
        from google.auth import exceptions as auth
    except ImportError as error:
        raise DataError(
            f"`kind: bigquery` needs the package {error.name}, which is not installed",
            hint="pip install google-cloud-bigquery google-cloud-bigquery-storage",
        ) from error
    try:
        yield
    except auth.DefaultCredentialsError:
        raise DataError("there are no credentials for Google Cloud", file=place, hint=CREDENTIALS) from None
    except auth.GoogleAuthError as error:
        raise DataError(f"Google Cloud takes no credentials: {error}", file=place, hint=CREDENTIALS) from None
    except (api.Forbidden, api.Unauthorized) as error:
        raise DataError(f"BigQuery refuses: {error.message}", file=place, hint=RIGHTS) from None
    except api.NotFound as error:
        raise DataError(f"BigQuery finds no such thing: {error.message}", file=place) from None
    except api.RetryError as error:
        raise DataError(f"BigQuery does not answer: {error.cause}", file=place) from None
    except api.GoogleAPICallError as error:
        raise DataError(f"BigQuery refuses or broke off: {error.message}", file=place) from None
