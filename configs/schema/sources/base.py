"""The base class of every kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar

from pydantic import PrivateAttr, model_validator

from headrace.common.errors import HeaderError
from headrace.configs.schema.kinds import Kind
from headrace.configs.schema.section import KeyPath

Lists = Literal["none", "declared", "stored"]


class SourceBase(Kind):
    """Where the rows come from. `implementation` names the reader, as components/sources describes it."""

    by_split: ClassVar[tuple[str, ...]] = ()
    """The settings that may be a mapping from splits to values, for data of which each split is stored by itself."""
    found_by_paths: ClassVar[bool] = False
    """Whether `path` alone, as glob patterns, names the files, so that they are found without importing the reader: it
    then has none of the methods `state`, `find`, `patterns` and `check_splits`. Not inherited with another reader."""

    endings: ClassVar[tuple[str, ...]] = ()
    """The endings of file names, such as `.csv`, that stand for this kind where a command takes a path alone, as `init`
    and `predict` do. If two kinds have the same, the first in the registry gets it."""
    gzipped: ClassVar[bool] = False
    """Whether the names of gzipped files may have `.gz` after the ending."""
    lists: ClassVar[Lists] = "stored"
    """Which columns hold lists: none; those of which a declared kind says so; or those that are stored as lists, which
    only reading them shows."""
    content_column: ClassVar[str | None] = None
    """The column with the whole content of a file, which `predict` repeats in its output only if it is named."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        if "implementation" in vars(cls) and "found_by_paths" not in vars(cls):
            cls.found_by_paths = False

    _section: str = PrivateAttr("data.source")

    if TYPE_CHECKING:
        kind: str

    @property
    def section(self) -> str:
        """The section of the config that the source was in, for messages: `data.source`, or another."""
        return self._section

    def in_section(self, section: str) -> Self:
        """The source with another place in the config, which JSON does not hold."""
        moved = self.model_copy()
        moved._section = section
        return moved

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits that have data of their own, in the order of the config; none if the source is undivided."""
        return next((tuple(values) for values in self._divided.values()), ())

    def of_split(self, split: str) -> Self:
        """The source of the data of one of these splits."""
        return self.model_copy(update={name: values[split] for name, values in self._divided.items()})

    def by_splits(self) -> dict[str, Self]:
        """The source of each split; an undivided one has no name."""
        return {split: self.of_split(split) for split in self.split_names} or {"": self}

    @property
    def _divided(self) -> dict[str, dict[str, object]]:
        found = {name: getattr(self, name) for name in self.by_split}
        return {name: value for name, value in found.items() if isinstance(value, dict)}

    @model_validator(mode="after")
    def _same_splits(self) -> Self:
        (first, splits), *others = self._divided.items() or [("", {})]
        for name, values in others:
            if values.keys() != splits.keys():
                raise ValueError(f"`{first}` and `{name}` must name the same splits")
        return self


SourceT = TypeVar("SourceT", bound=SourceBase)


def source_setting(source: SourceBase) -> KeyPath:
    """The setting that names what is read: `path`, if the source has one and it is set."""
    where: KeyPath = ("data", "source")
    return where if getattr(source, "path", None) is None else (*where, "path")


def header_mistake(source: SourceBase, error: HeaderError) -> tuple[KeyPath, str]:
    """The setting to change because of a header, and the message."""
    if error.setting is not None and error.setting[0] == "delimiter":
        return ("data", "source", "delimiter"), str(error)
    return source_setting(source), str(error)


def read_otherwise(source: SourceT, error: HeaderError) -> SourceT | None:
    """The source with the setting by which its header can be read; None if it has it, or there is none."""
    if error.setting is None or getattr(source, error.setting[0]) == error.setting[1]:
        return None
    return source.model_copy(update=dict([error.setting]))
