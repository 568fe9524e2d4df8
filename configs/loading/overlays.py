"""Settings over settings: a profile's file next to the config's, and overrides (`--set` values) over both.

Mappings merge, everything else replaces. The exceptions are a feature whose `column:` changes, a source, model,
optimizer or receiver whose `kind:` changes, and a learning rate whose `schedule:` changes: settings of the old kind
would be invalid in the new one, so the new one replaces the whole section.

`null` in an overlay, or in `--set name=`, is a value if the setting accepts it; otherwise it removes the setting below:

lower:  train: {epochs: 7}        features: {fare: {...}, area: {...}}
upper:  train: {epochs: null}     features: {fare: null}
then:   train: {}                 features: {area: {...}}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headrace.common.credentials import MASK, SECRET_FIELD, may_be_secret, redact, redact_trailing_url
from headrace.common.names import CommandOption, did_you_mean, did_you_mean_or_list, join_names
from headrace.configs.json_schema import Schema, branches, resolve, schema_at
from headrace.configs.loading.problems import locate_error
from headrace.configs.loading.tree import (
    LocatedProblem,
    Location,
    Tree,
    contains,
    descend,
    dotted,
    remove,
    tree_from_objects,
)
from headrace.configs.loading.yaml_reader import read
from headrace.configs.schema.models import DEFAULT_KIND
from headrace.configs.schema.section import KeyPath

KIND_SETTINGS: dict[tuple[str, ...], tuple[str, str | None]] = {
    ("data", "source"): ("kind", None),
    ("model",): ("kind", DEFAULT_KIND),
    ("train", "optimizer"): ("kind", None),
    ("train", "learning_rate"): ("schedule", None),
}
"""Sections in which one setting determines the others: that setting, and its default."""
NAMED_KINDS = {"features": "column", "notify": "kind"}
"""Sections of settings by name, such as features.<name>, in each of which one setting determines the others."""
_SETTING_NAME = re.compile(
    r"""\s*(?:(?P<quote>["'])(?P<quoted>.*?)(?P=quote)\s*(?=[.=]|$)|(?P<plain>[^.=]*))""", re.DOTALL
)
"""A name in `data.types."user.age"=int`."""
_BEFORE_HOST = re.compile(r"(?<=:)[^\s:/@]+(?=@)")
"""The password in a URL without a protocol, `user:password@host`."""


def merge(lower: Tree, upper: Tree, path: tuple[str, ...] = ()) -> Tree:
    """Lay `upper` over `lower`."""
    if not isinstance(lower.value, dict) or not isinstance(upper.value, dict) or _changes_kind(lower, upper, path):
        return upper
    merged = dict(lower.value)
    for name, child in upper.value.items():
        merged[name] = merge(merged[name], child, (*path, name)) if name in merged else child
    return Tree(merged, lower.key_location, lower.location)


def _changes_kind(lower: Tree, upper: Tree, path: tuple[str, ...]) -> bool:
    if path in KIND_SETTINGS:
        name, default = KIND_SETTINGS[path]
        old, new = _setting(lower, name) or default, _setting(upper, name)
    elif len(path) == 2 and path[0] in NAMED_KINDS:
        name = NAMED_KINDS[path[0]]
        old, new = _setting(lower, name), _setting(upper, name)
    else:
        return False
    return old is not None and new is not None and old != new


def _setting(tree: Tree, name: str) -> object:
    """The value of a setting, or None."""
    found = tree.value.get(name) if isinstance(tree.value, dict) else None
    return found and found.value


def profile_path(config: Path, profile: str) -> Path:
    """`configs/taxi.kubeflow.yaml` for `configs/taxi.yaml` and `kubeflow`."""
    return config.with_name(f"{config.stem}.{profile}{config.suffix}")


def profiles(config: Path) -> list[str]:
    start, end = f"{config.stem}.", config.suffix
    names = [path.name for path in config.parent.iterdir() if path.is_file()]
    found = [name[len(start) : len(name) - len(end)] for name in names if name.startswith(start) and name.endswith(end)]
    return sorted(name for name in found if name)


def unknown_profile(config: Path, profile: str) -> LocatedProblem | None:
    """The problem with a profile that does not exist; None if it does."""
    known = profiles(config)
    if profile in known:
        return None
    have = f"available: {join_names(known)}" if known else f"{config} has none"
    file = config.with_name(f"{config.stem}.<profile>{config.suffix}")
    what = f"no such profile; {have} (a profile is a file {file}){did_you_mean(profile, known)}"
    return LocatedProblem(Location(1, 0, 0, profile_source(profile)), what)


def profile_source(profile: str) -> str:
    """What gave the profile: the option of the command, or the argument of a Python call."""
    return f"--profile {profile}" if isinstance(profile, CommandOption) else f"profile {profile!r}"


def parse_setting(text: str, layer: int) -> tuple[Tree | None, list[LocatedProblem]]:
    """The tree of `train.epochs=1`: one value, nested under its names. A name in quotes may contain dots."""
    names, equals, written = _divided(text)
    option = "--set " if isinstance(text, CommandOption) else ""
    source = f"{option or 'override '}{_redacted(text)}"
    location = Location(layer, 0, 0, source)
    if not equals or not all(names):
        what = f"write it as {option}section.setting=value, such as {option}train.epochs=1"
        return None, [LocatedProblem(location, what)]
    tree, problems = read(written, source, layer, one_line=True)
    if problems:
        return None, problems
    tree = tree or Tree(None, location, location, "")
    for name in reversed(names):
        tree = Tree({name: Tree(tree.value, location, location, tree.text)}, location, location)
    return tree, []


def setting_from_object(path: str, value: Any, layer: int) -> tuple[Tree | None, list[LocatedProblem]]:
    """The tree of a dotted name and a Python object: `train.epochs`, 1."""
    (names, equals, _), source = _divided(path), f"override {redact(redact_trailing_url(path))}"
    if equals or not all(names):
        what = "write the name as section.setting, such as train.epochs"
        return None, [LocatedProblem(Location(layer, 0, 0, source), what)]
    tree, problems = tree_from_objects(value, source, layer)
    location = tree.location
    for name in reversed(names):
        tree = Tree({name: tree}, location, location)
    return tree, problems


def _divided(text: str) -> tuple[list[str], str, str]:
    """The names, the `=` if there is one, and the value of `data.types."user.age"=int`."""
    names, place = list[str](), 0
    while True:
        found = _SETTING_NAME.match(text, place)
        names.append((found["quoted"] or found["plain"] or "").strip() if found else "")
        place = found.end() if found else len(text)
        if text[place : place + 1] != ".":
            return names, text[place : place + 1], text[place + 1 :]
        place += 1


def _redacted(text: str) -> str:
    """An override for messages, without anything that may be a credential."""
    names, equals, written = _divided(text)
    secret = may_be_secret(names)
    if any("=" in name for name in names):  # as in '"password=hunter2"', which is in quotes as a whole
        path, equals, written = text.partition("=")
        secret = secret or may_be_secret([name.strip(" \"'") for name in path.split(".")])
    path = text[: len(text) - len(equals + written)]
    inner = re.findall(r"[\w.-]+(?=[\"']?\s*:)", written)
    secret = secret or any(name == "auth" or SECRET_FIELD.search(name) for name in inner)
    return f"{path}{equals}{MASK}" if secret else _BEFORE_HOST.sub(MASK, redact(redact_trailing_url(text)))


def remove_refused_nulls(
    tree: Tree, refused: ValidationError, layers: Sequence[Tree]
) -> tuple[Tree, list[LocatedProblem]]:
    """Remove the nulls of upper layers that pydantic refused, and report those that remove nothing.

    layers: The layers of the tree, lowest first. Returns the same tree if there are no such nulls.
    """
    problems = []
    for path, location in _refused_nulls(refused, tree):
        null, holder = descend(tree, path), _holder(location, path)
        if isinstance(path[-1], int) or _is_required(path, holder):
            continue
        below = [layer for layer in layers if layer.location.layer < null.location.layer]
        if _has_free_names(holder) and not any(contains(layer, path) for layer in below):
            known = [name for layer in below for name in _names(layer, path[:-1])]
            suggestion = did_you_mean_or_list(str(path[-1]), known, "available")
            what = f"null removes this name, but it is not in the config below{suggestion}"
            problems.append(LocatedProblem(null.location, f"{dotted(path)}: {what}"))
        tree = remove(tree, path)
    return tree, problems


def _refused_nulls(error: ValidationError, tree: Tree) -> list[tuple[KeyPath, KeyPath]]:
    """The paths of nulls of upper layers that were refused, each with pydantic's location."""
    found: dict[KeyPath, KeyPath] = {}
    for item in error.errors(include_url=False, include_input=False):
        path = locate_error(item, tree).path
        null = descend(tree, path)
        is_null = path and null.value is None and null.location.layer and contains(tree, path)
        if is_null and item["type"] != "extra_forbidden":
            found.setdefault(path, item["loc"])
    return list(found.items())


def _holder(location: Sequence[str | int], path: KeyPath) -> Schema:
    """The schema that holds the path, from the longest part of pydantic's location, which may name its kind."""
    parts = (schema_at(location[:end]) for end in range(len(location), -1, -1))
    return next((part.schema for part in parts if part.path == path[:-1]), {})


def _is_required(path: KeyPath, holder: Schema) -> bool:
    return any(path[-1] in resolve(branch).get("required", ()) for branch in branches(holder))


def _has_free_names(holder: Schema) -> bool:
    """Whether users choose the names in it, such as those of features."""
    return any(isinstance(resolve(branch).get("additionalProperties"), dict) for branch in branches(holder))


def _names(tree: Tree, path: KeyPath) -> list[str]:
    found = descend(tree, path).value if contains(tree, path) else None
    return list(found) if isinstance(found, dict) else []
