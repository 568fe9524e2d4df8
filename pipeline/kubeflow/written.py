"""The compiled pipeline's text, changed where the KFP SDK offers no way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import yaml


def tasks_in(pipeline: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tasks of all graphs of the pipeline's own document, those under conditions too."""
    graphs = [one["dag"] for one in (pipeline["root"], *pipeline["components"].values()) if "dag" in one]
    return itertools.chain.from_iterable(graph["tasks"].items() for graph in graphs)


def with_time_for_tries(text: str, seconds: Mapping[str, int]) -> str:
    """The text with the time in which a task may be tried again, of each that `seconds` names. The SDK cuts it to one
    hour without a word (`kfp/dsl/structures.py`), and no server does.
    """
    if not seconds:
        return text
    documents = list(yaml.safe_load_all(text))
    for name, task in tasks_in(documents[0]):
        if name in seconds:
            task["retryPolicy"]["backoffMaxDuration"] = f"{seconds[name]}s"
    head = "".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    return head + yaml.safe_dump_all(documents, sort_keys=True)
