"""A message for people: a headline and a few lines, as plain text and in Slack's format."""

from __future__ import annotations

from headrace.common.figures import figure
from headrace.common.names import one_line
from headrace.pipeline.notify.event import DISTANCES, Event, Found, Limit, Topic
from headrace.pipeline.terminal.table import duration

HEADLINES: dict[Topic, str] = {
    "failed": "failed",
    "killed": "was killed",
    "interrupted": "was cancelled",
    "not_blessed": "did not bless its model",
    "blessed": "blessed its model",
    "awaiting_approval": "has a model that awaits approval",
    "pushed": "pushed its model",
    "drifted": "found that the data drifted",
    "ended_early": "ended early: there was no reason to train",
    "succeeded": "succeeded",
}
TEST_HEADLINE = "{}: this is a test message of `headrace notify`"


def headline(event: Event, about: Topic) -> str:
    """One line: the pipeline, the run, and what became of it."""
    which = f"{event.pipeline}: run {event.run}" if event.ran else f"{event.pipeline}: the run of {event.run}"
    return one_line(f"{which} {HEADLINES[about]}")


def body(event: Event) -> list[str]:
    """The lines under the headline."""
    lines = [f"{one.component} failed: {one.error}{_log(one.log)}" for one in event.failed]
    lines += [_found(one) for one in event.gates]
    lines += [_limit(one) for one in event.limits]
    lines += event.reasons
    limited = {one.metric for one in event.limits}
    others = {name: value for name, value in event.metrics.items() if name not in limited and value is not None}
    if others:
        lines.append(", ".join(f"{name} {figure(value)}" for name, value in others.items()))
    if event.pushed is not None:
        lines.append(f"pushed: {event.pushed}")
    if "awaiting_approval" in event.happened:
        lines.append("not pushed: the model awaits approval (`headrace promote`)")
    if "drifted" in event.happened and not any(one.gate.startswith(DISTANCES) for one in event.gates):
        lines.append("the newest span drifted from the data of the blessed model")
    if event.report is not None:
        lines.append(f"report: {event.report}")
    if event.page is not None:
        lines.append(f"see: {event.page}")
    lines.append(f"time: {duration(event.finished - event.started)}")
    return [one_line(line) for line in lines]


def slack_text(first: str, lines: list[str]) -> str:
    """In Slack's format, where `&`, `<` and `>` are escaped and nothing else is
    (https://docs.slack.dev/messaging/formatting-message-text#escaping).
    """
    return "\n".join([f"*{slack_escaped(first)}*", *map(slack_escaped, lines)])


def slack_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _found(one: Found) -> str:
    checks = f"{one.failed} of {one.judged} {'check' if one.judged == 1 else 'checks'}"
    return f"{one.gate}: {checks} failed{'' if one.stopped else ', a warning'}"


def _limit(one: Limit) -> str:
    value = "has no value" if one.value is None else f"is {figure(one.value, 6)}"
    return f"{one.metric} {value}; it must be {one.rule}{'' if one.passed is not False else ' (not met)'}"


def _log(path: str | None) -> str:
    return f" (log: {path})" if path else ""
