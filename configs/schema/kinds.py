"""Sections of which a tag, such as `kind: csv`, selects the class: those of Headrace, and those that are installed.

A class says by itself what the pipeline has to know about its kind. The registry of the section names the class of a
built-in kind; an installed distribution names its own by an entry point (docs/add_source.md and the pages after it).
"""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import Discriminator, Field, GetCoreSchemaHandler, Tag, create_model, model_validator

from headrace.common.entry_points import Addition, additions, why_not_added
from headrace.common.errors import RunError
from headrace.configs.schema.section import KeyPath, Section

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

logger = logging.getLogger(__name__)


class Kind(Section):
    """The settings of one kind, and what the pipeline has to know about it."""

    implementation: ClassVar[str] = ""
    """Dotted path of the code of this kind, imported when it is used. It counts for the cache keys of the components
    that use it, with all that it imports."""

    def files(self) -> dict[KeyPath, str]:
        """The files and folders that a feature or a model reads, each by the setting that names it. They must exist,
        and their content counts for the cache keys. Those of features are text files. A source's reader finds its own.
        """
        return {}

    def saved_models(self) -> dict[KeyPath, str]:
        """The SavedModels that become part of the trained model, folders or addresses, each by the setting that names
        it. A local folder must exist, and its content counts for the Trainer's cache key.
        """
        return {}

    def functions(self) -> dict[KeyPath, str]:
        """The user's own functions that it calls, as dotted paths, each by the setting that names it."""
        return {}

    def own_modules(self) -> list[str]:
        """The modules of its settings and of its implementation."""
        return [type(self).__module__, *([_module(self.implementation)] if self.implementation else [])]

    def modules(self) -> list[str]:
        """The modules whose code decides what it computes: its own, and those of the user's functions."""
        return [*self.own_modules(), *map(_module, self.functions().values())]

    @classmethod
    def load_implementation(cls) -> Any:
        """Import what `implementation` names. Raises RunError if that fails."""
        module, _, name = cls.implementation.rpartition(".")
        what = f"{cls.__module__}.{cls.__qualname__}"
        if not module:
            raise RunError(
                f"{what}: `implementation` is {cls.implementation!r}; it must be the dotted path of its code"
            )
        try:
            return getattr(import_module(module), name)
        except Exception as error:
            why = f"{what}: cannot import its implementation {cls.implementation}"
            raise RunError(f"{why}: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, eq=False)
class OpenUnion:
    """An annotation for pydantic: the union of the built-in and the installed kinds, told apart by their tag.

    group: the group of entry points; base: the class from which kinds derive; tag: the setting that selects; built_in:
    the dotted paths of the classes; choose: a function from a value to its tag, if the setting alone does not decide;
    open_tag: the tag of a class whose tag is not a fixed word.
    """

    group: str
    base: type[Kind]
    tag: str
    built_in: tuple[str, ...]
    choose: Callable[[Any], str | None] | None = None
    open_tag: str = ""

    @functools.cached_property
    def kinds(self) -> dict[str, type[Kind]]:
        """The classes by tag: first those of Headrace, in the order of the registry."""
        kinds: dict[str, type[Kind]] = {}
        for kind in map(self._built_in, self.built_in):
            if (other := kinds.setdefault(self._tag_of(kind), kind)) is not kind:
                twice = f"{_name(kind)} and {_name(other)} have the same `{self.tag}`: {self._tag_of(kind)}"
                raise RunError(f"{twice}, in the registry of {self.group}; rename one of them")
        built_in = frozenset(kinds)
        for name, offered in additions(self.group).items():
            if name in built_in:
                logger.warning("%s", why_not_added(name, offered, built_in))
            else:
                kinds[name] = self._installed(name, offered)
        return kinds

    @functools.cached_property
    def installed(self) -> frozenset[str]:
        """The tags that installed distributions add."""
        return frozenset(self.kinds) - {self._tag_of(_import(path)) for path in self.built_in}

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate a value by the class that its tag selects."""
        if self.choose is None:
            union = functools.reduce(operator.or_, self.kinds.values())
            return handler.generate_schema(Annotated[union, Field(discriminator=self.tag)])
        tagged = functools.reduce(operator.or_, (Annotated[kind, Tag(tag)] for tag, kind in self.kinds.items()))
        return handler.generate_schema(Annotated[tagged, Field(discriminator=Discriminator(self.choose))])

    def _built_in(self, path: str) -> type[Kind]:
        """The class on a line of the registry. Raises RunError for a line with a mistake."""
        line = f'the line "{path}" in the registry of {self.group}'
        try:
            kind = _import(path)
        except Exception as error:
            raise RunError(f"{line} cannot be imported: {type(error).__name__}: {error}; correct the line") from error
        if not (isinstance(kind, type) and issubclass(kind, Kind)):
            raise RunError(f"{line} is not a class derived from {_name(self.base)}; correct the line")
        if self.tag not in kind.model_fields:
            raise RunError(f'{line}: the class needs the setting `{self.tag}: Literal["..."]`')
        if issubclass(kind, self.base) and not kind.implementation:
            raise RunError(f"{line}: the class needs the class variable `implementation`, the dotted path of its code")
        return kind

    def _tag_of(self, kind: type[Kind]) -> str:
        words = get_args(kind.model_fields[self.tag].annotation)
        return str(words[0]) if words else self.open_tag

    def _installed(self, name: str, offered: list[Addition]) -> type[Kind]:
        """The class that an entry point names, or one that refuses its settings with the reason."""
        if why := why_not_added(name, offered, ()):
            return _refused(self.tag, name, why)
        try:
            kind = offered[0].load()
        except RunError as error:
            return _refused(self.tag, name, str(error))
        why = self._unsuitable(name, kind)
        return _refused(self.tag, name, f"{offered[0]}: {offered[0].location} {why}") if why else kind

    def _unsuitable(self, name: str, kind: Any) -> str | None:
        if not (isinstance(kind, type) and issubclass(kind, self.base)):
            return f"is not a class derived from {_name(self.base)}"
        if self.tag not in kind.model_fields or get_args(kind.model_fields[self.tag].annotation) != (name,):
            return f'needs the setting `{self.tag}: Literal["{name}"]`, as the entry point is named'
        if not kind.implementation:
            return "needs the class variable `implementation`, the dotted path of its code"
        return None


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _module(path: str) -> str:
    return path.rpartition(".")[0]


def _import(path: str) -> type[Kind]:
    module, _, name = path.rpartition(".")
    found: type[Kind] = getattr(import_module(module), name)
    return found


def _refused(tag: str, name: str, why: str) -> type[Kind]:
    """A class in place of one that cannot be used, so that only configs that use it are refused."""

    class Refused(Kind):
        @model_validator(mode="before")
        @classmethod
        def _refuse(cls, _: object) -> None:
            raise ValueError(why)

    fields: dict[str, Any] = {tag: (Literal[name], ...)}
    return create_model(f"Refused_{name}", __base__=Refused, **fields)
