"""A way to an S3 server that notes the requests, answers some of them itself, and shows objects older or renamed.

with s3_proxy(server.url) as proxy:
    proxy.before = lambda method, path: "503 Slow Down" if method == "PUT" else None
    proxy.age({"/runs/v2/blessed.json": 2.0})
    assert proxy.asked == [("PUT", "/runs/v2/blessed.json")]

Requests go on as they came, with the name of the host that was signed. So what is tested is the server; what the proxy
adds is what no server does on request: outages, kills at a certain request, the past, and names that some servers
refuse.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import html
import http.client
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

Asked = tuple[str, str]
"""Method and path."""
OF_CONNECTION = {"connection", "content-length", "expect", "keep-alive", "transfer-encoding"}
"""Headers that are about one of the two connections."""
LOST = "lost"
"""What `after` returns for an answer that does not arrive."""
SECONDS = 600.0
CONTENTS = re.compile(r"<Contents>.*?</Contents>", re.DOTALL)
KEY = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
WRITTEN = re.compile(r"(?<=<LastModified>).*?(?=</LastModified>)")


class Answer(NamedTuple):
    """`headers`: without those of the connection."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    length: str | None
    """Of the content, also where a HEAD leaves it out."""
    content: bytes = b""


class S3Proxy:
    """`before`: called with each request; a status that it returns is the answer, and the server is not asked. `lost`:
    whether the answer to a request that the server carried out is lost with the connection. `shown`: other keys that
    listings have for objects, by their paths (/bucket/key).
    """

    def __init__(self, server: str) -> None:
        self.server, self.url = server, ""
        self.asked: list[Asked] = []
        self.before: Callable[[str, str], str | None] = lambda _method, _path: None
        self.lost: Callable[[str, str], bool] = lambda _method, _path: False
        self.shown: dict[str, str] = {}
        self._days: dict[str, float] = {}

    def age(self, days: Mapping[str, float]) -> None:
        """As if objects had been written so many days earlier, by their paths (/bucket/key)."""
        for path, number in days.items():
            self._days[path] = self._days.get(path, 0.0) + number

    def answer(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Answer | None:
        """The server's answer, or that of `before`; None for one that is lost."""
        path = unquote(urlsplit(target).path)
        self.asked.append((method, path))
        if status := self.before(method, path):
            code, _, reason = status.partition(" ")
            return Answer(int(code), reason, [], "0")
        answer = self._forward(method, target, headers, body)
        if method in {"PUT", "POST"}:
            self._days.pop(path, None)
        return None if self.lost(method, path) else self._edited(answer, target)

    def _forward(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
        there = urlsplit(self.server)
        kind = http.client.HTTPSConnection if there.scheme == "https" else http.client.HTTPConnection
        with contextlib.closing(kind(there.netloc, timeout=SECONDS)) as connection:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                if name.lower() not in OF_CONNECTION:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            found = connection.getresponse()
            content = found.read()
            kept = [(name, value) for name, value in found.getheaders() if name.lower() not in OF_CONNECTION]
            length = found.getheader("Content-Length") if method == "HEAD" else str(len(content))
            return Answer(found.status, found.reason, kept, length, content)

    def _edited(self, answer: Answer, target: str) -> Answer:
        """The same with the times of objects that were aged, and the keys of those that are renamed."""
        parts = urlsplit(target)
        path = unquote(parts.path)
        if path in self._days:
            headers = [
                (name, self._header(path, value) if name.lower() == "last-modified" else value)
                for name, value in answer.headers
            ]
            return answer._replace(headers=headers)
        if not (self._days or self.shown) or b"<ListBucketResult" not in answer.content[:1000]:
            return answer
        coded = "encoding-type" in parse_qs(parts.query)

        def one(found: re.Match[str]) -> str:
            (key,) = KEY.findall(found[0])
            name = f"{path.rstrip('/')}/{unquote(html.unescape(key)) if coded else html.unescape(key)}"
            text = WRITTEN.sub(lambda time: self._time(name, time[0]), found[0])
            shown = html.escape(self.shown[name]) if name in self.shown else key
            return text.replace(f"<Key>{key}<", f"<Key>{shown}<")

        content = CONTENTS.sub(one, answer.content.decode()).encode()
        return answer._replace(content=content, length=str(len(content)))

    def _header(self, path: str, value: str) -> str:
        then = email.utils.parsedate_to_datetime(value) - dt.timedelta(days=self._days[path])
        return email.utils.format_datetime(then.astimezone(dt.UTC), usegmt=True)

    def _time(self, path: str, value: str) -> str:
        then = dt.datetime.fromisoformat(value) - dt.timedelta(days=self._days.get(path, 0.0))
        return then.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@contextlib.contextmanager
def s3_proxy(server: str) -> Iterator[S3Proxy]:
    """A proxy in front of the server with this URL."""
    proxy = S3Proxy(server)

    class Handler(_Handler):
        answer = staticmethod(proxy.answer)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        proxy.url = f"http://127.0.0.1:{listening.server_port}"
        threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
        yield proxy
        listening.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    answer: Callable[[str, str, Iterable[tuple[str, str]], bytes], Answer | None]

    def do_GET(self) -> None:
        answer = self.answer(self.command, self.path, self.headers.items(), self._body())
        if answer is None:
            self.close_connection = True
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.length is not None and answer.status not in {204, 304}:
            self.send_header("Content-Length", answer.length)
        self.end_headers()
        self.wfile.write(answer.content)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def log_message(self, *_arguments: object) -> None:
        pass
