"""A process of Beam's workers for which BigQuery's Storage Read API is a server on this machine."""

import os
import sys

import grpc
from apache_beam.runners.worker import sdk_worker_main
from google.cloud.bigquery_storage_v1 import BigQueryReadClient
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

from headrace.components.sources import bigquery

ADDRESS = "HEADRACE_TEST_BIGQUERY"


def storage_client() -> BigQueryReadClient:
    """A client of the server that the environment names."""
    return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=grpc.insecure_channel(os.environ[ADDRESS])))


if __name__ == "__main__":
    bigquery.storage_client = storage_client
    sdk_worker_main.main(sys.argv)
