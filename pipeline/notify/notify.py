"""Sends what became of runs to the receivers of a config.

notify(config, RunFolder.read(path))        # after a run
notify_of_killed(config)                    # at the start of the next one

Nothing here raises because of a receiver: one that was not reached is reported through the log, once.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headrace.common.errors import HeadraceError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.notify import AnyReceiver, Receiver, RunEvent, variables
from headrace.pipeline.folders import Folders
from headrace.pipeline.notify import metrics
from headrace.pipeline.notify.deliver import Message, Outside, deliver
from headrace.pipeline.notify.event import (
    SPEC_VERSION,
    TEST,
    Event,
    first_of,
    not_started,
    read_event,
    source,
    timestamp,
)
from headrace.pipeline.notify.record import FILE_NAME, Delivery, read_deliveries, write_deliveries
from headrace.pipeline.notify.text import TEST_HEADLINE, body, headline
from headrace.pipeline.notify.transport import DeliveryError
from headrace.pipeline.results.record import RunRecord, Status, newest_first
from headrace.pipeline.results.run_folder import RunFolder

PARALLEL = 8
"""Receivers that are told at the same time."""
LOOKED_AT = 10
"""Earlier runs among which killed ones are searched for."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What became of the message to a receiver. error: why it was not delivered, None if it was; what: in words."""

    receiver: str
    error: str | None
    what: str = "the test message was sent"


def notify(config: PipelineConfig, folder: RunFolder, outside: Outside | None = None, *, killed: bool = False) -> None:
    """Tell the receivers of a run that has ended, each of them once, and record it in the run's folder."""
    if not config.notify:
        return
    told = read_deliveries(folder.path) or {}
    try:
        messages = _messages(config, read_event(folder, killed=killed), {*told})
    except (HeadraceError, OSError, ValueError, TypeError, KeyError) as error:
        logger.warning("notify: nobody was told of run %s, whose results are damaged: %s", folder.record.run_id, error)
        messages = {}
    outcomes = _deliver(config.notify, messages, outside)
    now = timestamp(time.time())
    new = {one.receiver: Delivery(messages[one.receiver].id, now, one.error) for one in outcomes}
    try:
        write_deliveries(folder.path, {**told, **new})
    except OSError as error:
        logger.warning("%s cannot be written: %s", folder.path / FILE_NAME, error.strerror)
    _report(outcomes, messages)


def notify_of_killed(config: PipelineConfig, outside: Outside | None = None) -> None:
    """Tell the receivers of earlier runs whose command was killed, as far as those runs had receivers themselves.

    The caller holds the lock of the pipeline's folder, and has marked the records of killed runs.
    """
    if not config.notify:
        return
    for run_dir in newest_first(Folders.of(config).runs)[:LOOKED_AT]:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):  # a damaged record
            folder = RunFolder.read(run_dir)
            if (run_dir / FILE_NAME).exists() or not folder.record.status.ended or not _had_receivers(folder):
                continue
            notify(config, folder, outside, killed=folder.record.status is Status.INTERRUPTED)


def notify_of_no_start(
    config: PipelineConfig, started: float, error: BaseException, outside: Outside | None = None
) -> None:
    """Tell the receivers of a run that failed before its first component. Nothing is recorded: it has no folder."""
    event = not_started(config.pipeline.name, Folders.of(config).home, started, time.time(), error)
    messages = _messages(config, event, set())
    _report(_deliver(config.notify, messages, outside), messages)


def send_test(config: PipelineConfig, outside: Outside | None = None) -> list[Outcome]:
    """Send a test message to every receiver, in the order of the config.

    Receivers of metrics get nothing, because it would replace the metrics of the last run. The environment variables
    that they name must be set.
    """
    name, home, now = config.pipeline.name, Folders.of(config).home, timestamp(time.time())
    event = {
        "specversion": SPEC_VERSION,
        "id": f"{name}/test/{now}",
        "source": source(home),
        "type": TEST,
        "time": now,
        "datacontenttype": "application/json",
        "data": {"pipeline": name},
    }
    message = Message(name, event, TEST_HEADLINE.format(name), [f"runs: {home}"])
    outside = outside or Outside.of_process()
    told = {each: message for each, receiver in config.notify.items() if isinstance(receiver, Receiver)}
    outcomes = {one.receiver: one for one in _deliver(config.notify, told, outside)}
    for each, receiver in config.notify.items():
        if each not in outcomes:
            missing = [variable for variable in variables(receiver) if not outside.environ.get(variable)]
            error = f"the environment variable {missing[0]} is not set" if missing else None
            outcomes[each] = Outcome(each, error, "gets metrics at the end of a run; nothing was sent")
    return [outcomes[each] for each in config.notify]


def _had_receivers(folder: RunFolder) -> bool:
    """Whether the run itself was to be told of: runs from before `notify:` was added are no news."""
    return bool(folder.config and folder.config.notify)


def _messages(config: PipelineConfig, event: Event, told: set[str]) -> dict[str, Message]:
    """The messages by receiver, without those that were told already, or want nothing of this."""
    found: dict[str, Message] = {}
    for name, receiver in config.notify.items():
        about = _about(receiver, event.happened)
        if name not in told and about is not None:
            found[name] = Message(
                event.pipeline, event.cloud_event(about), headline(event, about), body(event), _metrics(config, event)
            )
    return found


def _about(receiver: AnyReceiver, happened: Sequence[RunEvent]) -> RunEvent | None:
    """What the message to a receiver is about. Metrics are of every run that a user did not interrupt."""
    if isinstance(receiver, Receiver):
        return first_of(happened, receiver.on)
    return None if not happened or "interrupted" in happened else happened[0]


def _metrics(config: PipelineConfig, event: Event) -> str:
    labels = {"pipeline": event.pipeline}
    return metrics.text_format(metrics.gauges(event, _last_success(Folders.of(config).runs)), labels)


def _last_success(runs: Path) -> float | None:
    """When the newest successful run ended."""
    for run_dir in newest_first(runs):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            record = RunRecord.read(run_dir)
            if record.status is Status.DONE:
                return record.finished
    return None


def _deliver(
    receivers: Mapping[str, AnyReceiver], messages: Mapping[str, Message], outside: Outside | None
) -> list[Outcome]:
    """Deliver the messages at the same time, so that one receiver that does not answer delays no other."""
    if not messages:
        return []
    outside = outside or Outside.of_process()

    def one(name: str) -> Outcome:
        try:
            deliver(receivers[name], messages[name], outside)
        except DeliveryError as error:
            return Outcome(name, str(error))
        except Exception as error:  # a run must not fail because of a receiver, whatever it does
            logger.debug("notify.%s", name, exc_info=True)
            return Outcome(name, f"an unexpected {type(error).__name__}")
        return Outcome(name, None)

    with ThreadPoolExecutor(min(PARALLEL, len(messages))) as threads:
        return list(threads.map(one, messages))


def _report(outcomes: Sequence[Outcome], messages: Mapping[str, Message]) -> None:
    for one in outcomes:
        if one.error is not None:
            event = messages[one.receiver].id
            way_out = "`headrace notify CONFIG` sends a test message"
            logger.warning("notify.%s was not notified of %s: %s; %s", one.receiver, event, one.error, way_out)
