"""The page: collects everything that the templates show, and renders them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from headrace.pipeline.report.compiled import CompiledTemplates
from headrace.pipeline.report.data import read_anomalies, read_data
from headrace.pipeline.report.evaluation import EvaluationSection, evaluation_section
from headrace.pipeline.report.features import describe_features, trained_kind
from headrace.pipeline.report.formatting import FILTERS, visible
from headrace.pipeline.report.lineage import lineage_section
from headrace.pipeline.report.profile import read_profile
from headrace.pipeline.report.timings import describe_beam, read_timings
from headrace.pipeline.report.training import draw_curves, read_searches, read_training
from headrace.pipeline.report.withheld import (
    anomalies_without_values,
    data_without_values,
    gates_without_values,
    record_without_values,
    verdict_without_values,
)
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.serving import ServingOutcome
from headrace.pipeline.results.verdict import ModelVerdict, read_verdict
from headrace.pipeline.terminal.logs import last_lines, own_code
from headrace.pipeline.versions import read_versions

TEMPLATES = Path(__file__).parent / "templates"
_LOG_LINES = 25
_YAML_KEY = re.compile(r"^(\s*(?:- )?)([^\s#:][^:\n]*:)(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True)
class FailedComponent:
    """A component that failed, the last lines of its log, and a link to the whole log."""

    node: NodeRecord
    lines: list[str]
    log: str


@dataclass(frozen=True)
class Headline:
    """The outcome of a run in a word or two. `tone` is `good`, `bad`, `warn` or `quiet`."""

    words: str
    tone: str


def render_page(folder: RunFolder) -> str:
    return environment().get_template("report.html").render(style=style(), **gather(folder))


def environment(*more: Path, finalize: Callable[[Any], Any] | None = None) -> Environment:
    """The template environment, for the report's templates and those in `more` folders.

    Every value passes through `finalize`, is escaped, and has its invisible characters made visible.
    """

    def shown(value: Any) -> Any:
        value = finalize(value) if finalize else value
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    made = Environment(
        loader=FileSystemLoader([TEMPLATES, *more]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
        bytecode_cache=CompiledTemplates("finalized" if finalize else "page"),
    )
    made.filters.update(FILTERS)
    made.globals["prefix"] = ""  # of ids: a shared page shows the same section of several runs
    return made


def style() -> Markup:
    """The style sheet of the report."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file


def gather(folder: RunFolder) -> dict[str, Any]:
    """The variables of the templates."""
    record, config, verdict = folder.record, folder.config, read_verdict(folder)
    data, anomalies, failures, gates = read_data(folder), read_anomalies(folder), _failures(folder), folder.gates
    if not folder.shows_rows:
        record, verdict = record_without_values(record), verdict_without_values(verdict)
        data, anomalies = data_without_values(data), anomalies_without_values(anomalies)
        gates = gates_without_values(gates)
        failures = [replace(one, node=record.node(one.node.id), lines=[]) for one in failures]
    training = read_training(folder.directory("Trainer", "model_run"))
    return {
        "record": record,
        "config": config,
        "headline": headline(record, verdict),
        "verdict": verdict,
        "predicted": folder.predicted,
        "failures": failures,
        "timings": read_timings(record),
        "beam": describe_beam(record),
        "data": data,
        "anomalies": anomalies,
        "gates": gates,
        "features": describe_features(config, training) if config else [],
        "kind": trained_kind(config, training) if config else "",
        "training": training,
        "curves": draw_curves(training) if training else [],
        "profile": read_profile(folder),
        "tuning": read_searches(folder),
        "evaluation": _evaluation(folder, verdict),
        "serving": ServingOutcome.read(folder.path),
        "lineage": lineage_section(folder, verdict),
        "config_text": highlight_keys(folder.config_text),
        "versions": read_versions(folder.path),
    }


def _evaluation(folder: RunFolder, verdict: ModelVerdict) -> EvaluationSection | None:
    if folder.evaluation is None:
        return None
    return evaluation_section(folder.evaluation, verdict, folder.config, rows=folder.shows_rows)


def headline(record: RunRecord, verdict: ModelVerdict) -> Headline:
    """The outcome of a run."""
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
    return _blessed(verdict)


def _blessed(verdict: ModelVerdict) -> Headline:
    if verdict.withdrawn:
        return Headline("Blessed, but rolled back before", "warn")
    if verdict.awaiting:
        return Headline("Blessed, awaiting approval", "warn")
    return Headline("Blessed and pushed" if verdict.pushed else "Blessed", "good")


def _failures(folder: RunFolder) -> list[FailedComponent]:
    failed = [node for node in folder.record.nodes if node.status is Status.FAILED]
    return [_failure(node, folder.path) for node in failed]


def _failure(node: NodeRecord, run_dir: Path) -> FailedComponent:
    log = run_dir / "logs" / f"{node.id}.log"
    if not log.exists() and node.log:
        log = Path(node.log)
    link = Path(os.path.relpath(log, run_dir)).as_posix() if log.exists() else ""
    return FailedComponent(node, (own_code if node.expected else last_lines)(log, _LOG_LINES), link)


def highlight_keys(text: str) -> Markup:
    """Mark the keys of YAML for the style sheet."""
    return Markup(_YAML_KEY.sub(r'\1<span class="key">\2</span>', str(escape(text))))  # noqa: S704 - escaped just now
