"""The entry of one model in TensorFlow Serving's `--model_config_file`, a ModelServerConfig in protobuf's text format.

text = with_model(text, "taxi", "/models/taxi", Labels(stable=1, canary=2))

Other models stay as they are, and so does what else the entry of the model says. Comments are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format

from headrace.common.errors import RunError

STABLE, CANARY = "stable", "canary"


@dataclass(frozen=True)
class Labels:
    """The versions that two labels name."""

    stable: int
    canary: int

    @property
    def named(self) -> dict[str, int]:
        """The versions by label."""
        return {STABLE: self.stable, CANARY: self.canary}


def with_model(text: str, model: str, base_path: str, labels: Labels | None) -> str:
    """The file with an entry for the model. labels: None to let the server load the newest version.

    Returns the text itself if it already says so. Raises RunError if it is not such a file.
    """
    config = _parsed(text)
    before = config.SerializeToString(deterministic=True)
    entry = _entry(config, model)
    entry.base_path = base_path
    if labels is None:
        _follow_newest(entry)
    else:
        others = {number for name, number in entry.version_labels.items() if name not in labels.named}
        _pin(entry, sorted({labels.stable, labels.canary, *others}), labels.named)
    return text if config.SerializeToString(deterministic=True) == before else _printed(config)


def in_between(text: str, model: str, base_path: str, labels: Labels, present: Mapping[int, object]) -> str:
    """The file to be read before `with_model`'s: with the versions of both, and the labels as they were.

    A server refuses a label for a version that it has not loaded, and with it the file. present: the versions that
    there are, of which an old label may name another one.
    """
    config = _parsed(text)
    before = config.SerializeToString(deterministic=True)
    entry = _entry(config, model)
    entry.base_path = base_path
    old = {name: number for name, number in entry.version_labels.items() if number in present}
    ours = {name: number for name, number in old.items() if name in labels.named}
    _pin(entry, sorted({*labels.named.values(), *old.values()}), ours)
    return text if config.SerializeToString(deterministic=True) == before else _printed(config)


def _parsed(text: str) -> Any:
    from tensorflow_serving.config import model_server_config_pb2  # loads TensorFlow

    config = model_server_config_pb2.ModelServerConfig()
    try:
        text_format.Parse(text, config)
    except text_format.ParseError as error:
        what = str(error).partition("\n")[0]
        raise RunError(f"it is not a ModelServerConfig in protobuf's text format: {what}") from None
    if config.WhichOneof("config") == "custom_model_config":
        raise RunError("it has a `custom_model_config`; only a `model_config_list` can be kept up to date")
    return config


def _entry(config: Any, model: str) -> Any:
    found = [one for one in config.model_config_list.config if one.name == model]
    return found[0] if found else config.model_config_list.config.add(name=model, model_platform="tensorflow")


def _pin(entry: Any, versions: list[int], labels: Mapping[str, int]) -> None:
    del entry.model_version_policy.specific.versions[:]
    entry.model_version_policy.specific.versions.extend(versions)
    for name in (STABLE, CANARY):
        if name in labels:
            entry.version_labels[name] = labels[name]
        elif name in entry.version_labels:
            del entry.version_labels[name]


def _follow_newest(entry: Any) -> None:
    """Remove what `labels: true` wrote; a policy `latest` or `all` stays."""
    if entry.model_version_policy.WhichOneof("policy_choice") == "specific":
        entry.ClearField("model_version_policy")
    for name in (STABLE, CANARY):
        if name in entry.version_labels:
            del entry.version_labels[name]


def _printed(config: Any) -> str:
    return str(text_format.MessageToString(config))
