"""A config file from disk: read, decoded, and made a tree; whatever is wrong with it is a mistake with a place."""

from __future__ import annotations

import codecs
from pathlib import Path

from headrace.configs.config import PipelineConfig
from headrace.configs.suggest import did_you_mean, listed
from headrace.configs.tree import Mistake, Place, Tree
from headrace.configs.words import found
from headrace.configs.yaml_tree import read

OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_mapping(path: Path, layer: int) -> tuple[Tree | None, list[Mistake]]:
    """The tree of a config (layer 0, which may not be empty) or an overlay; None if there is none to go on with."""
    text = _text(path, layer)
    if isinstance(text, Mistake):
        return None, [text]
    tree, mistakes = read(text, str(path), layer)
    if mistakes and tree is None:
        return None, mistakes
    if tree is None or tree.value is None:
        empty = Mistake(Place(layer, 1, 0, str(path)), f"the file is empty; a config {_NEEDS}")
        return None, mistakes + ([empty] if layer == 0 else [])
    if not isinstance(tree.value, dict):
        return None, [
            *mistakes,
            Mistake(tree.place, f"found {found(tree)}; a config {_NEEDS}{_space_after_colon(tree)}"),
        ]
    return tree, mistakes


_NEEDS = "is a mapping of sections such as `pipeline: {name: chicago-taxi}`; the sections are: " + listed(
    PipelineConfig.model_fields
)


def _space_after_colon(tree: Tree) -> str:
    return "; is the space after a colon missing?" if isinstance(tree.value, str) and ":" in tree.value else ""


def _text(path: Path, layer: int) -> str | Mistake:
    whole = Place(layer, 0, 0, str(path))
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Mistake(whole, f"no such file{_other_file(path)}")
    except IsADirectoryError:
        return Mistake(whole, f"a folder, not a config file{_held(path)}")
    except (OSError, ValueError) as error:
        return Mistake(whole, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    return _decoded(content, path, layer)


def _decoded(content: bytes, path: Path, layer: int) -> str | Mistake:
    if content.startswith(OTHER_MARKS):
        return Mistake(Place(layer, 1, 1, str(path), exact=True), "the file is UTF-16; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        place = Place(layer, before.count(b"\n") + 1, error.start - before.rfind(b"\n"), str(path), exact=True)
        return Mistake(place, f"the byte 0x{content[error.start]:02X} is not UTF-8; save the file as UTF-8")


def _other_file(path: Path) -> str:
    """The config that was meant, of those in the same folder."""
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent} either"
    return did_you_mean(path.name, _configs_in(path.parent)) or _held(path.parent)


def _held(folder: Path) -> str:
    names = _configs_in(folder)
    return f"; {folder} holds: {listed(names)}" if names else ""


def _configs_in(folder: Path) -> list[str]:
    return sorted(other.name for other in folder.iterdir() if other.suffix in (".yaml", ".yml"))
