"""The candidate on a staging TensorFlow Serving: the requests of the Canary, over REST and gRPC.

verdict = examine_on_server(settings, "taxi", serving_dir, probes)

The candidate is staged in the folder that the server watches, asked under its version, and removed. Each signature gets
the real examples, all at once and one by one, and then odd inputs, after each of which the server must still have it.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.common.errors import RunError
from headrace.components.canary.agreement import compare, why_not_drawn
from headrace.components.canary.caller import PATIENCE, first_line
from headrace.components.canary.inputs import odd_inputs, rows_of
from headrace.components.canary.latency import LatencyLimits, measure_latency
from headrace.components.canary.signatures import Inputs, RealInputs
from headrace.components.canary.staging import Stage, staged
from headrace.components.canary.verdict import OddAnswer, ProtocolVerdict, ServerVerdict, SignatureVerdict
from headrace.components.model_server.client import Client, Reply, ServerRequest, ServerUnreachableError
from headrace.components.model_server.connection import LoadError, opened, wait_until_answering, wait_until_loaded
from headrace.configs.schema.serving import CanaryServer

logger = logging.getLogger(__name__)

ODD_ROWS = 1_000
"""Rows of the largest request to a server."""


@dataclasses.dataclass(frozen=True)
class SignatureProbe:
    """What a signature is asked, and what TensorFlow's Python answers.

    not_compared: why answers are not compared, "" if they are; rows: those of the largest request; generated: whether
    the model generates texts.
    """

    name: str
    made: RealInputs
    expected: Inputs
    examples: int
    tolerance: float
    not_compared: str = ""
    rows: int = ODD_ROWS
    generated: bool = False

    @property
    def types(self) -> dict[str, np.dtype[Any]]:
        return {name: array.dtype for name, array in self.expected.items()}


def examine_on_server(
    settings: CanaryServer, pipeline: str, model: Path, probes: Sequence[SignatureProbe], patience: float = PATIENCE
) -> ServerVerdict:
    """The verdict of a staging server on a SavedModel. patience: seconds for one answer.

    Raises RunError if the folder cannot be written, or if the server does not answer or does not see the candidate and
    `on_unreachable` is `stop`: that says nothing about the model, so it must not become a verdict that is reused.
    """
    try:
        with opened(settings, pipeline) as clients:
            wait_until_answering(clients, settings.timeout_seconds)
            with staged(model, settings.folder) as stage:
                return _ServerExamination(settings, clients, stage, patience).verdict(probes)
    except ServerUnreachableError as error:
        if settings.on_unreachable == "warn":
            logger.warning(f"deploy.canary.server: {error}; the model was not tried on it")
            return ServerVerdict(skipped=str(error))
        raise RunError(
            f"deploy.canary.server: {error}.\n  Start the server, or correct its address, model or folder; or set"
            " `deploy.canary.server.on_unreachable: warn`, or `deploy.canary.server` to null."
        ) from None


class _LostError(Exception):
    """The server ended at a request, or as it loaded the model, and did not come back. `str(error)` says how."""


class _ServerExamination:
    """One version on one server."""

    def __init__(self, settings: CanaryServer, clients: Sequence[Client], stage: Stage, patience: float) -> None:
        self._settings, self._clients, self._stage, self._patience = settings, clients, stage, patience
        self._version = stage.version
        self._reasons: list[str] = []

    def verdict(self, probes: Sequence[SignatureProbe]) -> ServerVerdict:
        """Raises ServerUnreachableError if the server does not see the version, or another run removed it."""
        found, seconds = list[ProtocolVerdict](), None
        try:
            seconds = self._loaded()
            for client in self._clients:
                signatures = tuple(self._with_odd(client, one, self._ask(client, one)) for one in probes)
                found.append(ProtocolVerdict(protocol=client.protocol, address=client.address, signatures=signatures))
        except LoadError as error:
            if not error.seen:
                raise ServerUnreachableError(str(error)) from None
            self._reasons.append(first_line(str(error)))
        except _LostError as error:
            if not self._stage.is_there():
                what = f"version {self._version} was removed from deploy.canary.server.folder by another run"
                raise ServerUnreachableError(what) from None
            self._reasons.append(str(error))
        return ServerVerdict(
            reasons=tuple(self._reasons), version=self._version, load_seconds=seconds, protocols=tuple(found)
        )

    def _loaded(self) -> float:
        """Wait until the server has loaded the version; returns the seconds.

        Raises LoadError if it has not, and _LostError if it no longer answers: it did until the version was staged.
        """
        try:
            return wait_until_loaded(self._clients, self._version, self._settings.timeout_seconds)
        except ServerUnreachableError as error:
            raise _LostError(f"the server did not survive loading the version: {first_line(str(error))}") from None

    def _ask(self, client: Client, probe: SignatureProbe) -> SignatureVerdict:
        what, bare = f"{client.protocol}: {probe.name}", SignatureVerdict(name=probe.name, examples=probe.examples)
        reply = self._send(client, probe, probe.made.inputs, "real examples")
        if reply.outcome != "answered":
            self._reasons.append(
                f"{what}: real examples were not answered ({reply.outcome}): {first_line(reply.detail)}"
            )
            return bare
        tolerance = self._settings.max_difference or probe.tolerance
        drawn = probe.made.generates
        largest, differing = compare(probe.expected, reply.outputs, tolerance, generated=probe.generated, drawn=drawn)
        if differing and not probe.not_compared:
            self._reasons.append(f"{what}: {differing}")
        not_compared = probe.not_compared or why_not_drawn(tolerance, drawn=drawn)
        known = not not_compared and np.isfinite(largest)
        latency = {} if probe.made.generates else self._latency(client, probe)
        return bare.model_copy(
            update={"not_compared": not_compared, "difference": largest if known else None, **latency}
        )

    def _latency(self, client: Client, probe: SignatureProbe) -> dict[str, float]:
        """The latency of requests with one example; empty if one of them was not answered."""
        what = f"{client.protocol}: {probe.name}"
        limits = LatencyLimits(self._settings.latency_p50_ms, self._settings.latency_p99_ms)

        def ask_each() -> list[float]:
            seconds = list[float]()
            for row in range(probe.examples):
                one = rows_of(probe.made.inputs, slice(row, row + 1))
                reply = self._send(client, probe, one, "one real example")
                if reply.outcome != "answered":
                    why = f"one real example was not answered ({reply.outcome}): {first_line(reply.detail)}"
                    self._reasons.append(f"{what}: {why}")
                    return []
                seconds.append(reply.seconds)
            return seconds

        found = measure_latency(ask_each, limits)
        for violation in limits.violations(found, "deploy.canary.server", " through the network"):
            self._reasons.append(f"{what}: {violation}")
        return found

    def _with_odd(self, client: Client, probe: SignatureProbe, verdict: SignatureVerdict) -> SignatureVerdict:
        return verdict.model_copy(update={"odd": tuple(self._odd(client, probe))})

    def _odd(self, client: Client, probe: SignatureProbe) -> Iterator[OddAnswer]:
        for odd in odd_inputs(probe.made, min(probe.rows, ODD_ROWS)):
            reply = self._send(client, probe, odd.inputs, odd.what)
            answer = OddAnswer(
                what=odd.what, outcome=reply.outcome, detail=first_line(reply.detail) if reply.detail else ""
            )
            if not answer.passed:
                self._reasons.append(f"{client.protocol}: {probe.name}: {odd.what}: the server gave {answer.detail}")
            self._check_health(client, f"{client.protocol}: {probe.name}: {odd.what}")
            yield answer

    def _send(self, client: Client, probe: SignatureProbe, inputs: Inputs, what: str) -> Reply:
        """Send a request; once more if the connection was lost, and the server is back. Raises _LostError."""
        request = ServerRequest(self._version, probe.name, inputs, probe.types)
        reply = client.predict(request, self._patience)
        if reply.outcome != "crashed":
            return reply
        at = f"{client.protocol}: {probe.name}: {what}"
        self._check_health(client, at, reply.detail)
        again = client.predict(request, self._patience)
        if again.outcome == "crashed":
            raise _LostError(f"{at}: the connection to the server was lost twice: {first_line(again.detail)}")
        return again

    def _check_health(self, client: Client, at: str, detail: str = "") -> None:
        """Wait until the server has the version, which it has at once unless a request ended it. Raises _LostError."""
        try:
            wait_until_loaded([client], self._version, self._settings.timeout_seconds)
        except (ServerUnreachableError, LoadError) as error:
            how = f" ({first_line(detail)})" if detail else ""
            raise _LostError(f"{at}: the server did not survive it{how}: {first_line(str(error))}") from None
