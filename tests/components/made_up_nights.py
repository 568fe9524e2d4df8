"""RecordBlessing and Pusher on a folder of made-up models, as the nights of a pipeline call them.

night(home, "tonight", blessed=True)     # a candidate whose files hold "tonight"
in_service(home), listed(home)           # "tonight", ["tonight"]
"""

from __future__ import annotations

from pathlib import Path

from tfx.types import standard_artifacts

from headrace.components.deploy.baseline import RecordBlessing
from headrace.components.deploy.pusher import Pusher
from headrace.components.stored_models.blessed_record import AUTOMATIC, Registry


def night(
    home: Path,
    name: str,
    *,
    blessed: bool,
    approval: str = AUTOMATIC,
    serving_at: str = "serving",
    canary: bool | None = None,
) -> standard_artifacts.PushedModel:
    """RecordBlessing and Pusher as a run calls them, with a candidate whose files hold `name`; what was pushed.

    canary: whether it passed its canary; None without one.
    """
    run = home / "artifacts" / name
    serving = run / "model" / "Format-Serving"
    (serving / "variables").mkdir(parents=True, exist_ok=True)
    (serving / "saved_model.pb").write_text(name)
    (serving / "variables" / "variables.index").write_text(name)
    (run / "schema.pbtxt").write_text('feature { name: "fare" type: FLOAT }')
    model, blessing, schema = (
        standard_artifacts.Model(),
        standard_artifacts.ModelBlessing(),
        standard_artifacts.Schema(),
    )
    model.uri, schema.uri = str(run / "model"), str(run)
    blessing.set_int_custom_property("blessed", int(blessed))
    entry, newest = standard_artifacts.String(), standard_artifacts.Model()
    entry.uri, newest.uri = str(run / "entry"), str(run / "newest")
    recorded = {"entry": [entry], "newest": [newest]}
    inputs = {"model": [model], "blessing": [blessing], "schema": [schema]}
    if canary is not None:
        inputs["canary"] = [standard_artifacts.InfraBlessing()]
        inputs["canary"][0].set_int_custom_property("blessed", int(canary))
    RecordBlessing.EXECUTOR_SPEC.executor_class().Do(
        inputs,
        recorded,
        {
            "registry": str(home / "blessed.json"),
            "push_record": str(home / "pushed.json"),
            "label": "{}",
            "columns": '["fare"]',
            "approval": approval,
        },
    )
    entry.read()
    pushed = standard_artifacts.PushedModel()
    pushed.uri = str(run / "pushed")
    Pusher.EXECUTOR_SPEC.executor_class().Do(
        {
            "model": recorded["newest"],
            "model_blessing": [blessing],
            "entry": [entry],
            **({"canary": inputs["canary"]} if "canary" in inputs else {}),
        },
        {"pushed_model": [pushed]},
        {
            "destination": str(home / serving_at),
            "keep": 2,
            "push_record": str(home / "pushed.json"),
            "approval": approval,
        },
    )
    return pushed


def in_service(home: Path) -> str:
    """What the newest version holds: all of its files the same."""
    newest = max((home / "serving").iterdir(), key=lambda path: int(path.name) if path.name.isdecimal() else -1)
    (text,) = {path.read_text() for path in newest.rglob("*") if path.is_file()}
    return text


def listed(home: Path) -> list[str]:
    return [Path(entry.uri).parent.name for entry in Registry.read(home / "blessed.json").models]
