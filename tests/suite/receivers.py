"""Receivers of messages on loopback: an HTTP server and an SMTP server that record what they get.

with http_receiver(refuse=[503, 503]) as hook:    # fails twice, then accepts
    notify(...)
hook.requests[-1].json["type"]

with mail_receiver(certificate) as mail:
    notify(...)
mail.messages[0].get_content()
"""

from __future__ import annotations

import base64
import contextlib
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class HttpReceiver:
    """refuse: the statuses of the first answers; all others are 200. to: where a status from 300 leads."""

    url: str = ""
    refuse: list[int] = field(default_factory=list)
    to: str = ""
    requests: list[Request] = field(default_factory=list)


@contextlib.contextmanager
def http_receiver(
    refuse: Sequence[int] = (), *, to: str = "", signed: tuple[Path, Path] | None = None
) -> Iterator[HttpReceiver]:
    """signed: the certificate and the key of a server behind TLS."""
    receiver = HttpReceiver(refuse=[*refuse], to=to)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append(Request(self.command, self.path, dict(self.headers), body))
            self.send_response(receiver.refuse.pop(0) if receiver.refuse else 200)
            if receiver.to:
                self.send_header("Location", receiver.to)
            self.end_headers()

        def do_PUT(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if signed:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*signed)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        receiver.url = f"http{'s' if signed else ''}://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield receiver
        server.shutdown()


@dataclass
class MailReceiver:
    """messages: those accepted; logins: users and passwords, and whether the connection was encrypted by then."""

    port: int = 0
    refuse: list[str] = field(default_factory=list)
    messages: list[EmailMessage] = field(default_factory=list)
    envelopes: list[tuple[str, list[str]]] = field(default_factory=list)
    logins: list[tuple[str, str, bool]] = field(default_factory=list)


class _Session(socketserver.StreamRequestHandler):
    """The dialogue with one client (RFC 5321)."""

    server: _MailServer
    encrypted = False
    sender = ""

    def handle(self) -> None:
        self.recipients: list[str] = []
        self.say("220 receiver ESMTP")
        while line := self.rfile.readline():
            command, _, rest = line.decode().rstrip("\r\n").partition(" ")
            getattr(self, f"on_{command.lower()}", self.on_other)(rest)
            if command.upper() == "QUIT":
                return

    def on_ehlo(self, _: str) -> None:
        starttls = ["250-STARTTLS"] if self.server.signed and not self.encrypted else []
        self.say("\r\n".join(["250-receiver", "250-AUTH PLAIN", *starttls, "250 8BITMIME"]))

    def on_starttls(self, _: str) -> None:
        assert self.server.signed is not None
        self.say("220 go ahead")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server.signed)
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.encrypted = True

    def on_auth(self, rest: str) -> None:
        _, user, password = base64.b64decode(rest.split()[1]).decode().split("\0")
        self.server.receiver.logins.append((user, password, self.encrypted))
        self.say("535 no" if password == "wrong" else "235 ok")

    def on_mail(self, rest: str) -> None:
        self.sender, self.recipients = rest, []
        self.say("250 ok")

    def on_rcpt(self, rest: str) -> None:
        self.recipients.append(rest)
        self.say("250 ok")

    def on_data(self, _: str) -> None:
        self.say("354 go ahead")
        lines = iter(self.rfile.readline, b".\r\n")
        content = b"".join(line[1:] if line.startswith(b".") else line for line in lines)
        receiver = self.server.receiver
        if receiver.refuse:
            self.say(receiver.refuse.pop(0))
            return
        receiver.messages.append(message_from_bytes(content, policy=policy.default))
        receiver.envelopes.append((self.sender, self.recipients))
        self.say("250 ok")

    def on_quit(self, _: str) -> None:
        self.say("221 bye")

    def on_other(self, _: str) -> None:
        self.say("250 ok")

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, receiver: MailReceiver, signed: tuple[Path, Path] | None) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.receiver, self.signed = receiver, signed

    def handle_error(self, *_: object) -> None:
        """A client that does not trust the certificate hangs up."""


@contextlib.contextmanager
def mail_receiver(signed: tuple[Path, Path] | None = None, *, refuse: Sequence[str] = ()) -> Iterator[MailReceiver]:
    """An SMTP server with AUTH PLAIN; with STARTTLS if it has a certificate and key.

    refuse: the answers to the first messages, such as `451 later`.
    """
    receiver = MailReceiver(refuse=[*refuse])
    with _MailServer(receiver, signed) as server:
        receiver.port = int(server.server_address[1])
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield receiver
        server.shutdown()
