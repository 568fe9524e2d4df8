"""The card of a pushed model, in Markdown and HTML: what it predicts and how well, from which data, and its origin.

path = write_card(config, runs, Path("serving/taxi/1795402861"))     # runs/taxi/runs/<run>/model_card.html

It is in the folder of the run that trained the model, next to the record that it is made from: the files of a pushed
version must be those that were blessed, and model servers allow nothing between the versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from headrace.common import yaml_text
from headrace.common.durable import write_text
from headrace.components.gates.verdict import DataVerdicts
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.label import LabelConfig
from headrace.pipeline.folders import Folders
from headrace.pipeline.models import CARD
from headrace.pipeline.models.origin import Origin, origins
from headrace.pipeline.report.compiled import CompiledTemplates
from headrace.pipeline.report.evaluation import EvaluationSection, evaluation_section
from headrace.pipeline.report.features import trained_kind
from headrace.pipeline.report.formatting import FILTERS, figure, value_in_words, visible
from headrace.pipeline.report.page import environment, highlight_keys, style
from headrace.pipeline.report.slices import FEW_EXAMPLES
from headrace.pipeline.report.statistics import read_statistics
from headrace.pipeline.report.training import TrainingHistory, read_training
from headrace.pipeline.results.record import Ingestion, ingested
from headrace.pipeline.results.verdict import ModelVerdict, read_verdict
from headrace.pipeline.run import Run
from headrace.pipeline.share.runs import PublicFolder, SharedRun
from headrace.pipeline.versions import read_versions

MARKDOWN = "model_card.md"
_TEMPLATES = Path(__file__).parent / "templates"
_MOST_CLASSES, _MOST_THIN = 20, 10
_PRIVATE = ("notify", "kubeflow")
"""Sections of the config that a card leaves out."""
_SPACE = re.compile(r"\s+")
_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~#!$@]|:(?=//)|(?<=www)\.")
"""What has a meaning within a line of Markdown, and what GitHub turns into a link."""


@dataclass(frozen=True)
class Card:
    """What a card shows.

    predicts: one sentence; kind: of the model, as it was trained; times: (what, first to last); limits: what to know
    before using it; home: start of the paths of artifacts.
    """

    origin: Origin
    predicts: str
    kind: str
    columns: tuple[str, ...]
    times: tuple[tuple[str, str], ...]
    evaluation: EvaluationSection | None
    verdict: ModelVerdict
    limits: tuple[str, ...]
    home: str = ""


def write_card(config: PipelineConfig, runs: Sequence[Run], version: Path) -> Path | None:
    """Write both files for the model in a pushed version's folder; returns the path of the HTML page.

    runs: the pipeline's runs. None, and nothing is written, if the record of the run that trained the model is gone.
    """
    folders = Folders.of(config)
    pushed = PushRecord.read(folders.push_record).model_of(folders.push_record, version)
    origin = next((one for one in origins(config, runs) if str(one.model.path) == pushed), None)
    if origin is None or origin.record is None:
        return None
    for name, text in render_card(origin, PublicFolder.read(origin.record)).items():
        write_text(origin.record / name, text)
    return origin.record / CARD


def render_card(origin: Origin, made: PublicFolder, home: str = "") -> dict[str, str]:
    """The two files by name.

    made: the folder of the run that the origin is from; home: URI of the folder that the origin's paths are relative
    to, "" if they are whole.
    """
    card = _card(origin, made, f"{home}/" if home else "")
    shown = {"card": card, "record": made.record, "tuned": SharedRun(made, made.record.run_id, 0).tuned}
    shown["versions"] = read_versions(made.path) if origin.packages else {}  # else it names what is installed now
    text = _published(made.config_text)
    page = environment(_TEMPLATES).get_template("card.html")
    html = page.render(style=style(), evaluation=card.evaluation, config_text=highlight_keys(text), **shown)
    return {MARKDOWN: _markdown().get_template("card.md").render(config_text=text, **shown), CARD: html}


def _published(config_text: str) -> str:
    """The config without the sections that say nothing about the model, but name people and machines."""
    try:
        tree = yaml_text.parse(config_text)
    except yaml.YAMLError:
        return config_text
    if not isinstance(tree, dict) or not any(tree.get(name) for name in _PRIVATE):
        return config_text
    public = {name: section for name, section in tree.items() if name not in _PRIVATE}
    return yaml.safe_dump(public, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)


def _card(origin: Origin, made: PublicFolder, home: str) -> Card:
    judged = PublicFolder.read(origin.judged) if origin.judged else made
    verdict = read_verdict(judged)
    section = evaluation_section(judged.evaluation, verdict, judged.config) if judged.evaluation else None
    config, training = made.config, _training(made)
    return Card(
        origin=origin,
        predicts=_predicts(config.label) if config else "",
        kind=trained_kind(config, training) if config else "",
        columns=tuple(config.feature_columns) if config else (),
        times=tuple(_times(origin, made)),
        evaluation=section,
        verdict=verdict,
        limits=tuple(_limits(origin, made, section, verdict, home)),
        home=home,
    )


def _training(made: PublicFolder) -> TrainingHistory | None:
    return read_training(made.directory("Trainer", "model_run"))


def _predicts(label: LabelConfig) -> str:
    if label.tasks is not None:
        return " ".join(map(_predicts, label.parts.values()))
    if label.kind == "regression":
        return f"{label.key}, a number."
    if label.kind == "next_word":
        return f"The first word of {label.key}, after the text in {label.text}: a probability for each word."
    if label.kind == "text":
        return f"{label.key}, a text of up to {label.text_feature.max_tokens} words, written word by word."
    classes = label.class_values
    listed = ", ".join(value_in_words(str(value)) for value in classes[:_MOST_CLASSES])
    more = f" and {len(classes) - _MOST_CLASSES:,} more" if len(classes) > _MOST_CLASSES else ""
    if label.kind == "multilabel":
        return f"{label.key}, any of {len(classes):,} classes: {listed}{more}. The output is a probability for each."
    what = "the probability of the second" if label.kind == "binary" else "a probability for each"
    return f"{label.key}, one of {len(classes):,} classes: {listed}{more}. The output is {what}."


def _times(origin: Origin, made: PublicFolder) -> list[tuple[str, str]]:
    """The first and the last span, and the range of the column that the rows were split by."""
    spans, found = origin.model.spans, []
    if spans:
        found.append(("Spans", f"{spans[0]} to {spans[-1]}, {len(spans):,} in all"))
    data = made.config.data if made.config else None
    column = data.split_by if data else None
    splits = read_statistics(made.directory("StatisticsGen", "statistics"), data.float64_columns) if data else {}
    numbers = [each.columns[column].numbers for each in splits.values() if column and column in each.columns]
    known = [one for one in numbers if one]
    if column and known:
        low, high = min(one.minimum for one in known), max(one.maximum for one in known)
        digits = max(12, *(one.digits for one in known))
        found.append((column, f"{figure(low, digits)} to {figure(high, digits)}"))
    return found


def _limits(
    origin: Origin, made: PublicFolder, section: EvaluationSection | None, verdict: ModelVerdict, home: str
) -> list[str]:
    result = section.result if section else None
    found = [*result.remarks] if result else ["The model was not evaluated."]
    if not verdict.bounds:
        found.append("Nothing was required of its metrics.")
    for task, one in (result.tasks or {"": result}).items() if result else ():
        if one.unlabelled:
            which = f"its label {task}" if task else "a label"
            found.append(f"{one.unlabelled:,} examples of the {one.split} split without {which} were not evaluated.")
    if verdict.canary:
        skipped = [
            f"The canary did not ask its signature {one.name}: {one.skipped}."
            for one in verdict.canary.signatures
            if one.skipped
        ]
        found += skipped
        replayed = verdict.canary.replay
        if replayed and replayed.skipped:  # the reason may quote an example
            found.append("The features that it computes were not compared with those that it was trained on.")
        elif replayed and replayed.differing:
            found.append(f"Features that it computes of raw examples: {replayed.words}.")
    thin = [one for one in (result.slices if result else ()) if one.example_count < FEW_EXAMPLES]
    if thin:
        names = "; ".join(f"{one.name} ({one.example_count:,})" for one in thin[:_MOST_THIN])
        more = f"; and {len(thin) - _MOST_THIN:,} more" if len(thin) > _MOST_THIN else ""
        found.append(f"Too few examples to judge these slices: {names}{more}.")
    training = _training(made)
    found += [*training.remarks] if training else []
    found += _of_data(ingested(made.record))
    found += _of_gates(made.gates)
    if origin.started_from:
        base = f"{home}{origin.started_from}"
        found.append(f"Its training started from the weights of {base}, and so from that model's data.")
    return found


def _of_data(found: Ingestion) -> list[str]:
    """What the examples lack. Which records could not be read is left out, since that may quote them."""
    share = f"{found.skipped:,} of {found.records:,} records ({found.skipped_share:.2%})"
    return [f"{share} could not be read and were left out"] * bool(found.skipped) + [*found.notes]


def _of_gates(found: DataVerdicts | None) -> list[str]:
    """The gates that the data did not pass, or that could not judge all of it. The details may name values of it."""
    gates = found.gates if found else ()
    failed = [f"Its data did not pass {one.gate}: {one.summary}." for one in gates if not one.passed]
    return failed + [f"{one.gate} could not judge all of its data." for one in gates if one.note]


def _markdown() -> Environment:
    """The environment of the Markdown template: every value is escaped and on one line, except for Markup."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701 - Markdown; `_escaped` escapes every value
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escaped,
        bytecode_cache=CompiledTemplates("markdown"),
    )
    made.filters.update(FILTERS, code_block=_code_block)
    return made


def _escaped(value: Any) -> Any:
    """A text without any meaning to Markdown."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _SPECIAL.sub(r"\\\g<0>", visible(_SPACE.sub(" ", value)))


def _code_block(text: str) -> Markup:
    """An indented block of code, which nothing in the text can end."""
    lines = (f"    {visible(line)}".rstrip() for line in text.splitlines())
    return Markup("\n".join(lines))  # noqa: S704 - not HTML, and indented
