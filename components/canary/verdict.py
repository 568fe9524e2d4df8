"""The canary's verdict, as it writes it into its artifact: one JSON object, for people and programs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from headrace.common.figures import figure
from headrace.common.records import RecordFile

FILE_NAME = "verdict.json"
MOST_NAMED = 3
"""Features that the line about the replay names."""
Outcome = Literal["answered", "refused", "crashed", "hung"]
"""What became of a request: an answer, an error of TensorFlow's, the end of the process, or nothing in time."""


class OddAnswer(BaseModel, frozen=True):
    """What a signature did with an odd input. detail: the error, or how the process ended."""

    what: str
    outcome: Outcome
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether a server would have survived it."""
        return self.outcome in ("answered", "refused")


class SignatureVerdict(BaseModel, frozen=True):
    """What became of one signature.

    skipped: why it was not asked, "" if it was; examples: the real examples that it was asked with; not_compared: why
    the answers were not compared, "" if they were; difference: the largest one between a number of C++ and of Python,
    relative to the largest number of its output; p50_ms, p99_ms: latency of requests with one example.
    """

    name: str
    skipped: str = ""
    examples: int = 0
    not_compared: str = ""
    difference: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    odd: tuple[OddAnswer, ...] = ()


class ReplayedRow(BaseModel, frozen=True):
    """An example whose feature differs.

    row: its number in the split, from 1; place: the number of the first value that differs, from 1, None for a feature
    with one value; transformed: the first values that differ, as Transform wrote them; served: as the model computes
    them.
    """

    row: int
    place: int | None = None
    transformed: str
    served: str


class ReplayedFeature(BaseModel, frozen=True):
    """A feature that differs. rows: in how many examples; random: whether two equal requests have different values."""

    name: str
    rows: int
    random: bool = False
    shown: tuple[ReplayedRow, ...] = ()


class ReplayVerdict(BaseModel, frozen=True):
    """The comparison of what Transform wrote with what the exported model computes of the same raw examples.

    skipped: why nothing was compared, "" if it was; examples, features: how many were compared, without the label;
    differing: the worst feature first; only_transformed, only_served: features that only one side has.
    """

    skipped: str = ""
    examples: int = 0
    features: int = 0
    differing: tuple[ReplayedFeature, ...] = ()
    only_transformed: tuple[str, ...] = ()
    only_served: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        if self.skipped:
            return f"skipped: {self.skipped}"
        compared = f"{self.features} feature{'s' * (self.features != 1)} of {self.examples:,} examples"
        if not self.differing:
            return f"passed: {compared} are as in training"
        worst = [f"{one.name} in {one.rows:,}{' (random)' * one.random}" for one in self.differing[:MOST_NAMED]]
        others = len(self.differing) - len(worst)
        worst += [f"{others} others"] if others else []
        return f"{len(self.differing)} of {compared} differ from what Transform wrote: {', '.join(worst)}"


class DifferentAnswer(BaseModel, frozen=True):
    """An output of the exported model that differs from that of the model in the Trainer's memory.

    rows: in how many examples; row: the number of the first one in the split, from 1; place: the number of its first
    value that differs, from 1, None for an output with one value; trained, exported: that value in memory and in the
    export.
    """

    output: str
    rows: int
    row: int
    place: int | None = None
    trained: str
    exported: str

    @property
    def words(self) -> str:
        """The example and both values."""
        place = "" if self.place is None else f", value {self.place}"
        return f"example {self.row:,}{place}: {self.trained} in the Trainer, {self.exported} in the export"


class AnswersVerdict(BaseModel, frozen=True):
    """The comparison of the exported model's answers with those of the model in the Trainer's memory.

    skipped: why nothing was compared, "" if it was; examples: how many were compared, the first of the split;
    difference: the largest one of a number, relative to the largest number of its output, None if an output cannot be
    compared; differing: None if all answers agree; signatures: those that agree.
    """

    skipped: str = ""
    split: str = ""
    examples: int = 0
    difference: float | None = None
    differing: DifferentAnswer | None = None
    signatures: tuple[str, ...] = ()

    def with_signature(self, name: str, verdict: AnswersVerdict) -> AnswersVerdict:
        """The same with the verdict on one more signature, whose answers agree."""
        differences = [one for one in (self.difference, verdict.difference) if one is not None]
        return verdict.model_copy(
            update={"difference": max(differences, default=None), "signatures": (*self.signatures, name)}
        )

    @property
    def words(self) -> str:
        if self.skipped:
            return f"not compared: {self.skipped}"
        answers = f"{self.examples:,} answer{'s' * (self.examples != 1)}"
        by = "" if self.difference is None else f"; the largest difference is {figure(self.difference, 2)}"
        if self.differing is None:
            return f"passed: {answers} match the Trainer's model{by}"
        return f"{self.differing.rows:,} of {answers} differ from those of the Trainer's model{by}"


class ProtocolVerdict(BaseModel, frozen=True):
    """What became of the signatures over one protocol of a server, REST or gRPC, at one address."""

    protocol: str
    address: str
    signatures: tuple[SignatureVerdict, ...] = ()


class ServerVerdict(BaseModel, frozen=True):
    """What became of the model on a staging server.

    reasons: why it must not be pushed; skipped: why it was not tried, "" if it was; version: its number there, while it
    was tried; load_seconds: how long the server took to load it, None if it did not.
    """

    reasons: tuple[str, ...] = ()
    skipped: str = ""
    version: int | None = None
    load_seconds: float | None = None
    protocols: tuple[ProtocolVerdict, ...] = ()

    @property
    def words(self) -> str:
        if self.skipped:
            return f"skipped: {self.skipped}"
        if self.reasons:
            return f"failed: {self.reasons[0]}"
        slowest = [
            f"{one.protocol} {figure(max((each.p99_ms or 0 for each in one.signatures), default=0), 2)} ms"
            for one in self.protocols
        ]
        seconds = "" if self.load_seconds is None else f"loaded in {self.load_seconds:.1f} s, "
        return f"passed: {seconds}p99 at most {', '.join(slowest)}"


class CanaryVerdict(RecordFile):
    """The verdict on an exported model.

    reasons: why it must not be pushed; empty if it may; split: of the examples; load_seconds: how long the C++ loader
    took; memory_bytes: the most memory of the fresh process, TensorFlow's library included, after real requests;
    warmup_requests: those in the export; latency_p50_ms, latency_p99_ms, memory_mb: the limits, None for none; answers:
    None if an earlier version examined the model; replay: None if it is turned off; server: None if there is no staging
    server.
    """

    file_name = FILE_NAME

    reasons: tuple[str, ...] = ()
    split: str = ""
    load_seconds: float | None = None
    memory_bytes: int | None = None
    warmup_requests: int = 0
    signatures: tuple[SignatureVerdict, ...] = ()
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    memory_mb: float | None = None
    answers: AnswersVerdict | None = None
    replay: ReplayVerdict | None = None
    server: ServerVerdict | None = None

    @property
    def passed(self) -> bool:
        """Whether the model may be pushed."""
        return not self.reasons

    @property
    def words(self) -> str:
        """A verdict of `passed` with the measurements, such as `p99 0.74 ms, 495 MB`."""
        slowest = max((one.p99_ms for one in self.signatures if one.p99_ms is not None), default=None)
        measured = [] if slowest is None else [f"p99 at most {figure(slowest, 2)} ms"]
        measured += [f"{self.memory_bytes / 1e6:,.0f} MB"] if self.memory_bytes else []
        skipped = len(self.signatures) - len(self.asked)
        asked = f"{len(self.asked)} signature{'s' * (len(self.asked) != 1)} answered"
        return ", ".join([asked, *([f"{skipped} not asked"] if skipped else []), *measured])

    @property
    def asked(self) -> tuple[SignatureVerdict, ...]:
        return tuple(one for one in self.signatures if not one.skipped)
