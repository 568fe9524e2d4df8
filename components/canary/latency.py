"""The latency of requests with one example, to a process of the canary's own or to a server."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.components.canary.signatures import Inputs

ATTEMPTS = 3
"""How often the latency is measured before it counts as above its limit: what else the machine does only adds to it."""


def measure_latency(
    ask: Callable[[Inputs], float | None], inputs: Inputs, count: int, limit_ms: float | None
) -> dict[str, float]:
    """`p50_ms` and `p99_ms` of the best attempt; empty if a request was not answered, or there is none.

    ask: sends a request, and returns the seconds until the answer, None if there was none; inputs: of `count` examples.
    """
    best: tuple[float, float] | None = None
    for _ in range(ATTEMPTS if count else 0):
        seconds: list[float] = []
        for number in range(count):
            took = ask({name: array[number : number + 1] for name, array in inputs.items()})
            if took is None:
                return {}
            seconds.append(took)
        p99, p50 = (float(1000 * value) for value in np.percentile(seconds, [99, 50]))
        best = min(best or (p99, p50), (p99, p50))
        if limit_ms is None or p99 <= limit_ms:
            break
    return {} if best is None else {"p50_ms": best[1], "p99_ms": best[0]}
