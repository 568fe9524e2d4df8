"""The two kinds of process that a tf.data service is made of, each to run in a process of its own.

The dispatcher writes a journal of its jobs, so that one that is started again at the same port goes on where the other
was. Both end on SIGTERM and Ctrl-C, and when the pipe to the one who started them closes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import grpc

from headrace.configs.errors import RunError
from headrace.trainer.service import loopback
from headrace.trainer.service.probe import workers

JOURNAL = "journal"
"""In the work directory, where the dispatcher keeps what it needs to go on."""
ENDS = {signal.SIGTERM, signal.SIGINT}
CHECK = 2000
"""Milliseconds between the dispatcher's looks for workers that are gone and jobs that nobody reads."""
GONE = 10000
"""Milliseconds without a heartbeat after which a worker counts as gone."""
UNREAD = 120000
"""Milliseconds after which a job that nobody reads is removed."""
HEARTBEAT = 1000
"""Milliseconds between the heartbeats of a worker."""
PATIENCE = 3600000
"""Milliseconds that a worker waits for a dispatcher that is gone."""
_ANSWER = 5.0
"""Seconds that a dispatcher has to answer before a worker says that it waits."""
_PAUSE = 0.5
"""Seconds between two questions."""
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - only where the user asks for it
"""Where a process may listen."""
UNGUARDED = (
    "every interface is listened at, and nobody is asked who they are: whoever reaches the ports can run any graph in"
    " these processes, and read, change and delete all files that they can. Let a firewall or a network policy keep"
    " out all but the trainers"
)
"""What EVERYWHERE means."""
LOWEST_PORT, PORTS = 20000, 12768
"""Up to 32767."""


def dispatch(port: int, work_dir: Path, listen: str) -> None:
    """Be the dispatcher until told to end. Raises RunError where it cannot start, as on a port that is taken.

    listen: LOOPBACK or EVERYWHERE.
    """
    _heed()
    import tensorflow as tf

    service = tf.data.experimental.service
    port = port or free_port()
    journal = work_dir / JOURNAL
    journal.mkdir(parents=True, exist_ok=True)
    config = service.DispatcherConfig(
        port=port,
        work_dir=str(journal),
        fault_tolerant_mode=True,
        job_gc_check_interval_ms=CHECK,
        job_gc_timeout_ms=UNREAD,
        worker_timeout_ms=GONE,
    )
    with _reached_from(listen, port):
        try:
            server = service.DispatchServer(config)
        except (RuntimeError, tf.errors.OpError) as error:
            raise RunError(f"the dispatcher cannot start at port {port}: {error}") from error
        _serve(f"dispatcher at {server.target}", listen, port)


def work(dispatcher: str, port: int, host: str, listen: str) -> None:
    """Be a worker until told to end. Raises RunError where it cannot start.

    Args:
        dispatcher: `host:port`.
        port: 0: a free one.
        host: The name by which trainers reach this machine.
        listen: LOOPBACK or EVERYWHERE.
    """
    _heed()
    import tensorflow as tf

    service = tf.data.experimental.service
    port = port or free_port()
    config = service.WorkerConfig(
        dispatcher_address=dispatcher,
        worker_address=f"{host}:{port}",
        port=port,
        heartbeat_interval_ms=HEARTBEAT,
        dispatcher_timeout_ms=PATIENCE,
    )
    _wait_for(dispatcher)
    with _reached_from(listen, port):
        server = service.WorkerServer(config)
        _serve(f"worker at {host}:{port} for {dispatcher}", listen, port, server)


def _reached_from(listen: str, port: int) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if listen == EVERYWHERE else loopback.only_loopback(port)


def free_port() -> int:
    """A port that nothing listens at now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens at now, each another. None is of those that the system gives to connections that go
    out (ip_local_port_range in Linux' ip-sysctl.rst), which could take it before a process that is to listen does.
    """
    found: list[int] = []
    with contextlib.ExitStack() as opened:
        while len(found) < count:
            one = opened.enter_context(socket.socket())
            with contextlib.suppress(OSError):  # taken
                one.bind(("", LOWEST_PORT + secrets.randbelow(PORTS)))
                found.append(int(one.getsockname()[1]))
    return found


def _heed() -> None:
    """Keep the signals for `_serve`; TensorFlow's threads inherit that. A GPU is the trainer's, so none is seen."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    if os.environ.get("HEADRACE_PARENT_PIPE"):
        threading.Thread(target=_follow, args=(int(os.environ["HEADRACE_PARENT_PIPE"]),), daemon=True).start()


def _follow(pipe: int) -> None:
    """End with the one who holds the other end, however it ends."""
    os.read(pipe, 1)
    os._exit(0)


def _serve(words: str, listen: str, port: int, *_keep: object) -> None:
    if listen != EVERYWHERE:
        loopback.check(port)
    print(f"{words} is ready", flush=True)
    signal.sigwait(ENDS)
    _leave()


def _wait_for(dispatcher: str) -> None:
    """TensorFlow's worker waits too, but silently, and no signal ends it. Raises RunError once the time is over."""
    end = time.monotonic() + PATIENCE / 1000
    said = False
    while True:
        try:
            workers(dispatcher, _ANSWER)
            return
        except grpc.RpcError as error:
            if time.monotonic() > end:
                raise RunError(f"no dispatcher answers at {dispatcher}") from error
        if not said:
            print(f"waiting for the dispatcher at {dispatcher}, which does not answer", flush=True)
            said = True
        if signal.sigtimedwait(ENDS, _PAUSE):
            _leave()


def _leave() -> None:
    sys.stdout.flush()
    os._exit(0)  # TensorFlow's own way out waits for connections to close
