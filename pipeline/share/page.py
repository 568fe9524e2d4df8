"""The page: everything on it in one file, and its data as JSON for its script and for programs."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from headrace.common.credentials import redact
from headrace.pipeline.charts import script
from headrace.pipeline.report.page import environment, headline, highlight_keys, style
from headrace.pipeline.report.profile import read_profile
from headrace.pipeline.share.logs import LogFile
from headrace.pipeline.share.runs import SharedRun
from headrace.pipeline.share.settings import differing, distinguish, hyperparameters, stripped
from headrace.pipeline.versions import read_versions, recorded

TEMPLATES = Path(__file__).parent / "templates"
FORMAT = 1
"""The version of `share.json`."""


def page_data(name: str, description: str, runs: Sequence[SharedRun], left_out: Sequence[str] = ()) -> dict[str, Any]:
    """The content of `share.json`, without credentials."""
    plain: dict[str, Any] = stripped(
        {
            "format": FORMAT,
            "name": name,
            "description": description,
            "written": time.time(),
            "runs": [run.plain() for run in runs],
            "left_out": list(left_out),
        }
    )
    return plain


def render(data: dict[str, Any], runs: Sequence[SharedRun], logs: Sequence[Sequence[LogFile]]) -> str:
    """Render the HTML. `logs` are the copied log files of each run."""
    code = script(TEMPLATES / "plots.js", TEMPLATES / "share.js")
    settings = [run.settings for run in runs]
    differences = differing(settings) if len(runs) > 1 else []
    made = public_environment()
    panels = [
        Markup(made.get_template("run.html").render(**_panel(run, files)))  # noqa: S704 - rendered, escaped
        for run, files in zip(runs, logs, strict=True)
    ]
    text: str = made.get_template("share.html").render(
        data=data,
        json=_embedded(data),
        style=page_style(),
        script=Markup(code),  # noqa: S704 - our own file
        policy=_policy(code),
        runs=runs,
        headlines=[headline(run.folder.record, run.verdict) for run in runs],
        about=[distinguish(differences, run.number) for run in runs],
        metrics=list(dict.fromkeys(name for run in runs if run.evaluation for name in run.evaluation.names)),
        differences=differences,
        hyperparameters=hyperparameters([run.used for run in runs]),
        panels=panels,
        versions=read_versions(runs[0].folder.path),
    )
    return text


def _panel(run: SharedRun, files: Sequence[LogFile]) -> dict[str, Any]:
    folder = run.folder
    return {
        "run": run,
        "files": files,
        "prefix": f"{run.anchor}-",
        "record": folder.record,
        "headline": headline(folder.record, run.verdict),
        "evaluation": run.evaluation,
        "training": run.training,
        "curves": [],
        "profile": read_profile(folder),
        "tuning": run.search,
        "config_text": highlight_keys(folder.config_text),
        "versions": read_versions(folder.path),
        "recorded": recorded(folder.path),
    }


def _embedded(data: dict[str, Any]) -> Markup:
    """JSON for a script element, escaped so that nothing in it ends the element or starts another."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped just now


def _policy(script: str) -> str:
    """The Content-Security-Policy: only this script may run, and nothing may be loaded."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline';"
        " base-uri 'none'; form-action 'none'"
    )


def public_environment(*more: Path) -> Environment:
    """The report's template environment with the templates here and in `more` folders; hides credentials in values."""
    return environment(TEMPLATES, *more, finalize=_public)


def page_style() -> Markup:
    """The style sheet of pages that show several runs side by side."""
    return style() + Markup((TEMPLATES / "share.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file


def _public(value: Any) -> Any:
    return redact(value) if isinstance(value, str) and not isinstance(value, Markup) else value
