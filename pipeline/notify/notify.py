"""Sends what became of runs to the receivers of a config.

notify(config, RunFolder.read(path))        # after a run
notify_of_killed(config)                    # at the start of the next one

Nothing here raises because of a receiver: one that was not reached is reported through the log, once.
"""

from __future__ import annotations

import contextlib
import logging
import time

from headrace.common.errors import HeadraceError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.notify import Receiver, variables
from headrace.pipeline.folders import Folders
from headrace.pipeline.notify.deliver import Message, Outside
from headrace.pipeline.notify.event import SPEC_VERSION, TEST, not_started, read_event, source, timestamp
from headrace.pipeline.notify.record import FILE_NAME, Delivery, read_deliveries, write_deliveries
from headrace.pipeline.notify.send import DeliveryOutcome, messages, report, send
from headrace.pipeline.notify.text import TEST_HEADLINE
from headrace.pipeline.results.record import RunRecord, Status, newest_first
from headrace.pipeline.results.run_folder import RunFolder

LOOKED_AT = 10
"""Earlier runs among which killed ones are searched for."""

logger = logging.getLogger(__name__)


def notify(config: PipelineConfig, folder: RunFolder, outside: Outside | None = None, *, killed: bool = False) -> None:
    """Tell the receivers of a run that has ended, each of them once, and record it in the run's folder."""
    if not config.notify:
        return
    delivered = read_deliveries(folder.path) or {}
    try:
        event = read_event(folder, killed=killed)
        found = messages(config.notify, event, delivered, _last_success(config))
    except (HeadraceError, OSError, ValueError, TypeError, KeyError) as error:
        logger.warning("notify: nobody was told of run %s, whose results are damaged: %s", folder.record.run_id, error)
        found = {}
    outcomes = send(config.notify, found, outside)
    now = timestamp(time.time())
    new = {one.receiver: Delivery(found[one.receiver].id, now, one.error) for one in outcomes}
    try:
        write_deliveries(folder.path, {**delivered, **new})
    except OSError as error:
        logger.warning("%s cannot be written: %s", folder.path / FILE_NAME, error.strerror)
    report(outcomes, found)


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
    event = not_started(config.full_name, Folders.of(config).home, started, time.time(), error)
    found = messages(config.notify, event, (), _last_success(config))
    report(send(config.notify, found, outside), found)


def send_test(config: PipelineConfig, outside: Outside | None = None) -> list[DeliveryOutcome]:
    """Send a test message to every receiver, in the order of the config.

    Receivers of metrics get nothing, because it would replace the metrics of the last run. The environment variables
    that they name must be set.
    """
    name, home, now = config.full_name, Folders.of(config).home, timestamp(time.time())
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
    tests = {each: message for each, receiver in config.notify.items() if isinstance(receiver, Receiver)}
    outcomes = {one.receiver: one for one in send(config.notify, tests, outside)}
    for each, receiver in config.notify.items():
        if each not in outcomes:
            missing = [variable for variable in variables(receiver) if not outside.environ.get(variable)]
            error = f"the environment variable {missing[0]} is not set" if missing else None
            outcomes[each] = DeliveryOutcome(each, error, "gets metrics at the end of a run; nothing was sent")
    return [outcomes[each] for each in config.notify]


def _had_receivers(folder: RunFolder) -> bool:
    """Whether the run itself was to be told of: runs from before `notify:` was added are not news."""
    return bool(folder.config and folder.config.notify)


def _last_success(config: PipelineConfig) -> float | None:
    """When the newest successful run of the same pipeline ended: one that only predicts shares the folder."""
    for run_dir in newest_first(Folders.of(config).runs):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            record = RunRecord.read(run_dir)
            if record.status is Status.DONE and record.pipeline == config.full_name:
                return record.finished
    return None
