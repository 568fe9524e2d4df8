"""The file of a config: its tree, or what is wrong with the file, with the file that was probably meant."""

from __future__ import annotations

import codecs
import shlex
from pathlib import Path

from headrace.common.names import did_you_mean, join_names
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.problems import describe_value
from headrace.configs.loading.tree import LocatedProblem, Location, Tree
from headrace.configs.loading.yaml_reader import read
from headrace.configs.schema.sources.endings import known_ending

OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_EXPECTED = "is a mapping of sections such as `pipeline: {name: chicago-taxi}`; the sections are: " + join_names(
    PipelineConfig.model_fields
)


def read_file(path: Path, layer: int) -> tuple[Tree | None, list[LocatedProblem]]:
    """The tree of a config (layer 0, which must not be empty) or an overlay; None if it is not a mapping."""
    tree, problems = _read(path, layer)
    if tree is None and known_ending(path.name) and path.is_file():
        what = f"looks like data, not a config; `headrace init {shlex.quote(str(path))}` writes a config for it"
        return None, [LocatedProblem(Location(layer, 0, 0, str(path)), what)]
    return tree, problems


def _read(path: Path, layer: int) -> tuple[Tree | None, list[LocatedProblem]]:
    text = _text(path, layer)
    if isinstance(text, LocatedProblem):
        return None, [text]
    tree, problems = read(text, str(path), layer)
    if problems and tree is None:
        return None, problems
    if tree is None or tree.value is None:
        empty = LocatedProblem(Location(layer, 1, 0, str(path)), f"the file is empty; a config {_EXPECTED}")
        return None, problems + ([empty] if layer == 0 else [])
    if not isinstance(tree.value, dict):
        colon = isinstance(tree.value, str) and ":" in tree.value
        hint = "; is the space after a colon missing?" if colon else ""
        what = f"found {describe_value(tree)}; a config {_EXPECTED}{hint}"
        return None, [*problems, LocatedProblem(tree.location, what)]
    return tree, problems


def _text(path: Path, layer: int) -> str | LocatedProblem:
    file = Location(layer, 0, 0, str(path))
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return LocatedProblem(file, f"no such file{_other_file(path)}")
    except IsADirectoryError:
        return LocatedProblem(file, f"this is a folder, not a config file{_configs_hint(path)}")
    except (OSError, ValueError) as error:
        return LocatedProblem(file, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    return _decoded(content, path, layer)


def _decoded(content: bytes, path: Path, layer: int) -> str | LocatedProblem:
    if content.startswith(OTHER_ENCODINGS):
        location = Location(layer, 1, 1, str(path), exact=True)
        return LocatedProblem(location, "the file is UTF-16; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        what = f"the byte 0x{content[error.start]:02X} is not UTF-8; save the file as UTF-8"
        return LocatedProblem(Location(layer, line, column, str(path), exact=True), what)


def _other_file(path: Path) -> str:
    """The config that was probably meant, from the same folder."""
    if not path.parent.is_dir():
        return f", and no folder {path.parent}"
    return did_you_mean(path.name, _configs_in(path.parent)) or _configs_hint(path.parent)


def _configs_hint(folder: Path) -> str:
    names = _configs_in(folder)
    return f"; {folder} contains: {join_names(names)}" if names else ""


def _configs_in(folder: Path) -> list[str]:
    return sorted(other.name for other in folder.iterdir() if other.suffix in (".yaml", ".yml"))
