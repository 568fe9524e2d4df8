"""State that a component reads besides its inputs, such as the statistics of the blessed model's data.

A digest of it is part of the cache key of DataVerdict, which needs TensorFlow to compare with those statistics: as long
as its inputs and they are the same, the verdict of an earlier run is reused. Components behind it see the verdict by
its content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.common.errors import RunError
from headrace.components.gates.blessed_statistics import state_of_blessed

STATE = "state outside of the pipeline"
"""What explanations call a change of it."""
READ_OUTSIDE: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "headrace.components.gates.data_verdict.DataVerdict": lambda given: state_of_blessed(given.get("registry", "")),
}
"""Kind of component, as ML Metadata has it, to a digest of what it reads, given its parameters."""


def state_outside(kind: str, parameters: Mapping[str, Any]) -> str | None:
    """A digest of the state that a component reads besides its inputs; None if it is not known, so that it must run."""
    try:
        return READ_OUTSIDE[kind](parameters) if kind in READ_OUTSIDE else None
    except (RunError, OSError):  # the component reports it
        return None
