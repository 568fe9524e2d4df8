"""The page itself: everything that the templates show, gathered."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from headrace.pipeline.local.record import NodeRecord, RunRecord, Status
from headrace.pipeline.report.anomalies import read_anomalies
from headrace.pipeline.report.beam import describe_beam
from headrace.pipeline.report.curves import draw_curves
from headrace.pipeline.report.data import read_data
from headrace.pipeline.report.features import describe_features
from headrace.pipeline.report.figures import FILTERS
from headrace.pipeline.report.judgement import read_judgement
from headrace.pipeline.report.profile import read_profile
from headrace.pipeline.report.run_folder import RunFolder
from headrace.pipeline.report.timings import read_timings
from headrace.pipeline.report.training import read_training
from headrace.pipeline.report.tuning import read_search
from headrace.pipeline.report.verdict import Verdict, read_verdict
from headrace.pipeline.report.versions import read_versions
from headrace.pipeline.report.visible import visible
from headrace.pipeline.terminal.logs import last_lines

TEMPLATES = Path(__file__).parent / "templates"
_LOG_LINES = 25
_YAML_KEY = re.compile(r"^(\s*(?:- )?)([^\s#:][^:\n]*:)(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True)
class Failure:
    """A component that failed: the cause, the meaningful end of its log, and a link to the whole."""

    node: NodeRecord
    lines: list[str]
    log: str


@dataclass(frozen=True)
class Headline:
    """The run's end in a word. `tone`: good, bad, warn or quiet."""

    words: str
    tone: str


def render_page(folder: RunFolder) -> str:
    """The whole HTML page of a run."""
    return environment().get_template("report.html").render(style=style(), **gather(folder))


def environment(*more: Path, finalize: Callable[[Any], Any] | None = None) -> Environment:
    """Where templates come from: ours, and those of `more` folders. `finalize` has every value before it is written.

    What is no markup yet is written so that all of it can be seen.
    """

    def finished(value: Any) -> Any:
        value = finalize(value) if finalize else value
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    made = Environment(
        loader=FileSystemLoader([TEMPLATES, *more]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finished,
    )
    made.filters.update(FILTERS)
    made.globals["prefix"] = ""  # of the ids on the page, which may show several runs
    return made


def style() -> Markup:
    """The style sheet."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file


def gather(folder: RunFolder) -> dict[str, Any]:
    """What the templates know, by name."""
    record, config = folder.record, folder.config
    verdict = read_verdict(folder)
    training = read_training(folder.directory("Trainer", "model_run"))
    return {
        "record": record,
        "config": config,
        "headline": headline(record, verdict),
        "verdict": verdict,
        "failures": _failures(folder),
        "timings": read_timings(record),
        "beam": describe_beam(record),
        "data": read_data(folder),
        "anomalies": read_anomalies(folder),
        "features": describe_features(config) if config else [],
        "training": training,
        "curves": draw_curves(training) if training else [],
        "profile": read_profile(folder),
        "tuning": read_search(folder.directory("Tuner", "best_hyperparameters")),
        "judgement": read_judgement(folder.evaluation, verdict, config) if folder.evaluation else None,
        "config_text": with_marked_keys(folder.config_text),
        "versions": read_versions(folder.path),
    }


def headline(record: RunRecord, verdict: Verdict) -> Headline:
    """The run's end."""
    failed = [node.id for node in record.nodes if node.status is Status.FAILED]
    if record.status is Status.FAILED or failed:
        return Headline(f"Failed in {', '.join(failed)}" if failed else "Failed", "bad")
    if record.status is Status.INTERRUPTED:
        return Headline("Interrupted", "warn")
    if record.status is Status.RUNNING:
        return Headline("Running", "quiet")
    if verdict.blessed is None:
        return Headline(f"Ended early: {record.ended}" if record.ended else "Done", "quiet")
    if not verdict.blessed:
        return Headline("Not blessed", "bad")
    return Headline("Blessed and pushed" if verdict.pushed else "Blessed", "good")


def _failures(folder: RunFolder) -> list[Failure]:
    failed = [node for node in folder.record.nodes if node.status is Status.FAILED]
    return [_failure(node, folder.path) for node in failed]


def _failure(node: NodeRecord, run_dir: Path) -> Failure:
    log = run_dir / "logs" / f"{node.id}.log"
    if not log.exists() and node.log:
        log = Path(node.log)
    link = Path(os.path.relpath(log, run_dir)).as_posix() if log.exists() else ""
    return Failure(node, [] if node.expected else last_lines(log, _LOG_LINES), link)


def with_marked_keys(text: str) -> Markup:
    """YAML with its keys in colour."""
    return Markup(_YAML_KEY.sub(r'\1<span class="key">\2</span>', str(escape(text))))  # noqa: S704 - escaped just now
