"""Writing YAML: a whole config, and single settings in a file, as a person would edit it.

to_yaml(config)                                                                  # every setting, defaults included
edit("configs/taxi.yaml", ("train", "input"), {"cache": "memory", "threads": 2})

An edit keeps comments, layout and order, and never damages a file. The text is changed at the positions reported by the
YAML parser, then parsed and compared with the intended result; only then does it replace the file, atomically.
Otherwise the file stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from headrace.common import yaml_text
from headrace.common.durable import replacing
from headrace.common.errors import ConfigError, Problem
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.scalars import FIRST, PATTERNS, PREFIX

LONGEST_KEY = 100
"""Characters of a key up to which PyYAML writes it without a `?`; it does up to 127."""
Value = str | int | bool | list[int] | None


def to_yaml(config: PipelineConfig) -> str:
    """The config as YAML, from which `load` reads the same config. The same config always gives the same text."""
    return yaml.dump(
        config.model_dump(mode="json", by_alias=True),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=120,
    )


def to_flow(value: object, width: int | None = None) -> str:
    """A value such as `{kind: csv, path: "data/*.csv"}`, from which `load` reads the same value.

    width: of its lines, where they can be broken; None writes a single line.
    """
    plain = _plain(value)
    if plain is not None and (width is None or len(plain) <= width // 2):
        return plain
    text = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=width or 1 << 30
    )
    return text.removesuffix("...\n").rstrip("\n")


class _Dumper(yaml.SafeDumper):
    """Quotes strings that YAML 1.1 or our own reader would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _represent_string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Use double quotes and escapes for line breaks of YAML 1.1 that are none in YAML 1.2."""
    style = '"' if not _LINE_BREAKS.isdisjoint(text) else None
    return dumper.represent_scalar(f"{PREFIX}str", text, style=style)


_LINE_BREAKS = frozenset("\r\x85\u2028\u2029")
_Dumper.add_representer(str, _represent_string)
for _kind, _pattern in PATTERNS.items():
    _Dumper.add_implicit_resolver(PREFIX + _kind, _pattern, FIRST[_kind])


def _plain(value: object) -> str | None:
    """What PyYAML writes for words, integers, and mappings and lists of them, which it takes long for; None for other
    values.
    """
    if isinstance(value, str):
        return value if _is_plain(value) else None
    if isinstance(value, int) or value is None:
        return json.dumps(value)
    texts: list[str | None] = [None]
    if isinstance(value, dict) and all(len(str(name)) <= LONGEST_KEY for name in value):
        pairs = [(_plain(name), _plain(each)) for name, each in value.items()]
        texts = [None if name is None or each is None else f"{name}: {each}" for name, each in pairs]
    elif isinstance(value, list | tuple):
        texts = [_plain(each) for each in value]
    marks = "{}" if isinstance(value, dict) else "[]"
    return None if None in texts else f"{marks[0]}{', '.join(map(str, texts))}{marks[1]}"


def _is_plain(text: str) -> bool:
    """Whether a string is one word that YAML reads as this string. Tens of thousands of names are written faster so."""
    if not _WORD.fullmatch(text):
        return False
    return not any(pattern.match(text) for _, pattern in _Dumper.yaml_implicit_resolvers.get(text[0], ()))


_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def edit(
    path: Path, section: tuple[str, ...], values: Mapping[str, Value], check: Callable[[Path], bool] = lambda _: True
) -> None:
    """Set values in a section of the file.

    check: Is given the new file before it replaces the old one; the edit fails if it returns false.

    Raises ConfigError, with the change to make by hand, if the file cannot be edited safely.
    """
    before = path.read_text(encoding="utf-8")
    text = before
    try:
        for key, value in values.items():
            text = _set(text, (*section, key), value)
        if yaml_text.parse(text) != _expected(before, section, values):
            raise yaml.YAMLError("the text has become another config")
        _replace(path.resolve(), text, check)
    except yaml.YAMLError:
        patch = yaml.safe_dump(_nested(section, values), default_flow_style=None, sort_keys=False)
        what = f"this file cannot be edited safely; set this by hand:\n{patch}"
        raise ConfigError(Problem(str(path), what)) from None


def _set(text: str, path: tuple[str, ...], value: Value) -> str:
    """The text with one setting added or changed."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None:
        return text + _block(path, value, "")
    for depth, key in enumerate(path):
        if not isinstance(node, yaml.MappingNode):
            return _replace_value(text, node, path[depth:], value)
        below = next((child for name, child in node.value if name.value == key), None)
        if below is None:
            return _add_key(text, node, path[depth:], value)
        node = below
    return _replace_value(text, node, (), value)


def _replace_value(text: str, node: yaml.Node, rest: tuple[str, ...], value: Value) -> str:
    """Replace the value of a node; `rest` is the path below it."""
    new = _flow(_nested(rest, value))
    gap = "" if node.start_mark.index == 0 or text[node.start_mark.index - 1].isspace() else " "
    end = max(node.end_mark.index, node.start_mark.index)
    old = text[node.start_mark.index : end]
    tail = old[len(old.rstrip()) :]  # the end mark of a block is after its line
    return text[: node.start_mark.index] + gap + new + tail + text[end:]


def _add_key(text: str, node: yaml.MappingNode, rest: tuple[str, ...], value: Value) -> str:
    if node.flow_style:
        end = node.end_mark.index - 1
        inside = text[:end].rstrip()
        comma = "" if not node.value or inside.endswith(",") else ","
        last_line = inside.rpartition("\n")[2]
        if "#" in last_line and inside != text[: node.value[-1][1].end_mark.index]:
            raise yaml.YAMLError("there is a comment before the closing brace")
        space = "" if inside.endswith("{") else " "
        return f"{inside}{comma}{space}{_flow(_nested(rest, value))[1:-1]}{text[len(inside) : end]}{text[end:]}"
    name, last = node.value[-1]
    line_end = text.find("\n", _last_character(text, last if last.end_mark.index > last.start_mark.index else name))
    at = len(text) if line_end < 0 else line_end + 1
    head = text[:at] if text[:at].endswith("\n") else text[:at] + "\n"
    return head + _block(rest, value, " " * node.value[0][0].start_mark.column) + text[at:]


def _last_character(text: str, node: yaml.Node) -> int:
    """The index of a node's last character. (A block's end mark is where the next node begins.)"""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_character(text, last[1] if isinstance(last, tuple) else last)
    return max(len(text[: node.end_mark.index].rstrip()) - 1, node.start_mark.index)


def _block(path: tuple[str, ...], value: Value, indent: str) -> str:
    """`key: value` on its own line, with deeper levels in braces."""
    key, *rest = path
    return f"{indent}{key}: {_flow(_nested(tuple(rest), value))}\n"


def _flow(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str | dict) else _flow_text(value)


def _flow_text(value: str | dict[str, object]) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("...\n").rstrip("\n")


def _nested(path: tuple[str, ...], value: object) -> object:
    for key in reversed(path):
        value = {key: dict(value) if isinstance(value, Mapping) else value}
    return value


def _expected(text: str, section: tuple[str, ...], values: Mapping[str, Value]) -> object:
    whole = yaml_text.parse(text) or {}
    inner = whole
    for key in section:
        if not isinstance(inner, dict) or not isinstance(inner.get(key), dict | None):
            raise yaml.YAMLError("something other than a section is there")
        inner[key] = dict(inner.get(key) or {})  # a copy, so that an alias elsewhere keeps its content
        inner = inner[key]
    inner.update(values)
    return whole


def _replace(path: Path, text: str, check: Callable[[Path], bool]) -> None:
    """Replace the file atomically. Raises YAMLError if the check refuses the new one."""
    with replacing(path) as new:
        new.chmod(path.stat().st_mode)
        new.write_text(text, encoding="utf-8")
        if not check(new):
            raise yaml.YAMLError("the check refuses the new file")
