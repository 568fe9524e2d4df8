"""The lineage of a run's model as a picture: from the data, the commit and the config to the model and its version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markupsafe import Markup

from headrace.common.digests import digest_path
from headrace.components.contents import CONTENTS
from headrace.components.stored_models.stored_versions import shown
from headrace.pipeline.report.charts import element, picture
from headrace.pipeline.results.run_folder import CONFIG_FILE, RunFolder
from headrace.pipeline.results.verdict import ModelVerdict

DIGITS = 12
"""Digits of a digest in the picture; the table below it has all."""
_LETTERS = 25
"""Characters that fit into a box."""
_BOX, _HEIGHT, _ROW, _MARGIN = 160.0, 42.0, 60.0, 16.0
_WIDTH = 2 * _BOX + 3 * _MARGIN
_MADE = {
    "examples": ("Examples", "ExampleGen"),
    "statistics": ("Statistics", "StatisticsGen"),
    "schema": ("Schema", "SchemaGen"),
    "transform_graph": ("Transform graph", "Transform"),
}
"""Outputs that lead from the data to the model, in this order, to their names and components."""


@dataclass(frozen=True)
class Fact:
    """Something that the model was made from, or that was made from it. detail: short; full: all that is known."""

    name: str
    detail: str
    full: str


@dataclass(frozen=True)
class LineageSection:
    """picture: an SVG; facts: the same as text."""

    picture: Markup
    facts: tuple[Fact, ...]


def lineage_section(folder: RunFolder, verdict: ModelVerdict) -> LineageSection | None:
    """The lineage of the model of a run; None if it has none."""
    model = _artifact(folder, "Model", "Trainer", "model")
    if model is None:
        return None
    chain = [*_data(folder), *filter(None, (_artifact(folder, name, id_, key) for key, (name, id_) in _MADE.items()))]
    beside, after = list(_given(folder)), list(_results(folder, verdict))
    inferred = folder.config is None or folder.config.data.schema_file is None
    return LineageSection(_drawn(chain, beside, model, after, inferred=inferred), (*chain, *beside, model, *after))


def _data(folder: RunFolder) -> Iterator[Fact]:
    """The spans that were read."""
    examples = folder.output("ExampleGen", "examples")
    if examples is None:
        return
    fingerprint = str(examples.properties.get("input_fingerprint", ""))
    spans = list(json.loads(str(examples.properties.get("spans", "{}")))) if examples.properties.get("spans") else []
    shown = f"{spans[0]} to {spans[-1]}" if len(spans) > 1 else "".join(spans)
    name = "Data" if not any(spans) else "Span" if len(spans) == 1 else f"{len(spans):,} spans"
    full = ", ".join(filter(None, [shown, f"fingerprint {fingerprint}" if fingerprint else ""]))
    yield Fact(name, shown or fingerprint[:DIGITS], full)


def _given(folder: RunFolder) -> Iterator[Fact]:
    """What the training got besides the data."""
    record = folder.record
    if record.commit:
        dirty = "+dirty" * record.dirty
        yield Fact("Commit", record.commit[:DIGITS] + dirty, record.commit + dirty)
    if (config := folder.path / CONFIG_FILE).is_file():
        digest = digest_path(config)
        yield Fact("Config", digest[:DIGITS], f"{record.config_file}, SHA-256 {digest}")
    base = folder.output("WarmStart", "base")
    if base is not None and int(base.properties.get("exists", 0)):
        yield Fact("Started from", f"the model {Path(base.uri).name}", base.uri)


def _results(folder: RunFolder, verdict: ModelVerdict) -> Iterator[Fact]:
    evaluation = folder.output("Evaluator", "evaluation")
    if evaluation is not None:
        blessed = "not judged" if verdict.blessed is None else "blessed" if verdict.blessed else "not blessed"
        yield Fact("Evaluation", blessed, f"{blessed}, {evaluation.uri}")
    pushed = folder.output("Pusher", "pushed_model")
    if pushed is not None and int(pushed.properties.get("pushed", 0)):
        where = str(pushed.properties.get("pushed_destination") or pushed.uri)  # a Pusher of the user's may say less
        version = pushed.properties.get("pushed_version") or Path(where).name
        yield Fact("Version", str(version), shown(where))


def _artifact(folder: RunFolder, name: str, component: str, key: str) -> Fact | None:
    found = folder.output(component, key)
    if found is None:
        return None
    contents = str(found.properties.get(CONTENTS, ""))
    run = Path(found.uri).name
    earlier = f"of run {run}" if run != folder.record.run_id else contents[:DIGITS]
    return Fact(name, earlier, ", ".join(filter(None, [found.uri, f"checksum {contents}" if contents else ""])))


@dataclass(frozen=True)
class _Box:
    """A fact at its place: the upper left corner and the width."""

    fact: Fact
    x: float
    y: float
    width: float = _BOX

    @property
    def middle(self) -> float:
        return self.y + _HEIGHT / 2

    def drawn(self) -> Markup:
        center, letters = self.x + self.width / 2, int(_LETTERS * self.width / _BOX)
        return element(
            "g",
            element("title", f"{self.fact.name}: {self.fact.full}"),
            element("rect", x=self.x, y=self.y, width=self.width, height=_HEIGHT, rx=8),
            element("text", self.fact.name, x=center, y=self.y + 18, class_="axis strong middle"),
            element("text", _fitting(self.fact.detail, letters), x=center, y=self.y + 33, class_="axis middle"),
        )


def _drawn(
    chain: Sequence[Fact], beside: Sequence[Fact], model: Fact, after: Sequence[Fact], *, inferred: bool
) -> Markup:
    """The chain on the left and what is given besides on the right, the model below both, and what follows from it.

    inferred: whether the schema is, from the statistics, and not given by the config.
    """
    rows, right = max(len(chain), len(beside)), 2 * _MARGIN + _BOX
    left_boxes = _column(chain, _MARGIN, rows)
    right_boxes = _column(beside, right, rows)
    below = _Box(model, _MARGIN, rows * _ROW, 2 * _BOX + _MARGIN)
    last = [_Box(fact, x, (rows + 1) * _ROW) for fact, x in zip(after, (_MARGIN, right), strict=False)]
    pairs = [(one, two) for one, two in pairwise(left_boxes) if inferred or two.fact.name != "Schema"]
    edges = [_down(one.x + _BOX / 2, one.y + _HEIGHT, two.y) for one, two in pairs]
    edges += [_down(box.x + _BOX / 2, box.y + _HEIGHT, below.y) for box in left_boxes[-1:]]
    edges += [_around(box, below, _WIDTH - 6, -1) for box in right_boxes]
    edges += [_down(box.x + _BOX / 2, below.y + _HEIGHT, box.y) for box in last]
    by_name = {box.fact.name: box for box in left_boxes}
    if {"Examples", "Transform graph"} <= by_name.keys():  # Transform reads the examples too
        edges.append(_around(by_name["Examples"], by_name["Transform graph"], 6.0, 1))
    boxes = [*left_boxes, *right_boxes, below, *last]
    made_from = ", ".join(fact.name.lower() for fact in (*chain, *beside))
    follows = " and ".join(fact.name.lower() for fact in after)
    words = f"The model was made from: {made_from}." + (f" From it follow: {follows}." if after else "")
    height = max(box.y for box in boxes) + _HEIGHT + 2
    drawn = [element("desc", words), *edges, *(box.drawn() for box in boxes)]
    return picture("Lineage of the model", _WIDTH, height, *drawn, class_="chart lineage")


def _column(facts: Sequence[Fact], x: float, rows: int) -> list[_Box]:
    """Boxes one below the other, the last of them in the last row."""
    return [_Box(fact, x, (rows - len(facts) + row) * _ROW + 1) for row, fact in enumerate(facts)]


def _down(x: float, start: float, end: float) -> Markup:
    return _edge(f"M{x:g} {start:g}V{end - 1:g}m-4 -5l4 5l4 -5")


def _around(start: _Box, end: _Box, x: float, side: int) -> Markup:
    """A line from one box to a lower one past those in between. x: of its long part; side: 1 to the boxes' left."""
    edges = [box.x if side > 0 else box.x + box.width for box in (start, end)]
    point = f"M{edges[0]:g} {start.middle:g}H{x:g}V{end.middle:g}H{edges[1]:g}"
    return _edge(f"{point}m{-5 * side} -4l{5 * side} 4l{-5 * side} 4")


def _edge(path: str) -> Markup:
    return element("path", d=path, class_="edge")


def _fitting(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
