"""The two kinds of process in a tf.data service: the dispatcher and its workers.

The dispatcher keeps a journal of its jobs, so that another one started at the same port continues where it stopped.
Both exit on SIGTERM and Ctrl-C, and when the pipe to the process that started them closes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

import grpc

from headrace.common.errors import RunError
from headrace.trainer.service.ports import check_loopback, free_port, only_loopback
from headrace.trainer.service.probe import registered_workers

logger = logging.getLogger(__name__)

JOURNAL = "journal"
"""Folder in the work directory for what another dispatcher needs to continue."""
EXIT_SIGNALS = {signal.SIGTERM, signal.SIGINT}
CHECK_INTERVAL = 2000
"""Milliseconds between the dispatcher's checks for lost workers and jobs without readers."""
WORKER_TIMEOUT = 10000
"""Milliseconds without a heartbeat after which a worker counts as lost."""
JOB_TIMEOUT = 120000
"""Milliseconds after which a job without readers is removed."""
HEARTBEAT = 1000
"""Milliseconds between the heartbeats of a worker."""
DISPATCHER_TIMEOUT = 3600000
"""Milliseconds that a worker waits for a lost dispatcher."""
_PROBE = 5.0
"""Seconds that a dispatcher has to answer before a worker reports that it is waiting."""
_PAUSE = 0.5
"""Seconds between two probes."""
LOOPBACK, ALL_INTERFACES = "127.0.0.1", "0.0.0.0"  # noqa: S104 - only if the user asks for it
"""Where a process may listen."""
UNPROTECTED = (
    "the service listens on all interfaces and does not authenticate clients: whoever reaches its ports can run any"
    " graph in these processes, and read, change and delete all files that they can. Use a firewall or a network policy"
    " to admit the trainers only"
)
"""The risk of ALL_INTERFACES."""


def run_dispatcher(port: int, work_dir: Path, listen: str) -> None:
    """Run the dispatcher until a signal ends it. Raises RunError if it cannot start, for example on a port in use.

    listen: LOOPBACK or ALL_INTERFACES.
    """
    _prepare_process()
    import tensorflow as tf

    service = tf.data.experimental.service
    port = port or free_port()
    journal = work_dir / JOURNAL
    journal.mkdir(parents=True, exist_ok=True)
    config = service.DispatcherConfig(
        port=port,
        work_dir=str(journal),
        fault_tolerant_mode=True,
        job_gc_check_interval_ms=CHECK_INTERVAL,
        job_gc_timeout_ms=JOB_TIMEOUT,
        worker_timeout_ms=WORKER_TIMEOUT,
    )
    with _restricted_to(listen, port):
        try:
            server = service.DispatchServer(config)
        except (RuntimeError, tf.errors.OpError) as error:
            raise RunError(f"the dispatcher cannot start at port {port}: {error}") from error
        _serve(f"dispatcher at {server.target}", listen, port)


def run_worker(dispatcher: str, port: int, host: str, listen: str) -> None:
    """Run a worker until a signal ends it. Raises RunError if it cannot start.

    Args:
        dispatcher: `host:port`.
        port: 0: a free one.
        host: The name by which trainers reach this machine.
        listen: LOOPBACK or ALL_INTERFACES.
    """
    _prepare_process()
    import tensorflow as tf

    service = tf.data.experimental.service
    port = port or free_port()
    config = service.WorkerConfig(
        dispatcher_address=dispatcher,
        worker_address=f"{host}:{port}",
        port=port,
        heartbeat_interval_ms=HEARTBEAT,
        dispatcher_timeout_ms=DISPATCHER_TIMEOUT,
    )
    _wait_for(dispatcher)
    with _restricted_to(listen, port):
        server = service.WorkerServer(config)
        _serve(f"worker at {host}:{port} for {dispatcher}", listen, port, server)


def _restricted_to(listen: str, port: int) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if listen == ALL_INTERFACES else only_loopback(port)


def _prepare_process() -> None:
    """Block the signals for `_serve`, which TensorFlow's threads inherit, and leave the GPUs to the trainer."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    signal.pthread_sigmask(signal.SIG_BLOCK, EXIT_SIGNALS)
    if os.environ.get("HEADRACE_PARENT_PIPE"):
        threading.Thread(target=_exit_with, args=(int(os.environ["HEADRACE_PARENT_PIPE"]),), daemon=True).start()


def _exit_with(pipe: int) -> None:
    """Exit when the process that holds the other end of the pipe does, however it ends."""
    os.read(pipe, 1)
    os._exit(0)


def _serve(name: str, listen: str, port: int, *_servers: object) -> None:
    """Wait for a signal. _servers: referenced so that they stay alive."""
    if listen != ALL_INTERFACES:
        check_loopback(port)
    logger.info(f"{name} is ready")
    signal.sigwait(EXIT_SIGNALS)
    _exit()


def _wait_for(dispatcher: str) -> None:
    """Wait for the dispatcher. Raises RunError after DISPATCHER_TIMEOUT.

    TensorFlow's worker waits as well, but silently, and ignores signals.
    """
    end = time.monotonic() + DISPATCHER_TIMEOUT / 1000
    reported = False
    while True:
        try:
            registered_workers(dispatcher, _PROBE)
            return
        except grpc.RpcError as error:
            if time.monotonic() > end:
                raise RunError(f"no dispatcher answers at {dispatcher}") from error
        if not reported:
            logger.info(f"waiting for the dispatcher at {dispatcher}, which does not answer")
            reported = True
        if signal.sigtimedwait(EXIT_SIGNALS, _PAUSE):
            _exit()


def _exit() -> None:
    sys.stdout.flush()
    os._exit(0)  # a normal exit of TensorFlow waits for connections to close
