"""Settings laid over settings: a profile's file beside the config's, and `--set` values over both.

Mappings merge, everything else replaces. The exceptions are a feature whose `column:` changes, a source, a model or an
optimizer whose `kind:` does, and a learning rate whose `schedule:` does: settings of the old kind would be mistakes
under the new one, so the new one replaces the old one whole.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from headrace.configs.credentials import FIELD, HIDDEN, may_be_secret, without
from headrace.configs.models import DEFAULT_KIND
from headrace.configs.passwords import hidden_from_url
from headrace.configs.suggest import did_you_mean, listed
from headrace.configs.tree import Mistake, Place, Tree, tree_of
from headrace.configs.yaml_tree import read

KINDS: dict[tuple[str, ...], tuple[str, str | None]] = {
    ("data", "source"): ("kind", None),
    ("model",): ("kind", DEFAULT_KIND),
    ("train", "optimizer"): ("kind", None),
    ("train", "learning_rate"): ("schedule", None),
}
"""The sections of which one setting chooses the others: which it is, and what it is where it is not said."""
FEATURE_DEPTH = 2  # features.<name>
_BEFORE_HOST = re.compile(r"(?<=:)[^\s:/@]+(?=@)")
"""A password where a URL has no protocol, `user:password@host`."""


def lay(lower: Tree, upper: Tree, above: tuple[str, ...] = ()) -> Tree:
    """`upper` over `lower`."""
    if not isinstance(lower.value, dict) or not isinstance(upper.value, dict) or _other_kind(lower, upper, above):
        return upper
    merged = dict(lower.value)
    for name, child in upper.value.items():
        merged[name] = lay(merged[name], child, (*above, name)) if name in merged else child
    return Tree(merged, lower.key_place, lower.place)


def _other_kind(lower: Tree, upper: Tree, above: tuple[str, ...]) -> bool:
    if above in KINDS:
        tag, default = KINDS[above]
        old, new = _setting(lower, tag) or default, _setting(upper, tag)
    elif len(above) == FEATURE_DEPTH and above[0] == "features":
        old, new = _setting(lower, "column"), _setting(upper, "column")
    else:
        return False
    return old is not None and new is not None and old != new


def _setting(tree: Tree, name: str) -> object:
    """The value of a setting; None where it is not written."""
    found = tree.value.get(name) if isinstance(tree.value, dict) else None
    return found and found.value


def profile_path(config: Path, profile: str) -> Path:
    """`configs/taxi.kubeflow.yaml` for `configs/taxi.yaml` and `kubeflow`."""
    return config.with_name(f"{config.stem}.{profile}{config.suffix}")


def profiles(config: Path) -> list[str]:
    """The profiles that lie beside a config."""
    start, end = f"{config.stem}.", config.suffix
    names = [path.name for path in config.parent.iterdir() if path.is_file()]
    found = [name[len(start) : len(name) - len(end)] for name in names if name.startswith(start) and name.endswith(end)]
    return sorted(name for name in found if name)


def unknown_profile(config: Path, profile: str) -> Mistake | None:
    """What to say of a profile that does not exist; None if it does."""
    known = profiles(config)
    if profile in known:
        return None
    have = f"there are: {listed(known)}" if known else f"{config} has none"
    file = config.with_name(f"{config.stem}.<profile>{config.suffix}")
    what = f"no such profile; {have} (a profile is a file {file}){did_you_mean(profile, known)}"
    return Mistake(Place(1, 0, 0, f"--profile {profile}"), what)


def setting(text: str, layer: int) -> tuple[Tree | None, list[Mistake]]:
    """The tree of `train.epochs=1`: one value, under the names on the way to it."""
    path, equals, written = text.partition("=")
    names = [name.strip() for name in path.split(".")]
    source = f"--set {_shown(text)}"
    place = Place(layer, 0, 0, source)
    if not equals or not all(names):
        return None, [Mistake(place, "write it as --set section.setting=value, such as --set train.epochs=1")]
    tree, mistakes = read(written, source, layer, one_line=True)
    if mistakes:
        return None, mistakes
    for_empty = Tree(None, place, place, "")
    tree = tree or for_empty
    for name in reversed(names):
        tree = Tree({name: Tree(tree.value, place, place, tree.text)}, place, place)
    return tree, []


def value_setting(path: str, value: Any, layer: int) -> tuple[Tree | None, list[Mistake]]:
    """The same of a Python object: `train.epochs`, 1."""
    names, source = [name.strip() for name in path.split(".")], f"override {without(hidden_from_url(path))}"
    if not all(names):
        what = "name the setting as section.setting, such as train.epochs"
        return None, [Mistake(Place(layer, 0, 0, source), what)]
    tree, mistakes = tree_of(value, source, layer)
    place = tree.place
    for name in reversed(names):
        tree = Tree({name: tree}, place, place)
    return tree, mistakes


def _shown(text: str) -> str:
    """A `--set` value as messages have it: without what may be a credential, and may be why it is refused."""
    path, equals, written = text.partition("=")
    held = re.findall(r"[\w.-]+(?=[\"']?\s*:)", written)
    secret = may_be_secret([name.strip() for name in path.split(".")]) or any(
        name == "auth" or FIELD.search(name) for name in held
    )
    return f"{path}{equals}{HIDDEN}" if secret else _BEFORE_HOST.sub(HIDDEN, without(hidden_from_url(text)))
