"""The metrics of a run in Prometheus' text format, version 0.0.4
(https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.notify.event import Event

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JOB = "headrace"


@dataclass(frozen=True)
class Gauge:
    """A metric. label: the name of the label by which its values differ, "" for a single value, whose key is ""."""

    name: str
    help: str
    label: str
    values: Mapping[str, float]


def gauges(event: Event, last_success: float | None) -> Iterator[Gauge]:
    """The metrics of a run. last_success: when the newest successful run ended, in Unix seconds."""
    succeeded = not {"failed", "killed", "interrupted"} & {*event.happened}
    yield _single("headrace_run_success", "Whether the last run succeeded; it may have refused its model.", succeeded)
    yield _single("headrace_run_timestamp_seconds", "When the last run ended, in Unix time.", event.finished)
    yield _single("headrace_run_duration_seconds", "How long the last run took.", event.finished - event.started)
    yield _single(
        "headrace_last_success_timestamp_seconds", "When the last successful run ended, in Unix time.", last_success
    )
    yield Gauge("headrace_component_duration_seconds", "How long each component took.", "component", event.seconds)
    yield Gauge("headrace_examples", "Examples in each split.", "split", event.examples)
    yield _single("headrace_model_blessed", "Whether the model was blessed.", event.blessed)
    yield _single("headrace_model_pushed", "Whether the run pushed a model.", event.pushed is not None)
    known = {name: value for name, value in event.metrics.items() if value is not None}
    yield Gauge("headrace_model_metric", "Metrics of the model over the evaluated split.", "metric", known)


def text_format(found: Iterator[Gauge], labels: Mapping[str, str]) -> str:
    """The metrics as text. labels: of every value. A metric without values is left out."""
    lines = []
    for gauge in found:
        if gauge.values:
            lines += [f"# HELP {gauge.name} {gauge.help}", f"# TYPE {gauge.name} gauge"]
            lines += [_sample(gauge, key, value, labels) for key, value in gauge.values.items()]
    return "".join(f"{line}\n" for line in lines)


def escaped_label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _single(name: str, help_text: str, value: float | None) -> Gauge:
    return Gauge(name, help_text, "", {} if value is None else {"": float(value)})


def _sample(gauge: Gauge, key: str, value: float, labels: Mapping[str, str]) -> str:
    named = {**labels, **({gauge.label: key} if gauge.label else {})}
    pairs = ",".join(f'{name}="{escaped_label(text)}"' for name, text in named.items())
    return f"{gauge.name}{{{pairs}}} {float(value)!r}" if pairs else f"{gauge.name} {float(value)!r}"
