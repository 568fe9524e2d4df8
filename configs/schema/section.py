"""The base class of every config section, and the types that sections share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1)]
"""A non-empty text that names something: a data column, a file."""
DottedPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
"""A function, such as `my_package.my_module.my_function`."""
PositiveInt = Annotated[int, Field(ge=1)]
Duration = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}[smhd]$")]
"""A time such as `10m`."""
KeyPath = tuple[str | int, ...]
"""The path to a setting in the config: names of settings, and indices of list items from 0."""

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class RefusedSettingError(Exception):
    """A rule has read a setting that was refused, so it cannot say more. Users never see it."""


class Section(BaseModel):
    """A frozen group of settings. Unknown keys are rejected, and the text under each field is its documentation, which
    configs/json_schema.py reads: to have pydantic read it would take a tenth of a second of every command.

    Validators are built on first use. A command uses that of the whole config, which holds those of the sections.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    if not TYPE_CHECKING:  # or mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """In a section without its refused settings (configs/loading/partial.py), report that one of them is read.

            It is not an AttributeError, which `getattr` with a default would hide.
            """
            if name in type(self).model_fields:
                raise RefusedSettingError(name)
            return super().__getattr__(name)


_Section = TypeVar("_Section", bound=Section)


def defaults_of(section: type[_Section]) -> _Section:
    """A section with all its defaults, as a default of a field. Unlike a call of the class, it does not build the
    section's own validator, which the whole config does not need.
    """
    return cast("_Section", section.model_construct())  # which mypy's plugin types as the base class


def to_seconds(duration: str) -> int:
    """`10m` as 600."""
    return int(duration[:-1]) * _UNIT_SECONDS[duration[-1]]
