"""Whether there is a reason to train: the data that is there now against the record of earlier trainings.

The record is `trained.json`, which is replaced whole. Paths below its folder are written relative to it, so that the
folder can be moved. It has a checksum: with a wrong digit in a fingerprint, a nightly run would train again for
nothing, or not train on new data.

This module does not import TensorFlow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headrace.common.checksums import with_checksum
from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.common.locks import wait_and_hold
from headrace.common.records import parse_record
from headrace.components.gates.arrival import judge_without_new_data
from headrace.components.spans.find import date_of_run, find_spans
from headrace.components.spans.manifest import SpanManifest
from headrace.components.stored_models.blessed_record import inside
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.schedule import Retrain

logger = logging.getLogger(__name__)

GO, WHY = "go", "why"
"""Outputs of a component that decides whether the components after it run, and why."""
VERDICT = "verdict"
"""The output with DataVerdicts as JSON: on the age of the data if there is nothing new, else without a gate."""
NO = "no"
"""The value of `go` that ends the run."""
NAMED_SPANS = 3
"""How many new spans a reason names."""


class TrainingData(BaseModel, frozen=True, extra="forbid", strict=True):
    """The data of one training.

    fingerprint: of all files that were read, from Spans; spans: the names of the spans, the newest last; work: a digest
    of the settings and the code; statistics: the URI of the statistics of all spans.
    """

    fingerprint: str
    spans: Annotated[tuple[str, ...], Field(min_length=1)]
    work: str
    statistics: str

    def is_before(self, other: TrainingData) -> bool:
        """Whether its newest span is older than the other's."""
        # Numbers have no leading zeros, and dates have the same length.
        ours, theirs = self.spans[-1], other.spans[-1]
        return (len(ours), ours) < (len(theirs), theirs)


class TrainingRecord(BaseModel, frozen=True, extra="forbid"):
    """The data of the last trainings.

    Args:
        judged: the last training whose model was evaluated, blessed or not.
        blessed: the last training whose model was blessed.
        newest: the training on the newest data, if later ones used older spans and were not blessed, as in a backfill.
        passed: the fingerprint of data that arrived after the blessed model and did not drift, with its DriftConfig.
    """

    judged: TrainingData | None = None
    blessed: TrainingData | None = None
    newest: TrainingData | None = None
    passed: tuple[str, str] | None = None

    @classmethod
    def read(cls, path: Path) -> TrainingRecord:
        """The record in a file; empty if there is no file. Raises RunError if the file is damaged."""
        try:
            found = cls.parsed(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except ValueError as error:
            raise RunError(
                f"{path}: the record of trainings is damaged: {error}.\n"
                "  Delete it: the next run then trains as if there were no model yet. If you edited it yourself,"
                " remove its `checksum` instead."
            ) from None
        return found._with_paths(lambda uri: str(path.parent / uri))

    @classmethod
    def parsed(cls, text: str | bytes) -> TrainingRecord:
        """The record in JSON, with paths as in it. Raises ValueError with the reason if it is damaged."""
        return parse_record(cls, text)

    def text(self) -> str:
        """The record as JSON with a checksum, with paths as they are."""
        return with_checksum(self.model_dump_json(exclude_none=True))

    def write(self, path: Path) -> None:
        """Replace the file in one step."""
        write_text(path, self._with_paths(lambda uri: inside(path.parent, uri)).text())

    def with_judged(self, data: TrainingData, *, blessed: bool) -> TrainingRecord:
        """The record after another training.

        A training on older spans does not replace `newest`, unless its model was blessed: that model is then the one in
        use, and it has not seen the newest data.
        """
        if blessed:
            return TrainingRecord(judged=data, blessed=data)
        last = self.newest or self.judged
        if last is None or last.work != data.work or not data.is_before(last):
            return TrainingRecord(judged=data, blessed=self.blessed)
        return self.model_copy(update={"judged": data, "newest": last})

    def with_passed(self, fingerprint: str, limits: str) -> TrainingRecord:
        """The record after data that did not drift. limits: DriftConfig as JSON."""
        return self.model_copy(update={"passed": (fingerprint, limits)})

    def _with_paths(self, change: Callable[[str], str]) -> TrainingRecord:
        def changed(data: TrainingData | None) -> TrainingData | None:
            return None if data is None else data.model_copy(update={"statistics": change(data.statistics)})

        named = {"judged": self.judged, "blessed": self.blessed, "newest": self.newest}
        return self.model_copy(update={name: changed(data) for name, data in named.items()})


def update(path: Path, change: Callable[[TrainingRecord], TrainingRecord]) -> None:
    """Apply `change` to the record in a file.

    Runs that share the folder (pods with one volume) wait for each other, so that no change is lost.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with wait_and_hold(path.with_name(f".{path.name}.lock")):
        change(TrainingRecord.read(path)).write(path)


@dataclass(frozen=True)
class Decision:
    """Whether to train, and why, in one line. `if-drifted`: as far as the component Drift, which decides."""

    go: Literal["yes", "no", "if-drifted"]
    why: str


def look_for_new(
    data: str, retrain: Retrain, limits: str, work: str, trained: str, freshness: str = ""
) -> dict[str, str]:
    """What the component LookForNew does; its arguments are documented there. Returns the texts of its outputs.

    It does not stop the run: `stop_if_judged_so` does, once the verdict is written.
    """
    config = DataConfig.model_validate_json(data)
    manifest = find_spans(config)
    as_of = date_of_run(config, manifest)
    decision = decide(manifest, TrainingRecord.read(Path(trained)), work, retrain, limits)
    logger.info(decision.why)
    verdict = judge_without_new_data(freshness if decision.go == NO else "", config, manifest)
    texts = {"spans": manifest.to_json(), "as_of": as_of, GO: decision.go, WHY: decision.why}
    return {**texts, VERDICT: verdict.model_dump_json()}


def decide(manifest: SpanManifest, trained: TrainingRecord, work: str, retrain: Retrain, limits: str = "") -> Decision:
    """Whether there is a reason to train.

    Args:
        manifest: the spans that are there now.
        trained: the record of earlier trainings.
        work: a digest of the current settings and code.
        retrain: as in `schedule:`.
        limits: DriftConfig as JSON.
    """
    last = trained.judged
    if retrain == "always":
        return Decision("yes", "asked for")
    if last is None:
        return Decision("yes", "no model has been judged yet")
    if last.work != work:
        return Decision("yes", "settings or code changed since the last model")
    seen = _seen_before(manifest, trained, last, limits if retrain == "drift" else None)
    if seen:
        return Decision("no", f"nothing new: {seen}")
    what = _new_data(manifest, trained.newest or last)
    if retrain == "drift" and trained.blessed is not None:
        return Decision("if-drifted", f"{what}; the component Drift will compare it")
    return Decision("yes", what if trained.blessed is not None else f"{what}, and no model is blessed yet")


def _seen_before(manifest: SpanManifest, trained: TrainingRecord, last: TrainingData, limits: str | None) -> str:
    """What an earlier run did with the same data; "" if it is new."""
    newest = manifest.spans[-1].name
    up_to = f", up to {newest}" if newest else ""
    if manifest.fingerprint in (last.fingerprint, trained.newest and trained.newest.fingerprint):
        return f"the last model was trained on the same data{up_to}"
    if trained.passed == (manifest.fingerprint, limits):
        return f"the same data did not drift before{up_to}"
    return ""


def _new_data(manifest: SpanManifest, last: TrainingData) -> str:
    names = [span.name for span in manifest.spans]
    new = [name for name in names if name not in last.spans]
    if new:
        more = f" and {len(new) - NAMED_SPANS} more" if len(new) > NAMED_SPANS else ""
        return f"new data: {', '.join(new[-NAMED_SPANS:])}{more}"
    if [name for name in last.spans if name not in names]:
        return f"other data: {names[0]} to {names[-1]}" if names[-1] else "other data"
    return "the data changed"
