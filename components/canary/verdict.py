"""The canary's verdict, as it writes it into its artifact: one JSON object, for people and programs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.common.durable import write_text

FILE_NAME = "verdict.json"
Outcome = Literal["answered", "refused", "crashed", "hung"]
"""What became of a request: an answer, an error of TensorFlow's, the end of the process, or nothing in time."""


class OddAnswer(BaseModel):
    """What a signature did with an odd input. detail: the error, or how the process ended."""

    model_config = ConfigDict(frozen=True)

    what: str
    outcome: Outcome
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether a server would have survived it."""
        return self.outcome in ("answered", "refused")


class SignatureVerdict(BaseModel):
    """What became of one signature.

    skipped: why it was not asked, "" if it was; examples: the real examples that it was asked with; not_compared: why
    the answers were not compared, "" if they were; difference: the largest one between a number of C++ and of Python,
    relative to the largest number of its output; p50_ms, p99_ms: latency of requests with one example.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    skipped: str = ""
    examples: int = 0
    not_compared: str = ""
    difference: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    odd: tuple[OddAnswer, ...] = ()


class CanaryVerdict(BaseModel):
    """The verdict on an exported model.

    reasons: why it must not be pushed; empty if it may; split: of the examples; load_seconds: how long the C++ loader
    took; memory_bytes: the most memory of the fresh process, TensorFlow's library included, after real requests;
    warmup_requests: those in the export; latency_p99_ms, memory_mb: the limits, None for none.
    """

    model_config = ConfigDict(frozen=True)

    reasons: tuple[str, ...] = ()
    split: str = ""
    load_seconds: float | None = None
    memory_bytes: int | None = None
    warmup_requests: int = 0
    signatures: tuple[SignatureVerdict, ...] = ()
    latency_p99_ms: float | None = None
    memory_mb: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the model may be pushed."""
        return not self.reasons

    @property
    def words(self) -> str:
        """A verdict of `passed` with the measurements, such as `p99 0.74 ms, 495 MB`."""
        slowest = max((one.p99_ms for one in self.signatures if one.p99_ms is not None), default=None)
        measured = [] if slowest is None else [f"p99 at most {slowest:.2g} ms"]
        measured += [f"{self.memory_bytes / 1e6:,.0f} MB"] if self.memory_bytes else []
        skipped = len(self.signatures) - len(self.asked)
        asked = f"{len(self.asked)} signature{'s' * (len(self.asked) != 1)} answered"
        return ", ".join([asked, *([f"{skipped} not asked"] if skipped else []), *measured])

    @property
    def asked(self) -> tuple[SignatureVerdict, ...]:
        """The signatures that were asked."""
        return tuple(one for one in self.signatures if not one.skipped)

    def write(self, folder: Path) -> None:
        """Write the file into the canary's artifact."""
        write_text(folder / FILE_NAME, self.model_dump_json(indent=1))

    @classmethod
    def read(cls, folder: Path) -> CanaryVerdict | None:
        """The verdict in the canary's artifact; None if there is none, or another version wrote it."""
        try:
            return cls.model_validate_json((folder / FILE_NAME).read_bytes())
        except (OSError, ValidationError):
            return None
