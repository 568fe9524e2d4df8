"""Object stores as the tests use them."""

from __future__ import annotations

import http.server
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.common.errors import DataError
from headrace.trainer.service.ports import free_port


@dataclass(frozen=True)
class Bucket:
    """An empty bucket on a server of its own kind. `put` writes an object and gives its path."""

    url: str
    server: str
    write: Callable[[str, bytes], object]
    remove: Callable[[str], object]

    def put(self, key: str, content: bytes | str) -> str:
        """Write an object; returns its path."""
        self.write(key, content.encode() if isinstance(content, str) else content)
        return f"{self.url}/{key}"


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """A server process; gives its URL as soon as it takes connections. `{port}` in the command is its port."""
    port = free_port()
    arguments = [part.format(port=port) for part in command]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(6000):
        assert process.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


def message(call: Callable[[], object]) -> str:
    """What the DataError says that the call raises."""
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


@contextmanager
def breaking_proxy(url: str, after: int) -> Iterator[str]:
    """A way to the server that goes dead for good after some bytes of answers."""
    host, port = url.removeprefix("http://").split(":")
    left = [after]

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((host, int(port))) as server:
                threading.Thread(target=self._back, args=(server,), daemon=True).start()
                with suppress(OSError):
                    while left[0] > 0 and (asked := self.request.recv(65536)):
                        server.sendall(asked)

        def _back(self, server: socket.socket) -> None:
            with suppress(OSError):
                while left[0] > 0 and (answer := server.recv(4096)):
                    left[0] -= len(answer)
                    self.request.sendall(answer)
                self.request.shutdown(socket.SHUT_RDWR)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


@contextmanager
def refusing_server(status: int, code: str) -> Iterator[str]:
    """A server that answers all with one error, in S3's words."""

    class Refusal(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>because</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def tls_server(folder: Path) -> Iterator[int]:
    """A server with a certificate that it signed itself."""
    import datetime as dt

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - dt.timedelta(1), now + dt.timedelta(1))
    pem = serialization.Encoding.PEM
    (folder / "c.pem").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
    (folder / "k.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "c.pem", folder / "k.pem")

    class Shake(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                context.wrap_socket(self.request, server_side=True).recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Shake) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
