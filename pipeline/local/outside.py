"""The state outside the pipeline that a component reads, for components whose verdict it decides together with their
inputs.

DataVerdict compares with the data of the blessed model, which no other component gives it, and needs TensorFlow. As
long as its inputs and those statistics are the same, its last verdict is. As the outputs of other components that
depend on such state, the verdict is identified by its content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.common.errors import RunError
from headrace.components.gates.blessed_statistics import state_of_blessed

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
