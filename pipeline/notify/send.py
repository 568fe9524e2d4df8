"""The messages about one event, and their delivery to the receivers of a config at the same time.

found = messages(config.notify, event, delivered=set(), last_success=None)
outcomes = send(config.notify, found)
report(outcomes, found)

Nothing here raises because of a receiver: one that was not reached is a DeliveryOutcome with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headrace.configs.schema.notify import AnyReceiver, Receiver, RunEvent
from headrace.pipeline.notify import metrics
from headrace.pipeline.notify.deliver import Message, Outside, deliver
from headrace.pipeline.notify.event import Event, Topic, first_of
from headrace.pipeline.notify.text import body, headline
from headrace.pipeline.notify.transport import DeliveryError

PARALLEL = 8
"""Receivers that are told at the same time."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeliveryOutcome:
    """What became of the message to a receiver. error: why it was not delivered, None if it was; what: in words."""

    receiver: str
    error: str | None
    what: str = "the test message was sent"


def messages(
    receivers: Mapping[str, AnyReceiver], event: Event, delivered: Collection[str], last_success: float | None
) -> dict[str, Message]:
    """The messages by receiver, without those that were told already, or want nothing of this.

    last_success: when the newest successful run ended, in Unix seconds; None if there is none.
    """
    found: dict[str, Message] = {}
    text = metrics.text_format(metrics.gauges(event, last_success), {"pipeline": event.pipeline})
    for name, receiver in receivers.items():
        about = _about(receiver, event.happened)
        if name not in delivered and about is not None:
            found[name] = Message(event.pipeline, event.cloud_event(about), headline(event, about), body(event), text)
    return found


def send(
    receivers: Mapping[str, AnyReceiver], found: Mapping[str, Message], outside: Outside | None = None
) -> list[DeliveryOutcome]:
    """Deliver the messages at the same time, so that one receiver that does not answer delays no other."""
    if not found:
        return []
    outside = outside or Outside.of_process()

    def one(name: str) -> DeliveryOutcome:
        try:
            deliver(receivers[name], found[name], outside)
        except DeliveryError as error:
            return DeliveryOutcome(name, str(error))
        except Exception as error:  # a run must not fail because of a receiver, whatever it does
            logger.debug("notify.%s", name, exc_info=True)
            return DeliveryOutcome(name, f"an unexpected {type(error).__name__}")
        return DeliveryOutcome(name, None)

    with ThreadPoolExecutor(min(PARALLEL, len(found))) as threads:
        return list(threads.map(one, found))


def report(outcomes: Sequence[DeliveryOutcome], found: Mapping[str, Message]) -> None:
    """Log which receivers were not reached, and why."""
    for one in outcomes:
        if one.error is not None:
            event = found[one.receiver].id
            way_out = "`headrace notify CONFIG` sends a test message"
            logger.warning("notify.%s was not notified of %s: %s; %s", one.receiver, event, one.error, way_out)


def _about(receiver: AnyReceiver, happened: Sequence[RunEvent]) -> Topic | None:
    """What the message to a receiver is about. Metrics are of every run that a user did not interrupt."""
    if isinstance(receiver, Receiver):
        return first_of(happened, receiver.on)
    if "interrupted" in happened:
        return None
    return happened[0] if happened else "succeeded"
