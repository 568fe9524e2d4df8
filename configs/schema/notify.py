"""`notify:` who is notified of how a run ended. One class per kind of receiver; `kind:` selects it.

URLs that hold a token, users and passwords are only named, by the environment variables that hold them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.section import Name, Section

RunEvent = Literal[
    "failed",
    "killed",
    "interrupted",
    "not_blessed",
    "awaiting_approval",
    "pushed",
    "blessed",
    "drifted",
    "ended_early",
]
"""What can become of a run; several may be true of one. In the order of what a message is about."""
BY_DEFAULT: tuple[RunEvent, ...] = ("failed", "killed", "not_blessed")
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""
WebUrl = Annotated[str, Field(pattern=r"^https?://[^\s/]\S*$")]
Address = Annotated[str, Field(pattern=r"^[^\s@<>,;:\"]+@[^\s@<>,;:\"]+$")]


class Receiver(Section):
    """A receiver of messages."""

    on: Annotated[tuple[RunEvent, ...], Field(min_length=1)] = BY_DEFAULT
    """The events that it is notified of: `failed`; `killed` (the command was killed, as for lack of memory; the next
    run sends the notification); `interrupted` (Ctrl-C, SIGTERM, or `headrace cancel`); `not_blessed`;
    `awaiting_approval`; `pushed`; `blessed`; `drifted` (beyond the limits of `gates.drift` or
    `gates.skew`, or of `schedule.retrain: drift`); `ended_early` (there was no reason to train). If several are true of
    a run, one message is sent, about the first of them in this order."""


class HttpReceiver(Section):
    """Where a receiver is reached by HTTP."""

    url: WebUrl | None = None
    """Its URL, if it holds no credential."""
    url_env: Variable | None = None
    """The environment variable with its URL, instead of `url`."""
    ca_file: Name | None = None
    """PEM file with the certificates of the authority that signed the server's. null: the public authorities."""


class WebhookReceiver(HttpReceiver, Receiver):
    """A POST of a CloudEvents 1.0 event as JSON (see docs/notify.md)."""

    kind: Literal["webhook"]
    """The kind of receiver."""
    authorization_env: Variable | None = None
    """The environment variable with the header `Authorization`, such as `Bearer ...`. null: none is sent."""


class SlackReceiver(Receiver):
    """A message through an incoming webhook of Slack, or of a server that takes its format, such as Mattermost."""

    kind: Literal["slack"]
    """The kind of receiver."""
    url_env: Variable
    """The environment variable with the webhook's URL, which is a credential."""
    ca_file: Name | None = None
    """PEM file with the certificates of the authority that signed the server's. null: the public authorities."""


class EmailReceiver(Receiver):
    """An e-mail, through an SMTP server."""

    kind: Literal["email"]
    """The kind of receiver."""
    to: Annotated[tuple[Address, ...], Field(min_length=1)]
    """The addresses it goes to."""
    sender: Address
    """The address it comes from."""
    host: Name
    """The SMTP server."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Its port. null: 587 with `starttls`, 465 with `tls`, 25 with `none`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """starttls: the connection is encrypted before anything is sent. tls: from its first byte. none: it is not, as for
    a server on this machine. Certificates are verified."""
    user_env: Variable | None = None
    """The environment variable with the user. null: no login."""
    password_env: Variable | None = None
    """The environment variable with the password."""
    ca_file: Name | None = None
    """PEM file with the certificates of the authority that signed the server's. null: the public authorities."""

    @property
    def port_used(self) -> int:
        """The port, with the default of `security` filled in."""
        return self.port or {"starttls": 587, "tls": 465, "none": 25}[self.security]


class CommandReceiver(Receiver):
    """A program that gets the event of `webhook` as JSON on its standard input."""

    kind: Literal["command"]
    """The kind of receiver."""
    command: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The program and its arguments, without a shell. It is started once, in the folder of the command, and killed if
    it takes more than 30 seconds."""


class PushgatewayReceiver(HttpReceiver):
    """The metrics of every run that was not interrupted, in Prometheus' text format, put to a Pushgateway under
    `job="headrace"` and `pipeline="<name>"`, in place of those of the run before.
    """

    kind: Literal["pushgateway"]
    """The kind of receiver."""
    authorization_env: Variable | None = None
    """The environment variable with the header `Authorization`, such as `Basic ...`. null: none is sent."""


class PrometheusFileReceiver(Section):
    """The same metrics as a file, for the textfile collector of Prometheus' node exporter."""

    kind: Literal["prometheus_file"]
    """The kind of receiver."""
    path: Annotated[str, Field(pattern=r"\.prom$")]
    """The file, which the collector only reads if it ends in `.prom`. `{name}` stands for the pipeline's name."""


MessageReceiver = WebhookReceiver | SlackReceiver | EmailReceiver | CommandReceiver
"""Those that are told of events."""
MetricsReceiver = PushgatewayReceiver | PrometheusFileReceiver
"""Those that get the metrics of every run."""
AnyReceiver = Annotated[MessageReceiver | MetricsReceiver, Field(discriminator="kind")]


def variables(receiver: MessageReceiver | MetricsReceiver) -> list[str]:
    """The environment variables that a receiver names."""
    return [value for name, value in receiver if name.endswith("_env") and value is not None]
