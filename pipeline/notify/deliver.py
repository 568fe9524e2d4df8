"""One function for each kind of receiver, which sends one event. They raise DeliveryError.

deliver(config.notify["ops"], message, environ)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from functools import singledispatch
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.common.durable import write_text
from headrace.common.names import one_line
from headrace.configs.schema.notify import (
    CommandReceiver,
    EmailReceiver,
    PrometheusFileReceiver,
    PushgatewayReceiver,
    SlackReceiver,
    WebhookReceiver,
)
from headrace.pipeline.notify import event as events
from headrace.pipeline.notify import metrics, transport
from headrace.pipeline.notify.text import slack_text
from headrace.pipeline.notify.transport import DeliveryError, Endpoint, MailServer, environment

COMMAND_SECONDS = 30.0
"""After which a receiver's program is killed."""


@dataclass(frozen=True)
class Message:
    """What receivers get. event: as CloudEvents' JSON; metrics: in Prometheus' text format."""

    pipeline: str
    event: Mapping[str, Any]
    headline: str
    lines: list[str]
    metrics: str = ""

    @property
    def id(self) -> str:
        return str(self.event["id"])

    @property
    def json(self) -> bytes:
        return json.dumps(self.event, allow_nan=False).encode()


@dataclass(frozen=True)
class Outside:
    """What deliveries use of the world: the environment's variables, and a clock's sleep."""

    environ: Mapping[str, str]
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of_process(cls) -> Outside:
        return cls(dict(os.environ))


@singledispatch
def deliver(receiver: Any, message: Message, outside: Outside) -> None:  # noqa: ARG001 - for those below
    """Send a message to a receiver. Raises DeliveryError."""
    raise TypeError(f"{type(receiver).__name__} is not a receiver")


@deliver.register
def _(receiver: WebhookReceiver, message: Message, outside: Outside) -> None:
    to = _destination(receiver, outside)
    _send(to, "POST", message.json, events.CONTENT_TYPE, outside)


@deliver.register
def _(receiver: SlackReceiver, message: Message, outside: Outside) -> None:
    body = json.dumps({"text": slack_text(message.headline, message.lines)}).encode()
    to = Endpoint(*_named_url(receiver.url_env, outside), ca_file=receiver.ca_file)
    _send(to, "POST", body, "application/json; charset=utf-8", outside)


@deliver.register
def _(receiver: EmailReceiver, message: Message, outside: Outside) -> None:
    login = None
    if receiver.user_env is not None and receiver.password_env is not None:
        login = environment(receiver.user_env, outside.environ), environment(receiver.password_env, outside.environ)
    server = MailServer(receiver.host, receiver.port_used, receiver.security, login, receiver.ca_file)
    mail = mail_of(receiver, message)
    transport.with_tries(lambda: transport.send_mail(server, mail), outside.sleep)


@deliver.register
def _(receiver: CommandReceiver, message: Message, outside: Outside) -> None:
    program = receiver.command[0]
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            receiver.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(outside.environ),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds a null byte"
        raise DeliveryError(f"{program} cannot be started: {why}") from None
    try:
        process.communicate(message.json, timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise DeliveryError(f"{program} was killed after {COMMAND_SECONDS:g} s") from None
    if process.returncode:
        raise DeliveryError(f"{program} ended with exit code {process.returncode}")


@deliver.register
def _(receiver: PushgatewayReceiver, message: Message, outside: Outside) -> None:
    to = _destination(receiver, outside)
    group = f"/metrics/job/{metrics.JOB}/pipeline/{urllib.parse.quote(message.pipeline, safe='')}"
    to = Endpoint(to.url.rstrip("/") + group, to.shown, to.authorization, to.ca_file)
    _send(to, "PUT", message.metrics.encode(), metrics.CONTENT_TYPE, outside)


@deliver.register
def _(receiver: PrometheusFileReceiver, message: Message, outside: Outside) -> None:  # noqa: ARG001 - as above
    path = Path(receiver.path.replace("{name}", message.pipeline))
    try:
        write_text(path, message.metrics)
    except OSError as error:
        raise DeliveryError(f"{path} cannot be written: {error.strerror}") from None


def mail_of(receiver: EmailReceiver, message: Message) -> EmailMessage:
    """The e-mail. Its Message-ID is the same each time that the same event is sent."""
    mail = EmailMessage()
    mail["Subject"] = one_line(message.headline)
    mail["From"], mail["To"] = receiver.sender, ", ".join(receiver.to)
    mail["Date"] = formatdate()
    digest = sha256(f"{message.event['source']}\n{message.id}".encode()).hexdigest()[:32]
    mail["Message-ID"] = f"<{digest}@{receiver.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join([message.headline, "", *message.lines, ""]))
    return mail


def _destination(receiver: WebhookReceiver | PushgatewayReceiver, outside: Outside) -> Endpoint:
    variable = receiver.authorization_env
    authorization = None if variable is None else environment(variable, outside.environ)
    if receiver.url_env is not None:
        url, shown = _named_url(receiver.url_env, outside)
    else:
        url = receiver.url or ""
        shown = transport.host_of(url)
    return Endpoint(url, shown, authorization, receiver.ca_file)


def _named_url(variable: str, outside: Outside) -> tuple[str, str]:
    """The URL in an environment variable, and what messages call its server. Raises DeliveryError."""
    url = environment(variable, outside.environ)
    if not url.startswith(("https://", "http://")):
        raise DeliveryError(f"the environment variable {variable} holds no URL with https or http")
    return url, f"the server of {variable}"


def _send(to: Endpoint, method: str, body: bytes, content_type: str, outside: Outside) -> None:
    transport.with_tries(lambda: transport.request(to, method, body, content_type), outside.sleep)
