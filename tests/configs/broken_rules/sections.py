"""Sections that the broken configs share."""

from __future__ import annotations

Broken = dict[str, list[tuple[str, str]]]
"""By rule, configs that break it alone: the text, and "<line>: <setting>: <words of the message>"."""
SECTIONS = {
    "pipeline": "pipeline: {name: taxi}",
    "data": "data: {source: {kind: csv, path: a.csv}}",
    "label": "label: {key: tip, kind: binary}",
    "features": "features: {fare: {column: numeric}}",
}
"""What a text is completed with."""
SOURCE = "source: {kind: csv, path: a.csv}"
RUN_FN = "model: {run_fn: mine.run_fn, train_steps: 9, eval_steps: 2}"
FUNCTIONS = f"features: {{function: mine.preprocessing_fn}}\n{RUN_FN}"


def complete(text: str) -> str:
    """The text with the sections that it lacks."""
    lines = text.split("\n")
    rest = [section for name, section in SECTIONS.items() if not any(line.startswith(name) for line in lines)]
    return "\n".join([text, *rest]) + "\n"


def features(**kinds: str) -> str:
    """The section `features:`. kinds: the settings of each feature."""
    return "features:\n" + "\n".join(f"  {name}: {{column: {settings}}}" for name, settings in kinds.items())
