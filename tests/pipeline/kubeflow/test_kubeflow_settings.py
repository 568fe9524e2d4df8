"""What the golden files and the tests with Kubeflow's own code are given: every setting that there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel

from headrace.configs.schema.pods import ComponentSettings

CLUSTER = Path(__file__).parent / "golden" / "trips.cluster.yaml"


def settings(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The names of all settings of a section, and of the sections within."""
    for name, field in section.model_fields.items():
        inner = [kind for kind in kinds(field.annotation) if issubclass(kind, BaseModel)]
        yield f"{prefix}{name}"
        for kind in inner:
            yield from settings(kind, f"{prefix}{name}.")


def kinds(annotation: Any) -> Iterator[type]:
    """The classes that stand in a type."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from kinds(part)


def given(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The names of the settings in a config."""
    for name, value in tree.items():
        yield f"{prefix}{name}"
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Mapping):
                yield from given(one, f"{prefix}{name}.")


def test_every_setting_of_a_component_is_in_what_the_server_and_the_driver_are_given() -> None:
    reported = yaml.safe_load(CLUSTER.read_text())["kubeflow"]
    names = {name for tree in (reported["defaults"], *reported["components"].values()) for name in given(tree)}
    known = set(settings(ComponentSettings))
    assert {"tolerations.seconds", "secrets.optional", "retries.at_most"} <= known
    assert known <= names
