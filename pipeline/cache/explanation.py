"""An explanation of cache hits and misses, and how it is printed: as a table on a terminal, as lines, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Result = Literal["reused", "ran", "always runs", "not run", "unknown", "would be reused", "would run"]

ALWAYS_RUNS = "it reads state outside the pipeline; what follows runs only if its outputs change"
UNCHANGED = "nothing that it depends on has changed"
STYLES = {
    "reused": "blue",
    "would be reused": "blue",
    "ran": "green",
    "would run": "green",
    "always runs": "dim",
    "not run": "dim",
    "unknown": "yellow",
}


@dataclass(frozen=True)
class ComponentExplanation:
    """One component. run: the run that it was reused from, or compared with; reasons: what decided."""

    component: str
    result: Result
    run: str = ""
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunExplanation:
    """All components of a run. run: "" for the next run."""

    pipeline: str
    run: str
    components: list[ComponentExplanation]


def show(explanation: RunExplanation, console: Console) -> None:
    """Print a table if the console is a terminal, plain lines elsewhere."""
    if console.is_terminal:
        from rich.text import Text

        console.print(Text(_headline(explanation)), _table(explanation), sep="\n")
        return
    for line in lines(explanation):
        console.print(line, markup=False, highlight=False, soft_wrap=True, emoji=False)


def lines(explanation: RunExplanation) -> Iterator[str]:
    """`Trainer  ran  [compared with run ...] setting train.epochs: 5 → 3`."""
    width = max((len(one.component) for one in explanation.components), default=0)
    yield _headline(explanation)
    for one in explanation.components:
        for reason in one.reasons or [""]:
            yield f"{one.component:<{width}}  {one.result:<15}  {_run(one)}{reason}".rstrip()


def as_json(explanation: RunExplanation) -> str:
    return json.dumps(asdict(explanation), indent=1, ensure_ascii=False)


def _headline(explanation: RunExplanation) -> str:
    return f"{explanation.pipeline}  {f'run {explanation.run}' if explanation.run else 'the next run'}"


def _table(explanation: RunExplanation) -> Table:
    from rich.table import Table
    from rich.text import Text

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


def _run(one: ComponentExplanation) -> str:
    if not one.run:
        return ""
    return f"[run {one.run}] " if one.result in ("reused", "would be reused") else f"[compared with run {one.run}] "
