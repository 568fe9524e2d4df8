"""The entry of one model in TensorFlow Serving's `--model_config_file`, a ModelServerConfig in protobuf's text format.

text = with_model(text, "taxi", "/models/taxi", Labels(stable=1, canary=2))
update("s3://bucket/models.config", partial(with_model, ...))      # the file, on this machine or in an object store

Other models stay as they are, and so does what else the entry of the model says. Comments are not kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from headrace.common.durable import write_text
from headrace.common.errors import DataError, RunError
from headrace.common.locks import wait_and_hold
from headrace.common.storage.paths import is_remote
from headrace.common.store_lock import held

STABLE, CANARY = "stable", "canary"


@dataclass(frozen=True)
class Labels:
    """The versions that two labels name."""

    stable: int
    canary: int

    @property
    def named(self) -> dict[str, int]:
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


def update(file: str, change: Callable[[str], str]) -> bool:
    """Replace the text of a file by what `change` makes of it, in one step; "" stands for no file.

    Whoever else changes it, another command on this machine or a pod, is waited for. Returns whether it changed. Raises
    RunError if it cannot be read or written, if the lock was lost meanwhile, or if `change` does.
    """
    try:
        return _update_remote(file, change) if is_remote(file) else _update_local(Path(file).absolute(), change)
    except DataError as error:
        raise RunError(f"deploy.serving.config_file: {error}") from None
    except RunError as error:
        raise RunError(f"deploy.serving.config_file: {file}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"deploy.serving.config_file: {file} cannot be kept up to date: {error}") from None


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


def _update_local(path: Path, change: Callable[[str], str]) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wait_and_hold(path.with_name(f".{path.name}.lock")):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        changed = change(text)
        if changed == text:
            return False
        write_text(path, changed)
        return True


def _update_remote(file: str, change: Callable[[str], str]) -> bool:
    from headrace.common.storage.filesystems import filesystem, parse_location, promptly
    from headrace.common.storage.writer import object_stream

    location = parse_location(file)
    text = _stored(filesystem(location), location.arrow)
    if change(text) == text:
        return False
    folder, _, name = location.arrow.rpartition("/")
    system = promptly(location)
    waiting = f"deploy.serving.config_file: {file}: another pipeline is changing it; waiting"
    with held(system, f"{folder}/.{name}.lock", waiting) as claim:
        text = _stored(system, location.arrow)
        if (changed := change(text)) == text:
            return False
        claim.check()
        with object_stream(system, location.arrow) as stream:
            stream.write(changed.encode())
    return True


def _stored(system: Any, path: str) -> str:
    from headrace.common.storage.reader import read_whole

    with contextlib.suppress(FileNotFoundError):
        return read_whole(system, path, lambda stream: bytes(stream.read())).decode()
    return ""
