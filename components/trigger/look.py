"""Whether what there is to read gives a reason to train. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.components.example_gen.manifest import Manifest
from headrace.components.trigger.trained import Trained, TrainedOn
from headrace.configs.schedule import Retrain

Go = Literal["yes", "no", "if-drifted"]
GO, WHY = "go", "why"
"""Outputs of a component that decides whether what follows it runs, and why."""
NO = "no"
"""The value of `go` that ends the run."""
TOLD = 3
"""Spans that are named."""


@dataclass(frozen=True)
class Decision:
    """go: whether to go on; `if-drifted`: as far as it takes to see whether the data drifted. why: in one line."""

    go: Go
    why: str


def decide(manifest: Manifest, trained: Trained, work: str, retrain: Retrain, limits: str = "") -> Decision:
    """retrain: as in `schedule:`; work: a digest of the settings and the code as they are now; limits: DriftConfig as
    JSON.
    """
    last = trained.judged
    if retrain == "always":
        return Decision("yes", "asked for")
    if last is None:
        return Decision("yes", "no model was judged yet")
    if last.work != work:
        return Decision("yes", "settings or code changed since the last model")
    known = _known(manifest, trained, last, limits if retrain == "drift" else None)
    if known:
        return Decision("no", f"nothing new: {known}")
    what = _new(manifest, trained.newest or last)
    if retrain == "drift" and trained.blessed is not None:
        return Decision("if-drifted", f"{what}; whether it drifted is to be seen")
    return Decision("yes", what if trained.blessed is not None else f"{what}, and no model is blessed yet")


def _known(manifest: Manifest, trained: Trained, last: TrainedOn, limits: str | None) -> str:
    """What became of the same data before; "" if it is new."""
    newest = manifest.spans[-1].name
    up_to = f", up to {newest}" if newest else ""
    if manifest.fingerprint in (last.fingerprint, trained.newest and trained.newest.fingerprint):
        return f"the last model learned from the same data{up_to}"
    if trained.passed == (manifest.fingerprint, limits):
        return f"the same data did not drift before{up_to}"
    return ""


def _new(manifest: Manifest, last: TrainedOn) -> str:
    names = [span.name for span in manifest.spans]
    new = [name for name in names if name not in last.spans]
    if new:
        return f"new data: {', '.join(new[-TOLD:])}" + (f" and {len(new) - TOLD} more" if len(new) > TOLD else "")
    if [name for name in last.spans if name not in names]:
        return f"other data: {names[0]} to {names[-1]}" if names[-1] else "other data"
    return "the data changed"
