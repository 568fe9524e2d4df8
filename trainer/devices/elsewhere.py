"""Training outside of this machine, for a runner that knows how.

with trained_by(launch):        # launch(job) trains, and leaves in the job's run directory what training leaves
    run_fn(fn_args)             # then builds the model here, with the best weights, and exports it
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.trainer.job import Job

Launch = Callable[["Job"], None]

_LAUNCH: ContextVar[Launch | None] = ContextVar("launch", default=None)


@contextlib.contextmanager
def trained_by(launch: Launch) -> Iterator[None]:
    """Have `run_fn` train by `launch`, in this context."""
    token = _LAUNCH.set(launch)
    try:
        yield
    finally:
        _LAUNCH.reset(token)


def training_elsewhere() -> Launch | None:
    """What trains in the place of this process; None where it trains itself."""
    return _LAUNCH.get()
