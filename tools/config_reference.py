"""Write docs/config.md, the reference of every setting, from the config's JSON Schema.

python tools/config_reference.py            # writes it
python tools/config_reference.py --check    # exit status 1 if it is not current
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

from headrace.configs.evaluate import LOWER_IS_BETTER, METRICS
from headrace.configs.json_schema import Schema, branches, documentation, json_schema, resolved, tags
from headrace.configs.words import allowed

TARGET = Path(__file__).resolve().parents[1] / "docs" / "config.md"
SHARED = ("missing", "embedding", "deep", "wide")
INTRODUCTION = """\
# Config reference

<!-- Made by tools/config_reference.py from configs/*.py; edit the documentation beside the fields there. -->

One YAML file describes one pipeline; [configs/taxi.yaml](../configs/taxi.yaml) is a whole one. `headrace validate FILE`
checks it, and the data against it; every mistake is told at once, with its line. `headrace validate --schema` prints
the JSON Schema of all this for editors.

- `--profile NAME` lays `FILE.NAME.yaml` (for `taxi.yaml`: `taxi.NAME.yaml`, in the same folder) over the file: mappings
  merge (an empty one changes nothing), everything else replaces. A feature whose `column:` changes, and a source or
  model whose `kind:` does, is replaced whole.
- `--set section.setting=VALUE` overrides one value; VALUE is YAML. May be given several times; wins over the profile.
- `null` over a setting that may be null is that value (`deploy.push: null` never pushes). Over any other setting, a
  whole section, or a name such as a feature's it takes away what is written below, so that the default holds:
  `features: {fare: null}` has no `fare`. `--set train.epochs=` is short for `--set train.epochs=null`.
- Texts stay texts: `no`, `on`, `12:30`, `2024-01-31` and `007` need no quotes. Numbers are decimal; true is `true`.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_contents(), *_sections()]).rstrip() + "\n"


def main() -> None:
    if "--check" in sys.argv[1:]:
        current = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        sys.exit(None if current == reference() else f"{TARGET} is not current; run python {sys.argv[0]}")
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(reference(), encoding="utf-8")


def _contents() -> Iterator[str]:
    required = json_schema()["required"]
    yield "| Section | Says | |\n|---|---|---|"
    for name, schema in json_schema()["properties"].items():
        need = "required" if name in required else ""
        yield f"| [`{name}`](#{name}) | {_cell(documentation(schema))} | {need} |"
    yield ""


def _sections() -> Iterator[str]:
    for name, schema in json_schema()["properties"].items():
        yield f"## {name}\n"
        yield from _features(schema) if name == "features" else _section(name, schema)
        if name == "evaluate":
            yield from _metrics()


def _section(name: str, schema: Schema) -> Iterator[str]:
    """A section's table, then those of the sections in it."""
    section = resolved(schema)
    yield documentation(section) + "\n"
    yield from _kinds(name, section)
    if "properties" not in section:
        inner = _inner(section)  # a section that may be null
        yield from _section(name, inner) if inner else ()
        return
    yield from _table(name, section)
    for setting, value in section["properties"].items():
        inner = _inner(value)
        if inner:
            yield f"### {name}.{setting}\n"
            twin = _twin(section, setting, inner)
            told = [f"As [{name}.{twin}](#{name.replace('.', '')}{twin}).\n"] if twin else []
            yield from told or _section(f"{name}.{setting}", inner)
        yield from _kinds(f"{name}.{setting}", value)


def _kinds(name: str, schema: Schema) -> Iterator[str]:
    """For a setting of which one (`kind:`) chooses the others: a table for each kind."""
    for branch in branches(schema):
        for kind, section in tags(branch).items():
            yield f"### {name} with {branch['discriminator']['propertyName']}: {kind}\n"
            yield documentation(section) + "\n"
            yield from _table(name, section)
            for setting, value in section["properties"].items():
                if inner := _inner(value):
                    yield f"### {name}.{setting}\n"
                    yield from _section(f"{name}.{setting}", inner)


def _twin(section: Schema, setting: str, inner: Schema) -> str | None:
    """An earlier setting of the section that holds the same settings."""
    earlier = itertools.takewhile(lambda item: item[0] != setting, section["properties"].items())
    return next((name for name, value in earlier if (_inner(value) or {}).get("$ref") == inner["$ref"]), None)


def _inner(value: Schema) -> Schema | None:
    """The section that a setting holds, or that each of its names or items holds."""
    held = [value.get("additionalProperties"), value.get("items")]
    candidates = [*branches(value), *(schema for schema in held if isinstance(schema, dict))]
    return next((candidate for candidate in candidates if "properties" in resolved(candidate)), None)


def _features(schema: Schema) -> Iterator[str]:
    yield documentation(schema) + "\n"
    yield "A feature's name is letters, digits and `_`, no digit first. Seen by the model under that name; the data"
    yield "column is `key`, or the one of the same name.\n"
    for kind, section in tags(schema["additionalProperties"]).items():
        yield f"### column: {kind}\n"
        yield documentation(section) + "\n"
        yield from _table("", section)


def _table(name: str, section: Schema) -> Iterator[str]:
    yield "| Setting | Value | Default | Meaning |\n|---|---|---|---|"
    for setting, value in sorted(section["properties"].items(), key=_rank):
        default = "required" if setting in section.get("required", ()) else _default(value)
        words = _cell(allowed(value, lambda _: _link(f"{name}.{setting}")))  # noqa: B023 - called at once
        yield f"| `{setting}` | {words} | {default} | {_cell(documentation(value))} |"
    yield ""


def _rank(item: tuple[str, Schema]) -> tuple[bool, int]:
    """The setting that tells the kind comes first, what most kinds of feature share comes last."""
    name, value = item
    return name not in {"kind", "column"} or "enum" in value, SHARED.index(name) if name in SHARED else -1


def _link(section: str) -> str:
    return f"[its settings](#{section.replace('.', '')})"


def _default(value: Schema) -> str:
    return f"`{json.dumps(value['default'])}`" if "default" in value else "its own defaults"


def _metrics() -> Iterator[str]:
    yield "### Metrics\n\n| Label | Metric | In TensorFlow Model Analysis | Better |\n|---|---|---|---|"
    for kind, names in METRICS.items():
        for name, class_name in names.items():
            better = "lower" if name in LOWER_IS_BETTER else "near 1" if name == "calibration" else "higher"
            yield f"| {kind} | `{name}` | {class_name} | {better} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
