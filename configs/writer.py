"""A config back to YAML: every setting, defaults too, in a fixed order. `load` reads the same config from it."""

from __future__ import annotations

from typing import Any

import yaml

from headrace.configs.config import PipelineConfig
from headrace.configs.scalars import FIRST, PATTERNS, PREFIX


def to_yaml(config: PipelineConfig) -> str:
    """The config as a file of its own; the same config always gives the same text."""
    return yaml.dump(
        config.model_dump(mode="json", by_alias=True),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=120,
    )


class _Dumper(yaml.SafeDumper):
    """Quotes a text that either YAML 1.1 or our own reader would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """In double quotes, escaped, where YAML 1.1 would see the end of a line that YAML 1.2 does not."""
    style = '"' if not _LINE_ENDS.isdisjoint(text) else None
    return dumper.represent_scalar(f"{PREFIX}str", text, style=style)


_LINE_ENDS = frozenset("\r\x85\u2028\u2029")
_Dumper.add_representer(str, _text)
for _kind, _pattern in PATTERNS.items():
    _Dumper.add_implicit_resolver(PREFIX + _kind, _pattern, FIRST[_kind])
