"""An explanation on the terminal: a table there, a line for each thing elsewhere, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.pipeline.cache.explain import Explained, Explanation

STYLES = {
    "reused": "blue",
    "would be reused": "blue",
    "ran": "green",
    "would run": "green",
    "always runs": "dim",
    "not run": "dim",
    "unknown": "yellow",
}


def show(explanation: Explanation, console: Console) -> None:
    """A table where the console is a terminal, plain lines elsewhere."""
    if console.is_terminal:
        console.print(_headline(explanation), _table(explanation), sep="\n")
        return
    for line in lines(explanation):
        console.print(line, markup=False, highlight=False, soft_wrap=True, emoji=False)


def lines(explanation: Explanation) -> Iterator[str]:
    """`Trainer  ran  setting train.epochs: 5 → 3  (against run ...)`."""
    width = max((len(one.component) for one in explanation.components), default=0)
    yield str(_headline(explanation))
    for one in explanation.components:
        for reason in one.reasons or [""]:
            yield f"{one.component:<{width}}  {one.result:<15}  {_run(one)}{reason}".rstrip()


def as_json(explanation: Explanation) -> str:
    """For programs."""
    return json.dumps(asdict(explanation), indent=1, ensure_ascii=False)


def _headline(explanation: Explanation) -> Text:
    return Text(f"{explanation.pipeline}  {f'run {explanation.run}' if explanation.run else 'the next run'}")


def _table(explanation: Explanation) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("component", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("decided by", overflow="fold")
    for one in explanation.components:
        for number, reason in enumerate(one.reasons or [""]):
            first = number == 0
            result = Text(one.result if first else "", STYLES[one.result])
            table.add_row(Text(one.component if first else ""), result, Text(f"{_run(one) if first else ''}{reason}"))
    return table


def _run(one: Explained) -> str:
    if not one.run:
        return ""
    return f"[run {one.run}] " if one.result in ("reused", "would be reused") else f"[against run {one.run}] "
