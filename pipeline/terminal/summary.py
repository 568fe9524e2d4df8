"""The summary that ends a run: blessing, pushed model, report and time, or what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rich.console import Console
from rich.text import Text

from headrace.components.canary.verdict import CanaryVerdict
from headrace.pipeline.results.record import Ingestion, NodeRecord, RunRecord, Status, ingested
from headrace.pipeline.results.verdict import ModelVerdict
from headrace.pipeline.terminal.logs import failure_text
from headrace.pipeline.terminal.table import duration

MAX_SKIPPED = 3
"""Skipped records listed one by one; the report lists more."""
PREDICTED = "predicted"
"""The remarks on what was predicted, which follow what was pushed."""

_STYLES = {
    "blessed": "bold green",
    "not blessed": "bold red",
    "failed": "bold red",
    "interrupted": "bold yellow",
    "left out": "bold yellow",
    "ended": "bold green",
    "warning": "bold yellow",
}


def print_summary(
    console: Console,
    record: RunRecord,
    verdict: ModelVerdict | None = None,
    report: Path | None = None,
    remarks: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Print `summary`, with the verdict in color if the terminal supports it."""
    for line in ["", *summary(record, verdict, report, remarks)]:
        text = Text(line)
        for words, style in _STYLES.items():
            text.highlight_regex(rf"^(\w+ +)?{words}\b", style)
        console.print(text, soft_wrap=True, highlight=False)


def summary(
    record: RunRecord,
    verdict: ModelVerdict | None = None,
    report: Path | None = None,
    remarks: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """The lines that end a run.

    verdict: from `headrace.pipeline.results.verdict.read_verdict`; remarks: lines about the `data`, the `training` and
    what was `predicted`; paths are shown as given.
    """
    lines = [*_failures(record), *_data(ingested(record))]
    lines += [line for about in remarks if about != PREDICTED for line in _remarks(remarks, about)]
    if record.ended is not None:
        lines += [
            f"ended     {record.ended}",
            "          nothing was trained or pushed; --param retrain=always trains anyway",
        ]
    elif (record.status is Status.DONE or _pushed(record)) and not _only_predicts(record):
        lines += _blessing(verdict or ModelVerdict())
    lines += _remarks(remarks, PREDICTED)
    if report is not None:
        lines.append(f"report    {report}")
    if record.finished is not None:
        lines.append(f"time      {duration(record.finished - record.started)}{_reused(record.nodes)}")
    return lines


def _pushed(record: RunRecord) -> bool:
    """Whether the run got past its push, and so may have changed what is in service, even if it failed later."""
    return any(node.id == "Pusher" and node.status in {Status.DONE, Status.CACHED} for node in record.nodes)


def _only_predicts(record: RunRecord) -> bool:
    ids = {node.id for node in record.nodes}
    return "ModelInService" in ids and "Trainer" not in ids


def _remarks(remarks: Mapping[str, Sequence[str]], about: str) -> list[str]:
    return [f"{about:<10}{remark}" for remark in remarks.get(about, ())]


def _failures(record: RunRecord) -> list[str]:
    lines: list[str] = []
    failed = [node for node in record.nodes if node.status is Status.FAILED]
    for node in failed:
        lines += [*failure_text(node).splitlines(), ""]
    if record.error and not failed:
        lines += [*f"failed: {record.error}".splitlines(), ""]
    skipped = [node.id for node in record.nodes if node.status is Status.SKIPPED]
    if skipped and record.ended is None:
        lines.append(f"skipped   {', '.join(skipped)}")
    if record.status is Status.INTERRUPTED:
        lines.append("interrupted: the same command resumes where this run stopped")
    return lines


def _data(found: Ingestion) -> list[str]:
    """What ExampleGen reported about the data."""
    lines = [f"data      {note}" for note in found.notes]
    if found.skipped:
        share = f"{found.skipped:,} of {found.records:,} records, which are unreadable"
        lines += [f"left out  {share}", *(f"          {place}" for place in found.places[:MAX_SKIPPED])]
    if found.skipped > MAX_SKIPPED:
        lines.append("          ...")
    return lines


def _blessing(verdict: ModelVerdict) -> list[str]:
    if verdict.blessed is None:
        lines = ["blessing  the run did not evaluate its model"]
    else:
        word = "blessed" if verdict.blessed else "not blessed"
        met = "every threshold was met" if not verdict.unguarded else "nothing is required of the metrics"
        first, *others = verdict.reasons or [met if verdict.blessed else "see the report"]
        lines = [f"blessing  {word}: {first}", *(f"          {reason}" for reason in others)]
    if verdict.unguarded:
        lines.insert(0, f"warning   {verdict.unguarded}")
    if verdict.canary is not None:
        lines += _canary(verdict.canary)
    if verdict.lite is not None and verdict.lite.passed:
        lines.append(f"lite      passed: {verdict.lite.words}")
    if verdict.withdrawn is not None:
        lines.append(f"          {verdict.withdrawn}")
    if verdict.pushed is not None:
        return [*lines, f"pushed    {verdict.pushed}"]
    if verdict.awaiting is not None:
        return [*lines, "pushed    nothing: the model waits for approval", f"          {verdict.awaiting}"]
    if verdict.blessed and verdict.in_service is not None and verdict.withdrawn is None:
        return [*lines, f"pushed    nothing: the model is in service as {verdict.in_service}"]
    if verdict.refused is not None:
        return [
            *lines,
            f"pushed    nothing; THE REFUSED MODEL IS IN SERVICE as {verdict.refused}",
            "          `headrace rollback` puts the model before it back into service",
        ]
    stays = "; the model in service stays" if verdict.blessed is False and verdict.in_service is not None else ""
    return [*lines, f"pushed    nothing{stays}"]


def _canary(canary: CanaryVerdict) -> list[str]:
    lines = [f"canary    passed: {canary.words}"] if canary.passed else []
    lines += [f"answers   {canary.answers.words}"] if canary.answers is not None else []
    lines += [f"replay    {canary.replay.words}"] if canary.replay is not None else []
    return lines + ([f"server    {canary.server.words}"] if canary.server is not None else [])


def _reused(nodes: list[NodeRecord]) -> str:
    cached = sum(node.status is Status.CACHED for node in nodes)
    return f" ({cached} of {len(nodes)} components reused)" if cached else ""
