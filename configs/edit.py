"""Settings written into a config file as a person would: comments, layout and order stay, no file is ever damaged.

edit("configs/taxi.yaml", ("train", "input"), {"cache": "memory", "threads": 2})

The text is changed at the places that the YAML parser names, then read again and compared with what it should mean;
only then does it take the file's place, in one step. Where no such text can be made, the file stays as it is.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from headrace.configs.errors import ConfigError, Problem

Value = str | int | bool | list[int] | None


def edit(
    path: Path, section: tuple[str, ...], values: Mapping[str, Value], check: Callable[[Path], bool] = lambda _: True
) -> None:
    """Set the values in that section of the file. Raises ConfigError, with the patch to be made by hand, if it cannot.

    check: looks at the new file before it takes the place of the old.
    """
    before = path.read_text(encoding="utf-8")
    text = before
    try:
        for key, value in values.items():
            text = _set(text, (*section, key), value)
        sound = yaml.safe_load(text) == _expected(before, section, values)
    except yaml.YAMLError:
        sound = False
    if not sound or not _replace(path, text, check):
        patch = yaml.safe_dump(_nested(section, values), default_flow_style=None, sort_keys=False)
        raise ConfigError(Problem(str(path), f"this file cannot be edited safely; set by hand:\n{patch}"))


def _set(text: str, where: tuple[str, ...], value: Value) -> str:
    """The text with one setting more, or another one."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None:
        return text + _block(where, value, "")
    for depth, key in enumerate(where):
        if not isinstance(node, yaml.MappingNode):
            return _over(text, node, where[depth:], value)
        below = next((child for name, child in node.value if name.value == key), None)
        if below is None:
            return _add(text, node, where[depth:], value)
        node = below
    return _over(text, node, (), value)


def _over(text: str, node: yaml.Node, rest: tuple[str, ...], value: Value) -> str:
    """Something else in the place of a value."""
    new = _flow(_nested(rest, value))
    gap = "" if node.start_mark.index == 0 or text[node.start_mark.index - 1].isspace() else " "
    end = max(node.end_mark.index, node.start_mark.index)
    kept = text[node.start_mark.index : end]
    tail = kept[len(kept.rstrip()) :]  # a block's end mark lies behind its line
    return text[: node.start_mark.index] + gap + new + tail + text[end:]


def _add(text: str, node: yaml.MappingNode, rest: tuple[str, ...], value: Value) -> str:
    """A key more in a mapping."""
    if node.flow_style:
        end = node.end_mark.index - 1
        inside = text[:end].rstrip()
        comma = "" if not node.value or inside.endswith(",") else ","
        last_line = inside.rpartition("\n")[2]
        if "#" in last_line and inside != text[: node.value[-1][1].end_mark.index]:
            raise yaml.YAMLError("a comment stands before the closing brace")
        space = "" if inside.endswith("{") else " "
        return f"{inside}{comma}{space}{_flow(_nested(rest, value))[1:-1]}{text[len(inside) : end]}{text[end:]}"
    name, last = node.value[-1]
    line_end = text.find("\n", _last_character(text, last if last.end_mark.index > last.start_mark.index else name))
    at = len(text) if line_end < 0 else line_end + 1
    head = text[:at] if text[:at].endswith("\n") else text[:at] + "\n"
    return head + _block(rest, value, " " * node.value[0][0].start_mark.column) + text[at:]


def _last_character(text: str, node: yaml.Node) -> int:
    """Of what is written of a node: a block's end mark lies where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_character(text, last[1] if isinstance(last, tuple) else last)
    return max(len(text[: node.end_mark.index].rstrip()) - 1, node.start_mark.index)


def _block(where: tuple[str, ...], value: Value, indent: str) -> str:
    """`key: value` on a line of its own; what lies deeper in braces."""
    key, *rest = where
    return f"{indent}{key}: {_flow(_nested(tuple(rest), value))}\n"


def _flow(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str | dict) else _flow_text(value)


def _flow_text(value: str | dict[str, object]) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("...\n").rstrip("\n")


def _nested(where: tuple[str, ...], value: object) -> object:
    for key in reversed(where):
        value = {key: dict(value) if isinstance(value, Mapping) else value}
    return value


def _expected(text: str, section: tuple[str, ...], values: Mapping[str, Value]) -> object:
    whole = yaml.safe_load(text) or {}
    inner = whole
    for key in section:
        if not isinstance(inner, dict) or not isinstance(inner.get(key), dict | None):
            raise yaml.YAMLError("something else stands where a section should be")
        inner[key] = dict(inner.get(key) or {})  # a copy: an alias elsewhere keeps what it said
        inner = inner[key]
    inner.update(values)
    return whole


def _replace(path: Path, text: str, check: Callable[[Path], bool]) -> bool:
    """In one step: whoever reads the file sees the old text or the new one. False, and the old one, if not checked."""
    place = path.resolve()
    number, name = tempfile.mkstemp(dir=place.parent, prefix=".", suffix=place.suffix)
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, place.stat().st_mode)  # noqa: PTH101
        if sound := check(Path(name)):
            os.replace(name, place)  # noqa: PTH105
        return sound
    finally:
        Path(name).unlink(missing_ok=True)
