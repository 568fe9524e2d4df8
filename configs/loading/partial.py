"""The valid part of a config with mistakes, to which the rules still apply.

A refused setting is absent from its section, so that a rule which reads it ends there (RefusedSettingError). What the
rule has found by then counts, and nothing is reported that only follows from another mistake.

sections = valid_sections({"train": {"epochs": "x", "optimizer": "adamm"}, ...})
sections["train"].optimizer             # "adamm"
sections["train"].epochs                # RefusedSettingError
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import Discriminator, Tag, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from headrace.common.names import closest
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.kinds import OpenUnion
from headrace.configs.schema.section import RefusedSettingError, Section


def valid_sections(values: dict[str, Any]) -> dict[str, object]:
    """The sections of a config as plain values, without refused settings and without sections refused as a whole."""
    return dict(_without_refused(PipelineConfig, values))


class PartialMapping(Mapping[str, Any]):
    """A mapping with names that users choose, some of whose values were refused: to read or pass over these raises."""

    def __init__(self, valid: Mapping[str, Any], refused: frozenset[str]) -> None:
        self._valid, self._refused = valid, refused

    def __getitem__(self, name: str) -> Any:
        if name in self._refused:
            raise RefusedSettingError(name)
        return self._valid[name]

    def __iter__(self) -> Iterator[str]:
        """The valid names; then RefusedSettingError, because the rest is unknown."""
        yield from self._valid
        raise RefusedSettingError(", ".join(self._refused))

    def __len__(self) -> int:
        raise RefusedSettingError(", ".join(self._refused))


def _without_refused(section: type[Section], values: dict[str, Any]) -> Section:
    """The section as if it were valid, but without the fields whose values were refused, or might be misspelled."""
    names = {field.alias or name: name for name, field in section.model_fields.items()}
    written = {names[key]: value for key, value in values.items() if key in names}
    absent = [key for key, name in names.items() if name not in written]
    refused = {names[key] for key in _meant(values.keys() - names.keys(), absent)}
    valid: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        try:
            if name in written:
                valid[name] = _valid(_field_adapter(section, name), _chosen(field, written[name]), written[name])
            elif field.is_required():
                refused.add(name)
        except ValidationError:
            refused.add(name)
    spelled = {section.model_fields[name].alias or name: value for name, value in valid.items()}
    partial = section.model_construct(_fields_set={*written}, **spelled)
    for name in refused:
        partial.__dict__.pop(name, None)
    return partial


def _meant(unknown: set[str], absent: list[str]) -> set[str]:
    """The settings for which the unknown ones may stand: the one with a similar name, or else any that is not set."""
    similar = [closest(name, absent) for name in unknown]
    return {name for name in similar if name is not None} if None not in similar else {*absent}


def _valid(adapter: TypeAdapter[Any], annotation: Any, value: Any) -> Any:
    """The value, possibly without some of its settings. Raises ValidationError if it is refused as a whole."""
    text = json.dumps(value)
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError:
        if not isinstance(value, dict):
            raise
        if get_origin(annotation) is dict:
            if (partial := _items(get_args(annotation)[1], value)) is not None:
                return partial
        elif isinstance(annotation, type) and issubclass(annotation, Section) and _only_fields(annotation, text):
            return _without_refused(annotation, value)
        raise


def _items(annotation: Any, values: dict[str, Any]) -> PartialMapping | None:
    """The valid items; None if all are, so that something else is wrong."""
    adapter, valid = TypeAdapter[Any](annotation), dict[str, Any]()
    for name, value in values.items():
        try:
            valid[name] = _valid(adapter, _chosen_from(annotation, value), value)
        except ValidationError:
            continue
    return PartialMapping(valid, frozenset(values.keys() - valid.keys())) if len(valid) < len(values) else None


def _only_fields(section: type[Section], text: str) -> bool:
    """Whether only fields of a section were refused, not the section as a whole."""
    if section.model_config.get("extra") == "allow":
        return False
    try:
        section.model_validate_json(text)
    except ValidationError as error:
        return all(item["loc"] for item in error.errors(include_url=False, include_input=False))
    return False


@functools.cache
def _field_adapter(section: type[Section], name: str) -> TypeAdapter[Any]:
    return TypeAdapter(section.model_fields[name].rebuild_annotation())


def _chosen(field: FieldInfo, value: Any) -> Any:
    """The section class or `dict[...]` that a field's value is meant for."""
    if isinstance(field.discriminator, Discriminator) and callable(field.discriminator.discriminator):
        tag = field.discriminator.discriminator(value)
        members: dict[Any, Any] = {
            arg.tag: member for member in get_args(field.annotation) for arg in _metadata(member)
        }
        return _bare(members[tag]) if tag in members else None
    return _chosen_from(field.rebuild_annotation(), value)


def _chosen_from(annotation: Any, value: Any) -> Any:
    for union in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(union, OpenUnion) and isinstance(value, dict):
            tag = union.choose(value) if union.choose else value.get(union.tag)
            return union.kinds.get(tag) if isinstance(tag, str) else None
    bare = _bare(annotation)
    groups = [_bare(member) for member in get_args(bare)] if get_origin(bare) is not dict else []
    return next((member for member in groups if _is_group(member)), bare)


def _is_group(annotation: Any) -> bool:
    return get_origin(annotation) is dict or (isinstance(annotation, type) and issubclass(annotation, Section))


def _metadata(annotation: Any) -> list[Tag]:
    return [each for each in get_args(annotation)[1:] if isinstance(each, Tag)]


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
