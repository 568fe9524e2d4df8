"""The client and the server's certificate: against a real HTTPS server on loopback."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kfp_kubernetes import certificate

from headrace.common.errors import ServerError
from headrace.configs.schema.kubeflow import ServerConfig
from headrace.pipeline.kubeflow.server.connection import connect


class Secured(NamedTuple):
    """A server behind TLS, and the file of the certificate that it signed itself."""

    url: str
    file: Path


class Healthy(BaseHTTPRequestHandler):
    """A server of many users."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"multi_user": true}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    file, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield Secured(f"https://127.0.0.1:{server.server_port}", file)
        server.shutdown()


def ask(endpoint: str, **settings: Any) -> str | None:
    server = connect(ServerConfig(endpoint=endpoint, **settings))
    server._sleep = lambda _: None
    return server.namespace("kubeflow")


def test_a_certificate_that_nobody_known_signed_is_refused_with_the_way_out(secured: Secured) -> None:
    reported = r"certificate is not trusted \(.*\);.* kubeflow\.server\.ca_file"
    with pytest.raises(ServerError, match=reported):
        ask(secured.url)


def test_a_certificate_of_the_authority_named_is_taken_and_any_where_none_is_checked(secured: Secured) -> None:
    assert ask(secured.url, ca_file=str(secured.file)) == "kubeflow"
    assert ask(secured.url, verify_tls=False) == "kubeflow"


def test_an_address_without_tls_is_reported() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        with pytest.raises(ServerError, match=r"not speak TLS.* http://"):
            ask(f"https://127.0.0.1:{server.server_port}")
        server.shutdown()
