"""The latency of requests with one example, to a process of the canary's own or to a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

ATTEMPTS = 3
"""How often the latency is measured before it counts as above a limit: what else the machine does only adds to it."""


class LatencyLimits(NamedTuple):
    """Milliseconds that half of the requests, and 99% of them, may take; None: any."""

    p50_ms: float | None = None
    p99_ms: float | None = None

    def excess(self, measured: Mapping[str, float]) -> float:
        """The greater of the two latencies, each divided by its limit; 0 without limits."""
        return max((measured[name] / limit for name, limit in self._asdict().items() if limit is not None), default=0)

    def violations(self, measured: Mapping[str, float], section: str, way: str = "") -> Iterator[str]:
        """The limits that a measurement exceeds, in words.

        measured: as `measure_latency` returns it; section: of the config, with the limits; way: what the requests took,
        such as " through the network".
        """
        for name, limit in self._asdict().items():
            if limit is not None and measured and measured[name] > limit:
                what = f"{name.removesuffix('_ms')} of its latency{way} is {measured[name]:.3g} ms"
                yield f"{what}; {section}.latency_{name} allows {limit:g} ms"


def measure_latency(ask_each: Callable[[], Sequence[float]], limits: LatencyLimits) -> dict[str, float]:
    """`p50_ms` and `p99_ms` of one attempt; empty if a request was not answered.

    It is the first attempt that meets both limits at once, or else the one with the least excess, so both figures are
    of the same requests.

    ask_each: sends the requests, one after the other, and returns the seconds until each answer; nothing if one was not
    answered.
    """
    best = dict[str, float]()
    for _ in range(ATTEMPTS):
        seconds = ask_each()
        if not seconds:
            return {}
        p50, p99 = (float(1000 * value) for value in np.percentile(seconds, [50, 99]))
        measured = {"p50_ms": p50, "p99_ms": p99}
        best = min(best or measured, measured, key=limits.excess)
        if limits.excess(best) <= 1:
            break
    return best
