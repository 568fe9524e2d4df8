"""How figures and states are put into words."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.local.record import Status


@dataclass(frozen=True)
class Look:
    """How a status is shown: a rich style, a symbol, and one for terminals that only know ASCII."""

    style: str
    symbol: str
    ascii_symbol: str


LOOKS = {
    Status.WAITING: Look("dim", "·", "."),
    Status.RUNNING: Look("cyan", "▶", ">"),
    Status.CACHED: Look("blue", "=", "="),
    Status.DONE: Look("green", "✓", "+"),
    Status.FAILED: Look("bold red", "✗", "x"),
    Status.SKIPPED: Look("dim", "○", "-"),
    Status.INTERRUPTED: Look("yellow", "!", "!"),
}


def duration(seconds: float | None) -> str:
    """`4.1 s`, `2 m 05 s`, `1 h 02 m`; empty for None."""
    if seconds is None:
        return ""
    seconds = max(seconds, 0.0)
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"


def count(number: int | None) -> str:
    """`15,002`; empty for None."""
    return "" if number is None else f"{number:,}"
