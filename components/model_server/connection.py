"""Opens clients of TensorFlow Serving, and waits for the server.

with opened(settings, "taxi") as clients:            # REST, gRPC, or both
    wait_until_loaded(clients, 1795402861, seconds=120)
    reply = clients[0].predict(ServerRequest(1795402861, "serving_default", inputs, dtypes), seconds=10)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from headrace.components.model_server.client import AVAILABLE, END, Client, ServerUnreachableError, VersionState
from headrace.configs.schema.model_registry import filled
from headrace.configs.schema.serving import ServingAddress

POLL_SECONDS = 0.2


class LoadError(Exception):
    """The server has not loaded a version. `str(error)` says why.

    version: which; seen: whether it has seen the version at all; refused: whether it has given up, and does not just
    take long.
    """

    def __init__(self, why: str, version: int, *, seen: bool, refused: bool = False) -> None:
        super().__init__(why)
        self.version, self.seen, self.refused = version, seen, refused


@contextlib.contextmanager
def opened(settings: ServingAddress, pipeline: str) -> Iterator[Sequence[Client]]:
    """The clients of the addresses that are configured. Raises ServerUnreachableError if `ca_file` cannot be read."""
    model, found = filled(settings.model, pipeline), list[Client]()
    with contextlib.ExitStack() as stack:
        if settings.rest is not None:
            from headrace.components.model_server.rest import RestClient

            found.append(RestClient(settings.rest, model, settings.ca_file))
            stack.callback(found[-1].close)
        if settings.grpc is not None:
            from headrace.components.model_server.grpc_client import GrpcClient

            found.append(GrpcClient(settings.grpc, model, tls=settings.grpc_tls, ca_file=settings.ca_file))
            stack.callback(found[-1].close)
        yield found


def wait_until_answering(
    clients: Sequence[Client], seconds: float, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until the server answers in each way. Raises ServerUnreachableError."""
    end = time.monotonic() + seconds
    for client in clients:
        while True:
            try:
                client.states()
                break
            except ServerUnreachableError as error:
                if time.monotonic() >= end:
                    raise ServerUnreachableError(f"{error} (within {seconds:g} s)") from None
                sleep(POLL_SECONDS)


def wait_until_loaded(
    clients: Sequence[Client], version: int, seconds: float, sleep: Callable[[float], None] = time.sleep
) -> float:
    """Wait until the server says in each way that a version is AVAILABLE; returns the seconds that it took.

    Raises LoadError if it reports an error, or is not done in time; ServerUnreachableError if it does not answer at
    the end.
    """
    start = time.monotonic()
    for client in clients:
        while True:
            late = time.monotonic() >= start + seconds
            try:
                state = client.states().get(version)
            except ServerUnreachableError:
                if late:
                    raise
                state = None
            else:
                if state is not None and state.state == AVAILABLE:
                    break
                if state is not None and state.state == END and state.error:
                    what = f"{client.address} cannot load version {version}: {state.error}"
                    raise LoadError(what, version, seen=True, refused=True)
                if late:
                    raise _too_late(client, version, seconds, state)
            sleep(POLL_SECONDS)
    return time.monotonic() - start


def _too_late(client: Client, version: int, seconds: float, state: VersionState | None) -> LoadError:
    if state is None:
        what = f"{client.address} does not know version {version} after {seconds:g} s"
        why = f"{what}: it may watch another folder, use another model name, or poll too rarely"
        return LoadError(why, version, seen=False)
    error = f": {state.error}" if state.error else ""
    what = f"version {version} is {state.state} at {client.address} after {seconds:g} s{error}"
    return LoadError(what, version, seen=True)
